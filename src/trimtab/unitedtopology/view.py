"""The cluster as UnitedTopologies need it: their targets, the targets' pods, nodes, namespaces.

Everything is found through indexes, so that the cost of an event depends on the objects that it affects only. A cluster
may not have the kind CloneSet, or a kind that the configuration names: then there are none, and everything else works.

The levels of pods (see `levels`) are needed in every process that holds scale requests, not only in the leader; so the
view runs by itself.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trimtab.api.annotations import subset_annotations
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.meta import Labels
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import TargetReference, UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwner, ReplicaSetOwners
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup
from trimtab.kube.resources import Key, object_key
from trimtab.kube.stores import IndexFunction, Object, by_controller, by_namespace, key_of
from trimtab.subsets.members import Member, is_annotated, member_of
from trimtab.unitedtopology.targets import KINDS, Target, Workload, by_target, target_key, target_of

BY_CONTROLLER = "controller"
BY_ENDED = "ended"
BY_NAMESPACE = "namespace"
BY_TARGET = "target"
BY_TOPOLOGY = "topology"

T = TypeVar("T", bound=Object)


def by_topology(pod: Pod) -> Iterable[str]:
    """An index: the pods annotated with a UnitedTopology, by its key."""
    annotations = subset_annotations(pod.metadata.annotations)
    return (object_key(pod.metadata.namespace, annotations.topology),) if annotations is not None else ()


def by_ended(pod: Pod) -> Iterable[str]:
    """An index: of the pods annotated with a UnitedTopology, those that finished or were released by their owner,
    for which no webhook is called."""
    return by_topology(pod) if pod.finished or pod.metadata.controller is None else ()


_Inputs = tuple[str, int, Labels | None]
"""What a member is computed from besides the pod: the UID and generation of the UnitedTopology, the node's labels."""


def _inputs(topology: UnitedTopology, node: Node | None) -> _Inputs:
    labels = None if node is None else node.metadata.labels
    return topology.metadata.uid, topology.metadata.generation, labels


@dataclass(frozen=True, slots=True)
class _CachedMember:
    """A member, and what it was computed from."""

    pod: Pod
    inputs: _Inputs
    member: Member


class View(CacheGroup):
    """The cached cluster, kept current while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        owners: ReplicaSetOwners = DEPLOYMENTS,
        rng: random.Random | None = None,
        caches: Caches[Any] | None = None,
    ) -> None:
        """`caches` are those of the process; without them, it has its own."""
        self._client = client
        self._caches = caches or Caches(client, None, rng=rng)
        self.pool = self._caches.pool
        """Of the pods of the cache."""
        self.owners = owners
        self.topologies = self._cache(UnitedTopology, {BY_TARGET: by_target, BY_NAMESPACE: by_namespace})
        self.deployments = self._cache(Deployment, {})
        self.sets = self._cache(ReplicaSet, {BY_CONTROLLER: by_controller})
        self.clonesets = self._cache(CloneSet, {})
        self.custom = {kind: self._cache(model, {}) for kind, model in owners.by_kind.items()}
        """The caches of workloads that the configuration names, by kind."""
        self.pods = self._cache(Pod, {BY_CONTROLLER: by_controller, BY_ENDED: by_ended, BY_TOPOLOGY: by_topology})
        self.nodes = self._cache(Node, {})
        self.namespaces = self._cache(Namespace, {})
        known = (self.deployments, self.sets, self.pods, self.nodes, self.namespaces)
        super().__init__(known, (self.topologies, self.clonesets, *self.custom.values()))
        self.workloads: tuple[Cache[Any], ...] = (self.deployments, self.clonesets, *self.custom.values())
        """The caches of workloads that can be targets, ReplicaSets aside."""
        self.required: tuple[Cache[Any], ...] = (self.topologies, *known)
        """The caches that every decision needs."""
        self._members: dict[str, _CachedMember] = {}
        self.pods.subscribe(deleted=self._forget)

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        return self._client.corrected_clock.now()

    # Workloads.

    def is_known(self, kind: str) -> bool:
        """Whether the cache of a kind of workload is filled, or the cluster does not have the kind."""
        cache = self.custom.get(kind, self.clonesets if kind == "CloneSet" else None)
        return cache is None or cache.is_known

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """A workload as last seen."""
        caches: dict[str, Cache[Any]] = {
            "Deployment": self.deployments,
            "ReplicaSet": self.sets,
            "CloneSet": self.clonesets,
            **self.custom,
        }
        found: Workload | None = caches[kind].get(object_key(namespace, name)) if kind in caches else None
        return found

    def target(self, topology: UnitedTopology) -> Target | None:
        """The target of a UnitedTopology; None if it does not exist."""
        reference = topology.spec.target_ref
        workload = self.workload(reference.kind, topology.metadata.namespace, reference.name)
        if workload is None:
            return None
        return target_of(workload, self.sets_of(workload))

    def sets_of(self, workload: Workload) -> Sequence[ReplicaSet]:
        """The ReplicaSets of a workload that owns some."""
        is_owner = isinstance(workload, ReplicaSetOwner)
        return self.sets.store.by(BY_CONTROLLER, workload.metadata.uid) if is_owner else ()

    # UnitedTopologies.

    def same_target(self, topology: UnitedTopology) -> list[UnitedTopology]:
        """All UnitedTopologies of the same workload, itself included."""
        return self.topologies.store.by(BY_TARGET, next(iter(by_target(topology))))

    def topologies_of(self, kind: str, namespace: str, name: str) -> list[UnitedTopology]:
        """The UnitedTopologies of a workload."""
        return self.topologies.store.by(BY_TARGET, target_key(kind, namespace, name))

    def affected_by_pod(self, pod: Pod) -> set[Key]:
        """The UnitedTopologies that a pod affects: by its annotations, and by its owner."""
        found = {Key(each) for each in by_topology(pod)}
        owner = pod.metadata.controller
        if owner is None or owner.kind not in KINDS or not self.topologies.store:
            return found
        namespace = pod.metadata.namespace
        found.update(key_of(each) for each in self.topologies_of(owner.kind, namespace, owner.name))
        replicaset = self.sets.get(object_key(namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        if replicaset is not None:
            found.update(self.affected_by_replicaset(replicaset))
        return found

    def affected_by_replicaset(self, replicaset: ReplicaSet) -> set[Key]:
        """The UnitedTopologies that a ReplicaSet affects: its own, and its owner's."""
        metadata = replicaset.metadata
        found = {key_of(each) for each in self.topologies_of("ReplicaSet", metadata.namespace, metadata.name)}
        owner = metadata.controller
        if owner is not None:
            found.update(key_of(each) for each in self.topologies_of(owner.kind, metadata.namespace, owner.name))
        return found

    # Pods.

    def pods_of(self, topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """The target's pods. An annotated pod is included although its owner, or the target itself, is not cached yet:
        it was counted at admission, and must not be lost because one cache lags behind another."""
        owners = target.owners if target is not None else frozenset[str]()
        found = [pod for owner in sorted(owners) for pod in self.pods.store.by(BY_CONTROLLER, owner)]
        reference = topology.spec.target_ref
        early = [pod for pod in self.annotated_pods(key_of(topology)) if self._is_early(pod, owners, reference)]
        return found + early

    def pods_among(self, pods: Iterable[Pod], topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """The target's pods among these, from an uncached list, by the same rules."""
        owners = target.owners if target is not None else frozenset[str]()
        reference, key = topology.spec.target_ref, key_of(topology)
        return [
            pod
            for pod in pods
            if (pod.metadata.controller is not None and pod.metadata.controller.uid in owners)
            or (key in by_topology(pod) and self._is_early(pod, owners, reference))
        ]

    def former_pods(self, topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """Pods annotated with a UnitedTopology that are not, or no longer, pods of its target."""
        own = {pod.metadata.uid for pod in self.pods_of(topology, target)}
        return [pod for pod in self.annotated_pods(key_of(topology)) if pod.metadata.uid not in own]

    def annotated_pods(self, topology: Key) -> list[Pod]:
        """All pods annotated with a UnitedTopology."""
        return self.pods.store.by(BY_TOPOLOGY, topology)

    def ended_pods(self, topology: Key) -> dict[str, str]:
        """The annotated pods of a UnitedTopology that finished or were released: resource versions by name."""
        ended = self.pods.store.by(BY_ENDED, topology)
        return {pod.metadata.name: pod.metadata.resource_version for pod in ended}

    def pods_outside(self, owner: str) -> int:
        """How many active pods of an owner, by its UID, have no annotation of a subset."""
        owned = self.pods.store.by(BY_CONTROLLER, owner)
        return sum(pod.active and subset_annotations(pod.metadata.annotations) is None for pod in owned)

    def member(self, pod: Pod, topology: UnitedTopology) -> Member:
        """A pod as a member; computed once for each version of the pod, the spec and the node's labels."""
        node = self._node(pod)
        inputs = _inputs(topology, node)
        known = self._known_member(pod, inputs)
        if known is not None:
            return known
        member = member_of(pod, topology, node)
        if self.pods.get(key_of(pod)) is pod:  # one that was listed, or is gone by now, would never be forgotten
            self._members[pod.metadata.uid] = _CachedMember(pod, inputs, member)
        return member

    def unmatched(self, pods: Iterable[Pod], topology: UnitedTopology) -> list[Pod]:
        """Of these pods, those that `member` would have to match with the subsets, which takes long for many."""
        name, subsets = topology.metadata.name, frozenset(subset.name for subset in topology.spec.subsets)
        return [
            pod
            for pod in pods
            if not is_annotated(pod, name, subsets)
            and self._known_member(pod, _inputs(topology, self._node(pod))) is None
        ]

    def _node(self, pod: Pod) -> Node | None:
        return self.nodes.get(Key(pod.spec.node_name)) if pod.spec.node_name else None

    def _known_member(self, pod: Pod, inputs: _Inputs) -> Member | None:
        known = self._members.get(pod.metadata.uid)
        return known.member if known is not None and known.pod is pod and known.inputs == inputs else None

    def _forget(self, pod: Pod) -> None:
        self._members.pop(pod.metadata.uid, None)

    def _is_early(self, pod: Pod, owners: Collection[str], target: TargetReference) -> bool:
        """Whether a pod's owner is not cached yet, or the owner belongs to the target and that is not."""
        owner = pod.metadata.controller
        if owner is None or owner.kind not in KINDS or owner.uid in owners:
            return False
        known = self.workload(owner.kind, pod.metadata.namespace, owner.name)
        if known is None or known.metadata.uid != owner.uid:
            return True
        parent = known.metadata.controller
        return parent is not None and (parent.kind, parent.name) == (target.kind, target.name)

    def _cache(self, kind: type[T], indexes: Mapping[str, IndexFunction[T]]) -> Cache[T]:
        return self._caches.open(kind, indexes)
