"""Taking in and letting go, for real: the writes that `ownership` decides on.

Before anything is adopted the owner is read from the API server itself: what the informer shows may be gone already,
and an object that is given to a deleted owner is deleted with it. One read serves all adoptions of a reconcile.
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
    """Settles claims of owners of one kind on objects of another."""

    def __init__(self, client: Client, owners: Resource[Any], kind: Resource[T]) -> None:
        self._client = client
        self._owners = owners
        self._kind = kind

    async def settle(self, owner: ObjectMeta, claims: Claims[T]) -> tuple[T, ...]:
        """Adopt and release; what the owner has then."""
        for each in claims.released:
            await self._release(owner, each.metadata)
        if not claims.adopted or not await self._still_there(owner):
            return claims.owned
        adopted = [each for each in claims.adopted if await self._adopt(owner, each.metadata)]
        return (*claims.owned, *adopted)

    async def _still_there(self, owner: ObjectMeta) -> bool:
        try:
            live = await self._client.get(self._owners.raw, owner.name, namespace=owner.namespace)
        except NotFound:
            return False
        metadata = live["metadata"]
        there = metadata["uid"] == owner.uid and "deletionTimestamp" not in metadata
        if not there:
            log.info("%s %s/%s adopts nothing: it is going", self._owners.kind, owner.namespace, owner.name)
        return there

    async def _adopt(self, owner: ObjectMeta, adopted: ObjectMeta) -> bool:
        """What is gone, or has found another controller meanwhile (an object has one at most), is not adopted."""
        try:
            await self._patch(adopted, ownership.adoption_patch(self._owners, owner, adopted))
        except (NotFound, Conflict):
            return False
        except Invalid as error:
            log.info("%s %s/%s is not adopted: %s", self._kind.kind, adopted.namespace, adopted.name, error)
            return False
        return True

    async def _release(self, owner: ObjectMeta, released: ObjectMeta) -> None:
        """An object without owners, or with another UID, refuses the patch, and is as free as it can be."""
        try:
            await self._patch(released, ownership.release_patch(owner, released))
        except (NotFound, Invalid) as error:
            log.debug("%s %s/%s is free: %s", self._kind.kind, released.namespace, released.name, error)

    async def _patch(self, metadata: ObjectMeta, patch: JSON) -> None:
        await self._client.patch(
            self._kind, metadata.name, patch, how=PatchKind.STRATEGIC, namespace=metadata.namespace
        )
