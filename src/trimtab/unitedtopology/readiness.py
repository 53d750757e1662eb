"""Whether a UnitedTopology is in effect, and its Ready condition. Pure.

| reason             | state                                                          | its pods                       |
|--------------------|----------------------------------------------------------------|--------------------------------|
| PodWebhookDisabled | the feature gate PodWebhook is off                             | annotations and costs reverted |
| Invalid            | the spec is invalid (it was stored while validation was off)   | left as they are               |
| TargetConflict     | an older UnitedTopology has the same target, or the target is  | annotations and costs reverted |
|                    | a ReplicaSet that another workload owns                        |                                |
| TargetInScheduling | the target's pods are disrupted as their scheduling group says | annotations and costs reverted |
| Group              |                                                                |                                |
| TargetNotFound     | the target does not exist                                      | there are none                 |
| Reconciled         | the pods of the target are allocated to subsets                | counted, annotated, ranked     |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from trimtab.api import unitedtopology
from trimtab.api.annotations import Reason
from trimtab.api.meta import Condition
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube import conditions
from trimtab.unitedtopology.targets import Target, creation_order

READY = "Ready"

REASONS = (
    Reason.POD_WEBHOOK_DISABLED,
    Reason.INVALID,
    Reason.TARGET_CONFLICT,
    Reason.TARGET_IN_SCHEDULING_GROUP,
    Reason.TARGET_NOT_FOUND,
    Reason.RECONCILED,
)
"""Every reason of the Ready condition."""


_REVERTING = frozenset({Reason.POD_WEBHOOK_DISABLED, Reason.TARGET_CONFLICT, Reason.TARGET_IN_SCHEDULING_GROUP})


@dataclass(frozen=True, slots=True)
class Readiness:
    """The reason and the message of the Ready condition."""

    reason: Reason
    message: str

    @property
    def is_effective(self) -> bool:
        """Whether pods are allocated to its subsets."""
        return self.reason in (Reason.RECONCILED, Reason.TARGET_NOT_FOUND)

    @property
    def must_revert(self) -> bool:
        """Whether annotations and costs must be removed from pods."""
        return self.reason in _REVERTING


class Cluster(Protocol):
    """The part of the cluster that readiness depends on."""

    def same_target(self, topology: UnitedTopology) -> list[UnitedTopology]:
        """All UnitedTopologies of the same workload."""
        ...

    def target(self, topology: UnitedTopology) -> Target | None:
        """The workload."""
        ...


Evaluate = Callable[[UnitedTopology, Cluster], Readiness]


def evaluator(
    *, pod_webhook: bool, allowed_fields: Collection[str] = (), owners: ReplicaSetOwners = DEPLOYMENTS
) -> Evaluate:
    """The function that evaluates UnitedTopologies in a process with this feature gate, with these privileged fields
    that patches may change, and with these kinds that own ReplicaSets."""

    def evaluate(topology: UnitedTopology, cluster: Cluster) -> Readiness:
        if not pod_webhook:
            message = "the feature gate PodWebhook is false, and UnitedTopology needs it"
            return Readiness(Reason.POD_WEBHOOK_DISABLED, message)
        problems = unitedtopology.problems(topology, allowed_fields=allowed_fields, owners=owners)
        message = "; ".join(map(str, problems))
        if message:
            return Readiness(Reason.INVALID, message)
        first = min(cluster.same_target(topology) or [topology], key=creation_order)
        reference = topology.spec.target_ref
        if first.metadata.uid != topology.metadata.uid:
            message = f"{first.metadata.name}, which is older, has the same target {reference.kind} {reference.name}"
            return Readiness(Reason.TARGET_CONFLICT, message)
        target = cluster.target(topology)
        if target is None:
            return Readiness(Reason.TARGET_NOT_FOUND, f"{reference.kind} {reference.name} does not exist")
        if target.parent:
            message = f"ReplicaSet {reference.name} belongs to {target.parent}; make that the target"
            return Readiness(Reason.TARGET_CONFLICT, message)
        if target.in_scheduling_group:
            message = f"the pods of {reference.kind} {reference.name} belong to a scheduling group (schedulingGroup)"
            message += ", which is disrupted as its PodGroup says; remove it from the template, or delete this object"
            return Readiness(Reason.TARGET_IN_SCHEDULING_GROUP, message)
        message = f"the pods of {reference.kind} {reference.name} are allocated to subsets"
        message += _shortfall(topology, target)
        return Readiness(Reason.RECONCILED, message)

    return evaluate


def _shortfall(topology: UnitedTopology, target: Target) -> str:
    """Which minima are not reached at the target's size, in words; empty where all are."""
    floors = sum(subset.min_replicas or 0 for subset in topology.spec.subsets)
    if floors <= target.replicas:
        return ""
    return f"; their minReplicas add up to {floors}, and it has {target.replicas} replicas: later subsets get fewer"


def with_condition(
    known: Iterable[Condition], readiness: Readiness, *, generation: int, now: int
) -> tuple[Condition, ...]:
    """The conditions with this readiness; a status that has not changed keeps its transition time."""
    before = tuple(known)
    condition = Condition(
        type=READY,
        status=conditions.TRUE if readiness.reason is Reason.RECONCILED else conditions.FALSE,
        reason=readiness.reason.value,
        message=readiness.message,
        last_transition_time=conditions.moment(now),
        observed_generation=generation,
    )
    old = conditions.find(before, READY)
    if old is not None and old.status == condition.status:
        condition = msgspec.structs.replace(condition, last_transition_time=old.last_transition_time)
    return (*conditions.drop(before, READY), condition)
