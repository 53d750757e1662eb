"""Pods created and deleted for a CloneSet, with events.

Pods are created in batches that double: if a batch fails, the rest is not tried, so that a permanent failure is met
once and not five hundred times. If a pod of ours already has the name, it was created before and has not been observed
yet, or the answer was lost: it counts as created.

Pods are deleted in the order of the plan, some in parallel, so that a process that is killed has deleted the first
ones. Each deletion names the UID, so that no other pod of the same name is deleted.

It is no `kube.pod_writer`: that patches pods that exist, and computes a patch anew after a conflict; here every pod has
an event and an expectation, and a conflict ends the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

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

_NAMESPACE_TERMINATING = "NamespaceTerminating"


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
        left = list(creations)
        for size in batches(len(creations)):
            batch, left = left[:size], left[size:]
            bodies = [revisions.pod(cloneset, revision, each, owner) for each in batch]
            outcomes = await asyncio.gather(*(self._create(cloneset, body) for body in bodies))
            failures = [outcome for outcome in outcomes if outcome is not None]
            if failures:
                failed(len(left) + len(failures))
                return failures[0]
        return None

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
            if is_namespace_terminating(error):
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


def batches(count: int) -> Iterator[int]:
    """The sizes of the batches that pods are created in: 1, 2, 4, …"""
    size = 1
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2


def is_namespace_terminating(error: ApiError) -> bool:
    """Whether a pod could not be created because its namespace is terminating or gone: retrying is pointless."""
    return isinstance(error, NotFound) or any(cause.reason == _NAMESPACE_TERMINATING for cause in error.causes)
