"""Pods created and deleted for a CloneSet, with events.

Pods are created in slow-start batches. If a pod of ours already has the name, it was created before and has not been
observed yet, or the answer was lost: it counts as created.

Pods are deleted in the order of the plan, some in parallel, so that a process that is killed has deleted the first
ones. Each deletion names the UID, so that no other pod of the same name is deleted.

It is no `kube.pod_writer`: that patches pods that exist, and computes a patch anew after a conflict; here every pod has
an event and an expectation, and a conflict ends the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSet
from trimtab.api.codec import encode
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.cloneset import revisions
from trimtab.cloneset.instances import Instance
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.slow_start import create_in_batches


class PodControl:
    """Creates and deletes pods for CloneSets."""

    def __init__(self, client: Client, recorder: Recorder, *, parallel_deletions: int) -> None:
        self._client = client
        self._recorder = recorder
        self._at_once = parallel_deletions

    async def create(
        self,
        cloneset: CloneSet,
        revision: str,
        creations: Sequence[Instance],
        owner: JSON,
        failed: Callable[[int], None],
    ) -> ApiError | None:
        """Create these pods; the first failure. `failed` is called with the number that was not created."""

        async def create(instance: Instance) -> ApiError | None:
            return await self._create(cloneset, revisions.pod(cloneset, revision, instance, owner))

        return await create_in_batches(creations, create, failed)

    async def delete(
        self,
        cloneset: CloneSet,
        pods: Sequence[Pod],
        *,
        deleted: Callable[[Pod], None],
        failed: Callable[[Pod], None],
    ) -> ApiError | None:
        """Delete these pods; the first failure. `deleted` is called for each that the API server has deleted by this,
        `failed` for deletions that will never be observed."""
        waiting = iter(pods)
        failures: list[ApiError] = []

        async def worker() -> None:
            for pod in waiting:
                failure = await self._delete(cloneset, pod, deleted, failed)
                if failure is not None:
                    failures.append(failure)

        await asyncio.gather(*(worker() for _ in range(min(self._at_once, len(pods)))))
        return failures[0] if failures else None

    async def _create(self, cloneset: CloneSet, body: JSON) -> ApiError | None:
        name = body["metadata"]["name"]
        try:
            await self._client.create(Pod, encode(body), namespace=cloneset.metadata.namespace)
        except AlreadyExists as error:
            return None if await self._is_ours(cloneset, name) else error
        except ApiError as error:
            if is_without_namespace(error):
                return error
            self._recorder.record(
                cloneset, WARNING, Reason.FAILED_CREATE, f"Error creating pod {name}: {error.message}"
            )
            return error
        self._recorder.record(cloneset, NORMAL, Reason.SUCCESSFUL_CREATE, f"Created pod: {name}")
        return None

    async def _is_ours(self, cloneset: CloneSet, name: str) -> bool:
        """Whether the pod was created for this CloneSet, by this process or an earlier one."""
        try:
            existing = await self._client.get(Pod, name, namespace=cloneset.metadata.namespace)
        except ApiError:
            return False
        owner = existing.metadata.controller
        return owner is not None and owner.uid == cloneset.metadata.uid and existing.active

    async def _delete(
        self, cloneset: CloneSet, pod: Pod, deleted: Callable[[Pod], None], failed: Callable[[Pod], None]
    ) -> ApiError | None:
        metadata = pod.metadata
        try:
            await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFound:
            failed(pod)
            return None
        except Conflict as error:  # another pod of that name, which has not been observed yet, or a lost race
            failed(pod)
            return error
        except ApiError as error:
            failed(pod)
            message = f"Error deleting pod {metadata.name}: {error.message}"
            self._recorder.record(cloneset, WARNING, Reason.FAILED_DELETE, message)
            return error
        deleted(pod)
        self._recorder.record(cloneset, NORMAL, Reason.SUCCESSFUL_DELETE, f"Deleted pod: {metadata.name}")
        return None


def is_without_namespace(error: ApiError) -> bool:
    """Whether a pod could not be created because its namespace is terminating or gone: retrying is pointless."""
    return isinstance(error, NotFound) or error.is_namespace_terminating
