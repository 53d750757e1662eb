"""ControllerRevisions of CloneSets: created, renumbered and deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from trimtab.api.apps import ControllerRevision
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.api.templates import same
from trimtab.cloneset import revisions
from trimtab.cloneset.revisions import NewRevision
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, Conflict, NotFound


class NameCollision(Exception):  # noqa: N818 - not an error: the next hash will be different
    """The name of a new revision is taken by another object."""


class History:
    """Writes the revisions of CloneSets."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ensure(self, cloneset: CloneSet, known: Sequence[ControllerRevision], owner: JSON) -> str:
        """The name of the newest revision, which exists and has the highest number. Raises NameCollision."""
        newest = revisions.newest(cloneset, known, owner)
        if newest.creation is not None:
            await self._create(cloneset, newest.creation, owner)
        elif newest.renumbered is not None:
            await self._renumber(newest.renumbered, newest.number)
        return newest.name

    async def truncate(self, known: Sequence[ControllerRevision], live: Collection[str], limit: int) -> None:
        """Delete revisions beyond the limit."""
        for revision in revisions.expired(known, live, limit):
            metadata = revision.metadata
            try:
                await self._client.delete(
                    ControllerRevision, metadata.name, namespace=metadata.namespace, uid=metadata.uid
                )
            except (NotFound, Conflict):
                continue

    async def _create(self, cloneset: CloneSet, creation: NewRevision, owner: JSON) -> None:
        namespace = cloneset.metadata.namespace
        try:
            await self._client.create(ControllerRevision, creation.body, namespace=namespace)
        except AlreadyExists:
            existing = await self._client.get(ControllerRevision, creation.name, namespace=namespace)
            await self._adopt(cloneset, existing, owner)

    async def _adopt(self, cloneset: CloneSet, existing: ControllerRevision, owner: JSON) -> None:
        """Use an existing revision of this name: ours and not observed yet, or an orphan with the same template."""
        metadata = existing.metadata
        holder = metadata.controller
        if not same(revisions.template_of(existing), cloneset.spec.template):
            raise NameCollision
        if holder is None:
            patch = {"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": [owner]}}
            await self._client.patch(ControllerRevision, metadata.name, patch, namespace=metadata.namespace)
        elif holder.uid != cloneset.metadata.uid:
            raise NameCollision

    async def _renumber(self, revision: ControllerRevision, number: int) -> None:
        metadata = revision.metadata
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "revision": number}
        await self._client.patch(ControllerRevision, metadata.name, patch, namespace=metadata.namespace)
