"""Group commit: all admissions of one UnitedTopology in this process share its conditional writes.

While a write is in flight, further requests are collected for the next one; so the more pods are created at once, the
fewer writes there are for each. `TopologyBatch` does that for one UnitedTopology, `Allocator` decides, `pacing` says
how long to wait between two writes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import key_of
from trimtab.subsets.allocation import PodCreation
from trimtab.unitedtopology.admission.allocator import (
    Allocator,
    EndedPods,
    PodsOutside,
    no_ended_pods,
    no_pods_outside,
)
from trimtab.unitedtopology.admission.lookups import Lookups
from trimtab.unitedtopology.admission.pending import Assignment
from trimtab.unitedtopology.admission.topology_batch import Dependencies, TopologyBatch
from trimtab.unitedtopology.metrics import AdmissionMetrics


class StatusBatcher:
    """Reserves and releases capacity of subsets, with one batch at a time for each UnitedTopology."""

    def __init__(
        self,
        client: Client,
        cached: Callable[[Key], UnitedTopology | None],
        *,
        ended: EndedPods = no_ended_pods,
        outside: PodsOutside = no_pods_outside,
        owners: ReplicaSetOwners = DEPLOYMENTS,
        metrics: AdmissionMetrics | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`cached` returns a UnitedTopology as last seen; if that is too old, the first write conflicts."""
        direct = client.using(retry=NO_RETRIES, urgent=True)
        self.metrics = metrics or AdmissionMetrics()
        self.lookups = Lookups(direct, owners)
        self._dependencies = Dependencies(
            client=direct,
            clock=client.corrected_clock,
            cached=cached,
            lookups=self.lookups,
            allocator=Allocator(self.lookups, client.corrected_clock, ended=ended, outside=outside),
            metrics=self.metrics,
            rng=rng or random.Random(),  # noqa: S311 - spreads retries, guards nothing
        )
        self._batches: dict[Key, TopologyBatch] = {}

    @property
    def is_busy(self) -> bool:
        """Whether any request is being processed."""
        return any(batch.task is not None for batch in self._batches.values())

    @property
    def remembered(self) -> set[Key]:
        """The UnitedTopologies of which anything is remembered."""
        return {key for key, batch in self._batches.items() if batch.has_memory}

    def forget(self, deleted: UnitedTopology) -> None:
        """Drop what is remembered of a UnitedTopology that was deleted, but for its reservations."""
        self._batch(key_of(deleted)).forget(deleted)
        for batch in list(self._batches.values()):
            self._drop_unused(batch)

    def current(self, key: Key) -> UnitedTopology | None:
        """The newest version of a UnitedTopology that this process knows of."""
        batch = self._batches.get(key)
        return batch.current() if batch is not None else self._dependencies.cached(key)

    async def reserve(self, key: Key, creation: PodCreation) -> Assignment | None:
        """Reserve capacity for a pod that is being created; None if there is no such UnitedTopology."""
        future: asyncio.Future[Assignment | None] = asyncio.get_running_loop().create_future()
        batch = self._batch(key)
        batch.pending.creations[creation.reservation] = (creation, future)
        self._start(batch)
        try:
            return await future
        except asyncio.CancelledError:
            self.withdraw(key, creation.reservation)
            raise

    def withdraw(self, key: Key, reservation: str) -> None:
        """Remove a reservation whose pod was admitted without it."""
        batch = self._batch(key)
        batch.pending.withdrawn.add(reservation)
        self.metrics.record_withdrawal()
        self._start(batch)

    async def announce_deletion(self, key: Key, name: str, uid: str) -> bool:
        """Announce that a pod is being deleted; whether it was written."""
        batch = self._batch(key)
        deletions = batch.pending.deletions
        if name not in deletions:
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve_exception)
            deletions[name] = (uid, future)
        self._start(batch)
        return await asyncio.shield(deletions[name][1])

    def revert_deletion(self, key: Key, name: str) -> None:
        """Remove the announcement of a deletion if the pod still exists."""
        batch = self._batch(key)
        batch.pending.reverts.add(name)
        self._start(batch)

    async def close(self) -> None:
        """Cancel everything that is being processed."""
        await cancel(*(batch.task for batch in self._batches.values() if batch.task is not None))

    def _batch(self, key: Key) -> TopologyBatch:
        if key not in self._batches:
            self._batches[key] = TopologyBatch(key, self._dependencies)
        return self._batches[key]

    def _start(self, batch: TopologyBatch) -> None:
        if batch.task is None or batch.task.done():
            batch.task = asyncio.get_running_loop().create_task(self._serve(batch))

    async def _serve(self, batch: TopologyBatch) -> None:
        await batch.serve()
        batch.task = None
        self._drop_unused(batch)

    def _drop_unused(self, batch: TopologyBatch) -> None:
        if batch.task is None and not batch.has_memory:
            self._batches.pop(batch.key, None)


def _retrieve_exception(future: asyncio.Future[bool]) -> None:
    """All requests that shared the future may have been cancelled by now; then its exception is not an error."""
    if not future.cancelled():
        future.exception()
