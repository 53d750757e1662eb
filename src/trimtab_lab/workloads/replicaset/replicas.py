"""How many pods a ReplicaSet has too many or too few, and its status. Pure."""

from __future__ import annotations

from trimtab.api import codec, selectors
from trimtab.api.apps import ReplicaSet, ReplicaSetStatus
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.pods import PodTemplateSpec
from trimtab.api.selectors import Selector
from trimtab.kube import conditions
from trimtab_lab.workloads.replicaset.podcounts import PodCounts

REPLICA_FAILURE = "ReplicaFailure"
FAILED_CREATE, FAILED_DELETE = "FailedCreate", "FailedDelete"


def surplus(replicaset: ReplicaSet, active: int, burst: int) -> int:
    """How many pods to delete, or to create if negative, within the burst limit."""
    return max(-burst, min(active - replicaset.desired_replicas, burst))


def template_labels(replicaset: ReplicaSet) -> Selector:
    """A selector for pods with all labels of the template."""
    template = replicaset.spec.template
    return selectors.from_labels(codec.view(template, PodTemplateSpec).metadata.labels if template else {})


def status(
    replicaset: ReplicaSet, counts: PodCounts, failure: str | None, now: int, *, counts_terminating: bool = True
) -> ReplicaSetStatus:
    """The status to report; `failure` is the error of creating or deleting pods, if any."""
    return ReplicaSetStatus(
        replicas=counts.active,
        fully_labeled_replicas=counts.fully_labeled,
        ready_replicas=counts.ready,
        available_replicas=counts.available,
        terminating_replicas=counts.terminating if counts_terminating else None,
        observed_generation=replicaset.metadata.generation,
        conditions=_conditions(replicaset, counts.active, failure, now),
    )


def _conditions(replicaset: ReplicaSet, active: int, failure: str | None, now: int) -> tuple[Condition, ...]:
    """The conditions: the first failure stays until there is none."""
    known = replicaset.status.conditions
    if failure is None:
        return conditions.drop(known, REPLICA_FAILURE)
    if conditions.find(known, REPLICA_FAILURE) is not None:
        return known
    difference = active - replicaset.desired_replicas
    failed = Condition(
        type=REPLICA_FAILURE,
        status=conditions.TRUE,
        reason=FAILED_CREATE if difference < 0 else FAILED_DELETE if difference > 0 else "",
        message=failure,
        last_transition_time=conditions.moment(now),
    )
    return conditions.put(known, failed)


def status_tree(status: ReplicaSetStatus) -> JSON:
    """The status as written: all numbers, zeros included, so that no old value is left."""
    tree: JSON = {
        "replicas": status.replicas,
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "observedGeneration": status.observed_generation,
        "conditions": conditions.trees(status.conditions),
    }
    if status.terminating_replicas is not None:
        tree["terminatingReplicas"] = status.terminating_replicas
    return tree


def recheck_in(replicaset: ReplicaSet, counts: PodCounts) -> float | None:
    """Seconds until a pod becomes available by the passing of time."""
    min_ready_seconds = replicaset.spec.min_ready_seconds
    if min_ready_seconds <= 0 or counts.ready == counts.available:
        return None
    return float(min_ready_seconds) if counts.next_available is None else counts.next_available
