"""Recounts of one UnitedTopology: observe the pods, decide the status, write it.

**One conditional write.** Counts, removed entries and conditions are written together, conditionally on the version
that was read. Webhooks write the status too, many times a second when many pods are created; after a conflict it is
read again and counted again. A recount that would change `countedVersion` only is not written, so a status is not
written with every event of a pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from trimtab.api import times
from trimtab.api.annotations import Reason, subset_annotations
from trimtab.api.meta import Condition
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.kube.client import Client
from trimtab.kube.errors import Conflict
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.resources import Key, Resource
from trimtab.kube.stores import key_of
from trimtab.subsets import statuses
from trimtab.subsets.matching import MAX_MERGED
from trimtab.subsets.members import Member, slices
from trimtab.subsets.recount import Observation, Recount, Stale, recount
from trimtab.unitedtopology import readiness as conditions
from trimtab.unitedtopology.controller.reservation_ages import REQUEST_LIMIT, ReservationAges, has_announced_deletion
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.readiness import Readiness
from trimtab.unitedtopology.targets import Target, replicas_of
from trimtab.unitedtopology.view import View

OnIgnored = Callable[[UnitedTopology, str], None]

_ATTEMPTS = 6
"""How many conflicting updates a reconcile tries before it is requeued with back-off."""


@dataclass(frozen=True, slots=True)
class CountedTopology:
    """A UnitedTopology as it was written last, and what it was counted from."""

    topology: UnitedTopology
    members: Sequence[Member]
    pods: Sequence[Pod]
    target: Target | None
    recheck: float | None = None


class StatusCounter:
    """Recounts and writes the statuses of UnitedTopologies."""

    def __init__(
        self,
        client: Client,
        view: View,
        metrics: Metrics,
        recorder: Recorder,
        on_ignored: OnIgnored | None = None,
    ) -> None:
        self._client = client
        self._clock = client.corrected_clock
        self._view = view
        self._metrics = metrics
        self._recorder = recorder
        self._on_ignored = on_ignored
        self._ignoring: dict[Key, tuple[str, int]] = {}
        """The UID and generation of each UnitedTopology of which ignored patches were reported."""
        self.reservations = ReservationAges(client.clock)

    async def count(self, topology: UnitedTopology, readiness: Readiness) -> CountedTopology | None:
        """Recount and write; None if the cache of pods is older than the last recount."""
        current = topology
        for _ in range(_ATTEMPTS):
            target = self._view.target(current)
            pods, version = await self._pods_of(current, target)
            members = await self._members(pods, current)
            revision = (target.revision if target else "") or current.status.revision
            result = await self._recount(current, Observation(members, replicas_of(target), revision, version))
            await asyncio.sleep(0)
            if isinstance(result, Stale):
                return None
            status = msgspec.structs.replace(result.status, conditions=self._conditions(current, readiness))
            try:
                written = await self.write(current, status)
            except Conflict:
                self._metrics.record_conflict()
                current = await self._client.get(
                    UnitedTopology, topology.metadata.name, namespace=topology.metadata.namespace
                )
                continue
            self._report_entries(current, result)
            self._report_ignored(current, members)
            return CountedTopology(written, members, pods, target, result.recheck)
        raise Conflict(f"{key_of(topology)}: gave up after {_ATTEMPTS} conflicting updates")

    def forget(self, key: Key) -> None:
        """Forget a UnitedTopology that is gone."""
        self.reservations.forget(key)
        self._ignoring.pop(key, None)

    async def clear(self, topology: UnitedTopology, known: UnitedTopologyStatus, readiness: Readiness) -> None:
        """Write why a UnitedTopology is not in effect, without the entries of its status."""
        status = msgspec.structs.replace(
            statuses.without_entries(known),
            observed_generation=topology.metadata.generation,
            conditions=self._conditions(topology, readiness),
        )
        await self.write(topology, status)

    async def write(self, topology: UnitedTopology, status: UnitedTopologyStatus) -> UnitedTopology:
        """Write a status if it has changed, and return the object as it is then. Raises Conflict."""
        same_view = msgspec.structs.replace(status, counted_version=topology.status.counted_version)
        if same_view == topology.status:
            return topology
        await asyncio.sleep(0)
        patch = statuses.patch(topology, status)
        metadata = topology.metadata
        written = await self._client.patch(
            Resource.of(UnitedTopology), metadata.name, patch or {}, namespace=metadata.namespace, subresource="status"
        )
        self._metrics.record_write()
        return written

    async def _pods_of(self, topology: UnitedTopology, target: Target | None) -> tuple[list[Pod], str]:
        """The target's pods, and their resource version. For the first recount of a generation they are listed
        uncached: reservations in a subset that was removed are held by nothing but their pods."""
        if statuses.is_counted(topology):
            return self._view.pods_of(topology, target), self._view.pods.version
        listed = await self._client.list(Pod, namespace=topology.metadata.namespace)
        return self._view.pods_among(listed.items, topology, target), listed.resource_version

    async def _members(self, pods: Sequence[Pod], topology: UnitedTopology) -> list[Member]:
        """The pods as members; other tasks run in between."""
        members: list[Member] = []
        for part in slices(pods, topology):
            members += [self._view.member(pod, topology) for pod in part]
            await asyncio.sleep(0)
        return members

    async def _recount(self, topology: UnitedTopology, observed: Observation) -> Recount | Stale:
        """Recount; the pods of overdue reservations are looked up uncached before these are removed."""
        result = recount(topology, observed, now=self._now())
        await asyncio.sleep(0)
        ages = self.reservations.ages(topology)
        if isinstance(result, Stale) or not result.overdue:
            return result
        over = [key for key in result.overdue if ages[key] >= REQUEST_LIMIT or has_announced_deletion(key)]
        wait = min((REQUEST_LIMIT - ages[key] for key in result.overdue if key not in over), default=None)
        if over:
            absent = await self._absent(topology.metadata.namespace, over)
            result = recount(topology, replace(observed, absent=absent), now=self._now())
        return replace(result, recheck=soonest(result.recheck, wait)) if isinstance(result, Recount) else result

    async def _absent(self, namespace: str, keys: Collection[str]) -> frozenset[str]:
        """Which of these keys of `creating` have no pod."""
        present: set[str] = set()
        async for page in self._client.pages(Pod, namespace=namespace):
            found = (subset_annotations(pod.metadata.annotations) for pod in page.items)
            present |= {annotations.reservation for annotations in found if annotations is not None}
        return frozenset(key for key in keys if statuses.pod_and_reservation(key)[1] not in present)

    def _conditions(self, topology: UnitedTopology, readiness: Readiness) -> tuple[Condition, ...]:
        return conditions.with_condition(
            topology.status.conditions, readiness, generation=topology.metadata.generation, now=self._clock.now()
        )

    def _report_entries(self, topology: UnitedTopology, result: Recount) -> None:
        self._metrics.record_entries(expired=len(result.expired), reverted=len(result.reverted))
        for entry in result.expired:
            message = f"no pod exists for reservation {entry.key} in {entry.subset} of {entry.since:%H:%M:%S}"
            self._recorder.record(topology, WARNING, Reason.RESERVATION_EXPIRED, message)
        for entry in result.reverted:
            message = f"{entry.key} in {entry.subset} was to be deleted at {entry.since:%H:%M:%S} and still exists"
            self._recorder.record(topology, NORMAL, Reason.DELETION_REVERTED, message)

    def _report_ignored(self, topology: UnitedTopology, members: Sequence[Member]) -> None:
        """Report pods that may have patches that were not compared with them, once for each generation."""
        key, version = key_of(topology), (topology.metadata.uid, topology.metadata.generation)
        ignoring = [member.name for member in members if member.ignores_patches]
        if self._on_ignored is None or not ignoring or self._ignoring.get(key) == version:
            return
        self._ignoring[key] = version
        reason = (
            f"spec.subsets[*].patch: to find the subsets of {len(ignoring)} pods without a reservation (such as "
            f"{ignoring[0]}) more than {MAX_MERGED} patches would have to be merged with each; only these were compared"
        )
        self._on_ignored(topology, reason)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


def soonest(*waits: float | None) -> float | None:
    """The shortest of some waits; None if there are none."""
    return min((wait for wait in waits if wait is not None), default=None)
