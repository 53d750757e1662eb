"""What the pods of a ReplicaSet amount to: how many are missing or too many, and what its status says. Pure."""

from __future__ import annotations

from collections.abc import Iterator

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
    """How many pods are to go, or, where it is negative, to be made; no more than so many at once."""
    return max(-burst, min(active - replicaset.desired_replicas, burst))


def batches(count: int) -> Iterator[int]:
    """The sizes of the batches that pods are made in: 1, 2, 4, … so that what must fail fails once, not 500 times."""
    size = 1
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2


def template_labels(replicaset: ReplicaSet) -> Selector:
    """What matches pods with all labels of the template."""
    template = replicaset.spec.template
    return selectors.from_labels(codec.view(template, PodTemplateSpec).metadata.labels if template else {})


def status(
    replicaset: ReplicaSet, counts: PodCounts, failure: str | None, now: int, *, counts_terminating: bool = True
) -> ReplicaSetStatus:
    """What is to be reported; `failure` is what went wrong with making or deleting pods, if anything did."""
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
    """The first failure stays until there is none: what is tried again fails in the same way, or in another."""
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
    """A status as it is written: every number, zeros included, so that none of before is left."""
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
    """When to look again for a pod that becomes available by nothing but time."""
    patience = replicaset.spec.min_ready_seconds
    if patience <= 0 or counts.ready == counts.available:
        return None
    return float(patience) if counts.next_available is None else counts.next_available
