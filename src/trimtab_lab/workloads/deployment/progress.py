"""The status of a Deployment and its conditions. Pure.

| type | status | reason | when |
|---|---|---|---|
| Available | True, False | MinimumReplicasAvailable, MinimumReplicasUnavailable | enough are available, or not |
| Progressing | Unknown | DeploymentPaused, DeploymentResumed | it was paused or resumed |
| Progressing | True | FoundNewReplicaSet, NewReplicaSetCreated | there is a ReplicaSet for its template |
| Progressing | False | ReplicaSetCreateError | it could not be created |
| Progressing | True | ReplicaSetUpdated | pods were created, became ready or available, or old ones were deleted |
| Progressing | True | NewReplicaSetAvailable | the rollout is complete |
| Progressing | False | ProgressDeadlineExceeded | no progress for longer than the deadline |
| ReplicaFailure | True | the ReplicaSet's | a ReplicaSet cannot create or delete pods |

Progress is evaluated only if there is a deadline, and until the rollout is complete. The deadline counts from the last
progress, or from the last pause.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trimtab.api.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from trimtab.api.documents import JSON
from trimtab.kube import conditions
from trimtab.kube.clocks import SECOND
from trimtab.kube.conditions import FALSE, TRUE, UNKNOWN
from trimtab.snapshot.pods import nanoseconds
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, total
from trimtab_lab.workloads.deployment.revisions import KEEP_ALL
from trimtab_lab.workloads.replicaset.replicas import REPLICA_FAILURE

Conditions = tuple[DeploymentCondition, ...]

AVAILABLE, PROGRESSING = "Available", "Progressing"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
FOUND, CREATED, CREATE_ERROR = "FoundNewReplicaSet", "NewReplicaSetCreated", "ReplicaSetCreateError"
UPDATED, COMPLETE, TIMED_OUT = "ReplicaSetUpdated", "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
ENOUGH, TOO_FEW = "MinimumReplicasAvailable", "MinimumReplicasUnavailable"


def condition(kind: str, status: str, reason: str, message: str, now: int) -> DeploymentCondition:
    """A condition as of now."""
    timestamp = conditions.moment(now)
    return DeploymentCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=timestamp,
        last_update_time=timestamp,
    )


def has_deadline(deployment: Deployment) -> bool:
    """Whether the Deployment has a progress deadline."""
    return deployment.spec.progress_deadline_seconds not in (None, KEEP_ALL)


# The Progressing condition before progress is evaluated.


def with_pause(deployment: Deployment, known: Conditions, now: int) -> Conditions:
    """The conditions after a pause has begun or ended. An exceeded deadline stays."""
    progressing = conditions.find(known, PROGRESSING)
    reason = progressing.reason if progressing else ""
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return known
    if deployment.spec.paused and reason != PAUSED:
        return conditions.put(known, condition(PROGRESSING, UNKNOWN, PAUSED, "Deployment is paused", now))
    if not deployment.spec.paused and reason == PAUSED:
        return conditions.put(known, condition(PROGRESSING, UNKNOWN, RESUMED, "Deployment is resumed", now))
    return known


def with_found(deployment: Deployment, known: Conditions, name: str, now: int) -> Conditions:
    """The conditions after the new ReplicaSet was found, if there is no Progressing condition."""
    if not has_deadline(deployment) or conditions.find(known, PROGRESSING) is not None:
        return known
    return conditions.put(known, condition(PROGRESSING, TRUE, FOUND, f'Found new replica set "{name}"', now))


def with_created(deployment: Deployment, known: Conditions, name: str, now: int) -> Conditions:
    """The conditions after the new ReplicaSet was created."""
    if not has_deadline(deployment):
        return known
    return conditions.put(known, condition(PROGRESSING, TRUE, CREATED, f'Created new replica set "{name}"', now))


def failure_status(deployment: Deployment, message: str, now: int) -> DeploymentStatus:
    """The status after the new ReplicaSet could not be created."""
    status = deployment.status
    if not has_deadline(deployment):
        return status
    failed = condition(PROGRESSING, FALSE, CREATE_ERROR, message, now)
    return msgspec.structs.replace(status, conditions=conditions.put(status.conditions, failed))


def collision_status(deployment: Deployment) -> DeploymentStatus:
    """The status after the name of the new ReplicaSet was found to be in use."""
    status = deployment.status
    return msgspec.structs.replace(status, collision_count=(status.collision_count or 0) + 1)


# The status.


def count_status(
    deployment: Deployment, limits: Limits, owned: OwnedReplicaSets, known: Conditions, now: int
) -> DeploymentStatus:
    """The counts, and whether enough pods are available."""
    sets = owned.all
    available = sum(each.status.available_replicas for each in sets)
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=owned.new.status.replicas if owned.new else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(0, total(sets) - available),
        terminating_replicas=_terminating(sets),
        collision_count=deployment.status.collision_count,
        conditions=conditions.put(known, _availability(limits, available, now)),
    )


def _availability(limits: Limits, available: int, now: int) -> DeploymentCondition:
    if available >= limits.min_available:
        return condition(AVAILABLE, TRUE, ENOUGH, "Deployment has minimum availability.", now)
    return condition(AVAILABLE, FALSE, TOO_FEW, "Deployment does not have minimum availability.", now)


def _terminating(sets: Iterable[ReplicaSet]) -> int | None:
    """The sum, or None if a ReplicaSet has reported without it: its controller does not count them."""
    found = 0
    for status in (each.status for each in sets):
        if status.terminating_replicas is not None:
            found += status.terminating_replicas
        elif status.observed_generation:
            return None
    return found


def with_progress(
    deployment: Deployment, owned: OwnedReplicaSets, known: Conditions, status: DeploymentStatus, now: int
) -> DeploymentStatus:
    """The status with the conditions of the rollout's progress; `known` are the conditions before."""
    found = status.conditions
    before = conditions.find(known, PROGRESSING)
    if not has_deadline(deployment):
        found = conditions.drop(found, PROGRESSING)
    elif not _was_complete(status, before):
        found = _progress(deployment, owned, status, before, now)
    return msgspec.structs.replace(status, conditions=_with_failures(found, owned))


def _was_complete(status: DeploymentStatus, before: DeploymentCondition | None) -> bool:
    """Whether the last rollout is complete and no other has begun."""
    return status.replicas == status.updated_replicas and before is not None and before.reason == COMPLETE


def _progress(
    deployment: Deployment,
    owned: OwnedReplicaSets,
    status: DeploymentStatus,
    before: DeploymentCondition | None,
    now: int,
) -> Conditions:
    found = status.conditions
    if is_complete(deployment, status):
        text = _sentence(deployment, owned, "has successfully progressed.")
        return conditions.put(found, condition(PROGRESSING, TRUE, COMPLETE, text, now))
    if has_progressed(deployment.status, status):
        return _confirmed(deployment, owned, found, before, now)
    if is_overdue(deployment, found, now):
        text = _sentence(deployment, owned, "has timed out progressing.")
        return conditions.put(found, condition(PROGRESSING, FALSE, TIMED_OUT, text, now))
    return found


def _confirmed(
    deployment: Deployment, owned: OwnedReplicaSets, found: Conditions, before: DeploymentCondition | None, now: int
) -> Conditions:
    """A new update time each time; the transition time changes only with the status."""
    updated = condition(PROGRESSING, TRUE, UPDATED, _sentence(deployment, owned, "is progressing."), now)
    if before is not None and before.status == TRUE:
        updated = msgspec.structs.replace(updated, last_transition_time=before.last_transition_time)
    return (*conditions.drop(found, PROGRESSING), updated)


def _sentence(deployment: Deployment, owned: OwnedReplicaSets, rest: str) -> str:
    if owned.new is None:
        return f'Deployment "{deployment.metadata.name}" {rest}'
    return f'ReplicaSet "{owned.new.metadata.name}" {rest}'


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all pods are new and available, and no old ones are left."""
    numbers = {status.updated_replicas, status.replicas, status.available_replicas}
    return numbers == {deployment.desired_replicas} and status.observed_generation >= deployment.metadata.generation


def has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    """Whether pods were created, became ready or available, or old ones were deleted."""
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def is_overdue(deployment: Deployment, found: Conditions, now: int) -> bool:
    """Whether there was no progress for longer than the deadline."""
    progressing = conditions.find(found, PROGRESSING)
    if progressing is None or progressing.reason == COMPLETE:
        return False
    return progressing.reason == TIMED_OUT or _deadline(deployment, progressing) < now


def recheck_in(deployment: Deployment, status: DeploymentStatus, now: int) -> float | None:
    """Seconds until the deadline, plus one."""
    progressing = conditions.find(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or progressing is None:
        return None
    if is_complete(deployment, status) or progressing.reason == TIMED_OUT:
        return None
    return max(0.0, (_deadline(deployment, progressing) - now) / SECOND) + 1


def _deadline(deployment: Deployment, progressing: DeploymentCondition) -> int:
    return nanoseconds(progressing.last_update_time) + (deployment.spec.progress_deadline_seconds or 0) * SECOND


def _with_failures(found: Conditions, owned: OwnedReplicaSets) -> Conditions:
    """The conditions with a ReplicaSet's failure, the new one's first, or without any."""
    sets = (owned.new, *owned.old) if owned.new else owned.old
    failures = (conditions.find(each.status.conditions, REPLICA_FAILURE) for each in sets)
    failure = next((each for each in failures if each is not None), None)
    if failure is None:
        return conditions.drop(found, REPLICA_FAILURE)
    updated = DeploymentCondition(
        type=REPLICA_FAILURE,
        status=failure.status,
        reason=failure.reason,
        message=failure.message,
        last_transition_time=failure.last_transition_time,
        last_update_time=failure.last_transition_time,
    )
    return conditions.put(found, updated)


def status_tree(status: DeploymentStatus) -> JSON:
    """The status as written: all numbers, zeros included, so that no old value is left."""
    tree: JSON = {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
        "terminatingReplicas": status.terminating_replicas,
        "conditions": conditions.trees(status.conditions),
    }
    return tree | ({} if status.collision_count is None else {"collisionCount": status.collision_count})
