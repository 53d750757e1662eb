"""Adoption and release of objects: the writes that `ownership` decides on.

Before an object is adopted, the owner is read uncached: the informer may still show a deleted owner, and an object
that is adopted by a deleted owner is garbage-collected. One read serves all adoptions of a reconcile.
"""

from __future__ import annotations

import logging
from typing import Any, Generic, TypeVar

from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectMeta
from trimtab.kube import ownership
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.errors import Conflict, Invalid, NotFound
from trimtab.kube.ownership import Claims
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Object

T = TypeVar("T", bound=Object)

log = logging.getLogger(__name__)


class Adopter(Generic[T]):
    """Adopts and releases objects of one kind for owners of another."""

    def __init__(self, client: Client, owners: Resource[Any], kind: Resource[T]) -> None:
        self._client = client
        self._owners = owners
        self._kind = kind

    async def settle(self, owner: ObjectMeta, claims: Claims[T]) -> tuple[T, ...]:
        """Adopt and release objects; return those that the owner then has."""
        for each in claims.released:
            await self._release(owner, each.metadata)
        if not claims.adopted or not await self._exists(owner):
            return claims.owned
        adopted = [each for each in claims.adopted if await self._adopt(owner, each.metadata)]
        return (*claims.owned, *adopted)

    async def _exists(self, owner: ObjectMeta) -> bool:
        try:
            current = await self._client.get(self._owners, owner.name, namespace=owner.namespace)
        except NotFound:
            return False
        exists = current.metadata.uid == owner.uid and current.metadata.deletion_timestamp is None
        if not exists:
            log.info("%s %s/%s adopts nothing: it is being deleted", self._owners.kind, owner.namespace, owner.name)
        return exists

    async def _adopt(self, owner: ObjectMeta, adopted: ObjectMeta) -> bool:
        """Whether the object was adopted: it may be deleted, or have another controller by now."""
        try:
            await self._patch(adopted, ownership.adoption_patch(self._owners, owner, adopted))
        except (NotFound, Conflict):
            return False
        except Invalid as error:
            log.info("%s %s/%s was not adopted: %s", self._kind.kind, adopted.namespace, adopted.name, error)
            return False
        return True

    async def _release(self, owner: ObjectMeta, released: ObjectMeta) -> None:
        """Remove the owner reference. An object without owners, or with another UID, refuses the patch."""
        try:
            await self._patch(released, ownership.release_patch(owner, released))
        except (NotFound, Invalid) as error:
            log.debug("%s %s/%s is already released: %s", self._kind.kind, released.namespace, released.name, error)

    async def _patch(self, metadata: ObjectMeta, patch: JSON) -> None:
        await self._client.patch(
            self._kind, metadata.name, patch, how=PatchKind.STRATEGIC, namespace=metadata.namespace
        )
