"""The pods that a controller puts in order, the criteria by which it does, and criteria at work on columns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.ranking.keys import Packed, break_ties, newest_first, numbered, packed, ties
from trimtab.snapshot.columns import IntColumn, SmallColumn
from trimtab.snapshot.pods import NEVER, NOWHERE, PHASES, PodTable


class Criterion(Enum):
    """A criterion that distinguishes two pods: its number in the list, and the rule."""

    REVISION = 0, "a pod of an older revision goes before one of the newest"
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


Where = IntColumn | slice
ALL = slice(None)

_BESIDE_UID = 40
"""So many bits of a key leave room for enough of a UID to tell most pods apart."""


@dataclass(frozen=True, slots=True, eq=False)
class AppliedCriterion:
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
    def standing(self) -> tuple[AppliedCriterion, ...]:
        """Criteria 1 to 4: those before location and age."""
        phase = self.column("phase")
        return (
            AppliedCriterion(Criterion.UNASSIGNED, (self.column("node") != NOWHERE).__getitem__),  # 1
            AppliedCriterion(Criterion.PHASE, np.where(phase > PHASES["Running"], 0, phase).__getitem__),  # 2
            AppliedCriterion(Criterion.READY, self.column("ready").__getitem__),  # 3
            AppliedCriterion(Criterion.COST, self.column("cost").__getitem__),  # 4
        )

    @functools.cached_property
    def standing_keys(self) -> IntColumn:
        """Criteria 1 to 4 as one key."""
        return packed([level.keys(ALL) for level in self.standing]).keys

    @functools.cached_property
    def seniority(self) -> tuple[AppliedCriterion, ...]:
        """Criteria 6 to 8 of a CloneSet: times as they are."""
        created, restarts = self.column("created"), self.column("restarts")
        ready_since = newest_first(self.column("ready_since"), NEVER)
        return (
            AppliedCriterion(Criterion.READY_TIME, ready_since.__getitem__),  # 6
            AppliedCriterion(Criterion.RESTARTS, (-restarts).__getitem__),  # 7
            AppliedCriterion(Criterion.CREATION, newest_first(created, NEVER).__getitem__),  # 8
        )

    @functools.cached_property
    def by_seniority(self) -> IntColumn:
        """Places in the order of criteria 6 to 9 alone."""
        return self.sort(packed([level.keys(ALL) for level in self.seniority]))

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
