"""Scheduled: the pod that the scheduler would place worst where it is goes first.

The scores of a group's pods are handed in as a function: 0 to 100, the higher the better. The rank is what is missing
to 100. A cluster drifts away from what the scheduler would choose as pods and nodes come and go; pods that it would no
longer place there go first.

Every score depends on the other pods: with one of a full zone gone, the next one there is placed better. So ranks are
recomputed after each removal, and only one pod goes at a time.

A pod without a score is unranked. One that has no node yet is not placed at all, which is worse than any place: 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.ranking.strategies.settings import NoSettings, read_settings
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

BEST = 100.0


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Ranks pods by how far their place is from the best score."""

    name: ClassVar[str] = "Scheduled"
    recompute: ClassVar[bool] = True
    one_at_a_time: ClassVar[bool] = True

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Scheduled:
        """As a policy wants it."""
        read_settings(NoSettings, args, cls.name)
        return cls()

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """What each pod's score lacks to the best."""
        scores: FloatColumn = np.full(len(view.snapshot.pods), UNRANKED)
        scores[view.rows] = view.scores(view.snapshot, view.rows)
        placed = np.where(view.placed(rows), scores[rows], 0.0)
        return BEST - np.clip(placed, 0.0, BEST)
