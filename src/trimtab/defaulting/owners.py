"""What the selector of a new pod is deduced from: its controller, and the services of its namespace.

A controller that is not cached yet, or that the cache knows with another UID, is read uncached: its first pods are
created within milliseconds. A review may be forged: only a controller that exists with the UID of the pod's reference
counts. A cluster may not have the kind CloneSet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.meta import LabelSelector, OwnerReference
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key, object_key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import by_namespace

BY_NAMESPACE = "namespace"

Controller = ReplicaSet | StatefulSet | ReplicationController | CloneSet

KINDS: Mapping[tuple[str, str], type[Controller]] = {
    ("apps", "ReplicaSet"): ReplicaSet,
    ("apps", "StatefulSet"): StatefulSet,
    ("", "ReplicationController"): ReplicationController,
    ("apps.kruise.io", "CloneSet"): CloneSet,
}
"""The controllers whose selectors count, by API group and kind."""


class Owners(CacheGroup):
    """Cached controllers, services and namespaces; a component beside the HTTPS server."""

    def __init__(self, client: Client, caches: Caches[Any] | None = None) -> None:
        """`caches` are those of the process; without them, it has its own."""
        self._client = client.using(retry=NO_RETRIES, urgent=True)
        caches = caches or Caches(client, None)
        kinds: tuple[type[Any], ...] = (*KINDS.values(), Namespace)
        self._caches = {kind: caches.open(kind) for kind in kinds}
        self._services = caches.open(Service, {BY_NAMESPACE: by_namespace})
        required = [each for kind, each in self._caches.items() if kind is not CloneSet]
        super().__init__((*required, self._services), (self._caches[CloneSet],))

    async def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; of one that is not cached yet, by an uncached read."""
        found = self._caches[Namespace].get(Key(name))
        if found is None:
            found = await self._read(Namespace, name, "")
        return {} if found is None else found.metadata.labels

    async def selector(self, owner: OwnerReference | None, namespace: str) -> LabelSelector | None:
        """The selector of a pod's controller; None if it has none, or none that counts."""
        if owner is None:
            return None
        kind = KINDS.get((owner.api_version.rpartition("/")[0], owner.kind))
        if kind is None:
            return None
        found = self._caches[kind].get(object_key(namespace, owner.name))
        if found is None or found.metadata.uid != owner.uid:
            found = await self._read(kind, owner.name, namespace)
        return None if found is None or found.metadata.uid != owner.uid else _selector(found)

    def services(self, namespace: str) -> list[Service]:
        """The services of a namespace."""
        return self._services.store.by(BY_NAMESPACE, namespace)

    async def _read(self, kind: type[Any], name: str, namespace: str) -> Any:
        try:
            return await self._client.get(kind, name, namespace=namespace)
        except NotFound:
            return None


def _selector(controller: Controller) -> LabelSelector | None:
    selector = controller.spec.selector
    return selector if isinstance(selector, LabelSelector) or selector is None else LabelSelector(match_labels=selector)
