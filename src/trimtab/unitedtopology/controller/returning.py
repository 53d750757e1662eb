"""Adaptive: evicts pods of later subsets, so that their successors return to an earlier one that has room again.

What moves, and when, is decided in `trimtab.subsets.returning`. Pods are evicted, never deleted: a disruption budget
that refuses is obeyed, and the pod is tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import count

import msgspec

from trimtab.api import codec, times
from trimtab.api.annotations import SCALE_PLAN, Reason, SubsetAnnotations
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import with_template
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import Conflict, NotFound, TooManyRequests
from trimtab.kube.events import NORMAL, Recorder
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.threads import read_beside
from trimtab.subsets import returning, shaping
from trimtab.subsets.members import Member
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.admission.simulation import Simulation, in_namespace
from trimtab.unitedtopology.controller.counting import CountedTopology, StatusCounter
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.slices import Slices, answer_in_slices
from trimtab.unitedtopology.targets import Workload
from trimtab.unitedtopology.view import View

_CHANGED_SECONDS = 0.5
"""After how long a plan is made again because the workload has changed meanwhile, or another one was being made."""


class Returner:
    """Evicts pods of Adaptive UnitedTopologies with `return`."""

    def __init__(
        self,
        client: Client,
        view: View,
        counter: StatusCounter,
        metrics: Metrics,
        recorder: Recorder,
        *,
        allowed_fields: Sequence[str] = (),
    ) -> None:
        self._client = client.using(retry=NO_RETRIES)  # a budget that refuses is asked again after a settling time
        self._clock = client.corrected_clock
        self._view = view
        self._counter = counter
        self._metrics = metrics
        self._recorder = recorder
        self._allowed_fields = allowed_fields
        self._simulation: Simulation | None = None
        """Made when it is needed first: it keeps a snapshot of the cluster."""
        self.planning = asyncio.Lock()
        """Held while pods are assumed: to other plans they would be pods that take room."""

    async def run(self, counted: CountedTopology) -> float | None:
        """Evict the pods that are due, and return in how many seconds to check again."""
        topology = counted.topology
        reference = topology.spec.target_ref
        workload = self._view.workload(reference.kind, topology.metadata.namespace, reference.name)
        if workload is None or (returning.strategy_of(topology) is None and not topology.status.returns):
            return None
        if self.planning.locked():
            return _CHANGED_SECONDS  # others are not kept waiting, either
        async with self.planning:
            found = await self._plan(counted, workload)
        if found.moves and not self._is_still_at_rest(counted, workload):
            return _CHANGED_SECONDS
        status = msgspec.structs.replace(topology.status, returns=found.returns, shortages=found.shortages)
        await self._counter.write(topology, status)
        await self._evict(topology, found.moves, found.target)
        return found.recheck

    def _is_still_at_rest(self, counted: CountedTopology, workload: Workload) -> bool:
        """Whether nothing has happened to the workload, and to its pods, while the plan was made."""
        topology, reference = counted.topology, counted.topology.spec.target_ref
        if self._view.workload(reference.kind, topology.metadata.namespace, reference.name) != workload:
            return False
        now = self._clock.now() // SECOND
        return not any(_is_leaving(pod, now) for pod in self._view.pods_of(topology, counted.target))

    async def _plan(self, counted: CountedTopology, workload: Workload) -> returning.Returns:
        """The pods that return; other tasks run between slices of the simulations."""
        topology = counted.topology
        shown = with_template(workload, self._view.sets_of(workload))
        simulation = await self._filled_simulation()
        questions = returning.decide_returns(
            topology,
            counted.members,
            is_at_rest=is_at_rest(counted, workload, self._clock.now() // SECOND),
            now=self._now(),
        )
        with _Rooms(simulation, topology, shown, self._allowed_fields) as rooms:
            return await answer_in_slices(questions, rooms.has_room, Slices(self._clock))

    async def _filled_simulation(self) -> Simulation:
        if self._simulation is None:
            self._simulation = Simulation(self._view, self._clock)
            self._simulation.follow()
        simulation = self._simulation
        await simulation.wait_filled()
        return simulation

    async def _evict(self, topology: UnitedTopology, members: Sequence[Member], target: str) -> None:
        for member in members:
            try:
                await self._client.evict(member.name, namespace=topology.metadata.namespace, uid=member.uid)
            except (NotFound, Conflict):
                continue
            except TooManyRequests as error:
                message = f"{member.name} of {member.subset} does not return to {target} yet: {error.message}"
                self._recorder.record(topology, NORMAL, Reason.RETURN_DELAYED, message)
                return
            message = f"evicted {member.name} of {member.subset}: {target} has room again, where its successor goes"
            self._recorder.record(topology, NORMAL, Reason.RETURNED, message)
            self._metrics.record_returned()

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def is_at_rest(counted: CountedTopology, workload: Workload, now: int) -> bool:
    """Whether nothing happens to the workload: no rollout, no scale-up, no scale-down, no pod that is missing.

    `now` is in seconds since the epoch.
    """
    target, status = counted.target, counted.topology.status
    if target is None or workload.status.observed_generation < workload.metadata.generation:
        return False
    if status.other_revisions or any(row.creating or row.deleting for row in status.subset_statuses):
        return False
    active = [member for member in counted.members if member.active]
    is_whole = len(active) == target.replicas == workload.status.available_replicas
    is_settled = all(member.ready and member.revision == target.revision for member in active)
    return is_whole and is_settled and not any(_is_leaving(pod, now) for pod in counted.pods)


def _is_leaving(pod: Pod, now: int) -> bool:
    """Whether a pod is terminating, or has costs that were written for a scale-down."""
    annotations = pod.metadata.annotations
    size = costs.target_size(annotations)
    is_aimed = size is not None and size.until > now
    return pod.terminating or SCALE_PLAN in annotations or is_aimed


class _Rooms:
    """Whether nodes can take further pods of a workload, as its subsets shape them; nothing is assumed afterwards."""

    def __init__(
        self, simulation: Simulation, topology: UnitedTopology, workload: Workload, allowed_fields: Sequence[str]
    ) -> None:
        self._simulation = simulation
        self._topology = topology
        self._workload = workload
        self._allowed_fields = allowed_fields
        self._numbers = count()
        self._assumed: list[str] = []
        self._shaped: tuple[int, Pod | None] = (-1, None)
        """The subset that was asked about last, and its pod: of one subset it is asked again and again."""

    def __enter__(self) -> _Rooms:
        return self

    def __exit__(self, *_: object) -> None:
        for reservation in self._assumed:
            self._simulation.forget(reservation)

    async def has_room(self, subset: int) -> bool:
        """Whether a node can take one more pod; then it is assumed there."""
        if self._shaped[0] != subset:
            self._shaped = subset, await read_beside(self._size(subset), self._shape, subset)
        pod = self._shaped[1]
        if pod is None:
            return False
        reservation = f"return-{self._topology.metadata.uid}-{next(self._numbers)}"
        self._assumed.append(reservation)
        return self._simulation.is_certain(pod, reservation)

    def _size(self, subset: int) -> int:
        """The bytes that are read to shape a pod."""
        template, patch = self._workload.spec.template, self._topology.spec.subsets[subset].patch
        return sum(len(each.text) for each in (template, patch) if each is not None)

    def _shape(self, subset: int) -> Pod | None:
        """A pod as a subset shapes it; None where that is not possible."""
        chosen = self._topology.spec.subsets[subset]
        annotations = SubsetAnnotations(self._topology.metadata.name, chosen.name, "")
        try:
            shaped = shaping.shape(self._pod, chosen, annotations, allowed_fields=self._allowed_fields)
            return in_namespace(codec.convert(shaped, Pod), self._topology.metadata.namespace)
        except InvalidError:
            return None

    @cached_property
    def _pod(self) -> JSON:
        return _pod_of(self._workload)


def _pod_of(workload: Workload) -> JSON:
    """A pod of the workload's template."""
    template = workload.spec.template.tree() if workload.spec.template is not None else {}
    metadata = template.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    named = {"generateName": f"{workload.metadata.name}-", "labels": labels, "annotations": annotations}
    return {"metadata": named, "spec": template.get("spec") or {}}
