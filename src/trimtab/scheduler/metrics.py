"""What operators graph of a scheduler, under the names, labels and buckets that kube-scheduler has.

A dashboard made for kube-scheduler shows Trimtab too. What Trimtab has no part in (preemption, permits, volumes) is
left out. There are no goroutines here, but `scheduler_goroutines{operation="binding"}` is what people look at to see
how many bindings are under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_MOST_ATTEMPTS = 15

_ATTEMPTS = "Attempts to schedule pods: 'unschedulable' if no node would do, 'error' if something failed."
_SLI = "Seconds from when a pod could first be tried until it was bound, however many attempts that took."
_AFTER_FLUSH = "Pods scheduled only because they had been kept aside for too long: a hint may be missing."
_REFUSED = "Pods that wait, by a plugin that refused them; a pod counts for each such plugin."


class Result(StrEnum):
    """What came of an attempt."""

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
            "scheduling_attempt_duration_seconds", attempt, "Seconds that an attempt took.", "result", "profile"
        )
        self._algorithm_seconds = self._histogram(
            "scheduling_algorithm_duration_seconds", attempt, "Seconds that deciding took."
        )
        self._sli_seconds = self._histogram("pod_scheduling_sli_duration_seconds", pod, _SLI, "attempts")
        self._pod_attempts = self._histogram(
            "pod_scheduling_attempts", _exponential(1, 2, 5), "Attempts that it took to schedule a pod."
        )
        self._after_flush = self._counter("pod_scheduled_after_flush", _AFTER_FLUSH)
        self._point_seconds = self._histogram(
            "framework_extension_point_duration_seconds",
            _exponential(0.0001, 2, 12),
            "Seconds that the plugins of an extension point took.",
            *("extension_point", "status", "profile"),
        )
        self._incoming = self._counter(
            "queue_incoming_pods", "Pods that came into a queue, and what brought them there.", "queue", "event"
        )
        self._refused = self._gauge("unschedulable_pods", _REFUSED, "plugin", "profile")
        self._pending = self._gauge("pending_pods", "Pods that wait, by queue.", "queue")
        self._known = self._gauge("cache_size", "Nodes, pods and assumed pods known.", "type")
        self._under_way = self._gauge("goroutines", "Pieces of work under way, by kind.", "operation")

    # What is read when somebody looks.

    def watch_queue(self, lengths: Iterable[tuple[str, Callable[[], float]]]) -> None:
        """How long each queue is."""
        for queue, length in lengths:
            self._pending.labels(queue).set_function(length)

    def watch_known(self, sizes: Iterable[tuple[str, Callable[[], float]]]) -> None:
        """How much is known of the cluster."""
        for kind, size in sizes:
            self._known.labels(kind).set_function(size)

    def watch_bindings(self, under_way: Callable[[], float]) -> None:
        """How many bindings are under way."""
        self._under_way.labels("binding").set_function(under_way)

    # What is counted when it happens.

    def incoming(self, place: str, event: str) -> None:
        """A pod came into a queue."""
        self._incoming.labels(place, event).inc()

    def refused(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """One pod more or less waits that these plugins refused."""
        for plugin in plugins:
            if plugin:
                self._refused.labels(plugin, profile).inc(sign)

    def decided(self, seconds: float) -> None:
        """Deciding about one pod took so long."""
        self._algorithm_seconds.observe(seconds)

    def attempted(self, result: Result, profile: str, seconds: float) -> None:
        """An attempt came to an end."""
        self._attempts.labels(result.value, profile).inc()
        self._attempt_seconds.labels(result.value, profile).observe(seconds)

    def bind_answered(self, status: str, profile: str, seconds: float) -> None:
        """The API server answered to a binding, or failed to, after so long."""
        self._point_seconds.labels("Bind", status, profile).observe(seconds)

    def scheduled(self, attempts: int, seconds: float, *, flushed: bool) -> None:
        """A pod is bound, so many attempts and seconds after it came."""
        self._pod_attempts.observe(attempts)
        self._sli_seconds.labels(str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+").observe(seconds)
        if flushed:
            self._after_flush.inc()

    # How they are made.

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"scheduler_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"scheduler_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], text: str, *labels: str) -> Histogram:
        return Histogram(f"scheduler_{name}", text, labels, buckets=buckets, registry=self.registry)
