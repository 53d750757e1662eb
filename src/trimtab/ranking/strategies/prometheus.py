"""Prometheus: the pod for which a query returns the lowest value goes first.

Many signals are measured already: how many jobs a worker has, how many connections, how full its queue is. The query
returns an instant vector with a label `pod`; Trimtab asks for it in the background, at the address in its configuration
(see `scaledown.sources.prometheus`), and keeps only the series of the workload's pods. As with `pod-deletion-cost`,
**the lower value goes first**; `order: HighestFirst` turns that.

The query is a policy's, so it may read the policy's namespace only: see `promql`. A pod that has no series, several, or
none lately is unranked. One that has no node yet has nothing to lose: it goes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.ranking.strategies import promql
from trimtab.ranking.strategies.probe import FIRST
from trimtab.ranking.strategies.settings import read_settings
from trimtab.ranking.strategies.signals import Signal
from trimtab.ranking.strategies.view import FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn

SOURCE = "Prometheus"
"""The name of the source."""


class PrometheusSettings(Model):
    """What is asked for, how often, and how the values are read."""

    query: Annotated[
        str,
        Meta(
            description="PromQL that returns one series for each pod, with a label pod; every selector has the matcher "
            'namespace="$namespace"'
        ),
    ] = 'sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="$namespace", pod=~"$pods"}[5m]))'
    unit: Annotated[
        float, Meta(description="how much of the value makes one rank: a number above 0", gt=0, le=1e12)
    ] = 1.0
    period_seconds: Annotated[
        int, Meta(description="how often Prometheus is asked, in seconds: from 5 to 3600", ge=5, le=3600)
    ] = 30
    max_age_seconds: Annotated[
        int, Meta(description="how old a value may be before it counts as none: from 5 to 86400", ge=5, le=86_400)
    ] = 120
    order: Annotated[
        Literal["LowestFirst", "HighestFirst"], Meta(description="which pod goes first: LowestFirst or HighestFirst")
    ] = "LowestFirst"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Ranks pods by what a query returns for them."""

    name: ClassVar[str] = "Prometheus"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: PrometheusSettings = field(default_factory=PrometheusSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Prometheus:
        """As a policy wants it."""
        settings = read_settings(PrometheusSettings, args, cls.name)
        try:
            promql.check(settings.query)
        except InvalidError as error:
            raise InvalidError("args.query", error.reason) from None
        if settings.max_age_seconds < settings.period_seconds:
            reason = f"{settings.max_age_seconds} is less than periodSeconds: values would be missing in between"
            raise InvalidError("args.maxAgeSeconds", f"{reason}; write at least {settings.period_seconds}")
        return cls(settings)

    @property
    def signal(self) -> Signal:
        """What the source is asked for."""
        settings = self.settings
        return Signal(SOURCE, settings.query, settings.period_seconds, settings.max_age_seconds)

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The value of each pod in units, turned so that who should go first ranks highest."""
        values = view.signal(rows, self.signal) / self.settings.unit
        ranks: FloatColumn = values if self.settings.order == "HighestFirst" else 0.0 - values  # never -0.0
        return np.where(view.placed(rows), ranks, FIRST)
