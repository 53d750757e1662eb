"""The metrics of the ReplicaSet and ReplicationController controllers."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram


class Metrics:
    """The metrics of one controller manager.

    `sorting_deletion_age_ratio` has the name and the buckets of kube-controller-manager's. Only victims that were
    chosen by age count, and the ratio is a fraction: the original counts all ready victims and divides integers.
    Deleted pods are counted because a rate that does not end is a reason to switch LogarithmicScaleDown off again.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._age_ratio = Histogram(
            "sorting_deletion_age_ratio",
            "Age of a pod that was chosen for deletion by its age, divided by that of the youngest ready pod.",
            subsystem="replicaset_controller",
            buckets=(0.25, 0.5, 1, 2, 4, 8),
            registry=self.registry,
        )

        self._deleted = Counter(
            "trimtab_lab_pods_deleted",
            "Pods that the lab's controllers have deleted, by the kind of workload.",
            ["kind"],
            registry=self.registry,
        )

    def pod_deleted(self, kind: str) -> None:
        """Count a pod of a workload of this kind that was deleted."""
        self._deleted.labels(kind).inc()

    def victims_chosen(self, age_ratios: Iterable[float]) -> None:
        """Record the age ratios of victims that were chosen by age."""
        for ratio in age_ratios:
            self._age_ratio.observe(ratio)
