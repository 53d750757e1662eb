"""The workload that a UnitedTopology divides, as far as dividing it looks at it. Pure.

A workload has one revision that it makes pods of now. A Deployment's is its newest ReplicaSet, the one with the highest
number in `deployment.kubernetes.io/revision`: a rollback gives an old ReplicaSet a new number. Until a rollout's
ReplicaSet has been seen, the one before is the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.unitedtopology import TargetReference

_REVISION = "deployment.kubernetes.io/revision"

_LONGEST = 63
"""Characters of a label's value."""

Workload = Deployment | ReplicaSet | CloneSet


@dataclass(frozen=True, slots=True)
class Target:
    """A workload: its size, which revision it makes pods of, and whom its pods have as their controller."""

    uid: str
    replicas: int
    revision: str = ""
    owners: frozenset[str] = field(default_factory=frozenset)
    above: str = ""
    """`Deployment web`, for a ReplicaSet that belongs to one."""


def target_of(workload: Workload, sets: Iterable[ReplicaSet] = ()) -> Target:
    """A workload as a target; `sets` are a Deployment's ReplicaSets."""
    uid = workload.metadata.uid
    match workload:
        case Deployment():
            own = sorted(sets, key=_age)
            owners = frozenset(each.metadata.uid for each in own)
            return Target(uid, workload.desired_replicas, own[-1].metadata.uid if own else "", owners)
        case ReplicaSet():
            owner = workload.metadata.controller
            above = f"{owner.kind} {owner.name}" if owner is not None else ""
            return Target(uid, workload.desired_replicas, uid, frozenset((uid,)), above)
        case CloneSet():
            return Target(uid, workload.desired_replicas, _label(workload.status.update_revision), frozenset((uid,)))


def key_of(reference: TargetReference, namespace: str) -> str:
    """What a UnitedTopology is found under when its target changes."""
    return f"{reference.kind}/{namespace}/{reference.name}"


def _age(replicaset: ReplicaSet) -> tuple[int, float, str]:
    """By number; those that have none yet, or two of one number, by when they were made."""
    text = replicaset.metadata.annotations.get(_REVISION, "")
    number = int(text) if text.isascii() and text.isdigit() else 0
    created = replicaset.metadata.creation_timestamp
    return number, created.timestamp() if created else 0.0, replicaset.metadata.name


def _label(revision: str) -> str:
    """What a CloneSet's pods are labelled with: the revision's name, or its hash where that is too long for a label."""
    return revision if len(revision) <= _LONGEST else revision.rpartition("-")[2]
