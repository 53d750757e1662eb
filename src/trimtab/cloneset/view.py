"""The controller's view of the cluster: caches, and the snapshot that the victim order is computed from.

The snapshot has all pods and nodes of the cluster, and is only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import KIND, CloneSet
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.cloneset.observation import CLONESETS
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.components import CacheGroup
from trimtab.kube.ownership import refers_to
from trimtab.kube.resources import Key, object_key
from trimtab.kube.stores import by_controller, by_namespace
from trimtab.ranking import explicit
from trimtab.ranking.explicit import NO_COSTS, GroupCosts
from trimtab.snapshot import Snapshot

_BY_CLONESET, _BY_CONTROLLER, _BY_NAMESPACE = "cloneset", "controller", "namespace"


class View(CacheGroup):
    """Caches, and queries over them."""

    def __init__(self, caches: Caches[Snapshot], *, with_costs: bool) -> None:
        self.snapshot = caches.snapshot
        self.clonesets = caches.open(CloneSet, {_BY_NAMESPACE: by_namespace})
        self.pods = caches.open(Pod)
        self.nodes = caches.open(Node)
        self.revisions = caches.open(ControllerRevision, {_BY_CONTROLLER: by_controller})
        self.costs = caches.open(PodGroupCost, {_BY_CLONESET: _by_cloneset}) if with_costs else None
        always: list[Cache[Any]] = [self.clonesets, self.pods, self.nodes, self.revisions]
        self.caches = always if self.costs is None else [*always, self.costs]
        super().__init__(self.caches)

    def owner_of(self, pod: Pod) -> Key | None:
        """The CloneSet that a pod belongs to, if it is known."""
        owner = pod.metadata.controller
        return None if owner is None else self.referred(pod.metadata.namespace, owner)

    def referred(self, namespace: str, owner: OwnerReference) -> Key | None:
        """The CloneSet that an owner reference names, if it is known."""
        if not refers_to(owner, CLONESETS):
            return None
        cloneset_key = object_key(namespace, owner.name)
        cloneset = self.clonesets.get(cloneset_key)
        return cloneset_key if cloneset is not None and cloneset.metadata.uid == owner.uid else None

    def clonesets_in(self, namespace: str) -> list[CloneSet]:
        """The CloneSets of a namespace."""
        return self.clonesets.store.by(_BY_NAMESPACE, namespace)

    def revisions_of(self, owner: ObjectMeta) -> list[ControllerRevision]:
        """The revisions that a CloneSet owns."""
        return self.revisions.store.by(_BY_CONTROLLER, owner.uid)

    def costs_of(self, owner: ObjectMeta) -> GroupCosts:
        """The PodGroupCosts that name a CloneSet."""
        if self.costs is None:
            return NO_COSTS
        found = self.costs.store.by(_BY_CLONESET, object_key(owner.namespace, owner.name))
        return explicit.sort_group_costs(found, KIND, owner.name, owner.uid)

    def has_pod(self, namespace: str, name: str) -> bool:
        """Whether there is a pod of that name."""
        return object_key(namespace, name) in self.pods.store


def owner_key(costs: PodGroupCost) -> Key | None:
    """The CloneSet that a PodGroupCost is for."""
    owner = costs.spec.owner
    if owner.kind != KIND or explicit.owner_key(costs) is None:
        return None
    return object_key(costs.metadata.namespace, owner.name)


def _by_cloneset(costs: PodGroupCost) -> Iterable[str]:
    owner = owner_key(costs)
    return () if owner is None else (owner,)
