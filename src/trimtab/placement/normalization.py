"""From a plugin's own counts to the scale from 0 to 100 that all plugins share, as most plugins do it."""

from __future__ import annotations

import numpy as np

from trimtab.placement.framework import MAX_SCORE
from trimtab.snapshot.columns import IntColumn, Mask


def largest(raw: IntColumn, feasible: Mask) -> int:
    """The largest count among the feasible nodes, at least 0."""
    return int(np.max(raw[feasible], initial=0))


def in_proportion(raw: IntColumn, most: int) -> IntColumn:
    """The largest count becomes 100, the others what they are in proportion, rounded down; all 0 stay 0."""
    return raw * MAX_SCORE // most if most else raw


def in_reverse(raw: IntColumn, most: int) -> IntColumn:
    """As `in_proportion`, where fewer is better: a count of 0 becomes 100."""
    return MAX_SCORE - in_proportion(raw, most)
