"""A pod of the target, reduced to the fields that counting, levels and rescheduling use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from trimtab.api import annotations as keys
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets.matching import MAX_MERGED, Match, match, prepare

REVISION_HASH = "controller-revision-hash"
"""The label with the revision of a CloneSet's pod."""

_COMPILED = 100
"""How many terms are compiled in one go."""
_COMPARISONS = 1000
"""How many comparisons of a pod with a subset are made in one go: about a millisecond."""
_MERGES = 20
"""How many patches are merged with pods in one go: a few milliseconds, more for long patches. One pod may need more."""
_QUICK = 10
"""How many parts may be worked off without other tasks in between."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. `subset` is empty where it is in none, `reservation` where it has none."""

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
    is_matched: bool = False
    """Whether the subset was found by `matching`, so that the pod must be annotated once it is counted."""
    ignores_patches: bool = False
    """Whether it was found without comparing the pod with all patches."""


def revision_of(metadata: ObjectMeta) -> str:
    """The revision that a pod is counted with: its ReplicaSet's UID, or the hash that its CloneSet gave it."""
    owner = metadata.controller
    if owner is not None and owner.kind == "ReplicaSet":
        return owner.uid
    return metadata.labels.get(REVISION_HASH, "")


def member_of(pod: Pod, topology: UnitedTopology, node: Node | None) -> Member:
    """The member for a pod of the target. `node` is the pod's, where it has one and it is known."""
    known = keys.subset_annotations(pod.metadata.annotations)
    own = known if known is not None and known.topology == topology.metadata.name else None
    annotated = own.subset if own is not None and _exists(own.subset, topology) else ""
    matched = Match() if annotated else match(pod, node, topology.spec.subsets)
    subset = annotated if matched.index is None else topology.spec.subsets[matched.index].name
    metadata = pod.metadata
    return Member(
        name=metadata.name,
        uid=metadata.uid,
        revision=revision_of(metadata),
        subset=subset,
        reservation=own.reservation if own is not None else "",
        active=pod.active,
        ready=pod.ready,
        created=metadata.creation_timestamp,
        version=metadata.resource_version,
        is_matched=matched.index is not None,
        ignores_patches=matched.ignores_patches,
    )


def slices(pods: Sequence[Pod], topology: UnitedTopology) -> Iterator[Sequence[Pod]]:
    """The pods in parts, of which `member_of` takes a few milliseconds each: other tasks should run in between.

    The first parts are empty where the terms of many subsets have to be compiled.
    """
    subsets = topology.spec.subsets
    for start in range(0, len(subsets) if pods else 0, _COMPILED):
        prepare(subsets[start : start + _COMPILED])
        if len(subsets) > _COMPILED:
            yield ()
    yield from _parts(pods, topology)


def is_quick(pods: Sequence[Pod], topology: UnitedTopology) -> bool:
    """Whether `member_of` takes some tens of milliseconds for all these pods together, at most."""
    return next(islice(_parts(pods, topology), _QUICK, None), None) is None


def is_annotated(pod: Pod, topology: str, subsets: Collection[str]) -> bool:
    """Whether a pod is annotated with one of these subsets of a UnitedTopology, and so need not be matched."""
    known = keys.subset_annotations(pod.metadata.annotations)
    return known is not None and known.topology == topology and known.subset in subsets


def _parts(pods: Sequence[Pod], topology: UnitedTopology) -> Iterator[Sequence[Pod]]:
    """The pods in parts, each of a number of comparisons and merges at most, or of one pod."""
    name, subsets = topology.metadata.name, topology.spec.subsets
    names = frozenset(subset.name for subset in subsets)
    most = max(1, _COMPARISONS // max(1, len(subsets)))
    patches = min(sum(subset.patch is not None for subset in subsets), MAX_MERGED)
    part: list[Pod] = []
    merges = 0
    for pod in pods:
        own = 0 if not patches or is_annotated(pod, name, names) else patches
        if len(part) == most or (part and merges + own > _MERGES):
            yield part
            part, merges = [], 0
        part.append(pod)
        merges += own
    if part:
        yield part


def _exists(subset: str, topology: UnitedTopology) -> bool:
    return any(each.name == subset for each in topology.spec.subsets)
