"""Victims exchanged so that all hard constraints are satisfied, where being level on the first one breaks another.

The sequence of `levels` never trades an earlier constraint for a later one. Where several hard constraints compete,
that can leave the first perfectly level and another beyond its `maxSkew`, although some choice satisfies both.
Satisfying all hard constraints comes first: a victim and a survivor are exchanged as long as that lowers the sum of
what exceeds `maxSkew`. Only pods of the tier in which the last victim lies are exchanged, so what comes before the
balance still does. This is a local search: it never makes matters worse, and it is checked against all sets of victims
on small cases, but for many constraints that cross it may stop before the best choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from trimtab.ranking.spreads import Spread
from trimtab.snapshot.columns import IntColumn, Mask

_MOST_EXCHANGES = 64
_MOST_CELLS = 96
"""Above this many combinations of domains, no exchange is tried."""


def satisfy(order: IntColumn, count: int, tiers: IntColumn, spreads: Sequence[Spread]) -> IntColumn:
    """The order with its first `count` pods chosen so that hard constraints are exceeded by as little as possible."""
    hard = [each for each in spreads if each.constraint.hard]
    if len(hard) < 2 or not 0 < count < len(order):
        return order
    gone = np.zeros(len(order), dtype=np.bool_)
    gone[order[:count]] = True
    if not excess(gone, hard):
        return order
    for _ in range(_MOST_EXCHANGES):
        exchange = _best_exchange(gone, order, tiers, hard)
        if exchange is None:
            break
        stays, goes = exchange
        gone[stays], gone[goes] = False, True
    return np.concatenate((order[gone[order]], order[~gone[order]]))


def excess(gone: Mask, spreads: Sequence[Spread]) -> int:
    """By how much the skews exceed `maxSkew`, in all."""
    return sum(_exceeds(each, each.counts - each.count(gone)) for each in spreads)


def _exceeds(spread: Spread, counts: IntColumn) -> int:
    return max(0, spread.skew(counts) - spread.constraint.max_skew)


def _best_exchange(gone: Mask, order: IntColumn, tiers: IntColumn, hard: Sequence[Spread]) -> tuple[int, int] | None:
    """The victim that stays and the survivor that goes instead, if that lowers the excess."""
    tier = tiers[gone].max()
    in_tier = order[tiers[order] == tier]
    # Of the pods of one combination of domains, the last victim stays and the first survivor goes.
    victims = _by_cell(in_tier[gone[in_tier]][::-1], hard)
    survivors = _by_cell(in_tier[~gone[in_tier]], hard)
    if len(victims) * len(survivors) == 0 or max(len(victims), len(survivors)) > _MOST_CELLS:
        return None
    counts = [each.counts - each.count(gone) for each in hard]
    least, found = sum(map(_exceeds, hard, counts)), None
    for (cell, stays), (other, goes) in itertools.product(victims.items(), survivors.items()):
        changed = sum(
            _exceeds(each, _moved(before, cell[key], other[key]))
            for key, (each, before) in enumerate(zip(hard, counts, strict=True))
        )
        if changed < least:
            least, found = changed, (stays, goes)
    return found


def _by_cell(places: IntColumn, hard: Sequence[Spread]) -> dict[tuple[int, ...], int]:
    """The first of these pods for each combination of domains."""
    found: dict[tuple[int, ...], int] = {}
    for place in places.tolist():
        found.setdefault(tuple(int(each.domains[place]) for each in hard), place)
    return found


def _moved(counts: IntColumn, more: int, fewer: int) -> IntColumn:
    changed = counts.copy()
    if more >= 0:
        changed[more] += 1
    if fewer >= 0:
        changed[fewer] -= 1
    return changed
