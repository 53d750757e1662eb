"""How the controllers are set up, with the names and values that kube-controller-manager has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from trimtab.api.errors import InvalidError
from trimtab.ranking import victims

FEATURE_GATES: Mapping[str, str] = {
    "LogarithmicScaleDown": "logarithmic_scale_down",
    "PodDeletionCost": "pod_deletion_cost",
}
"""The gates that can be switched, and the fields they switch. (A real 1.36 has the first one locked to on.)"""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of all controllers."""

    logarithmic_scale_down: bool = True
    pod_deletion_cost: bool = True
    burst_replicas: int = 500
    """How many pods of one workload are created or deleted before the controller looks again."""
    replicaset_workers: int = 5
    deployment_workers: int = 5

    @property
    def order(self) -> victims.Options:
        """What the order of victims depends on."""
        return victims.Options(logarithmic=self.logarithmic_scale_down, deletion_cost=self.pod_deletion_cost)

    def gated(self, gates: Mapping[str, bool]) -> Options:
        """The same with these feature gates switched, as `--feature-gates` names them."""
        unknown = sorted(set(gates) - set(FEATURE_GATES))
        if unknown:
            known = ", ".join(FEATURE_GATES)
            raise InvalidError(f"featureGates[{unknown[0]}]", f"there is no such gate here; there are {known}")
        return replace(self, **{FEATURE_GATES[name]: switched for name, switched in gates.items()})


STOCK = Options()
"""Kubernetes 1.36 as shipped."""
