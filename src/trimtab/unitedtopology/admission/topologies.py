"""Which UnitedTopology a pod belongs to, by its owner: what the webhooks of pods know of a cluster.

A pod of a Deployment is owned by a ReplicaSet, and that by the Deployment, which then is what can be divided. A
ReplicaSet that is younger than this cache is read live, for its first pods come within milliseconds. Of two
UnitedTopologies for one workload the older one stands; while that cannot be followed, or is being deleted, pods go on
as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
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

_FIRST = datetime.min.replace(tzinfo=UTC)
_BY_NAMESPACE = "namespace"
_BY_TARGET = "target"


class Topologies:
    """UnitedTopologies and ReplicaSets as last seen, while `run` runs."""

    def __init__(self, client: Client, *, rng: random.Random | None = None) -> None:
        self._client = client.using(retry=NO_RETRIES, urgent=True)
        self._topologies: Informer[UnitedTopology] = Informer(
            client, UnitedTopology, indexes={_BY_NAMESPACE: by_namespace, _BY_TARGET: _by_target}, rng=rng
        )
        self._sets: Informer[ReplicaSet] = Informer(client, ReplicaSet, rng=rng)
        self._usable: dict[tuple[str, int], bool] = {}
        self._topologies.subscribe(deleted=self._forget)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return all(informer.synced for informer in self._informers)

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        return [f"{informer.resource.plural}: {informer.problem}" for informer in self._informers if informer.problem]

    async def run(self) -> None:
        """Keep up with the cluster until cancelled."""
        tasks = [asyncio.ensure_future(informer.run()) for informer in self._informers]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await cancel(*tasks)

    def tell_gone(self, tell: Callable[[Key], None]) -> None:
        """Have somebody told of every UnitedTopology that is deleted."""
        self._topologies.subscribe(deleted=lambda topology: tell(key_of(topology)))

    def get(self, a_key: Key) -> UnitedTopology | None:
        """A UnitedTopology as last seen."""
        return self._topologies.get(a_key)

    def any_in(self, namespace: str) -> bool:
        """Whether a namespace has any: pods of all others are nobody's business."""
        return bool(self._topologies.store.by(_BY_NAMESPACE, namespace))

    async def governing(self, metadata: ObjectMeta, namespace: str) -> UnitedTopology | None:
        """The UnitedTopology of a pod, by its owner."""
        owner = metadata.controller
        if owner is None or not self.any_in(namespace):
            return None
        above = await self._above(owner, namespace) if owner.kind == "ReplicaSet" else None
        whose = above or owner
        return self._of(whose.api_version, whose.kind, namespace, whose.name)

    def known(self, metadata: ObjectMeta, namespace: str) -> UnitedTopology | None:
        """The UnitedTopology of a pod, as far as that is known without asking."""
        owner = metadata.controller
        if owner is None:
            return None
        found = self._sets.get(object_key(namespace, owner.name)) if owner.kind == "ReplicaSet" else None
        above = found.metadata.controller if found is not None else None
        whose = above or owner
        return self._of(whose.api_version, whose.kind, namespace, whose.name)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._topologies, self._sets)

    async def _above(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        """The owner's owner."""
        found = self._sets.get(object_key(namespace, owner.name))
        if found is None or found.metadata.uid != owner.uid:
            try:
                found = await self._client.get(ReplicaSet, owner.name, namespace=namespace)
            except NotFound:
                return None
        return found.metadata.controller if found.metadata.uid == owner.uid else None

    def _of(self, api_version: str, kind: str, namespace: str, name: str) -> UnitedTopology | None:
        if kind not in unitedtopology.TARGETS.get(api_version, ()):
            return None
        known = self._topologies.store.by(_BY_TARGET, f"{kind}/{namespace}/{name}")
        first = min(known, key=_seniority, default=None)
        return first if first is not None and self.is_usable(first) else None

    def is_usable(self, topology: UnitedTopology) -> bool:
        """Whether it can be followed; judged once for each generation."""
        if topology.metadata.deletion_timestamp is not None:
            return False
        version = (topology.metadata.uid, topology.metadata.generation)
        if version not in self._usable:
            self._usable[version] = next(unitedtopology.problems(topology), None) is None
        return self._usable[version]

    def _forget(self, topology: UnitedTopology) -> None:
        uid = topology.metadata.uid
        self._usable = {version: usable for version, usable in self._usable.items() if version[0] != uid}


def _by_target(topology: UnitedTopology) -> Iterable[str]:
    target = topology.spec.target_ref
    return (f"{target.kind}/{topology.metadata.namespace}/{target.name}",)


def _seniority(topology: UnitedTopology) -> tuple[datetime, str]:
    return topology.metadata.creation_timestamp or _FIRST, topology.metadata.name
