"""Metrics of UnitedTopologies: status writes, changes of pods, and entries that ended without their event."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BATCH_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class RefusalReason(StrEnum):
    """Why a pod whose workload has subsets got no reservation, and was admitted without a subset."""

    OWNER_NOT_FOUND = "owner-not-found"
    """Its owner does not exist with that UID: the review may be forged."""
    NOT_WANTED = "not-wanted"
    """Its owner wants no more pods than it has, or the status has no space."""


class Doubt(StrEnum):
    """Why it is not known whether a node can take a pod in a subset, so that the pod takes the subset."""

    NOT_FILLED = "not-filled"
    """The caches of the simulation are not filled yet."""
    UNREADABLE = "unreadable"
    """The pod cannot be decoded."""
    NOT_EVALUATED = "not-evaluated"
    """The pod has volumes or devices, which simulations do not evaluate."""
    LARGE = "large"
    """The pod is so large that a simulation would keep other requests waiting."""
    NO_TIME = "no-time"
    """The pods of its batch have used the time for simulations."""


class Metrics:
    """The metrics of the controller, and of annotations written to pods, in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._writes = self._counter("status_writes", "Status updates by the controller.")
        self._conflicts = self._counter("status_conflicts", "Status updates by the controller that conflicted.")
        self._pods = self._counter("pod_writes", "Pods whose annotations were written, by reason.", "reason")
        self._rescheduled = self._counter("pods_rescheduled", "Pods deleted because no node of their subset fits.")
        self._returned = self._counter("pods_returned", "Pods evicted because an earlier subset has room again.")
        self._expired = self._counter("reservations_expired", "Reservations whose pods were never stored.")
        self._reverted = self._counter("deletions_reverted", "Announced deletions that did not happen.")
        self._topologies = Gauge(
            "trimtab_unitedtopology_topologies", "UnitedTopologies in the cluster.", registry=self.registry
        )

    def watch_topologies(self, count: Callable[[], float]) -> None:
        """Export how many UnitedTopologies there are."""
        self._topologies.set_function(count)

    def record_write(self) -> None:
        """Count a status update."""
        self._writes.inc()

    def record_conflict(self) -> None:
        """Count a status update that conflicted."""
        self._conflicts.inc()

    def record_pods(self, count: int, reason: str) -> None:
        """Count pods that were written."""
        if count:
            self._pods.labels(reason).inc(count)

    def record_rescheduled(self) -> None:
        """Count a pod that was deleted so that its successor goes to another subset."""
        self._rescheduled.inc()

    def record_returned(self) -> None:
        """Count a pod that was evicted so that its successor goes to an earlier subset."""
        self._returned.inc()

    def record_entries(self, *, expired: int, reverted: int) -> None:
        """Count entries of the status that ended without what they announced."""
        self._expired.inc(expired)
        self._reverted.inc(reverted)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"trimtab_unitedtopology_{name}_total", text, labels, registry=self.registry)


class AdmissionMetrics:
    """The metrics of reservations in the admission half of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._writes = Counter(
            "trimtab_subset_status_writes_total",
            "Conditional status updates of UnitedTopologies by the webhooks, by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        self._batch = Histogram(
            "trimtab_subset_batch_pods",
            "Pods that shared a status update.",
            buckets=_BATCH_SIZES,
            registry=self.registry,
        )
        self._withdrawn = Counter(
            "trimtab_subset_reservations_withdrawn_total",
            "Reservations withdrawn because the pod was admitted without them.",
            registry=self.registry,
        )
        self._refused = Counter(
            "trimtab_subset_reservations_refused_total",
            "Pods admitted without a subset because no owner wants them, by reason; such reviews may be forged.",
            ("reason",),
            registry=self.registry,
        )

        self._doubts = Counter(
            "trimtab_subset_simulations_skipped_total",
            "Pods that took a subset of an Adaptive UnitedTopology without knowing whether a node fits, by reason.",
            ("reason",),
            registry=self.registry,
        )

    def record_doubts(self, reason: Doubt, pods: int = 1) -> None:
        """Count pods that took a subset without knowing whether a node fits."""
        if pods:
            self._doubts.labels(reason.value).inc(pods)

    def record_refusals(self, reason: RefusalReason, pods: int = 1) -> None:
        """Count pods that got no reservation because no owner wants them."""
        if pods:
            self._refused.labels(reason.value).inc(pods)

    def record_write(self, pods: int) -> None:
        """Count a status update for so many pods."""
        self._writes.labels("written").inc()
        self._batch.observe(pods)

    def record_conflict(self) -> None:
        """Count a status update that conflicted."""
        self._writes.labels("conflict").inc()

    def record_withdrawal(self) -> None:
        """Count a withdrawn reservation."""
        self._withdrawn.inc()
