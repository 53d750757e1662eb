"""Idle: the pod with the least usage goes first.

Usage comes from outside, as a number for each pod; the controller hands in the CPU that a pod uses as a share of what
it requests (of one core, where it requests none). `busyAt` says which usage counts as wholly busy. The rank is how idle
a pod is in percent: 100 at no usage, 0 from `busyAt` on.

A pod without a measurement is unranked: not knowing is not the same as idle. One that has no node yet uses nothing,
and needs no measuring: 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from trimtab.api.model import Model
from trimtab.ranking.strategies.settings import read_settings
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

WHOLLY = 100.0


class IdleSettings(Model):
    """How usage is read."""

    busy_at: Annotated[
        float, Meta(description="the usage that counts as wholly busy: a number above 0", gt=0, le=1e12)
    ] = 1.0
    max_age_seconds: Annotated[
        int, Meta(description="how old a measurement may be before it counts as none: 10 to 86400", ge=10, le=86_400)
    ] = 180


@dataclass(frozen=True, slots=True)
class Idle:
    """Ranks pods by how idle they are, in percent."""

    name: ClassVar[str] = "Idle"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: IdleSettings = field(default_factory=IdleSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Idle:
        """As a policy wants it."""
        return cls(read_settings(IdleSettings, args, cls.name))

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """How far each pod is from busy; a negative usage is no measurement."""
        usage = np.where(view.placed(rows), view.values(rows, view.usage), 0.0)
        idle: FloatColumn = WHOLLY * np.maximum(1.0 - usage / self.settings.busy_at, 0.0)
        return np.where(usage < 0, UNRANKED, idle)
