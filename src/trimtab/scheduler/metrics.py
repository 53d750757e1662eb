"""The scheduler's metrics, with kube-scheduler's names, labels and buckets.

Dashboards for kube-scheduler show Trimtab too. Metrics of what Trimtab does not do (preemption, permits, volumes) are
left out, and `scheduler_pending_events` is Trimtab's own. There are no goroutines here, but dashboards read the number
of bindings in flight from `scheduler_goroutines{operation="binding"}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_MAX_ATTEMPTS_LABEL = 15

_ATTEMPTS = "Attempts to schedule pods: 'unschedulable' if all nodes were refused, 'error' if the attempt failed."
_SLI = "Seconds from when a pod was first ready to be scheduled until it was bound, over all attempts."
_AFTER_FLUSH = "Pods that were scheduled only after the unschedulable timeout: a requeue hint may be missing."
_REFUSED = "Unschedulable pods by the plugin that refused them; a pod counts for each such plugin."
_PENDING_EVENTS = "Events of pods that wait to be written: those of bound pods wait while other pods are being bound."


class Result(StrEnum):
    """The result of an attempt."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


def _exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(start * factor**step for step in range(count))


class Metrics:
    """The metrics of one scheduler."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        attempt, pod = _exponential(0.001, 2, 15), _exponential(0.01, 2, 20)
        self._attempts = self._counter("schedule_attempts", _ATTEMPTS, "result", "profile")
        self._attempt_seconds = self._histogram(
            "scheduling_attempt_duration_seconds",
            attempt,
            "Duration of an attempt, binding included.",
            "result",
            "profile",
        )
        self._algorithm_seconds = self._histogram(
            "scheduling_algorithm_duration_seconds", attempt, "Duration of a decision."
        )
        self._sli_seconds = self._histogram("pod_scheduling_sli_duration_seconds", pod, _SLI, "attempts")
        self._pod_attempts = self._histogram(
            "pod_scheduling_attempts", _exponential(1, 2, 5), "Number of attempts until a pod was scheduled."
        )
        self._after_flush = self._counter("pod_scheduled_after_flush", _AFTER_FLUSH)
        self._point_seconds = self._histogram(
            "framework_extension_point_duration_seconds",
            _exponential(0.0001, 2, 12),
            "Duration of the plugins of an extension point.",
            *("extension_point", "status", "profile"),
        )
        self._incoming = self._counter(
            "queue_incoming_pods", "Pods that entered a queue, by the event that caused it.", "queue", "event"
        )
        self._refused = self._gauge("unschedulable_pods", _REFUSED, "plugin", "profile")
        self._pending = self._gauge("pending_pods", "Pods that wait for a node, by queue.", "queue")
        self._known = self._gauge("cache_size", "Nodes, pods and assumed pods in the snapshot.", "type")
        self._pending_events = self._gauge("pending_events", _PENDING_EVENTS)
        self._in_flight = self._gauge("goroutines", "Tasks in flight, by operation.", "operation")

    # Gauges that are read at each scrape.

    def watch_queue(self, lengths: Iterable[tuple[str, Callable[[], float]]]) -> None:
        """Export the length of each queue."""
        for queue, length in lengths:
            self._pending.labels(queue).set_function(length)

    def watch_known(self, sizes: Iterable[tuple[str, Callable[[], float]]]) -> None:
        """Export the size of the snapshot."""
        for kind, size in sizes:
            self._known.labels(kind).set_function(size)

    def watch_bindings(self, in_flight: Callable[[], float]) -> None:
        """Export the number of bindings in flight."""
        self._in_flight.labels("binding").set_function(in_flight)

    def watch_events(self, pending: Callable[[], float]) -> None:
        """Export the number of events that wait to be written."""
        self._pending_events.set_function(pending)

    # Counters and histograms.

    def count_incoming(self, queue: str, event: str) -> None:
        """Count a pod that entered a queue."""
        self._incoming.labels(queue, event).inc()

    def count_refused(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """Count one pod more (1) or less (-1) that waits because these plugins refused it."""
        for plugin in plugins:
            if plugin:
                self._refused.labels(plugin, profile).inc(sign)

    def observe_decision(self, seconds: float) -> None:
        """Observe the duration of a decision."""
        self._algorithm_seconds.observe(seconds)

    def count_attempt(self, result: Result, profile: str, seconds: float) -> None:
        """Count an attempt, and observe its duration."""
        self._attempts.labels(result.value, profile).inc()
        self._attempt_seconds.labels(result.value, profile).observe(seconds)

    def observe_binding(self, status: str, profile: str, seconds: float) -> None:
        """Observe the duration of a request to bind a pod."""
        self._point_seconds.labels("Bind", status, profile).observe(seconds)

    def count_scheduled(self, attempts: int, seconds: float, *, flushed: bool) -> None:
        """Count a pod that was bound after that many attempts and seconds."""
        self._pod_attempts.observe(attempts)
        self._sli_seconds.labels(
            str(attempts) if attempts < _MAX_ATTEMPTS_LABEL else f"{_MAX_ATTEMPTS_LABEL}+"
        ).observe(seconds)
        if flushed:
            self._after_flush.inc()

    # Constructors.

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"scheduler_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"scheduler_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Histogram:
        return Histogram(f"scheduler_{name}", text, labels, buckets=buckets, registry=self.registry)
