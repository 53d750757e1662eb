"""Batches of one UnitedTopology: pending requests, and the conditional writes that they share.

    pending requests  →  read  →  decide all of them, in order  →  one conditional write  →  answer all

**Conflicts.** A conflict means that another process has written: the batch is repeated with the version that the watch
has delivered since, or an uncached read, together with the requests that have arrived meanwhile.

**The size.** Percentages refer to the workload's size, which is often what causes the pods. It is read after they have
arrived, while the status is written with the last known size. If it has changed, no request has been answered yet: all
reservations are withdrawn and decided again.

**Cancelled admissions.** An admission that exceeds its budget is cancelled, and its pod is admitted without a
reservation. If that was written by then, or may have been (a write without a response), it is withdrawn with the next
batch: no pod will ever have it. If this process ends, the controller removes it when it is overdue.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import versions
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.kube.resources import Key, split
from trimtab.subsets import allocation, statuses
from trimtab.subsets.recount import CREATION_LIMIT
from trimtab.unitedtopology.admission import pacing
from trimtab.unitedtopology.admission.allocator import Allocator
from trimtab.unitedtopology.admission.lookups import Lookups
from trimtab.unitedtopology.admission.pending import Decision, PendingBatch
from trimtab.unitedtopology.metrics import AdmissionMetrics, Doubt, RefusalReason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the batches of all UnitedTopologies share."""

    client: Client
    clock: Clock
    cached: Callable[[Key], UnitedTopology | None]
    """A UnitedTopology as last seen; if that is too old, the first write conflicts."""
    lookups: Lookups
    allocator: Allocator
    metrics: AdmissionMetrics
    rng: random.Random


class _StaleError(Exception):
    """The version that was decided from may be old, and nothing was written that would have conflicted."""


class _ResizedError(Exception):
    """The workload's size is not the one that was assumed: withdraw the reservations and decide again."""


class TopologyBatch:
    """The pending requests of one UnitedTopology, and what this process remembers of it."""

    def __init__(self, key: Key, dependencies: Dependencies) -> None:
        self.key = key
        self.pending = PendingBatch()
        self.task: asyncio.Task[None] | None = None
        """Runs `serve` while requests are pending."""
        self._shared = dependencies
        self._clock = dependencies.clock
        self._written: UnitedTopology | None = None
        self._tried = ""
        """The resource version that was decided from last."""
        self._listed_version = ""
        """The resource version of the last uncached list of pods."""
        self._size: int | None = None
        self._pace: float | None = None
        self._is_contended = False
        """Whether other processes have written since this one did."""
        self._failures = 0
        """How many attempts have failed in a row."""

    @property
    def has_memory(self) -> bool:
        """Whether anything but the pace is remembered of the UnitedTopology: also one that was not found has a pace."""
        is_known = self._written is not None or self._size is not None
        return is_known or bool(self._listed_version) or self._has_former

    @property
    def _has_former(self) -> bool:
        """Whether pods of a UnitedTopology that was deleted may still come."""
        now = times.from_ns(self._clock.now())
        entries = (since for each in self.pending.former.values() for since in each.values())
        return any(now < since + CREATION_LIMIT for since in entries)

    def forget(self, deleted: UnitedTopology | None = None) -> None:
        """Drop what is remembered: the UnitedTopology was deleted. Its reservations are kept for one that follows it:
        their pods may not be stored yet."""
        self._written, self._listed_version, self._size, self._pace = None, "", None, None
        if deleted is not None:
            self.pending.former = allocation.reservations(deleted)

    def current(self) -> UnitedTopology | None:
        """The newest version that this process knows of."""
        seen, written = self._shared.cached(self.key), self._written
        if seen is None or (written is not None and seen.metadata.uid != written.metadata.uid):
            self._listed_version, self._size = "", None
        if seen is None or written is None or seen.metadata.uid != written.metadata.uid:
            self._written = None
            return seen
        newer = versions.reached(written.metadata.resource_version, seen.metadata.resource_version)
        return written if newer else seen

    async def serve(self) -> None:
        """Decide and write until no requests are pending."""
        while self.pending:
            try:
                await self._process()
            except Exception as error:
                log.warning("%s: %s", self.key, error, exc_info=not isinstance(error, ApiError))
                self._failures += 1
                if self._failures > pacing.MOST_FAILURES:
                    self.pending.withdrawn.clear()
                await self._clock.sleep(pacing.after_failure(self._failures))
        self._is_contended, self._failures = False, 0

    async def _process(self) -> None:
        """Decide and write for all pending requests, again after each conflict."""
        topology = self.current()
        conflicts = 0
        while self.pending:
            batch = self.pending.take()
            started = self._clock.monotonic()
            try:
                decision = await self._commit(topology, batch)
                batch.answer(decision)
                self._shared.metrics.record_refusals(RefusalReason.NOT_WANTED, len(decision.unwanted))
                self._shared.metrics.record_doubts(Doubt.NO_TIME, decision.unsimulated)
            except _StaleError:
                self.pending.put_back(batch)
                topology = None
                continue
            except _ResizedError:
                self.pending.withdrawn.update(batch.creations)
                self.pending.put_back(batch)
                topology = self.current()
                continue
            except Conflict:
                self.pending.put_back(batch)
                self._is_contended = True
                conflicts += 1
                await self._clock.sleep(pacing.after_conflict(self._paced(started), conflicts, self._shared.rng))
                topology = self._newer()
                continue
            except NotFound:
                self.pending.former = batch.former
                batch.reject(None)
            except Exception as error:
                self.pending.withdrawn.update(batch.withdrawn, batch.creations)
                self.pending.former = {**batch.former, **self.pending.former}
                batch.reject(error)
                raise
            conflicts = self._failures = 0
            await self._wait_for_turn(self._paced(started))
            topology = self.current()

    async def _commit(self, known: UnitedTopology | None, batch: PendingBatch) -> Decision:
        """Decide and write, while the workload's size is read.

        Raises Conflict if another version is stored than was decided from, and _ResizedError if the size has changed.
        """
        hint = known or self.current()
        if hint is None or not batch.creations or not allocation.needs_size(hint):
            return await self._write(known, batch, None)
        reading = asyncio.ensure_future(self._shared.lookups.size(hint))
        try:
            assumed = self._size if self._size is not None else await reading
            decision = await self._write(known, batch, assumed)
            actual = await reading
        finally:
            await cancel(reading)
        if actual is not None:
            self._size = actual
            if actual != assumed:
                raise _ResizedError
        return decision

    async def _write(self, known: UnitedTopology | None, batch: PendingBatch, replicas: int | None) -> Decision:
        """Decide from a known version, or else from an uncached read, and write if anything changed."""
        if known is not None:
            known = self.current() or known
        topology = known if known is not None else await self._read()
        self._tried = topology.metadata.resource_version
        decision = await self._shared.allocator.decide(
            topology, batch, replicas=replicas, listed_version=self._listed_version
        )
        patch = statuses.patch(topology, decision.topology.status)
        if patch is not None:
            written = await self._patch(patch, len(batch.creations) + len(batch.deletions))
            last = self._written
            if last is not None and last.metadata.resource_version != topology.metadata.resource_version:
                self._is_contended = True
            self._written = written
        elif known is not None and (batch.creations or batch.deletions or batch.withdrawn):
            raise _StaleError
        self._listed_version = decision.listed_version or self._listed_version
        return decision

    async def _read(self) -> UnitedTopology:
        namespace, name = split(self.key)
        return await self._shared.client.get(UnitedTopology, name, namespace=namespace)

    async def _patch(self, patch: JSON, pods: int) -> UnitedTopology:
        namespace, name = split(self.key)
        try:
            written = await self._shared.client.patch(
                UnitedTopology, name, patch, namespace=namespace, subresource="status"
            )
        except Conflict:
            self._shared.metrics.record_conflict()
            raise
        self._shared.metrics.record_write(pods)
        return written

    def _paced(self, started: int) -> float:
        """The pace, with the write that has just ended."""
        self._pace = pacing.smooth(self._pace, (self._clock.monotonic() - started) / SECOND)
        return self._pace

    async def _wait_for_turn(self, pace: float) -> None:
        """Let other processes write: where there are any, although no request is pending yet, as the next one would
        come out of turn."""
        is_contended, self._is_contended = self._is_contended, False
        if is_contended:
            timeout = pacing.turn_timeout(pace, self._shared.rng)
            await self._wait_for_others(self._clock.monotonic() + round(timeout * SECOND))
        elif self.pending:
            await self._clock.sleep(pacing.after_write(pace, self._shared.rng))

    async def _wait_for_others(self, until: int) -> None:
        known, turns = self.current(), 0
        while turns < pacing.TURNS and self._clock.monotonic() < until:
            await self._clock.sleep(pacing.POLL_SECONDS)
            before, known = known, self.current()
            turns += pacing.has_other_webhook_written(before, known)

    def _newer(self) -> UnitedTopology | None:
        """The version that the watch has delivered since the last attempt, if any."""
        seen = self.current()
        return None if seen is None or versions.reached(self._tried, seen.metadata.resource_version) else seen
