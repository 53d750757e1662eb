"""What operators graph of a ReplicaSet controller."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Histogram


class Metrics:
    """The metrics of one controller manager.

    `sorting_deletion_age_ratio` has the name and the buckets of kube-controller-manager's. Only victims whose age
    decided count, and the ratio is a fraction: the original counts all ready ones, and divides whole numbers.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._age_ratio = Histogram(
            "sorting_deletion_age_ratio",
            "Age of a pod that was chosen to be deleted by its age, divided by that of the youngest ready pod then.",
            subsystem="replicaset_controller",
            buckets=(0.25, 0.5, 1, 2, 4, 8),
            registry=self.registry,
        )

    def victims_chosen(self, age_ratios: Iterable[float]) -> None:
        """Pods were chosen to go; these are the ratios of those whose age decided."""
        for ratio in age_ratios:
            self._age_ratio.observe(ratio)
