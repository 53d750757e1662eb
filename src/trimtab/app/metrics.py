"""Metrics of the process, whichever components it runs."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._clock_offset = Gauge(
            "trimtab_clock_offset_seconds",
            "Seconds by which this process's clock is ahead of the API server's (negative: behind it).",
            registry=registry,
        )
        self._unreadable = Counter(
            "trimtab_unreadable_objects_total",
            "Versions of objects that could not be read and were skipped, by kind.",
            ("kind",),
            registry=registry,
        )
        self._ignored_rules = Counter(
            "trimtab_ignored_rules_total",
            "Objects (of pods, one of each template) of which some rules are ignored, because they are invalid or too "
            "many, by kind.",
            ("kind",),
            registry=registry,
        )
        self._list_fallbacks = Counter(
            "trimtab_list_fallbacks_total",
            "Lists that were read in pages, as the API server refused to stream them or the stream failed, by kind and "
            "reason.",
            ("kind", "reason"),
            registry=registry,
        )
        self._dropped_events = Counter(
            "trimtab_events_dropped_total",
            "Kubernetes events that were not written, by component and reason.",
            ("component", "reason"),
            registry=registry,
        )
        self._lag = Histogram(
            "trimtab_event_loop_lag_seconds",
            "Seconds by which the event loop was late, measured fifty times a second: for so long it did nothing else.",
            buckets=_LAGS,
            registry=registry,
        )
        self._work = Histogram(
            "trimtab_event_loop_work_seconds",
            "Seconds of trimtab_event_loop_lag_seconds in which the event loop worked, at most; for the rest it waited "
            "for a processor, or for other threads of the process.",
            buckets=_LAGS,
            registry=registry,
        )

        self._ready = Gauge(
            "trimtab_ready",
            "1 if the process is ready, as /readyz reports it, otherwise 0.",
            registry=registry,
        )
        self._leader = Gauge(
            "trimtab_leader",
            "1 if this process holds the lease, otherwise 0.",
            ("lease",),
            registry=registry,
        )

    def watch_readiness(self, is_ready: Callable[[], bool]) -> None:
        """Set the function that tells whether the process is ready; it is called on each scrape."""
        self._ready.set_function(is_ready)

    def watch_leader(self, lease: str, is_leader: Callable[[], bool]) -> None:
        """Set the function that tells whether this process holds a lease; a later one replaces it."""
        self._leader.labels(lease).set_function(is_leader)

    def watch_clock_offset(self, offset: Callable[[], float]) -> None:
        """Set the function that measures the offset; it is called on each scrape."""
        self._clock_offset.set_function(offset)

    def count_unreadable(self, kind: str) -> None:
        """Count a version of an object that could not be read."""
        self._unreadable.labels(kind).inc()

    def count_ignored_rules(self, kind: str) -> None:
        """Count an object of which some rules are ignored."""
        self._ignored_rules.labels(kind).inc()

    def count_list_fallback(self, kind: str, reason: str) -> None:
        """Count a list that was read in pages."""
        self._list_fallbacks.labels(kind, reason).inc()

    def count_dropped_event(self, component: str, reason: str) -> None:
        """Count an event that was not written."""
        self._dropped_events.labels(component, reason).inc()

    def observe_lag(self, seconds: float, work: float) -> None:
        """Record how late the event loop was, and for how much of that it worked."""
        self._lag.observe(seconds)
        self._work.observe(work)
