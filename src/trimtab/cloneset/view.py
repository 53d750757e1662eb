"""The controller's view of the cluster: caches, and the snapshot that the victim order is computed from.

The snapshot holds the pods that CloneSets own or might adopt, and all nodes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import KIND, CloneSet
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.kube.client import Client
from trimtab.kube.informers import Informer
from trimtab.kube.ownership import refers_to
from trimtab.kube.resources import Key, Resource, object_key
from trimtab.kube.stores import by_controller, by_namespace
from trimtab.ranking import explicit
from trimtab.ranking.explicit import NO_COSTS, GroupCosts
from trimtab.snapshot import Snapshot

CLONESETS = Resource.of(CloneSet)
_BY_CONTROLLER, _BY_NAMESPACE, _BY_OWNER = "controller", "namespace", "owner"


class View:
    """Informers, and queries over them."""

    def __init__(self, client: Client, *, with_costs: bool, rng: random.Random | None = None) -> None:
        self.snapshot = Snapshot()
        self.clonesets: Informer[CloneSet] = Informer(client, CloneSet, indexes={_BY_NAMESPACE: by_namespace}, rng=rng)
        self.pods: Informer[Pod] = Informer(client, Pod, rng=rng)
        self.nodes: Informer[Node] = Informer(client, Node, rng=rng)
        self.revisions: Informer[ControllerRevision] = Informer(
            client, ControllerRevision, indexes={_BY_CONTROLLER: by_controller}, rng=rng
        )
        self.costs: Informer[PodGroupCost] | None = None
        if with_costs:
            self.costs = Informer(client, PodGroupCost, indexes={_BY_OWNER: _by_owner}, rng=rng)
        self.pods.subscribe(added=self._put, updated=lambda _, new: self._put(new), deleted=self._drop)
        self.nodes.subscribe(
            added=self.snapshot.put,
            updated=lambda _, new: self.snapshot.put(new),
            deleted=lambda node: self.snapshot.drop(Node, "", node.metadata.name),
        )

    @property
    def informers(self) -> list[Informer[Any]]:
        """All informers."""
        always: list[Informer[Any]] = [self.clonesets, self.pods, self.nodes, self.revisions]
        return always if self.costs is None else [*always, self.costs]

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
        found = self.costs.store.by(_BY_OWNER, object_key(owner.namespace, owner.name))
        return explicit.sort_group_costs(found, KIND, owner.name, owner.uid)

    def has_pod(self, namespace: str, name: str) -> bool:
        """Whether there is a pod of that name."""
        return object_key(namespace, name) in self.pods.store

    def _put(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None or refers_to(owner, CLONESETS):
            self.snapshot.put(pod)
        else:
            self._drop(pod)

    def _drop(self, pod: Pod) -> None:
        self.snapshot.drop(Pod, pod.metadata.namespace, pod.metadata.name)


def owner_key(costs: PodGroupCost) -> Key | None:
    """The CloneSet that a PodGroupCost is for."""
    owner = costs.spec.owner
    if owner.kind != KIND or explicit.owner_key(costs) is None:
        return None
    return object_key(costs.metadata.namespace, owner.name)


def _by_owner(costs: PodGroupCost) -> Iterable[str]:
    owner = owner_key(costs)
    return () if owner is None else (owner,)
