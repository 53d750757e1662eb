"""Writes the kustomize base and overlays of the default installation to `deploy/kustomize`."""

from __future__ import annotations

from pathlib import Path

from trimtab.install import definitions, kustomize
from trimtab.install.options import Options

FOLDER = Path(__file__).parents[1] / "deploy" / "kustomize"


def installation() -> kustomize.Installation:
    """What `trimtab install` prints where no cluster is known: CloneSet may be another program's, and is left out."""
    return kustomize.Installation(Options(clonesets=False), definitions.choose("auto", None).manifests)


def files() -> dict[str, str]:
    """The text of each file, by its path."""
    return kustomize.files(installation())


def main() -> None:
    """Write all files."""
    kustomize.write(FOLDER, files())


if __name__ == "__main__":
    main()
