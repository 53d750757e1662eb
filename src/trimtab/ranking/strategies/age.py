"""Youngest and Oldest: by time of creation.

The two are not each other's mirror, and for a reason: a rank should not move when another pod comes or goes. A new pod
is always the youngest. So `Youngest` can count from the oldest pod (1, 2, 3, …): a new pod takes the next number, and
the pod that goes had the highest. Counted from the other end, every new pod would change all ranks; so `Oldest` ranks
by age itself, in hours unless configured otherwise. Ages grow, but all by the same, and the order stays.

With `Youngest`, a pod that goes out of turn lowers the ranks of those created after it by one (as in `balance`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from trimtab.api.model import Model
from trimtab.ranking.strategies.balance import places
from trimtab.ranking.strategies.settings import NoSettings, read_settings
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

_SECOND = 10**9


@dataclass(frozen=True, slots=True)
class Youngest:
    """Ranks pods by how many of the group are older."""

    name: ClassVar[str] = "Youngest"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Youngest:
        """As a policy wants it."""
        read_settings(NoSettings, args, cls.name)
        return cls()

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The place of each pod in the order of creation, from 1 for the oldest."""
        ranks: FloatColumn = np.full(len(view.snapshot.pods), UNRANKED)
        ranks[view.rows] = places(view, np.zeros(len(view.rows), dtype=np.int64))
        return ranks[rows]


class OldestSettings(Model):
    """How ages are counted."""

    unit_seconds: Annotated[
        int, Meta(description="how many seconds of age make one rank: from 1 to 86400", ge=1, le=86_400)
    ] = 3600


@dataclass(frozen=True, slots=True)
class Oldest:
    """Ranks pods by their age."""

    name: ClassVar[str] = "Oldest"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: OldestSettings = field(default_factory=OldestSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Oldest:
        """As a policy wants it."""
        return cls(read_settings(OldestSettings, args, cls.name))

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The age of each pod in units; 0 for one that seems to come from the future, as clocks differ."""
        ages: FloatColumn = (view.now_ns - view.created(rows)) / (self.settings.unit_seconds * _SECOND)
        return np.maximum(ages, 0.0)
