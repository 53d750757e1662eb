"""Stated: a cost that the application states itself.

Only a worker knows what would be lost with it: a job that has run for hours, a cache that is warm. It writes that into
an annotation of its pod, or answers it when asked (an argument, which counts before the annotation). As with
`pod-deletion-cost`, **the lower cost goes first**: the rank is the cost with its sign turned. An application that
states the contrary (how dispensable it is) sets `order: HighestFirst`.

What is not a plain decimal number (`12`, `-3`, `0.5`) is unranked: guessing what was meant could cost the very pod
that had most to lose. A pod that states nothing is unranked too, unless `default` says what that means.

The annotations that Trimtab writes itself cannot be read: its costs would then be made from its costs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from trimtab.api.annotations import ALPHA_COST, DELETION_COST, STATED_COST
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.ranking.strategies.settings import check_key, read_settings
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")


class StatedSettings(Model):
    """Where the cost stands, and how it is read."""

    annotation: Annotated[str, Meta(description="the annotation in which the pods state their cost")] = STATED_COST
    order: Annotated[
        Literal["LowestFirst", "HighestFirst"], Meta(description="which pod goes first: LowestFirst or HighestFirst")
    ] = "LowestFirst"
    default: Annotated[
        Annotated[float, Meta(ge=-1e15, le=1e15)] | None,
        Meta(description="what a pod counts that states nothing: a number; without it such a pod is unranked"),
    ] = None


@dataclass(frozen=True, slots=True)
class Stated:
    """Ranks pods by what they say it would cost to delete them."""

    name: ClassVar[str] = "Stated"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: StatedSettings = field(default_factory=StatedSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Stated:
        """As a policy wants it."""
        settings = read_settings(StatedSettings, args, cls.name)
        check_key("annotation", settings.annotation, STATED_COST)
        if settings.annotation in (DELETION_COST, ALPHA_COST):
            reason = f'"{settings.annotation}" is where Trimtab writes; write another annotation, such as {STATED_COST}'
            raise InvalidError("args.annotation", reason)
        return cls(settings)

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The cost of each pod, turned so that who should go first ranks highest."""
        asked = view.values(rows, view.stated)
        costs = np.where(np.isnan(asked), self._annotated(rows, view), asked)
        return costs if self.settings.order == "HighestFirst" else 0.0 - costs  # never -0.0

    def _annotated(self, rows: IntColumn, view: View) -> FloatColumn:
        name = self.settings.annotation
        absent = UNRANKED if self.settings.default is None else self.settings.default
        texts = (pod.metadata.annotations.get(name) for pod in view.pods(rows))
        return np.array([absent if text is None else number(text) for text in texts], dtype=np.float64)


def number(text: str) -> float:
    """The number that is written here; NaN where it is not one."""
    return float(text) if _NUMBER.fullmatch(text) else UNRANKED
