"""What one reconcile of a Deployment does and reports. Pure.

1. The new ReplicaSet, if there is one, gets the Deployment's annotations, its revision and its `minReadySeconds`.
2. A Deployment that is being deleted does nothing more.
3. One that is paused, or that was scaled since its ReplicaSets were last resized, is scaled (see `proportional`).
4. Any other takes the next step of its strategy. When there is none, and the rollout is complete, ReplicaSets beyond
   the history limit are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from trimtab.api.apps import Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec
from trimtab.api.documents import JSON
from trimtab.api.meta import LabelSelector, ObjectMeta
from trimtab.kube import ownership
from trimtab.kube.resources import Resource
from trimtab_lab.workloads.deployment import progress, proportional, recreate, revisions, rolling, templates
from trimtab_lab.workloads.deployment.replicasets import (
    RECREATE,
    ROLLING_UPDATE,
    Limits,
    OwnedReplicaSets,
    Step,
    Strategy,
    classify,
    limits_of,
)

STRATEGIES: Mapping[str, Strategy] = {
    ROLLING_UPDATE: rolling.next_step,
    RECREATE: recreate.next_step,
}


@dataclass(frozen=True, slots=True)
class Change:
    """What to write to a ReplicaSet."""

    replicaset: ReplicaSet
    replicas: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    min_ready_seconds: int | None = None

    @property
    def patch(self) -> JSON:
        """The change as a merge patch, conditional on the resource version."""
        spec = {"replicas": self.replicas, "minReadySeconds": self.min_ready_seconds}
        return {
            "metadata": {
                "resourceVersion": self.replicaset.metadata.resource_version,
                "annotations": dict(self.annotations),
            },
            "spec": {name: value for name, value in spec.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class NewReplicaSet:
    """The new ReplicaSet to create."""

    name: str
    replicas: int
    body: JSON


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, in this order, and what to report then."""

    creation: NewReplicaSet | None
    changes: tuple[Change, ...]
    expired: tuple[ReplicaSet, ...]
    status: DeploymentStatus
    revision: str | None
    """The revision of the Deployment, if there is a new ReplicaSet."""
    recheck_in: float | None


@dataclass(frozen=True, slots=True)
class _Decision:
    """The step to take, and whether progress is evaluated."""

    move: Step
    with_progress: bool = False


def plan(deployment: Deployment, sets: Iterable[ReplicaSet], *, old_pods: Iterable[str], now: int) -> Plan:
    """The next step of a Deployment with these ReplicaSets.

    `old_pods` are the UIDs of the ReplicaSets that have pods which have not finished, whatever their size.
    """
    limits = limits_of(deployment)
    owned = classify(deployment, sets)
    revision = revisions.next_revision(owned.old)
    step = _step(deployment, limits, owned, set(old_pods))
    creation = _creation(deployment, limits, step.move.creation, revision)
    changes = _changes(deployment, limits, owned, step.move, revision)
    after = _after(owned, step.move, creation)
    known = _known(deployment, owned, creation, now)
    status = progress.count_status(deployment, limits, after, known, now)
    if step.with_progress:
        status = progress.with_progress(deployment, after, known, status, now)
    return Plan(
        creation=creation,
        changes=changes,
        expired=_expired(deployment, owned, step),
        status=status,
        revision=_revision(owned, changes, creation, revision),
        recheck_in=progress.recheck_in(deployment, status, now) if step.with_progress else None,
    )


def is_scaling_event(limits: Limits, owned: OwnedReplicaSets) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were last resized, by their annotations."""
    annotated = (revisions.annotated_number(each, revisions.DESIRED_REPLICAS) for each in owned.active)
    return any(number is not None and number != limits.desired for number in annotated)


def _step(deployment: Deployment, limits: Limits, owned: OwnedReplicaSets, occupied: set[str]) -> _Decision:
    spec = deployment.spec
    if deployment.metadata.deletion_timestamp is not None:
        return _Decision(Step())
    kind = spec.strategy.type or ROLLING_UPDATE
    if spec.paused or is_scaling_event(limits, owned):
        scaled = proportional.next_step(
            limits, owned, rolling=kind == ROLLING_UPDATE, reported=deployment.status.replicas
        )
        if scaled is not None:
            return _Decision(scaled)
        if spec.paused:
            return _Decision(Step())
    old_pods = bool(occupied - ({owned.new.metadata.uid} if owned.new else set()))
    return _Decision(STRATEGIES[kind](limits, owned, old_pods=old_pods), with_progress=True)


def _creation(deployment: Deployment, limits: Limits, replicas: int | None, revision: int) -> NewReplicaSet | None:
    if replicas is None:
        return None
    digest = templates.hash_for(deployment)
    template = templates.labelled(templates.template_of(deployment), digest)
    annotations = revisions.new_annotations(deployment, {}, revision) | revisions.size_annotations(limits)
    name = templates.name_of(deployment.metadata.name, digest)
    spec: JSON = {
        "replicas": replicas,
        "selector": templates.selector_with(deployment.spec.selector or LabelSelector(), digest),
        "template": template,
    }
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    body: JSON = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [
                ownership.controller_reference(Resource.of(Deployment), deployment.metadata),
            ],
        },
        "spec": spec,
    }
    return NewReplicaSet(name, replicas, body)


def _changes(
    deployment: Deployment, limits: Limits, owned: OwnedReplicaSets, move: Step, revision: int
) -> tuple[Change, ...]:
    """One change for each ReplicaSet that needs one; the new one first."""
    sizes = {each.metadata.name: size for each, size in move.sizes}
    sized = {each.metadata.name: each for each, _ in move.sizes}
    order = ({owned.new.metadata.name: owned.new} if owned.new else {}) | sized
    changes = (
        _change(deployment, limits, each, sizes.get(name), each is owned.new, revision) for name, each in order.items()
    )
    return tuple(change for change in changes if change is not None)


def _change(
    deployment: Deployment, limits: Limits, replicaset: ReplicaSet, size: int | None, is_new: bool, revision: int
) -> Change | None:
    has = replicaset.metadata.annotations
    annotations = revisions.new_annotations(deployment, has, revision) if is_new else {}
    min_ready_seconds = deployment.spec.min_ready_seconds
    if size is not None:
        annotated = revisions.size_annotations(limits)
        annotations |= {name: value for name, value in annotated.items() if has.get(name) != value}
    change = Change(
        replicaset,
        replicas=size if size != replicaset.desired_replicas else None,
        annotations=annotations,
        min_ready_seconds=min_ready_seconds
        if is_new and min_ready_seconds != replicaset.spec.min_ready_seconds
        else None,
    )
    return None if change == Change(replicaset) else change


def _after(owned: OwnedReplicaSets, move: Step, creation: NewReplicaSet | None) -> OwnedReplicaSets:
    """The ReplicaSets after the step: the status counts the sizes that are being set."""
    if creation is not None:
        changes = ReplicaSet(metadata=ObjectMeta(name=creation.name), spec=ReplicaSetSpec(replicas=creation.replicas))
        owned = owned.with_new(changes)
    return owned.with_sizes(move.sizes)


def _known(
    deployment: Deployment, owned: OwnedReplicaSets, creation: NewReplicaSet | None, now: int
) -> progress.Conditions:
    """The conditions before progress is evaluated."""
    known = deployment.status.conditions
    if deployment.metadata.deletion_timestamp is None:
        known = progress.with_pause(deployment, known, now)
    if owned.new is not None:
        known = progress.with_found(deployment, known, owned.new.metadata.name, now)
    if creation is not None:
        known = progress.with_created(deployment, known, creation.name, now)
    return known


def _expired(deployment: Deployment, owned: OwnedReplicaSets, step: _Decision) -> tuple[ReplicaSet, ...]:
    complete = step.move.settled and progress.is_complete(deployment, deployment.status)
    deleting = deployment.metadata.deletion_timestamp is not None
    if complete or (deployment.spec.paused and not deleting):
        return revisions.expired(deployment, owned.old)
    return ()


def _revision(
    owned: OwnedReplicaSets, changes: tuple[Change, ...], creation: NewReplicaSet | None, revision: int
) -> str | None:
    """The revision of the new ReplicaSet, as written or about to be written."""
    if creation is not None:
        return str(revision)
    if owned.new is None:
        return None
    written = next((change.annotations for change in changes if change.replicaset is owned.new), {})
    return written.get(revisions.REVISION) or owned.new.metadata.annotations.get(revisions.REVISION)


def status_patch(deployment: Deployment, status: DeploymentStatus, revision: str | None) -> JSON | None:
    """The merge patch of a Deployment's status and revision, or None if both are current.

    An update of the status may change annotations without changing the generation.
    """
    annotations = deployment.metadata.annotations
    stale = revision is not None and annotations.get(revisions.REVISION) != revision
    if status == deployment.status and not stale:
        return None
    metadata: JSON = {"resourceVersion": deployment.metadata.resource_version}
    if stale:
        metadata["annotations"] = {revisions.REVISION: revision}
    return {"metadata": metadata, "status": progress.status_tree(status)}


def observed_status(deployment: Deployment) -> DeploymentStatus:
    """The status of a Deployment that nothing is done for: the current one, observed."""
    return msgspec.structs.replace(deployment.status, observed_generation=deployment.metadata.generation)
