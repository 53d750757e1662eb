"""PreferNoSchedule: pods on nodes with a `PreferNoSchedule` taint go first.

Such a taint marks a node that is to run empty when it can: a spot instance, a node to be retired. It is the node that
counts, not whether the pod tolerates the taint: a pod that was allowed there is in the way all the same. Rank 1 there,
0 everywhere else, and 0 without a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.api.tolerations import PREFER_NO_SCHEDULE
from trimtab.ranking.strategies.settings import NoSettings, read_settings
from trimtab.ranking.strategies.taints import taint_sets
from trimtab.ranking.strategies.view import Ranks, View
from trimtab.snapshot.columns import IntColumn


@dataclass(frozen=True, slots=True)
class PreferNoSchedule:
    """Ranks pods 1 on a node that would rather have none, and 0 elsewhere."""

    name: ClassVar[str] = "PreferNoSchedule"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> PreferNoSchedule:
        """As a policy wants it."""
        read_settings(NoSettings, args, cls.name)
        return cls()

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """1 where the pod's node has such a taint."""
        marked = [any(taint.effect == PREFER_NO_SCHEDULE for taint in s) for s in view.snapshot.nodes.taint_sets]
        return np.array(marked, dtype=np.int64)[taint_sets(rows, view)]
