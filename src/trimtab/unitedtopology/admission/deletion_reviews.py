"""Reviews of pods that are about to be deleted or evicted: the deletion is announced in the status.

The announcement (`deleting` in the status) is for the pod's successor, which is created as soon as the pod is
terminating and often before the controller has recounted. It is made for annotated pods that are not terminating yet: a
kubelet deletes a terminating pod once more when it has ended. Every request is admitted, and a dry run changes nothing;
`kubectl drain --dry-run=server` marks the dry run in the body of the eviction only.

A validating webhook is called before a disruption budget is checked, and does not know whether the request succeeds. So
the pod is checked again after a delay, and the announcement is reverted if the pod still exists; the controller does
the same, should this process end before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from trimtab.admission.server import Hook, admitted, size_of
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.annotations import subset_annotations
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.clocks import Clock, cancel
from trimtab.kube.resources import Key, object_key
from trimtab.kube.threads import read_beside
from trimtab.unitedtopology.admission.status_batcher import StatusBatcher
from trimtab.unitedtopology.admission.topologies import Topologies

NAME = "deletions"
PATH = "/deletions"
BUDGET = 0.8
"""Seconds after which a deletion is admitted without an announcement."""
CHECK_AFTER = 1.2
"""Seconds after which a pod that still exists will not be deleted: its entry must be gone after two."""

log = logging.getLogger(__name__)


class DeletionReviews:
    """The hook for deletions and evictions of pods."""

    def __init__(
        self,
        topologies: Topologies,
        batcher: StatusBatcher,
        clock: Clock,
        *,
        budget: float = BUDGET,
        wait: float = CHECK_AFTER,
    ) -> None:
        self._topologies = topologies
        self._batcher = batcher
        self._clock = clock
        self._wait = wait
        self._checks: set[asyncio.Task[None]] = set()
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, after announcing the deletion."""
        is_relevant = self._topologies.has_any_in(request.namespace)
        if is_relevant and not await read_beside(size_of(request), is_dry_run, request):
            pod = await self._pod(request)
            if pod is not None and pod.active:
                await self._announce(pod, request.namespace)
        return admitted(request)

    async def close(self) -> None:
        """Cancel pending checks, which are left to the controller."""
        await cancel(*self._checks)

    async def _pod(self, request: AdmissionRequest) -> Pod | None:
        """The pod of a review; the review of an eviction does not contain it."""
        if request.operation == "DELETE" and not request.sub_resource and request.old_object is not None:
            return await read_beside(size_of(request), codec.decode, request.old_object.text, Pod)
        if request.operation == "CREATE" and request.sub_resource == "eviction":
            name = await read_beside(size_of(request), _evicted, request)
            return await self._batcher.lookups.pod(name, namespace=request.namespace)
        return None

    async def _announce(self, pod: Pod, namespace: str) -> None:
        annotations = subset_annotations(pod.metadata.annotations)
        topology = self._topologies.get(object_key(namespace, annotations.topology)) if annotations else None
        if topology is None or not await self._topologies.validate(topology):
            return
        key = object_key(namespace, topology.metadata.name)
        if await self._batcher.announce_deletion(key, pod.metadata.name, pod.metadata.uid):
            check = asyncio.get_running_loop().create_task(self._revert_later(key, pod.metadata.name))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _revert_later(self, key: Key, name: str) -> None:
        await self._clock.sleep(self._wait)
        self._batcher.revert_deletion(key, name)


def is_dry_run(request: AdmissionRequest) -> bool:
    """Whether a request is a dry run, by any of its fields."""
    options: list[JSON] = [request.options.tree()] if request.options is not None else []
    if request.sub_resource == "eviction" and request.object is not None:
        options.append(request.object.tree().get("deleteOptions") or {})
    return request.dry_run or any(each.get("dryRun") for each in options)


def _evicted(request: AdmissionRequest) -> str:
    metadata: JSON = (request.object.tree().get("metadata") or {}) if request.object is not None else {}
    return request.name or str(metadata.get("name", ""))
