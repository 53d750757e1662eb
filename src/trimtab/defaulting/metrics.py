"""Metrics of default constraints at admission."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from trimtab.defaulting.deduction import Result


class Metrics:
    """What was done with new pods, in one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._pods = Counter(
            "trimtab_defaulting_pods",
            "New pods of the namespaces that are chosen for default constraints at admission, by result.",
            ["result"],
            registry=self.registry,
        )

    def record(self, result: Result) -> None:
        """Count a pod."""
        self._pods.labels(result.value).inc()
