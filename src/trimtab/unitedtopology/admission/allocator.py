"""Decisions for a batch: from a UnitedTopology's status to reservations, with the uncached reads that they need.

What is decided, and why it is safe, is in `trimtab.subsets`.

**Pods that ended without a request.** A pod that finished, or was released by its workload, is replaced at once, and no
webhook was called for it. Where a subset is full, the process's own cache of pods is checked for any such pod that is
still counted. That decides nothing: it only triggers an uncached list of the pods, as for a first recount.

**Pods that their owner does not want.** What an owner wants is decided from the size that was found with it, and from
the status; if it wants nothing by these, its size is read, deletions are confirmed, and at last its pods are listed.

**Pauses.** A batch may have hundreds of pods, a UnitedTopology a thousand subsets, and a pod may be simulated in each.
So other tasks run between slices of all that. What is decided from cannot change meanwhile: it is one version of the
UnitedTopology, and the result is written only if that is still the stored one. A simulation sees the cluster as it is
when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import msgspec

from trimtab.api import times
from trimtab.api.annotations import subset_annotations
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.kube import versions
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.subsets import allocation, statuses
from trimtab.subsets.allocation import PodCreation, PodDeletion
from trimtab.subsets.demand import Demand, Owner
from trimtab.subsets.members import revision_of
from trimtab.subsets.questions import Questions
from trimtab.subsets.recount import Recount, recount
from trimtab.unitedtopology.admission.fits import SimulatedFits
from trimtab.unitedtopology.admission.lookups import Lookups
from trimtab.unitedtopology.admission.pending import Decision, PendingBatch
from trimtab.unitedtopology.slices import Slices, answer_in_slices

_MOST_AT_ONCE = 200
"""How many pods of unconfirmed deletions are read at once."""
_LONGEST_SIMULATION = 0.3
"""Seconds for the allocations of a batch, pauses included; after them, pods are no longer simulated."""

EndedPods = Callable[[Key], Mapping[str, str]]
"""The pods annotated with a UnitedTopology that finished or have no owner, as last seen: resource versions by name."""


PodsOutside = Callable[[str], int]
"""How many active pods of an owner, by its UID, are in no subset, as last seen."""


def no_pods_outside(_: str) -> int:
    """Without a cache of pods: all of them are taken to be in the status."""
    return 0


def no_ended_pods(_: Key) -> Mapping[str, str]:
    """Without a cache of pods: those that end without a request are noticed when the controller counts."""
    return {}


class SimulationBudget:
    """The time that is left for simulations, in all allocations of a batch together."""

    def __init__(self, clock: Clock, seconds: float = _LONGEST_SIMULATION) -> None:
        self._clock = clock
        self._left = round(seconds * SECOND)
        self._until = 0

    def __enter__(self) -> SimulationBudget:
        self._until = self._clock.monotonic() + self._left
        return self

    def __exit__(self, *_: object) -> None:
        self._left = max(0, self._until - self._clock.monotonic())

    def is_over(self) -> bool:
        """Whether no further simulation may start."""
        return self._clock.monotonic() >= self._until


async def allocate_in_slices(
    questions: Questions[allocation.Fit, allocation.Allocation], budget: SimulationBudget, clock: Clock
) -> allocation.Allocation:
    """An allocation, in the time that is left for simulations; other tasks run between slices of it."""

    async def simulate(fit: allocation.Fit) -> bool:
        fits = fit.creation.fits
        return await fits.find(fit.subset) if isinstance(fits, SimulatedFits) else fits(fit.subset)

    with budget:
        return await answer_in_slices(questions, simulate, Slices(clock))


class Allocator:
    """Decides for a batch of requests."""

    def __init__(
        self,
        lookups: Lookups,
        clock: Clock,
        *,
        ended: EndedPods = no_ended_pods,
        outside: PodsOutside = no_pods_outside,
    ) -> None:
        self._lookups = lookups
        self._clock = clock
        self._ended = ended
        self._outside = outside

    async def decide(
        self, topology: UnitedTopology, batch: PendingBatch, *, replicas: int | None, listed_version: str
    ) -> Decision:
        """Apply all requests of a batch to a status.

        `replicas` is the workload's size if it is known; `listed_version` is that of the last uncached list of pods.
        """
        creations = [creation for creation, _ in batch.creations.values()]
        slices = Slices(self._clock)
        if creations and not statuses.is_counted(topology):
            topology = (await self._recount(topology, creations[0].revision)).topology
        elif not topology.status.subset_statuses:
            return Decision(topology)
        if batch.former:
            topology = _with(topology, allocation.restore(topology, batch.former, now=self._now()))
            await slices.pause()
        topology = _with(topology, allocation.withdraw(topology, batch.withdrawn))
        await slices.pause()
        topology = await self._revert(topology, batch.reverts)
        deletions = await self._deletions(topology, batch)
        topology = _with(topology, allocation.announce(topology, deletions, now=self._now()))
        await slices.pause()
        announced = frozenset(each.name for each in deletions)
        if replicas is None and creations and allocation.needs_size(topology):
            replicas = await self._lookups.size(topology)
        decision = await self._reserve(topology, creations, replicas, listed_version)
        await slices.pause()
        return replace(decision, announced=announced)

    async def _reserve(
        self, topology: UnitedTopology, creations: Sequence[PodCreation], replicas: int | None, listed_version: str
    ) -> Decision:
        """Reserve for new pods; where a full subset may have free capacity, after a recount."""
        budget = SimulationBudget(self._clock)
        allocated = await self._allocate(topology, creations, replicas, budget)
        listed = ""
        if allocated.uncertainty.full and self._has_ended_pods(topology, listed_version):
            with suppress(NotFound):  # without the workload, its last pods are allocated by the last recount
                recounted = await self._recount(topology, topology.status.revision)
                topology, listed = recounted.topology, recounted.listed_version
                allocated = await self._allocate(topology, creations, replicas, budget)
        status = _with(topology, allocated.status)
        return Decision(
            status,
            allocated.choices,
            listed_version=listed,
            unwanted=allocated.unwanted,
            unsimulated=allocated.unsimulated,
        )

    def _has_ended_pods(self, topology: UnitedTopology, listed_version: str) -> bool:
        """Whether the cache shows pods that ended, without an announcement, since the pods were counted."""
        counted = (topology.status.counted_version, listed_version)
        fresh = {
            name
            for name, version in self._ended(key_of(topology)).items()
            if not any(versions.reached(each, version) for each in counted)
        }
        return bool(fresh - allocation.announced_deletions(topology).keys()) if fresh else False

    async def _recount(self, topology: UnitedTopology, revision: str) -> Decision:
        """Count the pods from an uncached list: for this spec for the first time, or because some have ended."""
        observed = await self._lookups.observe(topology, revision)
        result = recount(topology, observed, now=self._now())
        counted = _with(topology, result.status) if isinstance(result, Recount) else topology
        return Decision(counted, listed_version=observed.version)

    async def _revert(self, topology: UnitedTopology, names: set[str]) -> UnitedTopology:
        announced = {name for _, row in statuses.Table(topology).all() for name in row.deleting}
        if not names & announced:
            return topology
        pods = await self._lookups.pods(sorted(names & announced), namespace=topology.metadata.namespace)
        active = [name for name, pod in pods.items() if pod.active]
        return _with(topology, allocation.revert_deletions(topology, active))

    async def _deletions(self, topology: UnitedTopology, batch: PendingBatch) -> list[PodDeletion]:
        """The requested deletions of pods that exist: read after the status was."""
        if not batch.deletions:
            return []
        pods = await self._lookups.pods(batch.deletions, namespace=topology.metadata.namespace)
        found = (deletion_of(pods.get(name), topology, uid) for name, (uid, _) in batch.deletions.items())
        return [each for each in found if each is not None]

    async def _allocate(
        self,
        topology: UnitedTopology,
        creations: Sequence[PodCreation],
        replicas: int | None,
        budget: SimulationBudget,
    ) -> allocation.Allocation:
        """Allocate; while that depends on unconfirmed deletions or on what owners want, read and allocate again."""
        namespace = topology.metadata.namespace
        confirmed = self._lookups.known_terminating(allocation.announced_deletions(topology), namespace=namespace)
        checked: set[str] = set()
        demands = _Demands(self._lookups, creations, self._outside)
        while True:
            questions = allocation.decide(
                topology,
                creations,
                now=self._now(),
                confirmed=confirmed,
                replicas=replicas,
                demands=demands.known,
                is_out_of_time=budget.is_over,
            )
            result = await allocate_in_slices(questions, budget, self._clock)
            uncertain = [entry for entry in result.uncertainty.deleting.items() if entry[0] not in checked]
            if not uncertain and not result.uncertainty.owners:
                return result
            await demands.read(result.uncertainty.owners, namespace, can_list=not uncertain)
            some = dict(uncertain[:_MOST_AT_ONCE])
            checked.update(some)
            confirmed |= await self._lookups.confirm_terminating(some, namespace=namespace)

    def _now(self) -> datetime:
        return times.from_ns(self._clock.now())


class _Demands:
    """What the owners of some pods want: from caches, and read as far as that is in doubt."""

    def __init__(self, lookups: Lookups, creations: Sequence[PodCreation], outside: PodsOutside) -> None:
        self._lookups = lookups
        self._owners: dict[str, Owner] = {each.owner.uid: each.owner for each in creations if each.owner is not None}
        self._read: set[str] = set()
        self.known = {uid: Demand(owner.most, outside(uid)) for uid, owner in self._owners.items()}

    async def read(self, uids: Iterable[str], namespace: str, *, can_list: bool) -> None:
        """Read the sizes of owners; of those whose size has been read, list the pods."""
        for uid in sorted(uids):
            if uid not in self._read:
                self._read.add(uid)
                most = await self._lookups.most_pods(self._owners[uid], namespace=namespace)
                self.known[uid] = replace(self.known[uid], most=most)
            elif can_list:
                listed = await self._lookups.owned_pods(self._owners[uid], namespace=namespace)
                self.known[uid] = replace(self.known[uid], listed=listed)


def deletion_of(pod: Pod | None, topology: UnitedTopology, uid: str) -> PodDeletion | None:
    """The deletion to announce for a pod that was just read; None if it is terminating, or another pod."""
    if pod is None or not pod.active or (uid and pod.metadata.uid != uid):
        return None
    annotations = subset_annotations(pod.metadata.annotations)
    if annotations is None or annotations.topology != topology.metadata.name:
        return None
    return PodDeletion(pod.metadata.name, revision_of(pod.metadata), annotations.subset, annotations.reservation)


def _with(topology: UnitedTopology, status: UnitedTopologyStatus) -> UnitedTopology:
    return msgspec.structs.replace(topology, status=status)
