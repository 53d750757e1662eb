"""What operators graph of UnitedTopologies: how often statuses are written, and what did not go as it should."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """The metrics of UnitedTopologies in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._writes = self._counter("status_writes", "Statuses that were written by the controller.")
        self._conflicts = self._counter("status_conflicts", "Statuses that somebody else had written meanwhile.")
        self._pods = self._counter("pod_writes", "Pods whose mark or cost was written, by why.", "reason")
        self._moved = self._counter("pods_moved", "Pods that were deleted because their subset had no node for them.")
        self._expired = self._counter("reservations_expired", "Places that were reserved for pods that never came.")
        self._taken_back = self._counter("deletions_taken_back", "Deletions that were announced and did not happen.")
        self._topologies = Gauge(
            "trimtab_unitedtopology_topologies", "UnitedTopologies there are.", registry=self.registry
        )

    def watch_topologies(self, count: Callable[[], float]) -> None:
        """How many there are, asked when somebody looks."""
        self._topologies.set_function(count)

    def written(self) -> None:
        """A status was written."""
        self._writes.inc()

    def conflicted(self) -> None:
        """Somebody else was first."""
        self._conflicts.inc()

    def pods_written(self, count: int, reason: str) -> None:
        """So many pods were written to."""
        if count:
            self._pods.labels(reason).inc(count)

    def moved(self, count: int) -> None:
        """So many pods were deleted for others to come elsewhere."""
        self._moved.inc(count)

    def settled(self, *, expired: int, taken_back: int) -> None:
        """Entries that ended without what they announced."""
        self._expired.inc(expired)
        self._taken_back.inc(taken_back)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"trimtab_unitedtopology_{name}_total", text, labels, registry=self.registry)
