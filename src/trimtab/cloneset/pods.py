"""Pods made and deleted for a CloneSet, with the events that tell of it.

Pods are made in batches that double: where a batch fails, the rest is not tried, so that what must fail fails once and
not five hundred times. A name that is taken by a pod of ours is the one that was made and has not been seen yet, or
whose answer was lost: it counts as made.

Pods are deleted in the order in which they are to go, some at a time, so that a process that is killed on the way has
deleted those that came first. Each is named by its UID: no successor of the same name is met; one that is gone already
is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from trimtab.api.cloneset import CloneSet
from trimtab.api.codec import encode
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.cloneset import revisions
from trimtab.cloneset.instances import Instance
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder

SUCCESSFUL_CREATE, SUCCESSFUL_DELETE = "SuccessfulCreate", "SuccessfulDelete"
FAILED_CREATE, FAILED_DELETE = "FailedCreate", "FailedDelete"
_NAMESPACE_TERMINATING = "NamespaceTerminating"


class PodKeeper:
    """Makes and deletes pods for CloneSets."""

    def __init__(self, client: Client, recorder: Recorder, *, at_once: int) -> None:
        self._client = client
        self._recorder = recorder
        self._at_once = at_once

    async def create(
        self,
        cloneset: CloneSet,
        revision: str,
        births: Sequence[Instance],
        owner: JSON,
        failed: Callable[[int], None],
    ) -> ApiError | None:
        """Make these pods; the first failure. `failed` is told how many were not made, as soon as that is known."""
        left = list(births)
        for size in batches(len(births)):
            batch, left = left[:size], left[size:]
            bodies = [revisions.pod(cloneset, revision, each, owner) for each in batch]
            outcomes = await asyncio.gather(*(self._create(cloneset, body) for body in bodies))
            failures = [outcome for outcome in outcomes if outcome is not None]
            if failures:
                failed(len(left) + len(failures))
                return failures[0]
        return None

    async def delete(self, cloneset: CloneSet, pods: Sequence[Pod], failed: Callable[[Pod], None]) -> ApiError | None:
        """Delete these pods; the first failure. `failed` is told which deletions will never be observed."""
        waiting = iter(pods)
        failures: list[ApiError] = []

        async def take() -> None:
            for pod in waiting:
                failure = await self._delete(cloneset, pod, failed)
                if failure is not None:
                    failures.append(failure)

        await asyncio.gather(*(take() for _ in range(min(self._at_once, len(pods)))))
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
            self._recorder.record(cloneset, WARNING, FAILED_CREATE, f"Error creating pod {name}: {error.message}")
            return error
        self._recorder.record(cloneset, NORMAL, SUCCESSFUL_CREATE, f"Created pod: {name}")
        return None

    async def _is_ours(self, cloneset: CloneSet, name: str) -> bool:
        """Whether a pod was made before, by us or by who was here before us."""
        try:
            found = await self._client.get(Pod, name, namespace=cloneset.metadata.namespace)
        except ApiError:
            return False
        owner = found.metadata.controller
        return owner is not None and owner.uid == cloneset.metadata.uid and found.active

    async def _delete(self, cloneset: CloneSet, pod: Pod, failed: Callable[[Pod], None]) -> ApiError | None:
        metadata = pod.metadata
        try:
            await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        except NotFound:
            failed(pod)
            return None
        except Conflict as error:  # another pod of that name, which has not been seen yet, or a race that was lost
            failed(pod)
            return error
        except ApiError as error:
            failed(pod)
            message = f"Error deleting pod {metadata.name}: {error.message}"
            self._recorder.record(cloneset, WARNING, FAILED_DELETE, message)
            return error
        self._recorder.record(cloneset, NORMAL, SUCCESSFUL_DELETE, f"Deleted pod: {metadata.name}")
        return None


def batches(count: int) -> Iterator[int]:
    """The sizes of the batches that pods are made in: 1, 2, 4, …"""
    size = 1
    while count > 0:
        yield min(size, count)
        count -= size
        size *= 2


def is_namespace_terminating(error: ApiError) -> bool:
    """Whether a pod could not be made because its namespace is going, or gone: nothing comes of trying again."""
    return isinstance(error, NotFound) or any(cause.reason == _NAMESPACE_TERMINATING for cause in error.causes)
