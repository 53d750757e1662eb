"""Limits as numbers: the pods that percentages of a workload's size come to.

Percentages rounded one by one mislead: 34/33/33 % of 3 pods rounded up is 2/1/1, and the last subset gets none, because
the first two take all three. So percentages are apportioned together, by Webster's method: pod after pod goes to the
part whose share, divided by the next odd number, is the largest:

    34 %    34   34/3   34/5 …
    33 %    33   33/3   33/5 …         the three largest are 34, 33, 33: 1/1/1

1. What the percentages leave to 100 is a part of its own, so that the parts add up to the workload's size, and 30 % of
   10 is 3 whatever else there is.
2. Percentages that add up to more than 100 are limits that cannot all be reached; together they get as many pods as
   they come to, rounded up.
3. Of equal claims the earlier subset's comes first, the remainder's last: 50 % of 1 is 1.
4. No part shrinks when the whole grows, because each pod is added after those of a smaller whole.

A number is its own limit, and a subset without a maximum has none.

**Floors** (`minReplicas`) come first. A percentage is one of the pods above all floors, and is added to the subset's
own: with a floor of 2 on own nodes, and 70 % on rented ones, 12 pods are at most 7 on rented nodes. Where the workload
has fewer pods than the floors add up to, earlier subsets get theirs first. No floor shrinks when the whole grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heapreplace

from trimtab.api import percent
from trimtab.api.unitedtopology import Subset


def limits(subsets: Sequence[Subset], replicas: int) -> tuple[int | None, ...]:
    """How many pods each subset may have, where the workload has so many replicas; None for no limit."""
    written = [None if subset.max_replicas is None else percent.parse(subset.max_replicas) for subset in subsets]
    shares = [limit.number for limit in written if limit is not None and limit.is_percent]
    least = floors(subsets, replicas)
    pods = iter(apportion(shares, replicas - sum(least)))
    return tuple(
        None if limit is None else floor + next(pods) if limit.is_percent else limit.number
        for limit, floor in zip(written, least, strict=True)
    )


def floors(subsets: Sequence[Subset], replicas: int) -> tuple[int, ...]:
    """How many pods each subset gets before any other, where the workload has so many replicas."""
    left = max(0, replicas)
    found = []
    for subset in subsets:
        found.append(min(subset.min_replicas or 0, left))
        left -= found[-1]
    return tuple(found)


def apportion(percentages: Sequence[int], replicas: int) -> tuple[int, ...]:
    """The pods of each percentage, by the rules above."""
    return _apportioned(tuple(percentages), replicas) if percentages else ()


@lru_cache(maxsize=256)
def _apportioned(percentages: tuple[int, ...], replicas: int) -> tuple[int, ...]:
    """Called several times for each decision; the result changes with the spec and the size only."""
    together = sum(percentages)
    parts = [*percentages, max(100 - together, 0)]
    seats = -(-replicas * max(together, 100) // 100)
    return tuple(webster(parts, seats)[:-1])


def webster(parts: Sequence[int], seats: int) -> list[int]:
    """Seats of each part, in proportion to the parts; earlier parts win ties.

    All but the last few seats are assigned at once: with the divisor that assigns half a seat less to each part, no
    part gets more than it would one by one. The rest is assigned one by one.
    """
    whole = sum(parts)
    if whole == 0:
        return [0] * len(parts)
    start = 2 * seats - len(parts)
    assigned = [max(0, (part * start + whole) // (2 * whole)) for part in parts]
    claims = [
        _Claim(part, 2 * count + 1, index) for index, (part, count) in enumerate(zip(parts, assigned, strict=True))
    ]
    heapify(claims)
    for _ in range(seats - sum(assigned)):
        first = claims[0]
        assigned[first.index] += 1
        heapreplace(claims, _Claim(first.part, first.divisor + 2, first.index))
    return assigned


@dataclass(frozen=True, slots=True)
class _Claim:
    """A part's claim to its next seat: its share, divided by the next odd number."""

    part: int
    divisor: int
    index: int

    def __lt__(self, other: _Claim) -> bool:
        """Whether this claim comes first. Shares are compared as fractions, without rounding."""
        mine, others = self.part * other.divisor, other.part * self.divisor
        return mine > others or (mine == others and self.index < other.index)
