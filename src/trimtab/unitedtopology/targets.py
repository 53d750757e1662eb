"""The target workload of a UnitedTopology, reduced to what allocation needs. Pure.

A workload has one current revision, the one that it creates pods of. That of a workload that owns ReplicaSets is the
newest of these: the one with the highest number in its annotation `deployment.kubernetes.io/revision`, or one of the
same name by the controller of another kind (`rollout.argoproj.io/revision`), because a rollback gives an old ReplicaSet
a new number. Until the ReplicaSet of a rollout has been seen, the one before is the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from trimtab.api import percent
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import SPECIFIED_DELETE, CloneSet
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.templates import has_scheduling_group
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import CustomWorkload

REVISION = "/revision"
"""How the name of the annotation with a ReplicaSet's revision ends; its domain is that of the controller."""

_LIFECYCLE = "lifecycle.apps.kruise.io/state"
"""The label with which OpenKruise delays deletions."""
_LONGEST = 63
"""Characters of a label's value."""
_FIRST = datetime.min.replace(tzinfo=UTC)

Workload = Deployment | ReplicaSet | CloneSet | CustomWorkload

KINDS: Mapping[str, type[Workload]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
"""The workloads that can have subsets, by kind; the configuration adds others."""


@dataclass(frozen=True, slots=True)
class Target:
    """A workload: its size, its current revision, and the owners of its pods."""

    uid: str
    replicas: int
    revision: str = ""
    owners: frozenset[str] = field(default_factory=frozenset)
    """The UIDs of the pods' controllers."""
    parent: str = ""
    """`Deployment web`, for a ReplicaSet that belongs to it."""
    in_scheduling_group: bool = False
    """Whether its pods belong to a scheduling group, as its template says."""


def target_of(workload: Workload, sets: Iterable[ReplicaSet] = ()) -> Target:
    """A workload as a target; `sets` are its ReplicaSets."""
    found = _target_of(workload, sets)
    return replace(found, in_scheduling_group=True) if has_scheduling_group(workload.spec.template) else found


def _target_of(workload: Workload, sets: Iterable[ReplicaSet]) -> Target:
    uid = workload.metadata.uid
    match workload:
        case Deployment() | CustomWorkload():
            own = sorted(sets, key=_order)
            owners = frozenset(each.metadata.uid for each in own)
            return Target(uid, workload.desired_replicas, own[-1].metadata.uid if own else "", owners)
        case ReplicaSet():
            owner = workload.metadata.controller
            parent = f"{owner.kind} {owner.name}" if owner is not None else ""
            return Target(uid, workload.desired_replicas, uid, frozenset((uid,)), parent)
        case CloneSet():
            return Target(uid, workload.desired_replicas, _label(workload.status.update_revision), frozenset((uid,)))


def most_pods(workload: Workload) -> int:
    """The most pods that a workload creates: with the surge of a CloneSet, which others give their ReplicaSets."""
    surge = workload.spec.update_strategy.max_surge if isinstance(workload, CloneSet) else None
    size = workload.desired_replicas
    try:
        return size + (0 if surge is None else max(0, percent.scaled(surge, size, round_up=True)))
    except InvalidError:  # its controller reports that
        return size


def is_leaving(pod: Pod, workload: Workload) -> bool:
    """Whether a CloneSet may create the successor of an active pod: the pod is to be deleted by name or by label."""
    if not isinstance(workload, CloneSet):
        return False
    labels = pod.metadata.labels
    is_named = pod.metadata.name in workload.spec.scale_strategy.pods_to_delete
    return is_named or SPECIFIED_DELETE in labels or labels.get(_LIFECYCLE) == "PreparingDelete"


def replicas_of(target: Target | None) -> int:
    """The size that percentages refer to: 0 where there is no workload."""
    return 0 if target is None else target.replicas


def target_key(kind: str, namespace: str, name: str) -> str:
    """The index key of the UnitedTopologies of a workload."""
    return f"{kind}/{namespace}/{name}"


def by_target(topology: UnitedTopology) -> Iterable[str]:
    """An index: the UnitedTopologies of a workload."""
    target = topology.spec.target_ref
    return (target_key(target.kind, topology.metadata.namespace, target.name),)


def creation_order(topology: UnitedTopology) -> tuple[datetime, str]:
    """The sort key of UnitedTopologies with the same target: the oldest one applies."""
    return topology.metadata.creation_timestamp or _FIRST, topology.metadata.name


def _order(replicaset: ReplicaSet) -> tuple[int, float, str]:
    """By revision number; those without one, or with the same, by creation time."""
    texts = (text for name, text in replicaset.metadata.annotations.items() if name.endswith(REVISION))
    number = max((int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 20), default=0)
    created = replicaset.metadata.creation_timestamp
    return number, created.timestamp() if created else 0.0, replicaset.metadata.name


def _label(revision: str) -> str:
    """The label of a CloneSet's pods: the revision's name, or its hash where the name is too long for a label."""
    return revision if len(revision) <= _LONGEST else revision.rpartition("-")[2]
