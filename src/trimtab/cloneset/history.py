"""ControllerRevisions made, renumbered and deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.api.templates import same
from trimtab.cloneset import revisions
from trimtab.cloneset.revisions import Birth
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, Conflict, NotFound


class Collision(Exception):  # noqa: N818 - not an error: the next hash will be another
    """A revision's name is taken by something else."""


class History:
    """The revisions of CloneSets."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def settle(self, cloneset: CloneSet, known: Sequence[ControllerRevision], owner: JSON) -> str:
        """The name of the newest revision, which is there and has the highest number. Raises Collision."""
        newest = revisions.newest(cloneset, known, owner)
        if newest.birth is not None:
            await self._create(cloneset, newest.birth, owner)
        elif newest.renumbered is not None:
            await self._renumber(newest.renumbered, newest.number)
        return newest.name

    async def forget(self, known: Sequence[ControllerRevision], live: Collection[str], limit: int) -> None:
        """Delete what is beyond the limit."""
        for revision in revisions.forgotten(known, live, limit):
            metadata = revision.metadata
            try:
                await self._client.delete(
                    ControllerRevision, metadata.name, namespace=metadata.namespace, uid=metadata.uid
                )
            except (NotFound, Conflict):
                continue

    async def _create(self, cloneset: CloneSet, birth: Birth, owner: JSON) -> None:
        namespace = cloneset.metadata.namespace
        try:
            await self._client.create(ControllerRevision, birth.body, namespace=namespace)
        except AlreadyExists:
            found = await self._client.get(ControllerRevision, birth.name, namespace=namespace)
            await self._take_over(cloneset, found, owner)

    async def _take_over(self, cloneset: CloneSet, found: ControllerRevision, owner: JSON) -> None:
        """What is there is ours and not seen yet, or one of the same template without an owner, or a stranger."""
        metadata = found.metadata
        holder = metadata.controller
        if not same(revisions.template_of(found), cloneset.spec.template):
            raise Collision
        if holder is None:
            patch = {"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": [owner]}}
            await self._client.patch(ControllerRevision, metadata.name, patch, namespace=metadata.namespace)
        elif holder.uid != cloneset.metadata.uid:
            raise Collision

    async def _renumber(self, revision: ControllerRevision, number: int) -> None:
        metadata = revision.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "revision": number}
        await self._client.patch(ControllerRevision, metadata.name, patch, namespace=metadata.namespace)
