"""What the pods of a ReplicaSet amount to: how many are missing, how many may be used, what its status says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trimtab.api import codec, selectors
from trimtab.api.apps import ReplicaSet, ReplicaSetStatus
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.pods import Pod, PodTemplateSpec
from trimtab.kube.clocks import SECOND
from trimtab.lab.workloads import conditions
from trimtab.snapshot.pods import NEVER, nanoseconds

REPLICA_FAILURE = "ReplicaFailure"
FAILED_CREATE, FAILED_DELETE = "FailedCreate", "FailedDelete"


def wanted(replicaset: ReplicaSet) -> int:
    """How many pods it is to have; an API server says 1 where nobody says."""
    return 1 if replicaset.spec.replicas is None else replicaset.spec.replicas


def surplus(replicaset: ReplicaSet, active: int, burst: int) -> int:
    """How many pods are to go, or, where it is negative, to be made; no more than so many at once."""
    return max(-burst, min(active - wanted(replicaset), burst))


def batches(count: int) -> Iterator[int]:
    """The sizes of the batches that pods are made in: 1, 2, 4, … so that what must fail fails once, not 500 times."""
    size = 1
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2


def is_available(pod: Pod, min_ready_seconds: int, now: int) -> bool:
    """Whether a pod has been ready for long enough to be relied on."""
    if not pod.ready:
        return False
    due = _due(pod, min_ready_seconds)
    return min_ready_seconds == 0 or (due is not None and due <= now)


def is_terminating(pod: Pod) -> bool:
    """Whether a pod is on its way out and still runs."""
    return pod.terminating and not pod.finished


def next_available(pods: Iterable[Pod], min_ready_seconds: int, now: int) -> float | None:
    """In how many seconds the next of these pods will have been ready for long enough."""
    waits = [due - now for pod in pods if pod.ready and (due := _due(pod, min_ready_seconds)) is not None and due > now]
    return min(waits) / SECOND if waits else None


def _due(pod: Pod, min_ready_seconds: int) -> int | None:
    """When a ready pod becomes, or became, available; not known where nobody said since when it is ready."""
    ready = pod.status.condition("Ready")
    since = NEVER if ready is None else nanoseconds(ready.last_transition_time)
    return None if since == NEVER else since + min_ready_seconds * SECOND


def status(
    replicaset: ReplicaSet,
    active: Sequence[Pod],
    terminating: int | None,
    failure: str | None,
    now: int,
) -> ReplicaSetStatus:
    """What is to be reported; `failure` is what went wrong with making or deleting pods, if anything did."""
    spec = replicaset.spec
    template = codec.view(spec.template, PodTemplateSpec) if spec.template else PodTemplateSpec()
    labels = selectors.from_labels(template.metadata.labels)
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.matches(pod.metadata.labels) for pod in active),
        ready_replicas=sum(pod.ready for pod in active),
        available_replicas=sum(is_available(pod, spec.min_ready_seconds, now) for pod in active),
        terminating_replicas=terminating,
        observed_generation=replicaset.metadata.generation,
        conditions=_conditions(replicaset, len(active), failure, now),
    )


def _conditions(replicaset: ReplicaSet, active: int, failure: str | None, now: int) -> tuple[Condition, ...]:
    """The first failure stays until there is none: what is tried again fails in the same way, or in another."""
    known = replicaset.status.conditions
    if failure is None:
        return conditions.drop(known, REPLICA_FAILURE)
    if conditions.find(known, REPLICA_FAILURE) is not None:
        return known
    difference = active - wanted(replicaset)
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


def recheck_in(replicaset: ReplicaSet, status: ReplicaSetStatus, active: Iterable[Pod], now: int) -> float | None:
    """When to look again for a pod that becomes available by nothing but time."""
    patience = replicaset.spec.min_ready_seconds
    if patience <= 0 or status.ready_replicas == status.available_replicas:
        return None
    found = next_available(active, patience, now)
    return float(patience) if found is None else found
