"""Metrics of the CloneSet controller."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The metrics of one controller; without a registry they are not exposed."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.created = Counter("trimtab_cloneset_pods_created", "Pods created for CloneSets.", registry=registry)
        self.deleted = Counter(
            "trimtab_cloneset_pods_deleted",
            "Pods of CloneSets deleted, by the step of the plan.",
            ["step"],
            registry=registry,
        )
        self.age_ratio = Histogram(
            "trimtab_cloneset_sorting_deletion_age_ratio",
            "Age of a pod that a scale-down deleted because of its age, divided by that of the youngest ready pod.",
            buckets=(0.25, 0.5, 1, 2, 4, 8),
            registry=registry,
        )
        self.failures = Counter("trimtab_cloneset_failures", "Reconciles of CloneSets that failed.", registry=registry)
        self.waits = Counter(
            "trimtab_cloneset_rank_waits", "Scale-downs that were delayed because pods had no rank.", registry=registry
        )
        self.fallbacks = Counter(
            "trimtab_cloneset_rank_fallbacks",
            "Scale-downs that ignored ranks because some were missing or outdated.",
            registry=registry,
        )
        self.active = Gauge(
            "trimtab_cloneset_active",
            "1 if Trimtab manages CloneSets, 0 if OpenKruise does or the kind is missing.",
            registry=registry,
        )
