"""A pod of the target, as far as counting, levels and rescheduling look at it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from trimtab.api import annotations as keys
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets.matching import match

REVISION_HASH = "controller-revision-hash"
"""The label by which a CloneSet tells its pods' revisions apart."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. `subset` is empty where it belongs to none, `reservation` where it was given no place."""

    name: str
    uid: str = ""
    revision: str = ""
    subset: str = ""
    reservation: str = ""
    active: bool = True
    """Running or starting: neither finished nor terminating."""
    ready: bool = False
    created: datetime | None = None
    version: str = ""
    """The pod's resource version."""
    mark: SubsetAnnotations | None = None
    matched: bool = False
    """Whether the subset was found by the pod's place, and the pod is to be marked once it is counted."""


def revision_of(metadata: ObjectMeta) -> str:
    """The revision that a pod is counted with: its ReplicaSet's UID, or the hash that its CloneSet gave it."""
    owner = metadata.controller
    if owner is not None and owner.kind == "ReplicaSet":
        return owner.uid
    return metadata.labels.get(REVISION_HASH, "")


def member_of(pod: Pod, topology: UnitedTopology, node: Node | None) -> Member:
    """What a UnitedTopology sees in a pod of its target. `node` is the pod's, where it has one and it is known."""
    mark = keys.subset_annotations(pod.metadata.annotations)
    ours = mark if mark is not None and mark.topology == topology.metadata.name else None
    marked = ours.subset if ours is not None and _exists(ours.subset, topology) else ""
    subset = marked or _matched(pod, topology, node)
    metadata = pod.metadata
    return Member(
        name=metadata.name,
        uid=metadata.uid,
        revision=revision_of(metadata),
        subset=subset,
        reservation=ours.reservation if ours is not None else "",
        active=pod.active,
        ready=pod.ready,
        created=metadata.creation_timestamp,
        version=metadata.resource_version,
        mark=mark,
        matched=bool(subset) and not marked,
    )


def _exists(subset: str, topology: UnitedTopology) -> bool:
    return any(each.name == subset for each in topology.spec.subsets)


def _matched(pod: Pod, topology: UnitedTopology, node: Node | None) -> str:
    index = match(pod, node, topology.spec.subsets)
    return "" if index is None else topology.spec.subsets[index].name
