"""The two kinds that keep a number of pods, as one type: a ReplicationController is an older ReplicaSet.

It differs in its selector, and its status does not count terminating pods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from trimtab.api.apps import ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from trimtab.api.core import ReplicationController
from trimtab.api.meta import LabelSelector
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Object

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class WorkloadKind(Generic[T]):
    """A kind that keeps a number of pods."""

    resource: Resource[T]
    component: str
    """The component that its events come from."""
    view: Callable[[T], ReplicaSet]
    counts_terminating: bool


def from_replication_controller(controller: ReplicationController) -> ReplicaSet:
    """A ReplicationController as a ReplicaSet."""
    spec, status = controller.spec, controller.status
    return ReplicaSet(
        metadata=controller.metadata,
        spec=ReplicaSetSpec(
            replicas=spec.replicas,
            min_ready_seconds=spec.min_ready_seconds,
            selector=LabelSelector(match_labels=spec.selector) if spec.selector else None,
            template=spec.template,
        ),
        status=ReplicaSetStatus(
            replicas=status.replicas,
            fully_labeled_replicas=status.fully_labeled_replicas,
            ready_replicas=status.ready_replicas,
            available_replicas=status.available_replicas,
            observed_generation=status.observed_generation,
            conditions=status.conditions,
        ),
    )


REPLICASETS = WorkloadKind(Resource.of(ReplicaSet), "replicaset-controller", lambda replicaset: replicaset, True)
REPLICATION_CONTROLLERS = WorkloadKind(
    Resource.of(ReplicationController), "replication-controller", from_replication_controller, False
)
