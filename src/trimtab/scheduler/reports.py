"""Events and the condition `PodScheduled` of pods, as kube-scheduler writes them.

| | event | condition |
|---|---|---|
| bound | Normal `Scheduled`, action `Binding` | the API server sets it to True with the binding |
| all nodes refused | Warning `FailedScheduling`, action `Scheduling` | False, `Unschedulable`, the same message |
| the attempt failed | the same | False, `SchedulerError`, the same message |

Only this condition is patched, and only if it changes: other conditions and the nominated node belong to other
components. Of several pending patches for one pod, the last one is written. A patch that fails is dropped: the next
attempt writes the condition again.

Bindings go first: events of bound pods wait until a burst of them is over (see `bursts`), and have a long backlog for
that. What is said of pods that are not bound does not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from trimtab.api import times
from trimtab.api.annotations import Reason
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.components import run_together
from trimtab.kube.errors import Conflict, KubeError, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.scheduler.bursts import Bursts

POD_SCHEDULED = "PodScheduled"

_WRITERS = 2
_BOUND_WRITERS = 8
"""Tasks that write events of bound pods: after a burst there are many at once."""
_BACKLOG = 20_000
_GRACE = 5.0
"""Seconds that writing the last events may take."""
_LONGEST_NOTE = 1024
"""The most bytes that an API server accepts as the text of an event."""
_ELLIPSIS = " ..."

log = logging.getLogger(__name__)


class Reporter:
    """Records events and conditions of pods; `run` writes them."""

    def __init__(
        self, client: Client, writer: Client, profiles: Collection[str], *, bursts: Bursts, instance: str = ""
    ) -> None:
        """`writer` writes conditions, and only as the leader; events of bound pods are written in any case."""
        self._client = writer
        self._clock = client.clock

        def recorders(writers: int, before_write: Callable[[], Awaitable[None]] | None) -> Mapping[str, Recorder]:
            return {
                name: Recorder(
                    client,
                    component=name,
                    instance=f"{name}-{instance}" if instance else name,
                    backlog=_BACKLOG,
                    before_write=before_write,
                    writers=writers,
                    grace=_GRACE,
                )
                for name in profiles
            }

        self._of_bound = recorders(_BOUND_WRITERS, bursts.wait)
        self._of_others = recorders(_WRITERS, None)
        self._conditions: dict[str, tuple[Pod, JSON]] = {}
        self._has_conditions = asyncio.Event()

    def report_scheduled(self, pod: Pod, node: str) -> None:
        """Report that a pod was bound."""
        self._conditions.pop(pod.metadata.uid, None)
        self._of_bound[pod.spec.scheduler_name].record(
            pod, NORMAL, Reason.SCHEDULED, f"Successfully assigned {pod.key} to {node}", action="Binding"
        )

    def report_failed(self, pod: Pod, message: str, reason: Reason) -> None:
        """Report that a pod was not scheduled, with this reason of its condition."""
        self._of_others[pod.spec.scheduler_name].record(
            pod, WARNING, Reason.FAILED_SCHEDULING, _shortened(message), action="Scheduling"
        )
        condition = self._condition(pod, message, reason)
        if condition is not None:
            self._conditions[pod.metadata.uid] = (pod, condition)
            self._has_conditions.set()

    async def run(self) -> None:
        """Write what was recorded until cancelled, and then the events that are left."""
        conditions = (self._write() for _ in range(_WRITERS))
        await run_together((recorder.run() for recorder in self._recorders), conditions)

    @property
    def pending(self) -> int:
        """The number of events that wait to be written."""
        return sum(recorder.pending for recorder in self._recorders)

    @property
    def _recorders(self) -> Sequence[Recorder]:
        return (*self._of_others.values(), *self._of_bound.values())

    def _condition(self, pod: Pod, message: str, reason: Reason) -> JSON | None:
        """The condition to write; None if the pod already has it."""
        known = pod.status.condition(POD_SCHEDULED)
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return None
        condition: JSON = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = times.format_time(self._clock.now())
        return condition

    async def _write(self) -> None:
        while True:
            while not self._conditions:
                self._has_conditions.clear()
                await self._has_conditions.wait()
            uid = next(iter(self._conditions))
            await self._patch(*self._conditions.pop(uid))

    async def _patch(self, pod: Pod, condition: JSON) -> None:
        metadata = pod.metadata
        patch = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                Pod,
                metadata.name,
                patch,
                how=PatchKind.STRATEGIC,
                namespace=metadata.namespace,
                subresource="status",
            )
        except (Conflict, NotFound):
            log.debug("pod %s was deleted before its condition was written", pod.key)
        except KubeError as error:
            log.warning("cannot write the condition PodScheduled of pod %s: %s", pod.key, error)


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_NOTE:
        return message
    return encoded[: _LONGEST_NOTE - len(_ELLIPSIS)].decode("utf-8", "ignore") + _ELLIPSIS
