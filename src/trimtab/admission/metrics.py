"""What operators graph of the admission edge: how many reviews, how they ended, how long they took."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


class Outcome(StrEnum):
    """How a review ended."""

    ALLOWED = "allowed"
    DENIED = "denied"
    LATE = "late"
    """Admitted, because the budget was spent."""
    FAILED = "failed"
    """Admitted, because the hook failed."""
    BUSY = "busy"
    """Admitted, because too many others were under way."""
    MALFORMED = "malformed"
    """Refused, because it was no review."""

    @classmethod
    def of(cls, *, allowed: bool) -> Outcome:
        """The outcome of a decision."""
        return cls.ALLOWED if allowed else cls.DENIED


class Metrics:
    """The metrics of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._reviews = Counter(
            "trimtab_webhook_reviews_total",
            "Reviews by how they ended; late, failed and busy ones were admitted without a decision.",
            ("hook", "outcome"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "trimtab_webhook_review_duration_seconds",
            "Seconds that a review took.",
            ("hook",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._under_way = Gauge(
            "trimtab_webhook_reviews_under_way", "Reviews that are being decided.", registry=self.registry
        )

    def watch_under_way(self, count: Callable[[], float]) -> None:
        """How many reviews are being decided, read when somebody looks."""
        self._under_way.set_function(count)

    def answered(self, hook: str, outcome: Outcome, seconds: float) -> None:
        """A review ended."""
        self._reviews.labels(hook, outcome.value).inc()
        self._seconds.labels(hook).observe(seconds)
