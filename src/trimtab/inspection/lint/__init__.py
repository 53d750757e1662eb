"""Lint: what keeps workloads from being level, found in manifests or in a cluster.

`world` is what is checked, `rules` the table of rules, each a function in one of the other modules; `formats` writes
findings for CI. A rule that needs nodes finds nothing where none are known, and the result says which rules those were.
"""
