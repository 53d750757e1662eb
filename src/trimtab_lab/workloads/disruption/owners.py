"""The size of an owner: from the informers for watched kinds, otherwise from its scale subresource.

The path of the `scale` subresource comes from the API server's discovery; a kind that is not served, or that has no
scale, cannot be counted.
"""

from __future__ import annotations

from typing import Any

from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.core import ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.meta import OwnerReference
from trimtab.kube import ownership
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, object_key, untyped
from trimtab_lab.workloads.disruption.budgets import Owner

Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet


class UncountableError(Exception):
    """An owner's size cannot be determined."""


class Owners:
    """Looks up the owners of pods."""

    def __init__(
        self,
        client: Client,
        *,
        deployments: Informer[Deployment],
        sets: Informer[ReplicaSet],
        controllers: Informer[ReplicationController],
        stateful: Informer[StatefulSet],
    ) -> None:
        self._client = client
        self._deployments = deployments
        self._sets = sets
        self._plain: tuple[Informer[ReplicationController] | Informer[StatefulSet], ...] = (controllers, stateful)

    async def find(self, reference: OwnerReference, namespace: str) -> Owner | None:
        """The owner that counts: a Deployment if the controller is one of its ReplicaSets. None if it is gone."""
        return self._known(reference, namespace) or await self._by_scale(reference, namespace)

    def _known(self, reference: OwnerReference, namespace: str) -> Owner | None:
        for informer in self._plain:
            if ownership.refers_to(reference, informer.resource):
                return _owner(informer.get(object_key(namespace, reference.name)), reference)
        if not ownership.refers_to(reference, Resource.of(ReplicaSet)):
            return None
        replicaset = self._sets.get(object_key(namespace, reference.name))
        found = _owner(replicaset, reference)
        above = replicaset.metadata.controller if replicaset is not None else None
        if found is None or above is None or not ownership.refers_to(above, Resource.of(Deployment)):
            return found
        return _owner(self._deployments.get(object_key(namespace, above.name)), above)

    async def _by_scale(self, reference: OwnerReference, namespace: str) -> Owner | None:
        resource = await self._resource(reference)
        try:
            scale = await self._client.scale(resource, reference.name, namespace=namespace)
        except NotFound:
            return None
        return Owner(reference.uid, scale.spec.replicas) if scale.metadata.uid == reference.uid else None

    async def _resource(self, reference: OwnerReference) -> Resource[JSON]:
        """The resource of a kind, by discovery."""
        root = "apis" if "/" in reference.api_version else "api"
        try:
            response = await self._client.call("GET", f"/{root}/{reference.api_version}")
        except NotFound:
            raise _no_match(reference) from None
        served: list[JSON] = codec.decode(response.body, dict[str, Any]).get("resources", [])
        names = {each["name"]: each for each in served}
        plural = next((n for n, each in names.items() if each["kind"] == reference.kind and "/" not in n), None)
        if plural is None:
            raise _no_match(reference)
        if f"{plural}/scale" not in names:
            raise UncountableError(f"{_group_resource(plural, reference)} does not implement the scale subresource")
        return untyped(reference.api_version, reference.kind, plural)


def _owner(found: Workload | None, reference: OwnerReference) -> Owner | None:
    if found is None or found.metadata.uid != reference.uid:
        return None
    return Owner(reference.uid, found.desired_replicas)


def _no_match(reference: OwnerReference) -> UncountableError:
    return UncountableError(f'no matches for kind "{reference.kind}" in version "{reference.api_version}"')


def _group_resource(plural: str, reference: OwnerReference) -> str:
    group, slash, _ = reference.api_version.rpartition("/")
    return f"{plural}.{group}" if slash else plural
