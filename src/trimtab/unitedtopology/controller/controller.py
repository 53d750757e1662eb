"""The UnitedTopology controller: observe, decide, act, report.

**One conditional write.** What is counted, pruned and told goes into the status together, on the condition that nobody
has written it since it was read. Webhooks write it too, many times a second when many pods come; who loses reads it
anew and counts again. A count that would change nothing but how far it has seen is not written: a status is written
when something has changed, and not with every event about a pod.

**Events of pods are gathered** for half a second or so before they are counted. Until then every place is held as well
by its reservation, and there are far fewer writes that webhooks could collide with.

**No finalizers.** A UnitedTopology that is deleted is gone at once. What it wrote to pods is found by its mark, at any
time and by any process, and taken back; the pods themselves are left alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from trimtab.api import annotations as keys
from trimtab.api import times
from trimtab.api.annotations import AIMED_SIZE, SubsetAnnotations
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Event
from trimtab.api.meta import Condition
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel, within
from trimtab.kube.errors import Conflict, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, Resource, split
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import key_of
from trimtab.ranking.costs import Band
from trimtab.subsets import rescheduling, statuses
from trimtab.subsets.members import Member
from trimtab.subsets.recount import Observed, Recount, Stale, recount
from trimtab.unitedtopology import costs, levels, verdicts
from trimtab.unitedtopology.controller import moves
from trimtab.unitedtopology.controller.namespaces import Labeller
from trimtab.unitedtopology.controller.reservations import REQUEST_LIMIT, Reservations, is_announced
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import Scribe
from trimtab.unitedtopology.targets import Target, Workload
from trimtab.unitedtopology.verdicts import Judgement
from trimtab.unitedtopology.view import KINDS, View

COMPONENT = "trimtab-unitedtopology"
GRACE = 2.0
"""Seconds that writes under way are given when the controller ends."""
_GATHER = 0.6
"""Seconds for which events of pods are gathered."""
_STALE = 0.5
"""Seconds after which a view that was too old is looked at again, if nothing happens before."""
_NOWHERE = 30.0
"""Seconds after which a pod that waits, and has nowhere else to go, is looked at again: no subset is full for ever."""
_ATTEMPTS = 6
"""How often a status that others keep writing is read anew before the reconcile starts over."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be chosen."""

    pod_webhook: bool = True
    """The feature gate PodWebhook: without it, UnitedTopologies are off, and say so."""
    autoscaler_seconds: float = 300.0
    """How long an autoscaler that said that it brings a node is waited for before a pod is moved."""
    workers: int = 4
    namespaces: frozenset[str] = frozenset()
    """The namespaces it is confined to; all, where empty."""


SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A UnitedTopology as it was written last, and what was seen when it was counted."""

    topology: UnitedTopology
    members: Sequence[Member]
    pods: Sequence[Pod]
    target: Target | None
    recheck: float | None = None


class Controller:
    """Keeps all UnitedTopologies of a cluster; a component of `app`."""

    def __init__(
        self,
        client: Client,
        settings: Settings = SETTINGS,
        *,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.view = View(client, rng=rng)
        self._client = client
        self._clock = client.clock
        self._verdict = verdicts.verdict(pod_webhook=settings.pod_webhook)
        self.levels = levels.Levels(self.view, verdict=self._verdict)
        self._scribe = Scribe(client, self.metrics)
        self._reservations = Reservations(client.clock)
        self._recorder = Recorder(client, component=COMPONENT, rng=rng)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            "unitedtopologies", self.reconcile, self.queue, workers=settings.workers, after=self.view.required
        )
        self._labeller = Labeller(client, self.view, pod_webhook=settings.pod_webhook, namespaces=settings.namespaces)
        self._lacking: dict[str, set[Key]] = {}
        self.metrics.watch_topologies(lambda: len(self.view.topologies.store))
        self._subscribe()

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return self.view.synced

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        return self.view.problems

    async def run(self) -> None:
        """Keep UnitedTopologies until cancelled."""
        background = [asyncio.ensure_future(each.run()) for each in (self.view, self._recorder)]
        working = [asyncio.ensure_future(each.run()) for each in (self.runner, self._labeller.runner)]
        try:
            done, _ = await asyncio.wait((*background, *working), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._end(working)
            await cancel(*background)

    async def _end(self, working: Sequence[asyncio.Future[None]]) -> None:
        """Let what is under way finish, and what was noted be written, both within the grace period."""
        try:
            await within(self._clock, GRACE, self._finish())
        except TimeoutError:
            log.warning("some work was cut off; it is taken up again at the next start")
        await cancel(*working)

    async def _finish(self) -> None:
        if self.view.synced:  # before that nobody has taken anything
            await asyncio.gather(self.runner.stop(), self._labeller.runner.stop())
        await self._recorder.flush()

    # Reconcile.

    async def reconcile(self, a_key: Key) -> Result:
        """Count a UnitedTopology's pods, tell, and have the pods carry what they are."""
        topology = self.view.topologies.get(a_key)
        if not self._is_mine(a_key):
            return Result()
        if topology is None:
            return await self._leave(a_key)
        if topology.metadata.deletion_timestamp is not None:  # somebody else's finalizer holds it
            return await self._sweep(self.view.marked(a_key))
        if not self.view.is_known(topology.spec.target_ref.kind):
            return Result(_STALE)
        judgement = self._verdict(topology, self.view)
        if not judgement.divides:
            return await self._stand_back(topology, judgement)
        counted = await self._count(topology, judgement)
        if counted is None:
            return Result(_STALE)
        if counted.target is not None:  # of an unknown size nothing can be said of who is beyond a share of it
            await self._inscribe(counted)
        waits = await self._move(counted)
        await self._sweep(self.view.strays(counted.topology, counted.target))
        return Result(_soonest(counted.recheck, waits, self._aims_end(counted)))

    def _is_mine(self, a_key: Key) -> bool:
        return not self.settings.namespaces or split(a_key)[0] in self.settings.namespaces

    async def _leave(self, a_key: Key) -> Result:
        """Take back what is left of a UnitedTopology that is gone. Pods may be seen before the one that they are marked
        with; so it is looked for in the cluster itself."""
        pods = self.view.marked(a_key)
        self._reservations.forget(a_key)
        if not pods:
            return Result()
        namespace, name = split(a_key)
        try:
            await self._client.get(UnitedTopology, name, namespace=namespace)
        except NotFound:
            return await self._sweep(pods)
        return Result(_STALE)

    async def _stand_back(self, topology: UnitedTopology, judgement: Judgement) -> Result:
        """Say why nothing is done; take back what was done, unless it may be wanted again when the spec is mended."""
        known = topology.status
        if judgement.takes_back:
            await self._sweep(self.view.marked(key_of(topology)))
            known = UnitedTopologyStatus(conditions=known.conditions, counted_version=known.counted_version)
        status = msgspec.structs.replace(
            statuses.without_entries(known),
            observed_generation=topology.metadata.generation,
            conditions=self._told(topology, judgement),
        )
        await self._write(topology, status)
        return Result()

    async def _sweep(self, pods: Sequence[Pod]) -> Result:
        """Take back what was written to pods that are not divided any more, and leave the pods alone."""
        active = [pod for pod in pods if not pod.terminating]
        await self._scribe.write([(pod, costs.taken_back(pod)) for pod in active], reason="taken back")
        return Result()

    # Counting.

    async def _count(self, topology: UnitedTopology, judgement: Judgement) -> _Counted | None:
        """Count and write; None if the view of the pods is older than the last count."""
        current = topology
        for _ in range(_ATTEMPTS):
            target = self.view.target(current)
            pods, version = await self._pods_of(current, target)
            members = [self.view.member(pod, current) for pod in pods]
            revision = (target.revision if target else "") or current.status.revision
            observed = Observed(members, levels.size_of(target), revision, version)
            found = await self._recount(current, observed)
            if isinstance(found, Stale):
                return None
            status = msgspec.structs.replace(found.status, conditions=self._told(current, judgement))
            try:
                written = await self._write(current, status)
            except Conflict:
                self.metrics.conflicted()
                current = await self._client.get(
                    UnitedTopology, topology.metadata.name, namespace=topology.metadata.namespace
                )
                continue
            self._tell_entries(current, found)
            self._note_unknown_nodes(key_of(current), members, pods)
            return _Counted(written, members, pods, target, found.recheck)
        raise Conflict(f"{key_of(topology)} is written by others faster than it can be counted")

    async def _pods_of(self, topology: UnitedTopology, target: Target | None) -> tuple[list[Pod], str]:
        """The target's pods, and how far they were seen. For a spec that they were not counted for yet they are read
        live: what was reserved in a subset that is not there any more is held by nothing but the pods themselves."""
        if statuses.counted(topology):
            return self.view.pods_of(topology, target), self.view.pods.version
        listed = await self._client.list(Pod, namespace=topology.metadata.namespace)
        return self.view.chosen(listed.items, topology, target), listed.resource_version

    async def _recount(self, topology: UnitedTopology, observed: Observed) -> Recount | Stale:
        """Count; reservations that nobody came for are looked for in the cluster itself before they are let go."""
        found = recount(topology, observed, now=self._now())
        known_for = self._reservations.known_for(topology)
        if isinstance(found, Stale) or not found.overdue:
            return found
        over = [key for key in found.overdue if known_for[key] >= REQUEST_LIMIT or is_announced(key)]
        waits = min((REQUEST_LIMIT - known_for[key] for key in found.overdue if key not in over), default=None)
        if over:
            absent = await self._absent(topology.metadata.namespace, over)
            found = recount(topology, replace(observed, absent=absent), now=self._now())
        return replace(found, recheck=_soonest(found.recheck, waits)) if isinstance(found, Recount) else found

    async def _absent(self, namespace: str, wanted: Collection[str]) -> frozenset[str]:
        """Of which of these keys of `creating` there is no pod."""
        present: set[str] = set()
        async for page in self._client.pages(Pod, namespace=namespace):
            found = (keys.subset_annotations(pod.metadata.annotations) for pod in page.items)
            present |= {mark.reservation for mark in found if mark is not None}
        return frozenset(key for key in wanted if statuses.pod_and_reservation(key)[1] not in present)

    async def _write(self, topology: UnitedTopology, status: UnitedTopologyStatus) -> UnitedTopology:
        """Write a status if it says anything new; the object as it is then. Raises Conflict if somebody was faster."""
        same_view = msgspec.structs.replace(status, counted_version=topology.status.counted_version)
        if statuses.patch(topology, same_view) is None:
            return topology
        patch = statuses.patch(topology, status)
        metadata = topology.metadata
        written = await self._client.patch(
            Resource.of(UnitedTopology), metadata.name, patch or {}, namespace=metadata.namespace, subresource="status"
        )
        self.metrics.written()
        return written

    def _told(self, topology: UnitedTopology, judgement: Judgement) -> tuple[Condition, ...]:
        known = topology.status.conditions
        return verdicts.told(known, judgement, generation=topology.metadata.generation, now=self._clock.now())

    def _tell_entries(self, topology: UnitedTopology, found: Recount) -> None:
        self.metrics.settled(expired=len(found.expired), taken_back=len(found.taken_back))
        for entry in found.expired:
            told = (
                f"no pod came for a place in {entry.subset} that was reserved at {entry.since:%H:%M:%S} ({entry.key})"
            )
            self._recorder.record(topology, WARNING, "ReservationExpired", told)
        for entry in found.taken_back:
            told = f"{entry.key} was to be deleted at {entry.since:%H:%M:%S}; it lives on in {entry.subset}"
            self._recorder.record(topology, NORMAL, "DeletionTakenBack", told)

    # Pods.

    async def _inscribe(self, counted: _Counted) -> None:
        """Marks for pods that were matched, and costs for all: after the status that counts them was written."""
        topology, target = counted.topology, counted.target
        revision = target.revision if target is not None else ""
        found = levels.bands(topology, counted.members, replicas=levels.size_of(target), revision=revision)
        changes: list[tuple[Pod, Change]] = []
        for pod, member in zip(counted.pods, counted.members, strict=True):
            if member.active:
                band = found.get(member.name)
                changes.append((pod, self._mark(pod, member, topology) | self._cost(pod, band)))
        await self._scribe.write(changes, reason="kept")

    def _mark(self, pod: Pod, member: Member, topology: UnitedTopology) -> Change:
        if not member.matched:
            return {}
        return costs.mark_change(
            pod.metadata.annotations, SubsetAnnotations(topology.metadata.name, member.subset, member.reservation)
        )

    def _cost(self, pod: Pod, band: Band | None) -> Change:
        """A cost that was written ahead of a scale-down is believed for its time."""
        annotations = pod.metadata.annotations
        aim = costs.aim(annotations)
        if aim is not None and aim.until > self._clock.now() // SECOND:
            return {}
        aimed: Change = {AIMED_SIZE: None} if AIMED_SIZE in annotations else {}
        return costs.cost_change(annotations, band) | aimed

    def _aims_end(self, counted: _Counted) -> float | None:
        """In how many seconds a cost that was written ahead is not to be believed any more."""
        now = self._clock.now() // SECOND  # whole seconds, as the note has them: a wait is never too short
        aims = (costs.aim(pod.metadata.annotations) for pod in counted.pods)
        return min((aim.until - now for aim in aims if aim is not None and aim.until > now), default=None)

    # Moving.

    async def _move(self, counted: _Counted) -> float | None:
        """Delete pods that have waited too long in their subset; in how many seconds to look again."""
        now = self._now()
        waiting = moves.waiting(counted.topology, counted.pods, now)
        members = {member.uid: member for member in counted.members}
        topology, leaving, again = counted.topology, [], waiting.next_in
        for pod in waiting.due:
            moved = rescheduling.moved(topology, members[pod.metadata.uid], now=now)
            promised = await self._promised(pod) if moved is not None else None
            if moved is None:
                again = _soonest(again, _NOWHERE)
            elif promised is not None and promised > now:
                again = _soonest(again, (promised - now).total_seconds())
            else:
                topology = msgspec.structs.replace(topology, status=moved)
                leaving.append(pod)
        if leaving:
            await self._write(counted.topology, topology.status)
            await self._delete(topology, leaving, members)
        return again

    async def _promised(self, pod: Pod) -> datetime | None:
        """Until when an autoscaler may bring a node for a pod."""
        found = await self._client.list(
            Event,
            namespace=pod.metadata.namespace,
            field_selector=f"involvedObject.kind=Pod,involvedObject.uid={pod.metadata.uid}",
        )
        return moves.promised_until(found.items, timedelta(seconds=self.settings.autoscaler_seconds))

    async def _delete(self, topology: UnitedTopology, pods: Sequence[Pod], members: dict[str, Member]) -> None:
        for pod in pods:
            metadata = pod.metadata
            try:
                await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
            except (NotFound, Conflict):
                continue
            subset = members[metadata.uid].subset
            told = f"deleted {metadata.name}: no node of {subset} could take it; its successor goes to another subset"
            self._recorder.record(topology, NORMAL, "Rescheduled", told)
            self.metrics.moved(1)

    # What wakes it.

    def _subscribe(self) -> None:
        view = self.view
        view.topologies.subscribe(
            added=self._topology_seen, updated=lambda _, new: self._topology_seen(new), deleted=self._topology_seen
        )
        view.deployments.subscribe(
            added=self._workload_seen, updated=lambda _, new: self._workload_seen(new), deleted=self._workload_seen
        )
        view.clonesets.subscribe(
            added=self._workload_seen, updated=lambda _, new: self._workload_seen(new), deleted=self._workload_seen
        )
        view.sets.subscribe(added=self._set_seen, updated=lambda _, new: self._set_seen(new), deleted=self._set_seen)
        view.pods.subscribe(added=self._pod_seen, updated=self._pod_changed, deleted=self._pod_seen)
        view.nodes.subscribe(added=self._node_seen)

    def _topology_seen(self, topology: UnitedTopology) -> None:
        """Whoever wanted the same workload may have it now."""
        for rival in (topology, *self.view.rivals(topology)):
            self.queue.add(key_of(rival))

    def _workload_seen(self, workload: Workload) -> None:
        kind = next(name for name, model in KINDS.items() if isinstance(workload, model))
        for topology in self.view.topologies_of(kind, workload.metadata.namespace, workload.metadata.name):
            self.queue.add(key_of(topology))

    def _set_seen(self, replicaset: ReplicaSet) -> None:
        for a_key in self.view.concerned_by(replicaset):
            self.queue.add(a_key)

    def _pod_seen(self, pod: Pod) -> None:
        for a_key in self.view.concerned(pod):
            self.queue.add_after(a_key, _GATHER)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        for a_key in self.view.concerned(old) | self.view.concerned(new):
            self.queue.add_after(a_key, _GATHER)

    def _node_seen(self, node: Node) -> None:
        """Pods on a node that was not known could not be matched by its labels."""
        for a_key in self._lacking.pop(node.metadata.name, ()):
            self.queue.add(a_key)

    def _note_unknown_nodes(self, a_key: Key, members: Sequence[Member], pods: Sequence[Pod]) -> None:
        for pod, member in zip(pods, members, strict=True):
            name = pod.spec.node_name
            if name and not member.subset and Key(name) not in self.view.nodes.store:
                self._lacking.setdefault(name, set()).add(a_key)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)
