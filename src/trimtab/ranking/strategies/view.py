"""The interface of a strategy, and the view that it ranks pods from.

A strategy ranks pods by one idea: a number for each pod of a group, **the higher, the sooner it goes**.
It sees a `View` and nothing else. What it needs from elsewhere (usage, costs that applications state, the scheduler's
scores) lies in the view as values: a strategy does no I/O, so it cannot be slow, and cannot fail half-way.

A pod of which a strategy cannot say anything is *unranked*: its rank is NaN. That is different from rank 0, which is
a rank ("last"): while one pod of a group is unranked, the group's order is not known, and the policy's
`whenUnranked` decides what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trimtab.api.nodes import DEPRECATED_REGION, DEPRECATED_ZONE, REGION, ZONE
from trimtab.api.pods import Pod
from trimtab.ranking.strategies.signals import Signal
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask, SmallColumn
from trimtab.snapshot.nodes import ABSENT
from trimtab.snapshot.pods import NEVER, NOWHERE

FloatColumn = npt.NDArray[np.float64]
Ranks = FloatColumn | IntColumn
"""A rank for each pod that was asked for, in the same order; NaN for a pod that is unranked."""

UNRANKED = float("nan")

Scores = Callable[[Snapshot, IntColumn], FloatColumn]
"""How well the scheduler would place each of these pods of one group where it is, as things are in a snapshot: 0 to
100, the higher the better; NaN for a pod that has no score."""


def no_scores(_: Snapshot, rows: IntColumn) -> FloatColumn:
    """No pod has a score."""
    return np.full(len(rows), UNRANKED)


_SAME: Mapping[str, tuple[str, ...]] = {ZONE: (ZONE, DEPRECATED_ZONE), REGION: (REGION, DEPRECATED_REGION)}


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A group of pods, the cluster around it, and what was found out about the pods elsewhere.

    `rows` are the group's rows in the snapshot's table of pods. Mappings are keyed by `namespace/name`; a pod that a
    mapping does not know has no such value.
    """

    snapshot: Snapshot
    rows: IntColumn
    now_ns: int
    usage: Mapping[str, float] = field(default_factory=dict)
    """How much a pod uses; in which unit is for the strategy's settings to say (see `Idle`)."""
    stated: Mapping[str, float] = field(default_factory=dict)
    """What a pod, when asked, said that it would cost to delete it."""
    scores: Scores = no_scores
    """How well pods are placed, by their scheduler. A function, because each removal changes it."""
    signals: Mapping[Signal, Mapping[str, float]] = field(default_factory=dict)
    """What sources outside the cluster report of pods."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", np.asarray(self.rows, dtype=np.int64))

    def pods(self, rows: IntColumn) -> list[Pod]:
        """The objects of these pods."""
        objects = self.snapshot.pods.objects
        found = [pod for row in rows.tolist() if (pod := objects[row]) is not None]
        if len(found) != len(rows):
            raise LookupError("some of these rows hold no pod: the snapshot has changed since they were looked up")
        return found

    def values(self, rows: IntColumn, mapping: Mapping[str, float]) -> FloatColumn:
        """What a mapping says of these pods; NaN where it says nothing, or nothing finite."""
        names = self.snapshot.pods.rows.names
        found = np.array([mapping.get(names[row] or "", UNRANKED) for row in rows.tolist()], dtype=np.float64)
        return np.where(np.isfinite(found), found, UNRANKED)

    def signal(self, rows: IntColumn, signal: Signal) -> FloatColumn:
        """What the source of a signal reported of these pods; NaN where it reported nothing, or too long ago."""
        return self.values(rows, self.signals.get(signal, {}))

    def placed(self, rows: IntColumn) -> Mask:
        """Which of these pods have been assigned to a node."""
        mask: Mask = self.snapshot.pods.node[rows] != NOWHERE
        return mask

    def created(self, rows: IntColumn) -> IntColumn:
        """When these pods were created, in nanoseconds. One that has no time yet is being created now."""
        times = self.snapshot.pods.column("created")[rows]
        return np.where(times == NEVER, self.now_ns, times)

    def domains(self, rows: IntColumn, topology_key: str) -> SmallColumn:
        """The domain of each of these pods as a small number; ABSENT for a pod that is in none.

        The deprecated labels of zones and regions stand in for the present ones on nodes that have only those.
        """
        codes = self.snapshot.nodes.codes(_SAME.get(topology_key, topology_key))
        beside_nowhere = np.append(codes, np.int32(ABSENT))  # NOWHERE is -1, and so picks the last element
        return beside_nowhere[self.snapshot.pods.node[rows]]


class Strategy(Protocol):
    """One opinion of who should go first."""

    @property
    def name(self) -> str:
        """The name that policies use."""

    @property
    def recompute(self) -> bool:
        """Whether ranks are no longer right once a pod has gone, and must be worked out anew."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether only the first may go on these ranks, because the second choice depends on it."""

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The ranks of these pods, which are some or all of the view's group; the higher, the sooner it goes."""


Factory = Callable[[Mapping[str, Any]], Strategy]
"""Makes a strategy from the `args` of a policy. Raises InvalidError with a path such as `args.topologyKey`."""


class StrategyError(Exception):
    """A strategy that is there but does not work: the fault of who wrote or installed it, not of the policy."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f'strategy "{self.name}" {self.reason}'
