"""A pod is about to be deleted or evicted: its place is announced to be free soon.

The announcement (`deleting` in the status) is for the pod's successor, which comes as soon as the pod is terminating
and often before any controller has counted again. It is made for pods that carry a mark, and are not going already: a
kubelet deletes a terminating pod once more when it has ended. Every request is admitted, and a dry run leaves no trace;
`kubectl drain --dry-run=server` says so in the body of the eviction alone.

A validating webhook is asked before a disruption budget is, and cannot know what comes of the request. So it looks
again after a while, and takes back what was announced for a pod that lives on; so does the controller, should this
process end before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from trimtab.admission.server import Hook, admitted
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.clocks import Clock, cancel
from trimtab.kube.resources import Key, object_key
from trimtab.unitedtopology.admission.status_batcher import Rounds
from trimtab.unitedtopology.admission.topologies import Topologies

NAME = "deletions"
PATH = "/deletions"
BUDGET = 1.0
"""Seconds in which a deletion is announced, or goes on without."""
SECOND_LOOK = 1.2
"""Seconds after which a pod that lives on is not going to be deleted: its trace is to be gone after two."""

log = logging.getLogger(__name__)


class DeletionReviews:
    """The hook of pods that are deleted or evicted."""

    def __init__(
        self, topologies: Topologies, rounds: Rounds, clock: Clock, *, budget: float = BUDGET, wait: float = SECOND_LOOK
    ) -> None:
        self._topologies = topologies
        self._rounds = rounds
        self._clock = clock
        self._wait = wait
        self._looks: set[asyncio.Task[None]] = set()
        self.hooks: Sequence[Hook] = (Hook(NAME, PATH, self.decide, budget),)

    async def decide(self, request: AdmissionRequest) -> AdmissionResponse:
        """Admit, after the deletion was announced."""
        if not is_dry_run(request) and self._topologies.any_in(request.namespace):
            pod = await self._pod(request)
            if pod is not None and pod.active:
                await self._announce(pod, request.namespace)
        return admitted(request)

    async def close(self) -> None:
        """Leave what is to be looked at again to the controller."""
        await cancel(*self._looks)

    async def _pod(self, request: AdmissionRequest) -> Pod | None:
        """The pod of a review; one of an eviction shows the eviction alone."""
        if request.operation == "DELETE" and not request.sub_resource and request.old_object is not None:
            return codec.decode(request.old_object.text, Pod)
        if request.operation == "CREATE" and request.sub_resource == "eviction":
            return await self._rounds.lookups.pod(_evicted(request), namespace=request.namespace)
        return None

    async def _announce(self, pod: Pod, namespace: str) -> None:
        mark = keys.subset_annotations(pod.metadata.annotations)
        topology = self._topologies.get(object_key(namespace, mark.topology)) if mark is not None else None
        if topology is None or topology.metadata.deletion_timestamp is not None:
            return
        if not self._topologies.is_usable(topology):
            return  # nobody counts for it
        a_key = object_key(namespace, topology.metadata.name)
        if await self._rounds.leave(a_key, pod.metadata.name, pod.metadata.uid):
            look = asyncio.get_running_loop().create_task(self._look_again(a_key, pod.metadata.name))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _look_again(self, a_key: Key, name: str) -> None:
        await self._clock.sleep(self._wait)
        self._rounds.take_back(a_key, name)


def is_dry_run(request: AdmissionRequest) -> bool:
    """Whether nothing will come of a request, wherever it says so."""
    said: list[JSON] = [request.options.tree()] if request.options is not None else []
    if request.sub_resource == "eviction" and request.object is not None:
        said.append(request.object.tree().get("deleteOptions") or {})
    return request.dry_run or any(options.get("dryRun") for options in said)


def _evicted(request: AdmissionRequest) -> str:
    metadata: JSON = (request.object.tree().get("metadata") or {}) if request.object is not None else {}
    return request.name or str(metadata.get("name", ""))
