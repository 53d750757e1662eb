"""Scheduled: the pod on the node that the scheduler would score lowest for it goes first.

Each pod's present node is scored as the scheduler would score it for that pod now, and the scores are handed in: 0 to
100, the higher the better. The rank is what is missing to 100. A cluster drifts away from what the scheduler
would choose as pods and nodes come and go; pods that it would no longer place there go first.

A pod without a score is unranked. One that has no node yet is not placed at all, which is worse than any place: 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.ranking.strategies.settings import NoSettings, read_settings
from trimtab.ranking.strategies.view import Ranks, View
from trimtab.snapshot.columns import IntColumn

BEST = 100.0


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Ranks pods by how far their place is from the best score."""

    name: ClassVar[str] = "Scheduled"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Scheduled:
        """As a policy wants it."""
        read_settings(NoSettings, args, cls.name)
        return cls()

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """What each pod's score lacks to the best."""
        scores = np.where(view.placed(rows), view.values(rows, view.scores), 0.0)
        return BEST - np.clip(scores, 0.0, BEST)
