"""The pods that shrink together, and the policy that ranks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking.combination import Combination, Combined
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.rankers import Constraint, Scale, ranker_for
from trimtab.ranking.strategies import STRATEGIES, Factory, Signal, View
from trimtab.ranking.strategies.view import Scores, no_scores
from trimtab.ranking.victims import STOCK, FloatColumn, Options, Order, order_contenders
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.pods import NEVER


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The pods of one controller: rows of the snapshot's table of pods.

    `related` are the pods that criterion 5 counts: those of all ReplicaSets with the same owner. A ReplicaSet without
    an owner, and a ReplicationController, have none: upstream's controller does not even count their own pods.
    `base_costs` has, for pods whose deletion cost Trimtab wrote, the cost without ours: ours expresses no intent.
    `foreign_costs` says how costs of other writers count: as an order to obey, or only between equals.
    `tiers` are those of pods in subsets, by name: those of a lower tier go first, whatever the strategies and the
    balance say. A pod without one is in tier 0.
    For a CloneSet, `min_ready` is for how many nanoseconds a pod has to be ready to be available, and `ranked_by` are
    the constraints by which its controller ranks pods (none: by their nodes), if those are not `constraints`; `scale`
    is how it ranks them, and `outdated` are its pods of older revisions, by their names (`namespace/name`).
    """

    rows: IntColumn
    related: IntColumn
    constraints: tuple[Constraint, ...] = ()
    kind: Literal["ReplicaSet", "CloneSet"] = "ReplicaSet"
    options: Options = STOCK
    min_ready: int = 0
    ranked_by: tuple[Constraint, ...] | None = None
    scale: Scale = "balanced"
    outdated: frozenset[str] = frozenset()
    base_costs: Mapping[str, int] = field(default_factory=dict)
    foreign_costs: Literal["Obey", "TieBreak"] = "Obey"
    tiers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def owned_by(
        cls, snapshot: Snapshot, uid: str, *, related: Iterable[str] = (), constraints: Sequence[Constraint] = ()
    ) -> Workload:
        """The active pods that the object with this UID manages.

        `related` are the UIDs of all ReplicaSets with the same owner, itself included; none for a standalone one.
        """
        rows = active_rows(snapshot, uid)
        groups = [active_rows(snapshot, sibling) for sibling in dict.fromkeys(related)]
        return cls(rows, np.concatenate([rows[:0], *groups]), tuple(constraints))

    @classmethod
    def of_all(cls, snapshot: Snapshot, *, constraints: Sequence[Constraint] = ()) -> Workload:
        """All active pods there are, as those of one Deployment."""
        rows = np.flatnonzero(snapshot.pods.active).astype(np.int64)
        return cls(rows, rows, tuple(constraints))

    def without(self, row: int) -> Workload:
        """The same without one pod."""
        return replace(self, rows=self.rows[self.rows != row], related=self.related[self.related != row])

    def tier_column(self, snapshot: Snapshot) -> IntColumn:
        """The tier of each pod."""
        if not self.tiers:
            return np.zeros(len(self.rows), dtype=np.int64)
        return np.array([self.tiers.get(name, 0) for name in pod_keys(snapshot, self.rows)], dtype=np.int64)

    def cloneset_order(self, contenders: Contenders, snapshot: Snapshot, moment: int | None) -> Order:
        """The order in which a CloneSet's controller would delete these pods at a moment."""
        available = self._available(contenders, moment)
        if not self.outdated:
            return order_contenders(contenders, self._cloneset_ranks(contenders, snapshot), available)
        newest = np.array([key not in self.outdated for key in pod_keys(snapshot, contenders.rows)], dtype=np.bool_)
        ranks = np.zeros(len(contenders))
        for revision in (newest, ~newest):  # pods are counted among those of their revision
            part = Contenders(contenders.pods, contenders.rows[revision], contenders.column("cost")[revision])
            ranks[revision] = self._cloneset_ranks(part, snapshot)
        return order_contenders(contenders, ranks, available, newest)

    def _cloneset_ranks(self, contenders: Contenders, snapshot: Snapshot) -> FloatColumn:
        rules = self.constraints if self.ranked_by is None else self.ranked_by
        return ranker_for(rules, self.scale).ranks(contenders, snapshot.nodes)

    def availability_changes(self, contenders: Contenders, start: int, end: int) -> list[int]:
        """The moments of a window at which pods of a CloneSet become available."""
        since = contenders.column("ready_since")
        due = since[since != NEVER] + self.min_ready
        return sorted(set(due[(due > start) & (due <= end)].tolist())) if self.min_ready else []

    def _available(self, contenders: Contenders, moment: int | None) -> Mask | None:
        """Which pods of a CloneSet are available; None where that is the same as being ready."""
        if not self.min_ready or moment is None:
            return None
        since = contenders.column("ready_since")
        available: Mask = contenders.column("ready").astype(np.bool_) & (since != NEVER)
        return available & (since + self.min_ready <= moment)

    def contenders(self, snapshot: Snapshot, costs: Mapping[str, int] | None = None) -> Contenders:
        """The pods as the controller sees them, without Trimtab's costs; `costs` replace those of some pods."""
        column = snapshot.pods.column("cost")[self.rows]
        replaced = {**self.base_costs, **(costs or {})}
        if replaced:
            pairs = zip(pod_keys(snapshot, self.rows), column.tolist(), strict=True)
            column = np.array([replaced.get(name, cost) for name, cost in pairs], dtype=np.int64)
        return Contenders(snapshot.pods, self.rows, column)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Strategies, constructed and validated, with the values that they need from elsewhere."""

    combination: Combination
    usage: Mapping[str, float] = field(default_factory=dict)
    stated: Mapping[str, float] = field(default_factory=dict)
    scores: Scores = no_scores
    signals: Mapping[Signal, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> Policy:
        """A policy of these strategies. Raises InvalidError for what is wrong with them."""
        return cls(Combination.of(specs, registry))

    def rank(self, snapshot: Snapshot, rows: IntColumn, now: int | None) -> Combined:
        """The ranks of these pods. Strategies may ask for the time, so it must be known."""
        if now is None:
            raise InvalidError("now", "is needed to rank pods by strategies; give the time in nanoseconds")
        view = View(snapshot, rows, now, usage=self.usage, stated=self.stated, scores=self.scores, signals=self.signals)
        return self.combination.rank(view)


def active_rows(snapshot: Snapshot, uid: str) -> IntColumn:
    """The rows of the active pods that the object with this UID manages."""
    rows = snapshot.pods.owned_by(uid)
    return rows[snapshot.pods.active[rows]]


def pod_keys(snapshot: Snapshot, rows: IntColumn) -> tuple[str, ...]:
    """The names (`namespace/name`) of these rows."""
    names = snapshot.pods.rows.names
    return tuple(filter(None, map(names.__getitem__, rows.tolist())))
