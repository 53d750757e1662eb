"""Taints: pods that do not tolerate their node's taints go first, those with the most such taints before the others.

A taint can be added after the pod was placed: `NoSchedule` evicts no pod, which stays where it could not be scheduled
again.

`NoSchedule` and `NoExecute` count, for they say that such a pod should not be there. `PreferNoSchedule` does not count
unless it is asked for (`effects`): it states a preference, and has a strategy of its own. A toleration with a time
limit tolerates. A pod without a node, or on a node that has not been seen, has no taints to tolerate: rank 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from trimtab.api.model import Model
from trimtab.api.nodes import Taint
from trimtab.api.pods import Toleration
from trimtab.api.tolerations import tolerated
from trimtab.ranking.strategies.settings import read_settings
from trimtab.ranking.strategies.view import Ranks, View
from trimtab.snapshot.columns import IntColumn, SmallColumn
from trimtab.snapshot.nodes import NodeTable

Effect = Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


class TaintsSettings(Model):
    """Which taints count."""

    effects: Annotated[
        tuple[Effect, ...],
        Meta(description="the effects that count: NoSchedule, NoExecute, PreferNoSchedule", min_length=1),
    ] = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Taints:
    """Ranks pods by how many taints of their node they do not tolerate."""

    name: ClassVar[str] = "Taints"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: TaintsSettings = field(default_factory=TaintsSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Taints:
        """As a policy wants it."""
        return cls(read_settings(TaintsSettings, args, cls.name))

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """How many taints each pod does not tolerate; only pods on tainted nodes are examined one by one."""
        sets = taint_sets(rows, view)
        ranks = np.zeros(len(rows), dtype=np.int64)
        tainted = np.flatnonzero(sets)
        known: dict[tuple[int, tuple[Toleration, ...]], int] = {}
        for at, taint_set, pod in zip(tainted.tolist(), sets[tainted].tolist(), view.pods(rows[tainted]), strict=True):
            key = (taint_set, pod.spec.tolerations)
            if key not in known:
                known[key] = self._untolerated(view.snapshot.nodes.taint_sets[taint_set], pod.spec.tolerations)
            ranks[at] = known[key]
        return ranks

    def _untolerated(self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> int:
        # `Lt` and `Gt` count: an API server whose feature for them is off would not have admitted such a pod.
        return sum(
            taint.effect in self.settings.effects and not tolerated(tolerations, taint, comparison_operators=True)
            for taint in taints
        )


def taint_sets(rows: IntColumn, view: View) -> SmallColumn:
    """Which set of taints the node of each pod has; 0, the empty one, where there is no node."""
    nodes: NodeTable = view.snapshot.nodes
    beside_nowhere = np.append(nodes.taints, np.int32(0))  # NOWHERE is -1, and so picks the last element
    return beside_nowhere[view.snapshot.pods.node[rows]]
