"""Normalization of raw scores to 0 to 100, as most plugins do it."""

from __future__ import annotations

import numpy as np

from trimtab.placement.framework import MAX_SCORE
from trimtab.snapshot.columns import IntColumn, Mask


def largest(raw: IntColumn, feasible: Mask) -> int:
    """The largest raw score among the feasible nodes, at least 0."""
    return int(np.max(raw[feasible], initial=0))


def in_proportion(raw: IntColumn, most: int) -> IntColumn:
    """Raw scores in proportion to the largest, which becomes 100; rounded down. If all are 0, they stay 0."""
    return raw * MAX_SCORE // most if most else raw


def in_reverse(raw: IntColumn, most: int) -> IntColumn:
    """As `in_proportion`, where fewer is better: a raw score of 0 becomes 100."""
    return MAX_SCORE - in_proportion(raw, most)
