"""Metrics of the admission server: reviews, their outcomes and durations, and the connections it closed."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from trimtab.admission.connections import CloseReason

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.25, 3.0)


class ReviewOutcome(StrEnum):
    """How a review ended."""

    ALLOWED = "allowed"
    DENIED = "denied"
    LATE = "late"
    """Admitted without a decision, because the budget was exceeded."""
    FAILED = "failed"
    """Admitted without a decision, because the hook failed."""
    BUSY = "busy"
    """Admitted without a decision, because too many reviews were in flight."""
    NOT_READY = "not-ready"
    """Admitted without a decision, because the feature behind the hook is not ready."""
    MALFORMED = "malformed"
    """Refused, because the body was no AdmissionReview."""

    @classmethod
    def of(cls, *, allowed: bool) -> ReviewOutcome:
        """The outcome of a decision."""
        return cls.ALLOWED if allowed else cls.DENIED


class Metrics:
    """The metrics of one server."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._reviews = Counter(
            "trimtab_webhook_reviews_total",
            "Admission reviews by outcome; late, failed, busy and not-ready ones were admitted without a decision.",
            ("hook", "outcome"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "trimtab_webhook_review_duration_seconds",
            "Duration of admission reviews in seconds.",
            ("hook",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "trimtab_webhook_reviews_in_flight", "Admission reviews that are being decided.", registry=self.registry
        )
        self._closed = Counter(
            "trimtab_webhook_connections_closed_total",
            "Connections that the webhook port closed, by reason: its limits, failed TLS handshakes, and idle ones.",
            ("reason",),
            registry=self.registry,
        )
        self._certificate = Gauge(
            "trimtab_webhook_certificate_expiry_timestamp_seconds",
            "When the webhooks' certificate expires, in seconds since 1970; 0 if there is none.",
            registry=self.registry,
        )

    def watch_certificate(self, expiry: Callable[[], float]) -> None:
        """Set the function that tells when the certificate expires; it is called on each scrape."""
        self._certificate.set_function(expiry)

    def watch_in_flight(self, count: Callable[[], float]) -> None:
        """Set the function that counts the reviews in flight; it is called on each scrape."""
        self._in_flight.set_function(count)

    def answered(self, hook: str, outcome: ReviewOutcome, seconds: float) -> None:
        """Record an answered review."""
        self._reviews.labels(hook, outcome.value).inc()
        self._seconds.labels(hook).observe(seconds)

    def closed(self, reason: CloseReason) -> None:
        """Record a connection that the server closed."""
        self._closed.labels(reason.value).inc()
