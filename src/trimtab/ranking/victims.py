"""The order in which a ReplicaSet's and a CloneSet's controller deletes surplus pods.

Both orders are lists of criteria (`REPLICASET`, `CLONESET`); of two pods the first criterion in which they differ
decides. The ReplicaSet's is that of Kubernetes 1.36, the CloneSet's that of OpenKruise 1.9.

**Ties.** Upstream leaves pods tied that differ in no criterion, and its sort puts them in any order. Here the smaller
UID goes first, then the smaller name: the order is total, and does not depend on the order of the input.

**Logarithmic ages.** With them, a ReplicaSet's comparison is not transitive. Two pods that became ready at different
times of the same scale compare by UID; two that became ready at the very same time fall through to their restarts. So
with x and y of one time, y restarted more often, and z of another time of that scale, and UIDs x < z < y: x goes before
z, z before y, y before x. Ours is an order all the same, and upstream's wherever upstream has one:

1. Sort by the criteria up to the scale of the ready time, then by UID. That makes the *slots*.
2. Pods that are equal so far and became ready at the same time form a group. Each group keeps its slots, and fills them
   in the order of the remaining criteria.

Suppose upstream is consistent. Then no third pod z has a slot between two members x and y of a group unless x goes
before y by the remaining criteria as well as by UID (else there were a circle as above, or a tie that z splits). So the
members with smaller UIDs than z are the very ones that the remaining criteria put first: filling the slots moves no
member past z, and the result satisfies every comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.api.errors import InvalidError
from trimtab.ranking.contenders import ALL, AppliedCriterion, Contenders, Criterion, Where
from trimtab.ranking.keys import (
    Packed,
    descending,
    newest_first,
    packed,
    stable_order,
    ties,
    whole_seconds,
)
from trimtab.ranking.scales import Base, scales
from trimtab.snapshot.columns import IntColumn, Mask, SmallColumn
from trimtab.snapshot.pods import NEVER, NOWHERE, PodTable

FloatColumn = npt.NDArray[np.float64]


REPLICASET = (
    Criterion.UNASSIGNED,
    Criterion.PHASE,
    Criterion.READY,
    Criterion.COST,
    Criterion.SAME_NODE,
    Criterion.READY_TIME,
    Criterion.READY_SHUFFLE,
    Criterion.RESTARTS,
    Criterion.SIDECAR_RESTARTS,
    Criterion.CREATION,
    Criterion.CREATION_SHUFFLE,
    Criterion.UID,
)
"""The order of a ReplicaSet's pods, with everything switched on."""

CLONESET = (
    Criterion.REVISION,
    Criterion.UNASSIGNED,
    Criterion.PHASE,
    Criterion.AVAILABLE,
    Criterion.READY,
    Criterion.COST,
    Criterion.RANK,
    Criterion.READY_TIME,
    Criterion.RESTARTS,
    Criterion.CREATION,
    Criterion.UID,
)
"""The order of a CloneSet's pods."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a ReplicaSet's controller is set up: two feature gates, and the base that its proposal leaves open."""

    logarithmic: bool = True
    base: Base = 2
    deletion_cost: bool = True

    def __post_init__(self) -> None:
        if self.base not in (2, "e", 10):
            raise InvalidError("base", f'{self.base!r} is not a base of ages; write 2, "e" or 10')


STOCK = Options()
"""Kubernetes 1.36 as shipped."""


_BEFORE_ALL = -2
"""The scale of a time that is not known: younger than what has yet to come, which is -1."""


class Order:
    """Pods in the order in which they are deleted, and the criteria."""

    def __init__(
        self, contenders: Contenders, order: IntColumn, levels: Sequence[AppliedCriterion], ranks: npt.NDArray[Any]
    ) -> None:
        self.contenders = contenders
        self.rows: IntColumn = contenders.rows[order]
        self.order = order
        """The same as places among the contenders."""
        self.levels = levels
        self._ranks = ranks

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ranks(self) -> npt.NDArray[Any]:
        """What criterion 5 compared, in the order of `rows`."""
        return self._ranks[self.order]

    @property
    def same_node_ranks(self) -> IntColumn:
        """Of a ReplicaSet's order: how many pods of its group are on each pod's node, in the order of `rows`."""
        return self.ranks.astype(np.int64)

    def column(self, name: str) -> IntColumn:
        """A column of the table of pods, in the order of `rows`."""
        return self.contenders.column(name)[self.order]

    def deciding(self, first: int, second: int) -> Criterion:
        """The criterion in which two pods differ, given by their rows."""
        places = self.contenders.places
        return self._deciding_criteria(np.array([places[first]]), places[second])[0]

    def decisions(self, victims: int) -> list[Criterion]:
        """For each of the first `victims` pods, the criterion in which it differs from the first pod that stays.

        Empty where no pod stays.
        """
        if not 0 <= victims <= len(self):
            raise InvalidError("victims", f"{victims} of {len(self)} pods cannot go")
        if victims == len(self):
            return []
        return self._deciding_criteria(self.order[:victims], int(self.order[victims]))

    def deciding_all(self, rows: IntColumn, other: int) -> list[Criterion]:
        """The criterion in which each of these pods differs from another one, all given by their rows."""
        places = self.contenders.places
        return self._deciding_criteria(np.array([places[row] for row in rows.tolist()], dtype=np.int64), places[other])

    def _deciding_criteria(self, places: IntColumn, other: int) -> list[Criterion]:
        found = np.full(len(places), Criterion.UID, dtype=object)
        against = np.array([other])
        for level in reversed(self.levels):
            if level.exact is not None:
                found[level.exact(places) != level.exact(against)] = level.shuffle
            found[level.keys(places) != level.keys(against)] = level.criterion
        return list(found)


def replicaset_order(
    pods: PodTable,
    rows: IntColumn | Sequence[int],
    related_rows: IntColumn | Sequence[int],
    now: int | None,
    options: Options = STOCK,
) -> Order:
    """The order in which a ReplicaSet's controller would delete these pods.

    `related_rows` are the pods of its group, usually those of all ReplicaSets of one Deployment. Without `now`, which
    stands for a clock that has not been read, ages are compared as they are.
    """
    return order_replicas(Contenders(pods, rows), related_rows, now, options)


def order_replicas(
    contenders: Contenders, related_rows: IntColumn | Sequence[int], now: int | None, options: Options = STOCK
) -> Order:
    """The same for contenders whose columns may be cached already."""
    ranks = same_node_counts(contenders.pods, contenders.column("node"), related_rows)
    levels = replicaset_levels(contenders, ranks, now, options)
    sort = _shuffled if options.logarithmic and now is not None else _plain
    return Order(contenders, sort(contenders, levels), levels, ranks)


def replicaset_levels(
    contenders: Contenders, ranks: SmallColumn, now: int | None, options: Options = STOCK
) -> tuple[AppliedCriterion, ...]:
    """The criteria of a ReplicaSet's order at one moment; `ranks` are the same-node counts."""
    standing = [level for level in contenders.standing if options.deletion_cost or level.criterion != Criterion.COST]
    scaled = options.logarithmic and now is not None
    return (
        *standing,  # 1 to 4
        AppliedCriterion(Criterion.SAME_NODE, (-ranks).__getitem__),  # 5
        _time(Criterion.READY_TIME, contenders.column("ready_since"), now if scaled else None, options.base),  # 6
        AppliedCriterion(Criterion.RESTARTS, lambda where: -contenders.some("restarts", where)),  # 7
        AppliedCriterion(Criterion.SIDECAR_RESTARTS, lambda where: -contenders.some("sidecar_restarts", where)),  # 7
        _time(Criterion.CREATION, contenders.column("created"), now if scaled else None, options.base),  # 8
    )


def cloneset_order(
    pods: PodTable, rows: IntColumn | Sequence[int], ranks: FloatColumn, available: Mask | None = None
) -> Order:
    """The order in which a CloneSet's controller would delete these pods, with their ranks and whether each is
    available (all alike, where None)."""
    return order_contenders(Contenders(pods, rows), ranks, available)


def order_contenders(
    contenders: Contenders, ranks: FloatColumn, available: Mask | None = None, newest: Mask | None = None
) -> Order:
    """The same for contenders that rankers have used already: their cached columns are used again.

    `newest` says which pods are of the newest revision (all alike, where None).
    """
    revision = () if newest is None else (AppliedCriterion(Criterion.REVISION, newest.__getitem__),)
    availability = () if available is None else (AppliedCriterion(Criterion.AVAILABLE, available.__getitem__),)
    unassigned, phase, ready, cost = contenders.standing
    rank = AppliedCriterion(Criterion.RANK, descending(ranks).__getitem__)  # 5
    levels = (*revision, unassigned, phase, *availability, ready, cost, rank)
    order = order_within(contenders, *(level.keys(ALL) for level in levels))
    return Order(contenders, order, (*levels, *contenders.seniority), ranks)


def order_within(contenders: Contenders, *keys: npt.NDArray[Any]) -> IntColumn:
    """Places in the order of these keys, then of a CloneSet's criteria from 6 on."""
    by_seniority = contenders.by_seniority
    key = packed(keys)
    return by_seniority[stable_order(Packed(key.keys[by_seniority], key.width))[0]]


def same_node_counts(
    pods: PodTable, nodes: IntColumn | SmallColumn, related_rows: IntColumn | Sequence[int]
) -> SmallColumn:
    """How many active pods of a group are on each of these nodes; those without a node count as being on one."""
    related = np.asarray(related_rows, dtype=np.int64)
    occupied = pods.node[related][pods.active[related]]
    counts = np.bincount(occupied + 1, minlength=int(nodes.max(initial=NOWHERE)) + 2)
    found: SmallColumn = counts.astype(np.int32)[nodes + 1]
    return found


def _time(criterion: Criterion, times: IntColumn, now: int | None, base: Base) -> AppliedCriterion:
    """Criterion 6 or 8: of two scales, or without `now` of two times, the younger goes first, an unknown one before all
    others."""
    if now is None:
        return AppliedCriterion(criterion, newest_first(times, NEVER).__getitem__)
    moment = now

    def scale(where: Where) -> npt.NDArray[np.int8]:
        chosen = times[where]
        found = scales(chosen, moment, base)
        found[chosen == NEVER] = _BEFORE_ALL
        return found

    return AppliedCriterion(criterion, scale, _SHUFFLES[criterion], times.__getitem__)


_SHUFFLES = {
    Criterion.READY_TIME: Criterion.READY_SHUFFLE,
    Criterion.CREATION: Criterion.CREATION_SHUFFLE,
}


def _plain(contenders: Contenders, levels: Sequence[AppliedCriterion]) -> IntColumn:
    return contenders.sort(packed([level.keys(ALL) for level in levels]))


def _shuffled(contenders: Contenders, levels: Sequence[AppliedCriterion]) -> IntColumn:
    """Slots by the criteria up to the ready time's scale and by UID; then each group fills its slots."""
    upto = next(i for i, level in enumerate(levels) if level.criterion is Criterion.READY_TIME)
    order, alike = contenders.sort_by_uid(packed([level.keys(ALL) for level in levels[: upto + 1]]))
    moment = whole_seconds(contenders.column("ready_since"))
    by_group, group = stable_order(packed((alike, moment[order])))
    tied = ties(group)
    if tied:
        slots = by_group[tied.places]
        members = order[slots]
        inner = packed((tied.run, *(level.keys(members) for level in levels[upto + 1 :])))
        order[slots] = members[stable_order(inner)[0]]
    return order
