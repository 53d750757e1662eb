"""Probe: each pod is asked what it would cost to delete it.

A worker that has run for hours knows what would be lost with it, and how much that is changes by the minute: an
annotation would have to be written all the time. So the pod answers a plain HTTP request with a number, and is asked
periodically in the background (see `scaledown.sources`); its last answer is an argument. As with
`pod-deletion-cost`, **the lower cost goes first**: a worker without work answers 0, and the longer its job has run, the
dearer it gets. An application that answers the contrary (how dispensable it is) sets `order: HighestFirst`.

A pod that has not answered, or not lately, is unranked: it may be the busiest of all. One that has no node yet has
nothing to lose, and is not asked: it goes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.ranking.strategies.settings import read_settings
from trimtab.ranking.strategies.view import FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

FIRST = 1e15
"""The rank of who has nothing to lose; what pods answer is smaller (see `sources`)."""

_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@/-]{0,255}")


class ProbeSettings(Model):
    """Where a pod is asked, how often, and how the answer is read."""

    port: Annotated[int, Meta(description="the port on which pods answer: from 1 to 65535", ge=1, le=65_535)] = 8080
    path: Annotated[str, Meta(description="the path that is asked for, such as /cost")] = "/cost"
    period_seconds: Annotated[
        int, Meta(description="how often a pod is asked, in seconds: from 5 to 3600", ge=5, le=3600)
    ] = 15
    timeout_seconds: Annotated[
        int, Meta(description="how long an answer may take, in seconds: from 1 to 10", ge=1, le=10)
    ] = 1
    max_age_seconds: Annotated[
        int, Meta(description="how old an answer may be before it counts as none: from 5 to 86400", ge=5, le=86_400)
    ] = 60
    order: Annotated[
        Literal["LowestFirst", "HighestFirst"], Meta(description="which pod goes first: LowestFirst or HighestFirst")
    ] = "LowestFirst"


@dataclass(frozen=True, slots=True)
class Probe:
    """Ranks pods by what they answer."""

    name: ClassVar[str] = "Probe"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: ProbeSettings = field(default_factory=ProbeSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Probe:
        """As a policy wants it."""
        settings = read_settings(ProbeSettings, args, cls.name)
        if _PATH.fullmatch(settings.path) is None or ".." in settings.path or "//" in settings.path:
            raise InvalidError("args.path", f'"{settings.path}" is not a plain path; write one such as /cost')
        if settings.max_age_seconds < settings.period_seconds:
            reason = (
                f"{settings.max_age_seconds} is less than periodSeconds, so that answers would be missing in between"
            )
            raise InvalidError("args.maxAgeSeconds", f"{reason}; write at least {settings.period_seconds}")
        return cls(settings)

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """What each pod answered, turned so that who should go first ranks highest."""
        answers = view.values(rows, view.stated)
        ranks: FloatColumn = answers if self.settings.order == "HighestFirst" else 0.0 - answers  # never -0.0
        return np.where(view.placed(rows), ranks, FIRST)
