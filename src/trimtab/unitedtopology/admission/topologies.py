"""The UnitedTopology that applies to a pod, by its owner, from the caches of the webhook process.

A pod of a Deployment is owned by a ReplicaSet, and that by the Deployment, which then is the target. A ReplicaSet that
is not cached yet is read uncached, because its first pods are created within milliseconds. Of two UnitedTopologies with
the same target the older one applies; while that is invalid, or is being deleted, pods are admitted without a subset.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from trimtab.api import unitedtopology
from trimtab.api.apps import ReplicaSet
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Key, object_key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import by_namespace, key_of
from trimtab.unitedtopology.targets import by_target, creation_order, target_key

_BY_NAMESPACE = "namespace"
_BY_TARGET = "target"


class Topologies:
    """Cached UnitedTopologies and ReplicaSets, kept current while `run` runs."""

    def __init__(self, client: Client, *, rng: random.Random | None = None) -> None:
        self._client = client.using(retry=NO_RETRIES, urgent=True)
        self._topologies: Informer[UnitedTopology] = Informer(
            client, UnitedTopology, indexes={_BY_NAMESPACE: by_namespace, _BY_TARGET: by_target}, rng=rng
        )
        self._sets: Informer[ReplicaSet] = Informer(client, ReplicaSet, rng=rng)
        self._usable: dict[tuple[str, int], bool] = {}
        self._topologies.subscribe(deleted=self._forget)

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled. Where the kind is not installed, there are no UnitedTopologies."""
        return self._sets.synced and self._topologies.is_known

    @property
    def problems(self) -> list[str]:
        """The failures of the watches."""
        watched = [informer for informer in self._informers if informer.problem and not informer.absent]
        return [f"{informer.resource.plural}: {informer.problem}" for informer in watched]

    async def run(self) -> None:
        """Keep the caches current until cancelled."""
        tasks = [asyncio.ensure_future(informer.run()) for informer in self._informers]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancel(*tasks)

    def on_deleted(self, callback: Callable[[Key], None]) -> None:
        """Call back for every UnitedTopology that is deleted."""
        self._topologies.subscribe(deleted=lambda topology: callback(key_of(topology)))

    def get(self, key: Key) -> UnitedTopology | None:
        """A UnitedTopology as last seen."""
        return self._topologies.get(key)

    def has_any_in(self, namespace: str) -> bool:
        """Whether a namespace has a UnitedTopology: pods of all others are admitted at once."""
        return bool(self._topologies.store.by(_BY_NAMESPACE, namespace))

    async def find(self, metadata: ObjectMeta, namespace: str) -> UnitedTopology | None:
        """The UnitedTopology that applies to a pod; reads the pod's ReplicaSet if it is not cached."""
        owner = metadata.controller
        if owner is None or not self.has_any_in(namespace):
            return None
        parent = await self._parent(owner, namespace) if owner.kind == "ReplicaSet" else None
        return self._of(parent or owner, namespace)

    def find_cached(self, metadata: ObjectMeta, namespace: str) -> UnitedTopology | None:
        """The UnitedTopology that applies to a pod, from the caches alone."""
        owner = metadata.controller
        if owner is None:
            return None
        replicaset = self._sets.get(object_key(namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        parent = replicaset.metadata.controller if replicaset is not None else None
        return self._of(parent or owner, namespace)

    def is_usable(self, topology: UnitedTopology) -> bool:
        """Whether it is valid and not being deleted; validated once for each generation."""
        if topology.metadata.deletion_timestamp is not None:
            return False
        version = (topology.metadata.uid, topology.metadata.generation)
        if version not in self._usable:
            self._usable[version] = next(unitedtopology.problems(topology), None) is None
        return self._usable[version]

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._topologies, self._sets)

    async def _parent(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """The owner of a ReplicaSet."""
        replicaset = self._sets.get(object_key(namespace, owner.name))
        if replicaset is None or replicaset.metadata.uid != owner.uid:
            try:
                replicaset = await self._client.get(ReplicaSet, owner.name, namespace=namespace)
            except NotFound:
                return None
        return replicaset.metadata.controller if replicaset.metadata.uid == owner.uid else None

    def _of(self, workload: OwnerReference, namespace: str) -> UnitedTopology | None:
        if workload.kind not in unitedtopology.TARGETS.get(workload.api_version, ()):
            return None
        topologies = self._topologies.store.by(_BY_TARGET, target_key(workload.kind, namespace, workload.name))
        first = min(topologies, key=creation_order, default=None)
        return first if first is not None and self.is_usable(first) else None

    def _forget(self, topology: UnitedTopology) -> None:
        uid = topology.metadata.uid
        self._usable = {version: usable for version, usable in self._usable.items() if version[0] != uid}
