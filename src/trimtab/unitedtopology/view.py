"""What the controller sees: UnitedTopologies, the workloads they divide, those workloads' pods, nodes, namespaces.

Everything is found through indexes, so that an event costs as much as what it touches. CloneSets are a kind that a
cluster may not know: there nothing is known of them, and everything else works.

Who asks how pods stand (see `levels`) asks in every process that holds scale requests, not only in the one that leads;
so the view runs by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from trimtab.api import annotations as keys
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.meta import Labels
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import TargetReference, UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Key, object_key
from trimtab.kube.stores import IndexFunction, Object, by_controller, by_namespace, key_of
from trimtab.subsets.members import Member, member_of
from trimtab.unitedtopology import targets
from trimtab.unitedtopology.targets import Target, Workload, target_of

BY_CONTROLLER = "controller"
BY_ENDED = "ended"
BY_NAMESPACE = "namespace"
BY_TARGET = "target"
BY_TOPOLOGY = "topology"

KINDS: Mapping[str, type[Workload]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
"""What can have subsets, by kind."""

T = TypeVar("T", bound=Object)


def by_target(topology: UnitedTopology) -> Iterable[str]:
    """An index: the UnitedTopologies of a workload."""
    return (targets.key_of(topology.spec.target_ref, topology.metadata.namespace),)


def by_topology(pod: Pod) -> Iterable[str]:
    """An index: the pods that carry a UnitedTopology's mark, by its key."""
    mark = keys.subset_annotations(pod.metadata.annotations)
    return (object_key(pod.metadata.namespace, mark.topology),) if mark is not None else ()


def by_ended(pod: Pod) -> Iterable[str]:
    """An index: of the pods that carry a UnitedTopology's mark, those that finished or were released by their owner,
    which nobody is asked about."""
    return by_topology(pod) if pod.finished or pod.metadata.controller is None else ()


@dataclass(frozen=True, slots=True)
class _Known:
    """What a pod was found to be, and what was looked at: the spec's version, the node's labels."""

    pod: Pod
    seen: tuple[str, int, Labels | None]
    member: Member


class View:
    """The cluster as UnitedTopologies see it, while `run` runs."""

    def __init__(self, client: Client, *, rng: random.Random | None = None) -> None:
        self._client = client
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self.topologies = self._informer(UnitedTopology, {BY_TARGET: by_target, BY_NAMESPACE: by_namespace})
        self.deployments = self._informer(Deployment, {})
        self.sets = self._informer(ReplicaSet, {BY_CONTROLLER: by_controller})
        self.clonesets = self._informer(CloneSet, {})
        self.pods = self._informer(Pod, {BY_CONTROLLER: by_controller, BY_ENDED: by_ended, BY_TOPOLOGY: by_topology})
        self.nodes = self._informer(Node, {})
        self.namespaces = self._informer(Namespace, {})
        self._members: dict[str, _Known] = {}
        self.pods.subscribe(deleted=self._forget)

    @property
    def required(self) -> tuple[Informer[Any], ...]:
        """The informers without which nothing can be decided."""
        return (self.topologies, self.deployments, self.sets, self.pods, self.nodes, self.namespaces)

    @property
    def synced(self) -> bool:
        """Whether everything that can be seen has been seen at least once."""
        return all(each.synced for each in self.required) and self.is_known("CloneSet")

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is, for health pages."""
        watched = (*self.required, *(() if self.clonesets.absent else (self.clonesets,)))
        return [f"{each.resource.plural}: {each.problem}" for each in watched if each.problem]

    async def run(self) -> None:
        """Keep up with the cluster until cancelled."""
        tasks = [asyncio.ensure_future(each.run()) for each in (*self.required, self.clonesets)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancel(*tasks)

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        return self._client.clock.now()

    # Workloads.

    def is_known(self, kind: str) -> bool:
        """Whether all workloads of a kind have been seen, or the cluster does not know the kind."""
        return kind != "CloneSet" or self.clonesets.synced or self.clonesets.absent

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """A workload as last seen."""
        informers: dict[str, Informer[Any]] = {
            "Deployment": self.deployments,
            "ReplicaSet": self.sets,
            "CloneSet": self.clonesets,
        }
        found: Workload | None = informers[kind].get(object_key(namespace, name)) if kind in informers else None
        return found

    def target(self, topology: UnitedTopology) -> Target | None:
        """The workload that a UnitedTopology divides; None where there is none."""
        reference = topology.spec.target_ref
        workload = self.workload(reference.kind, topology.metadata.namespace, reference.name)
        if workload is None:
            return None
        sets = self.sets.store.by(BY_CONTROLLER, workload.metadata.uid) if reference.kind == "Deployment" else ()
        return target_of(workload, sets)

    # UnitedTopologies.

    def rivals(self, topology: UnitedTopology) -> list[UnitedTopology]:
        """All UnitedTopologies of the same workload, itself included."""
        return self.topologies.store.by(BY_TARGET, next(iter(by_target(topology))))

    def topologies_of(self, kind: str, namespace: str, name: str) -> list[UnitedTopology]:
        """The UnitedTopologies of a workload."""
        return self.topologies.store.by(BY_TARGET, f"{kind}/{namespace}/{name}")

    def concerned(self, pod: Pod) -> set[Key]:
        """The UnitedTopologies that a pod matters to: by its mark, and by whom it belongs to."""
        found = {Key(each) for each in by_topology(pod)}
        owner = pod.metadata.controller
        if owner is None or owner.kind not in KINDS:
            return found
        namespace = pod.metadata.namespace
        found.update(key_of(each) for each in self.topologies_of(owner.kind, namespace, owner.name))
        replicaset = self.sets.get(object_key(namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        if replicaset is not None:
            found.update(self.concerned_by(replicaset))
        return found

    def concerned_by(self, replicaset: ReplicaSet) -> set[Key]:
        """The UnitedTopologies that a ReplicaSet matters to: its own, and its Deployment's."""
        metadata = replicaset.metadata
        found = {key_of(each) for each in self.topologies_of("ReplicaSet", metadata.namespace, metadata.name)}
        owner = metadata.controller
        if owner is not None:
            found.update(key_of(each) for each in self.topologies_of(owner.kind, metadata.namespace, owner.name))
        return found

    # Pods.

    def pods_of(self, topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """The target's pods. One that is marked counts although its owner, or the target itself, has not been seen
        yet: it was counted when it was admitted, and must not be lost because of a cache that lags behind another."""
        owners = target.owners if target is not None else frozenset[str]()
        found = [pod for owner in sorted(owners) for pod in self.pods.store.by(BY_CONTROLLER, owner)]
        early = [pod for pod in self._marked(key_of(topology)) if self._early(pod, owners, topology.spec.target_ref)]
        return found + early

    def chosen(self, pods: Iterable[Pod], topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """The target's pods among these, which somebody has read, by the same rules."""
        owners = target.owners if target is not None else frozenset[str]()
        reference, a_key = topology.spec.target_ref, key_of(topology)
        return [
            pod
            for pod in pods
            if (pod.metadata.controller is not None and pod.metadata.controller.uid in owners)
            or (a_key in by_topology(pod) and self._early(pod, owners, reference))
        ]

    def strays(self, topology: UnitedTopology, target: Target | None) -> list[Pod]:
        """Pods with the mark of a UnitedTopology whose they are not, or not any more."""
        own = {pod.metadata.uid for pod in self.pods_of(topology, target)}
        return [pod for pod in self._marked(key_of(topology)) if pod.metadata.uid not in own]

    def marked(self, topology: Key) -> list[Pod]:
        """All pods with the mark of a UnitedTopology."""
        return self._marked(topology)

    def ended(self, topology: Key) -> dict[str, str]:
        """The pods with the mark of a UnitedTopology that finished or were released: their versions by name."""
        ended = self.pods.store.by(BY_ENDED, topology)
        return {pod.metadata.name: pod.metadata.resource_version for pod in ended}

    def member(self, pod: Pod, topology: UnitedTopology) -> Member:
        """A pod as far as counting looks at it; worked out once for each version of the pod, the spec and its node."""
        node = self.nodes.get(Key(pod.spec.node_name)) if pod.spec.node_name else None
        seen = (topology.metadata.uid, topology.metadata.generation, None if node is None else node.metadata.labels)
        known = self._members.get(pod.metadata.uid)
        if known is not None and known.pod is pod and known.seen == seen:
            return known.member
        found = member_of(pod, topology, node)
        self._members[pod.metadata.uid] = _Known(pod, seen, found)
        return found

    def _forget(self, pod: Pod) -> None:
        self._members.pop(pod.metadata.uid, None)

    def _marked(self, topology: Key) -> list[Pod]:
        return self.pods.store.by(BY_TOPOLOGY, topology)

    def _early(self, pod: Pod, owners: Collection[str], target: TargetReference) -> bool:
        """Whether nothing is known of a pod's owner, or of the target that the owner says it belongs to."""
        owner = pod.metadata.controller
        if owner is None or owner.kind not in KINDS or owner.uid in owners:
            return False
        known = self.workload(owner.kind, pod.metadata.namespace, owner.name)
        if known is None or known.metadata.uid != owner.uid:
            return True
        above = known.metadata.controller
        return above is not None and (above.kind, above.name) == (target.kind, target.name)

    def _informer(self, kind: type[T], indexes: Mapping[str, IndexFunction[T]]) -> Informer[T]:
        return Informer(self._client, kind, indexes=indexes, rng=self._rng)
