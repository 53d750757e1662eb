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

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.api.errors import InvalidError
from trimtab.ranking.keys import (
    Packed,
    break_ties,
    descending,
    newest_first,
    numbered,
    packed,
    stable_order,
    ties,
    whole_seconds,
)
from trimtab.ranking.scales import Base, scales
from trimtab.snapshot.columns import IntColumn, Mask, SmallColumn
from trimtab.snapshot.pods import NEVER, NOWHERE, PHASES, PodTable

FloatColumn = npt.NDArray[np.float64]


class Criterion(Enum):
    """A criterion that distinguishes two pods: its number in the list, and the rule."""

    UNASSIGNED = 1, "a pod without a node goes before one that has a node"
    PHASE = 2, "Pending goes before Unknown, and Unknown before Running"
    AVAILABLE = 3, "a pod that is not available goes before one that is"
    READY = 3, "a pod that is not ready goes before one that is"
    COST = 4, "the lower deletion cost goes first"
    SAME_NODE = 5, "the pod with more pods of its group on its node goes first"
    RANK = 5, "the higher rank goes first"
    READY_TIME = 6, "the pod that has been ready for less time goes first"
    READY_SHUFFLE = 6, "both have been ready for about as long: the smaller UID goes first"
    RESTARTS = 7, "the pod whose containers were restarted more often goes first"
    SIDECAR_RESTARTS = 7, "the pod whose sidecars were restarted more often goes first"
    CREATION = 8, "the younger pod goes first"
    CREATION_SHUFFLE = 8, "both are about as old: the smaller UID goes first"
    UID = 9, "they are equal in everything else: the smaller UID goes first"

    def __init__(self, number: int, sentence: str) -> None:
        self.number = number
        self.sentence = sentence

    @property
    def by_age(self) -> bool:
        """Whether it compares times."""
        return self.number in (6, 8)


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


Where = IntColumn | slice
_ALL = slice(None)

_BEFORE_ALL = -2
"""The scale of a time that is not known: younger than what has yet to come, which is -1."""
_BESIDE_UID = 40
"""So many bits of a key leave room for enough of a UID to tell most pods apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A criterion at work: the keys of some contenders, of which the smaller goes first.

    Where the keys are scales of times, `exact` has the times, and `shuffle` decides between different ones.
    """

    criterion: Criterion
    keys: Callable[[Where], npt.NDArray[Any]]
    shuffle: Criterion | None = None
    exact: Callable[[Where], IntColumn] | None = None


class Contenders:
    """The pods to put in order. Its columns are copies, made when they are first asked for: ask before the next event.

    *Places* are positions in `rows`; rows are those of the table of pods. `costs` replace those of the table: a cost
    that Trimtab itself wrote expresses no intent of a user.
    """

    def __init__(self, pods: PodTable, rows: IntColumn | Sequence[int], costs: IntColumn | None = None) -> None:
        self.pods = pods
        self.rows: IntColumn = np.asarray(rows, dtype=np.int64)
        self._columns: dict[str, IntColumn] = {} if costs is None else {"cost": costs}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> IntColumn:
        """A column of the table of pods, for these pods."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self.pods.column(name)[self.rows]
        return found

    def some(self, name: str, where: Where) -> IntColumn:
        """The same for some of them, where few will be asked about."""
        return self.pods.column(name)[self.rows[where]]

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """The place of each row."""
        return {row: place for place, row in enumerate(self.rows.tolist())}

    @functools.cached_property
    def standing(self) -> tuple[Level, ...]:
        """Criteria 1 to 4: those before location and age."""
        phase = self.column("phase")
        return (
            Level(Criterion.UNASSIGNED, (self.column("node") != NOWHERE).__getitem__),  # 1
            Level(Criterion.PHASE, np.where(phase > PHASES["Running"], 0, phase).__getitem__),  # 2
            Level(Criterion.READY, self.column("ready").__getitem__),  # 3
            Level(Criterion.COST, self.column("cost").__getitem__),  # 4
        )

    @functools.cached_property
    def standing_keys(self) -> IntColumn:
        """Criteria 1 to 4 as one key."""
        return packed([level.keys(_ALL) for level in self.standing]).keys

    @functools.cached_property
    def seniority(self) -> tuple[Level, ...]:
        """Criteria 6 to 8 of a CloneSet: times as they are."""
        created, restarts = self.column("created"), self.column("restarts")
        ready_since = newest_first(self.column("ready_since"), NEVER)
        return (
            Level(Criterion.READY_TIME, ready_since.__getitem__),  # 6
            Level(Criterion.RESTARTS, (-restarts).__getitem__),  # 7
            Level(Criterion.CREATION, newest_first(created, NEVER).__getitem__),  # 8
        )

    @functools.cached_property
    def by_seniority(self) -> IntColumn:
        """Places in the order of criteria 6 to 9 alone."""
        return self.sort(packed([level.keys(_ALL) for level in self.seniority]))

    def sort(self, key: Packed) -> IntColumn:
        """Places in the order of a key, equal ones by UID."""
        order = key.keys.argsort()
        break_ties(order, ties(key.keys[order]), (self._uid_head, self._uid_tail, self._names))
        return order

    def sort_by_uid(self, key: Packed) -> tuple[IntColumn, SmallColumn]:
        """The same, where most keys are equal, and numbers in that order that are equal where keys are.

        The first bytes of the UID fill the key's free bits. Uses up the key.
        """
        key = key.within(_BESIDE_UID)
        free = 64 - key.width
        together = self.column("uid_head").view(np.uint64) >> np.uint64(key.width)
        together |= np.left_shift(key.keys, free, out=key.keys).view(np.uint64)
        order: IntColumn = together.argsort()
        together = together[order]
        break_ties(order, ties(together), (self._uid_head, self._uid_tail, self._names))
        together >>= np.uint64(free)
        return order, numbered(together)

    def uid_order(self, places: IntColumn) -> IntColumn:
        """Numbers that are in the order of these pods' UIDs, and equal where the UIDs are."""
        texts = [self._text(row)[0] for row in self.rows[places].tolist()]
        numbers = {text: number for number, text in enumerate(sorted(set(texts)))}
        return np.array([numbers[text] for text in texts], dtype=np.int64)

    def _uid_head(self, places: IntColumn) -> IntColumn:
        return self.column("uid_head")[places]

    def _uid_tail(self, places: IntColumn) -> IntColumn:
        return self.column("uid_tail")[places]

    def _names(self, places: IntColumn) -> IntColumn:
        """Numbers that sort as whole UIDs and then names do. (Code points sort as the bytes of UTF-8 do.)"""
        texts = [self._text(row) for row in self.rows[places].tolist()]
        numbers = {text: number for number, text in enumerate(sorted(set(texts)))}
        return np.array([numbers[text] for text in texts], dtype=np.int64)

    def _text(self, row: int) -> tuple[str, str]:
        pod, name = self.pods.objects[row], self.pods.rows.names[row]
        return ("" if pod is None else pod.metadata.uid), name or ""


class Order:
    """Pods in the order in which they are deleted, and the criteria."""

    def __init__(
        self, contenders: Contenders, order: IntColumn, levels: Sequence[Level], ranks: npt.NDArray[Any]
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
) -> tuple[Level, ...]:
    """The criteria of a ReplicaSet's order at one moment; `ranks` are the same-node counts."""
    standing = [level for level in contenders.standing if options.deletion_cost or level.criterion != Criterion.COST]
    scaled = options.logarithmic and now is not None
    return (
        *standing,  # 1 to 4
        Level(Criterion.SAME_NODE, (-ranks).__getitem__),  # 5
        _time(Criterion.READY_TIME, contenders.column("ready_since"), now if scaled else None, options.base),  # 6
        Level(Criterion.RESTARTS, lambda where: -contenders.some("restarts", where)),  # 7
        Level(Criterion.SIDECAR_RESTARTS, lambda where: -contenders.some("sidecar_restarts", where)),  # 7
        _time(Criterion.CREATION, contenders.column("created"), now if scaled else None, options.base),  # 8
    )


def cloneset_order(
    pods: PodTable, rows: IntColumn | Sequence[int], ranks: FloatColumn, available: Mask | None = None
) -> Order:
    """The order in which a CloneSet's controller would delete these pods, with their ranks and whether each is
    available (all alike, where None)."""
    return order_contenders(Contenders(pods, rows), ranks, available)


def order_contenders(contenders: Contenders, ranks: FloatColumn, available: Mask | None = None) -> Order:
    """The same for contenders that rankers have used already: their cached columns are used again."""
    availability = () if available is None else (Level(Criterion.AVAILABLE, available.__getitem__),)
    unassigned, phase, ready, cost = contenders.standing
    rank = Level(Criterion.RANK, descending(ranks).__getitem__)  # 5
    levels = (unassigned, phase, *availability, ready, cost, rank)
    order = order_within(contenders, *(level.keys(_ALL) for level in levels))
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


def _time(criterion: Criterion, times: IntColumn, now: int | None, base: Base) -> Level:
    """Criterion 6 or 8: of two scales, or without `now` of two times, the younger goes first, an unknown one before all
    others."""
    if now is None:
        return Level(criterion, newest_first(times, NEVER).__getitem__)
    moment = now

    def scale(where: Where) -> npt.NDArray[np.int8]:
        chosen = times[where]
        found = scales(chosen, moment, base)
        found[chosen == NEVER] = _BEFORE_ALL
        return found

    return Level(criterion, scale, _SHUFFLES[criterion], times.__getitem__)


_SHUFFLES = {
    Criterion.READY_TIME: Criterion.READY_SHUFFLE,
    Criterion.CREATION: Criterion.CREATION_SHUFFLE,
}


def _plain(contenders: Contenders, levels: Sequence[Level]) -> IntColumn:
    return contenders.sort(packed([level.keys(_ALL) for level in levels]))


def _shuffled(contenders: Contenders, levels: Sequence[Level]) -> IntColumn:
    """Slots by the criteria up to the ready time's scale and by UID; then each group fills its slots."""
    upto = next(i for i, level in enumerate(levels) if level.criterion is Criterion.READY_TIME)
    order, alike = contenders.sort_by_uid(packed([level.keys(_ALL) for level in levels[: upto + 1]]))
    moment = whole_seconds(contenders.column("ready_since"))
    by_group, group = stable_order(packed((alike, moment[order])))
    tied = ties(group)
    if tied:
        slots = by_group[tied.places]
        members = order[slots]
        inner = packed((tied.run, *(level.keys(members) for level in levels[upto + 1 :])))
        order[slots] = members[stable_order(inner)[0]]
    return order
