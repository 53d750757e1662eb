"""Comparison of resourceVersions.

API servers write them as decimal numbers that increase with each change, comparable within one kind. Versions that are
not such numbers can only be compared for equality.
"""

from __future__ import annotations


def number(version: str) -> int | None:
    """The version as a number; None if it is not one."""
    return int(version) if version.isascii() and version.isdigit() else None


def reached(seen: str, wanted: str) -> bool:
    """Whether a reader that has seen one version has also seen the other."""
    if seen == wanted:
        return True
    have, want = number(seen), number(wanted)
    return have is not None and want is not None and have >= want
