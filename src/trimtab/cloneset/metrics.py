"""What the CloneSet controller counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """Counters of one controller; without a registry they are kept, and shown to nobody."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.created = Counter("trimtab_cloneset_pods_created", "Pods made for CloneSets.", registry=registry)
        self.deleted = Counter(
            "trimtab_cloneset_pods_deleted", "Pods of CloneSets deleted, by what for.", ["step"], registry=registry
        )
        self.failures = Counter("trimtab_cloneset_failures", "Reconciles of CloneSets that failed.", registry=registry)
        self.waits = Counter(
            "trimtab_cloneset_rank_waits", "Scale-downs that were held up for ranks.", registry=registry
        )
        self.fallbacks = Counter(
            "trimtab_cloneset_rank_fallbacks", "Scale-downs that ignored ranks.", registry=registry
        )
        self.active = Gauge(
            "trimtab_cloneset_active", "Whether CloneSets are looked after: 0 where OpenKruise does.", registry=registry
        )
