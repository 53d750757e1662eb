"""The settings of the controllers, with the names and values of kube-controller-manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.api.errors import InvalidError
from trimtab.ranking import victims

FEATURE_GATES: Mapping[str, str] = {
    "LogarithmicScaleDown": "logarithmic_scale_down",
    "PodDeletionCost": "pod_deletion_cost",
}
"""The feature gates that can be set, and their fields. (In a real 1.36 the first one is locked to true.)"""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of all controllers."""

    logarithmic_scale_down: bool = True
    pod_deletion_cost: bool = True
    burst_replicas: int = 500
    """How many pods of one workload are created or deleted in one reconcile."""
    replicaset_workers: int = 5
    deployment_workers: int = 5

    @property
    def order(self) -> victims.Options:
        """The settings of the victim order."""
        return victims.Options(logarithmic=self.logarithmic_scale_down, deletion_cost=self.pod_deletion_cost)

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates of these options."""
        return {name: getattr(self, field) for name, field in FEATURE_GATES.items()}

    def gated(self, gates: Mapping[str, bool]) -> Options:
        """These options with feature gates set, as in `--feature-gates`."""
        unknown = sorted(set(gates) - set(FEATURE_GATES))
        if unknown:
            known = ", ".join(FEATURE_GATES)
            raise InvalidError(f"featureGates[{unknown[0]}]", f"is not a known feature gate; known ones are {known}")
        return replace(self, **{FEATURE_GATES[name]: switched for name, switched in gates.items()})


STOCK = Options()
"""The defaults of Kubernetes 1.36."""
