"""From ranks to costs, with as few changes as possible. Pure.

Each cost that changes is a write. What matters is the order of costs, not their size. So of the costs that pods have
already, as many are kept as are in the right order among themselves, and only the others get new ones, in between:

1. Pods of equal rank form a level, and get equal costs. A level's present cost is that of most of its pods.
2. Of all runs of levels whose costs rise with their ranks, the one with the most pods is kept; of equal ones, the one
   in which more costs are the ranks themselves.
3. Each of the others gets its rank itself as its cost, where that lies between its neighbours; otherwise, numbers
   spread evenly between them.
4. Where there is no room between neighbours, all are renumbered: by their ranks, if those are whole and different;
   otherwise evenly, with room for later ones.

A new pod with a rank that others have gets their cost, and a pod that is deleted changes no cost. Ages, which all grow
alike, change none either.

Numbers here rise with rank, from −`LIMIT` to `LIMIT`: the carrier turns them around, and the band that a subset gives
moves them, both afterwards (see `ranking.costs`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trimtab.ranking.costs import LIMIT

_ROOM = 16
"""The distance between numbers that only express an order, so that others fit in between."""


def number(ranks: Sequence[float], present: Sequence[int | None]) -> list[int]:
    """A number for each pod such that higher ranks have higher numbers and equal ranks equal ones.

    `present` are the present numbers; None where a pod has no cost of a policy. Raises ValueError for a rank that is
    NaN: an order with a gap in it is none.
    """
    if any(math.isnan(rank) for rank in ranks):
        raise ValueError("a pod without a rank has no number; wait for its rank")
    levels = sorted(set(ranks))
    numbers = _filled(levels, _kept(_candidates(levels, ranks, present)))
    if numbers is None:
        numbers = _renumbered(levels)
    by_level = dict(zip(levels, numbers, strict=True))
    return [by_level[rank] for rank in ranks]


class _Candidate(NamedTuple):
    """The number that most pods of a level have, and the value of keeping it."""

    number: int
    worth: int


def _candidates(
    levels: Sequence[float], ranks: Sequence[float], present: Sequence[int | None]
) -> list[_Candidate | None]:
    """The number that most pods of each level have; of several the smallest, so that the choice is deterministic."""
    tallies: dict[float, Counter[int]] = {level: Counter() for level in levels}
    for rank, number in zip(ranks, present, strict=True):
        if number is not None and abs(number) <= LIMIT:
            tallies[rank][number] += 1
    return [_candidate(level, tallies[level], len(levels)) for level in levels]


def _candidate(level: float, tally: Counter[int], levels: int) -> _Candidate | None:
    if not tally:
        return None
    found = min(tally, key=lambda number: (-tally[number], number))
    return _Candidate(found, tally[found] * (levels + 1) + (found == level))


def _kept(candidates: Sequence[_Candidate | None]) -> list[int | None]:
    """The strictly rising run of candidates that is worth most; None for the levels that are not in it."""
    places = {number: at for at, number in enumerate(sorted({each.number for each in candidates if each}), 1)}
    best: list[tuple[int, int]] = [(0, -1)] * (len(places) + 1)  # a Fenwick tree of the worthiest run below a number
    before: dict[int, int] = {}
    top = (0, -1)
    for at, candidate in enumerate(candidates):
        if candidate is None:
            continue
        worth, before[at] = _worthiest(best, places[candidate.number] - 1)
        run = (worth + candidate.worth, at)
        _raise(best, places[candidate.number], run)
        top = max(top, run)
    kept: list[int | None] = [None] * len(candidates)
    at = top[1]
    while at >= 0:
        candidate = candidates[at]
        kept[at] = None if candidate is None else candidate.number
        at = before[at]
    return kept


def _worthiest(best: Sequence[tuple[int, int]], place: int) -> tuple[int, int]:
    found = (0, -1)
    while place > 0:
        found = max(found, best[place])
        place -= place & -place
    return found


def _raise(best: list[tuple[int, int]], place: int, run: tuple[int, int]) -> None:
    while place < len(best):
        best[place] = max(best[place], run)
        place += place & -place


def _filled(levels: Sequence[float], kept: Sequence[int | None]) -> list[int] | None:
    """Numbers for the levels between those that are kept; None where there is no room, or nothing to keep."""
    if not any(number is not None for number in kept):
        return None
    numbers: list[int] = []
    for start, stop in _gaps(kept):
        low = kept[start - 1] if start else None
        high = kept[stop] if stop < len(kept) else None
        between = _between(levels[start:stop], low, high)
        if between is None:
            return None
        numbers += between
        if high is not None:
            numbers.append(high)
    return numbers


def _gaps(kept: Sequence[int | None]) -> Iterable[tuple[int, int]]:
    """The stretches between levels that are kept, empty ones too: one before each, and one after the last."""
    start = 0
    for at, number in enumerate(kept):
        if number is not None:
            yield start, at
            start = at + 1
    yield start, len(kept)


def _between(levels: Sequence[float], low: int | None, high: int | None) -> list[int] | None:
    """Rising numbers above `low` and below `high`: the ranks themselves, or evenly spread; None without room."""
    own = _own(levels)
    least = -LIMIT if low is None else low + 1
    most = LIMIT if high is None else high - 1
    if not levels or (own is not None and least <= own[0] and own[-1] <= most):
        return own
    count = len(levels)
    if most - least + 1 < count:
        return None
    if high is None:
        return list(range(least, least + count))
    if low is None:
        return list(range(most - count + 1, most + 1))
    return [least + (most - least + 1) * (2 * at + 1) // (2 * count) for at in range(count)]


def _own(levels: Sequence[float]) -> list[int] | None:
    """The ranks as whole numbers, if they are still different, and not too large."""
    if levels and not (levels[0] >= -LIMIT and levels[-1] <= LIMIT):
        return None
    rounded = [round(level) for level in levels]
    return rounded if len(set(rounded)) == len(rounded) else None


def _renumbered(levels: Sequence[float]) -> list[int]:
    own = _own(levels)
    if own is not None:
        return own
    room = min(_ROOM, LIMIT // len(levels))  # no cluster has so many pods that there is none
    return [room * at for at in range(len(levels))]
