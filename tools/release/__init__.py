"""What a release consists of, written to `dist/` by `make release`.

Distributions (sdist and wheel of the product and of the lab), the Helm chart, the kustomize base with overlays, the
plugin for krew with its manifest, a software bill of materials (CycloneDX), and checksums. Archives are the same for
the same commit: their entries are sorted, and have the time of the commit.
"""
