"""Resource versions: which of two is newer.

API servers write them as decimal numbers that grow with every change, and promise that those of one kind may be
compared. What is not such a number can only be told equal or not.
"""

from __future__ import annotations


def number(version: str) -> int | None:
    """The version as a number, if it is one."""
    return int(version) if version.isascii() and version.isdigit() else None


def reached(seen: str, wanted: str) -> bool:
    """Whether whoever has seen the one version has seen the other one too."""
    if seen == wanted:
        return True
    have, want = number(seen), number(wanted)
    return have is not None and want is not None and have >= want
