"""What people are told of a pod: events, and the condition `PodScheduled`; as kube-scheduler writes them.

| | event | condition |
|---|---|---|
| bound | Normal `Scheduled`, action `Binding` | the API server sets it to True with the binding |
| no node will do | Warning `FailedScheduling`, action `Scheduling` | False, `Unschedulable`, the same sentence |
| something failed | the same | False, `SchedulerError`, the same sentence |

The condition is patched where it says something else than before, and only it: other conditions and the nominated node
are not ours. Of several patches for one pod that wait to be written, the last one counts. One that cannot be written is
not tried again for long: the next attempt says it anew.

Pods may be bound faster than events can be written. They wait in line then, a long one: bindings go first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import cancel, within
from trimtab.kube.errors import Conflict, KubeError, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

_WRITERS = 2
_BACKLOG = 20_000
_LONGEST_NOTE = 1024
"""Bytes of an event's text: an API server takes no more."""
_CUT = " ..."

log = logging.getLogger(__name__)


class Reporter:
    """Notes what there is to tell; `run` writes it."""

    def __init__(self, client: Client, writer: Client, profiles: Iterable[str], *, instance: str = "") -> None:
        """`writer` writes conditions, and may refuse to; whoever has bound a pod may always say so in an event."""
        self._client = writer
        self._clock = client.clock
        self._recorders: Mapping[str, Recorder] = {
            name: Recorder(
                client, component=name, instance=f"{name}-{instance}" if instance else name, backlog=_BACKLOG
            )
            for name in profiles
        }
        self._conditions: dict[str, tuple[Pod, JSON]] = {}
        self._noted = asyncio.Event()

    def scheduled(self, pod: Pod, node: str) -> None:
        """A pod is bound."""
        self._conditions.pop(pod.metadata.uid, None)
        self._recorder(pod).record(
            pod, NORMAL, "Scheduled", f"Successfully assigned {pod.key} to {node}", action="Binding"
        )

    def failed(self, pod: Pod, sentence: str, reason: str) -> None:
        """A pod could not be scheduled, for that reason."""
        self._recorder(pod).record(pod, WARNING, "FailedScheduling", _cut(sentence), action="Scheduling")
        condition = self._condition(pod, sentence, reason)
        if condition is not None:
            self._conditions[pod.metadata.uid] = (pod, condition)
            self._noted.set()

    async def run(self) -> None:
        """Write what is noted, until cancelled."""
        writers = [asyncio.ensure_future(self._write()) for _ in range(_WRITERS)]
        for recorder in self._recorders.values():
            writers += [asyncio.ensure_future(recorder.run()) for _ in range(_WRITERS)]
        try:
            await asyncio.gather(*writers)
        finally:
            await cancel(*writers)

    async def flush(self, seconds: float) -> None:
        """Let the events that were noted be written, for so long at most."""
        for recorder in self._recorders.values():
            try:
                await within(self._clock, seconds, recorder.flush())
            except TimeoutError:
                log.info("some events are left unwritten")

    def _recorder(self, pod: Pod) -> Recorder:
        return self._recorders[pod.spec.scheduler_name]

    def _condition(self, pod: Pod, message: str, reason: str) -> JSON | None:
        """The condition to write; None if that is what the pod says already."""
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
                self._noted.clear()
                await self._noted.wait()
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
            log.debug("%s is not there any more: its condition is not written", pod.key)
        except KubeError as error:
            log.warning("the condition of %s could not be written: %s", pod.key, error)


def _cut(sentence: str) -> str:
    encoded = sentence.encode()
    if len(encoded) <= _LONGEST_NOTE:
        return sentence
    return encoded[: _LONGEST_NOTE - len(_CUT)].decode("utf-8", "ignore") + _CUT
