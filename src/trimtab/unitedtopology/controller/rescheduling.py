"""Adaptive: deletes pods that no node of their subset can take, so that their successors go to another subset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from trimtab.api import times
from trimtab.api.annotations import Reason
from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict, NotFound
from trimtab.kube.events import NORMAL, Recorder
from trimtab.subsets import rescheduling
from trimtab.subsets.members import Member
from trimtab.unitedtopology.controller import unschedulable
from trimtab.unitedtopology.controller.counting import CountedTopology, StatusCounter, soonest
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.slices import Slices

_RETRY_SECONDS = 30.0
"""After how long an unschedulable pod for which no other subset has capacity is requeued."""


class Rescheduler:
    """Deletes unschedulable pods of Adaptive UnitedTopologies."""

    def __init__(
        self,
        client: Client,
        counter: StatusCounter,
        metrics: Metrics,
        recorder: Recorder,
        *,
        autoscaler_seconds: float,
    ) -> None:
        self._client = client
        self._clock = client.corrected_clock
        self._counter = counter
        self._metrics = metrics
        self._recorder = recorder
        self._autoscaler_time = timedelta(seconds=autoscaler_seconds)

    async def run(self, counted: CountedTopology) -> float | None:
        """Delete the pods that are due, and return in how many seconds to check again."""
        now = self._now()
        waiting = unschedulable.unschedulable_pods(counted.topology, counted.pods, now)
        members = {member.uid: member for member in counted.members}
        topology, due, again = counted.topology, [], waiting.next_in
        slices = Slices(self._clock)
        for pod in waiting.due:
            await slices.pause()
            status = rescheduling.reschedule(topology, members[pod.metadata.uid], now=now)
            expected = await self._node_expected_until(pod) if status is not None else None
            if status is None:
                again = soonest(again, _RETRY_SECONDS)
            elif expected is not None and expected > now:
                again = soonest(again, (expected - now).total_seconds())
            else:
                topology = msgspec.structs.replace(topology, status=status)
                due.append(pod)
        if due:
            await self._counter.write(counted.topology, topology.status)
            await self._delete(topology, due, members)
        return again

    async def _node_expected_until(self, pod: Pod) -> datetime | None:
        events = await self._client.list(
            Event,
            namespace=pod.metadata.namespace,
            field_selector=f"involvedObject.kind=Pod,involvedObject.uid={pod.metadata.uid}",
        )
        return unschedulable.node_expected_until(events.items, self._autoscaler_time)

    async def _delete(self, topology: UnitedTopology, pods: Sequence[Pod], members: Mapping[str, Member]) -> None:
        for pod in pods:
            metadata = pod.metadata
            try:
                await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
            except (NotFound, Conflict):
                continue
            subset = members[metadata.uid].subset
            message = f"deleted {metadata.name}: no node of {subset} can take it; its successor goes to another subset"
            self._recorder.record(topology, NORMAL, Reason.RESCHEDULED, message)
            self._metrics.record_rescheduled()

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())
