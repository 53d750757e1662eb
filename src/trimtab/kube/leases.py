"""Leader election on a Lease: of several processes, one acts.

**The rule.** A leader may act until `renew_deadline` after it *sent* its last successful renewal. Another process may
take the lease once it has seen it unchanged for the `lease_duration` that the holder wrote into it, counted from when
it *received* what it saw. The server stored the renewal between those two moments, so the first stops before the
second starts, as long as no clock runs half as fast again as another (15 s against 10 s). Only the time that passed
on one's own machine is measured; what time of day the lease says is for people.

**Acting** is a coroutine that is cancelled when the lease is lost. A coroutine that does not come to an await is not
stopped by that; so `check`, which asks the clock, stands before every write too (`Settings.before_write`).

**Going.** On a clean end the work is stopped first, while the lease is still being renewed, and only then is the
lease given up: so the next one need not wait, and still never overlaps.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.leases import Lease
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel, within
from trimtab.kube.errors import AlreadyExists, ApiError, ConfigError, Conflict, LeadershipLost, NotFound
from trimtab.kube.resources import Resource
from trimtab.kube.retries import NO_RETRIES

LEASES = Resource.of(Lease).raw
_JITTER = 1.2
_FAILURES = (ApiError, ConfigError, TimeoutError)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """How long a lease lasts, how long its holder trusts it without renewing, how often it tries; in seconds."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("a leader must stop before others may start: lease_duration > renew_deadline")
        if self.renew_deadline <= self.retry_period * _JITTER:
            raise ValueError("a leader must be able to try twice: renew_deadline > 1.2 · retry_period")


LEASE_TIMINGS = LeaseTimings()


@dataclass(slots=True)
class _Observed:
    """What a lease said, and when it was first seen to say so."""

    spec: JSON
    since: int


class Elector:
    """A candidate, and from time to time the leader. `identity` must be of this process alone."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        timings: LeaseTimings = LEASE_TIMINGS,
        rng: random.Random | None = None,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self.timings = timings
        self._client = client.using(retry=NO_RETRIES, timeout=timings.renew_deadline, urgent=True, before_write=None)
        self._clock = client.clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads attempts, guards nothing
        self._observed: _Observed | None = None
        self._lease: JSON | None = None
        self._renewed: int | None = None

    @property
    def holder(self) -> str:
        """Who held the lease when it was last looked at; nobody, if nothing is said."""
        return str((self._observed.spec.get("holderIdentity") or "") if self._observed else "")

    @property
    def is_leader(self) -> bool:
        """Whether this process may act at this moment."""
        return self._left() > 0

    def check(self) -> None:
        """Raise LeadershipLost unless this process may act at this moment."""
        if not self.is_leader:
            raise LeadershipLost(f"{self.identity} does not hold {self.namespace}/{self.name}")

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, then work for as long as it holds or until the work ends; then give it up.

        Raises LeadershipLost, once the work has stopped, if the lease was lost.
        """
        await self._acquire()
        working = asyncio.ensure_future(work())
        keeping = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait((working, keeping), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                log.error("%s: lost the lease %s/%s", self.identity, self.namespace, self.name)
                raise LeadershipLost(f"{self.identity} could not renew {self.namespace}/{self.name}")
            working.result()
        finally:
            await cancel(working)
            await cancel(keeping)
            await self._release()

    async def _acquire(self) -> None:
        log.info("%s: waiting for the lease %s/%s", self.identity, self.namespace, self.name)
        while not (await self._attempt(self.timings.renew_deadline) and self.is_leader):
            await self._clock.sleep(self.timings.retry_period * (1 + (_JITTER - 1) * self._rng.random()))
        log.info("%s: holds the lease %s/%s", self.identity, self.namespace, self.name)

    async def _keep(self) -> None:
        """Renew until that has failed for too long, or somebody else holds the lease."""
        while (left := self._left()) > 0:
            await self._clock.sleep(min(self.timings.retry_period, left))
            left = self._left()
            if left > 0 and not await self._attempt(left) and self.holder != self.identity:
                self._renewed = None

    async def _attempt(self, seconds: float) -> bool:
        """Try to take or to renew the lease, for so long at most. A failure is not a no, and not a yes either."""
        try:
            return await within(self._clock, seconds, self._take())
        except _FAILURES as error:
            log.warning("%s: lease %s/%s: %s", self.identity, self.namespace, self.name, error)
            return False

    async def _take(self) -> bool:
        if self._lease is not None and self.holder == self.identity and self.is_leader:
            try:
                await self._write(self._lease)
            except (Conflict, NotFound):
                self._lease = None
            else:
                return True
        try:
            lease = await self._client.get(LEASES, self.name, namespace=self.namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        if not self._free():
            return False
        try:
            await self._write(lease)
        except Conflict:
            return False
        return True

    async def _create(self) -> bool:
        sent = self._clock.monotonic()
        body = {"metadata": {"name": self.name, "namespace": self.namespace}, "spec": self._spec({})}
        try:
            lease = await self._client.create(LEASES, body, namespace=self.namespace)
        except AlreadyExists:
            return False
        self._won(lease, sent)
        return True

    async def _write(self, lease: JSON) -> None:
        """Write ourselves into this very version of the lease, or fail."""
        sent = self._clock.monotonic()
        changed = {**lease, "spec": {**lease.get("spec", {}), **self._spec(lease.get("spec") or {})}}
        self._won(await self._client.replace(LEASES, changed), sent)

    def _spec(self, before: JSON) -> JSON:
        now = times.format_micro(self._clock.now())
        ours = before.get("holderIdentity") == self.identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.timings.lease_duration),
            "acquireTime": (before.get("acquireTime") or now) if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or not before else transitions + 1,
        }

    def _won(self, lease: JSON, sent: int) -> None:
        self._observe(lease)
        self._lease = lease
        self._renewed = sent

    def _observe(self, lease: JSON) -> None:
        """Only a change starts the time anew: looking again at the same lease must not prolong it."""
        spec = lease.get("spec") or {}
        if self._observed is None or self._observed.spec != spec:
            self._observed = _Observed(spec, self._clock.monotonic())

    def _free(self) -> bool:
        if not self.holder or self.holder == self.identity or self._observed is None:
            return True
        lasts = self._observed.spec.get("leaseDurationSeconds") or self.timings.lease_duration
        return self._clock.monotonic() - self._observed.since >= lasts * SECOND

    def _left(self) -> float:
        """Seconds that this process may still act for."""
        if self._renewed is None:
            return 0.0
        return self.timings.renew_deadline - (self._clock.monotonic() - self._renewed) / SECOND

    async def _release(self) -> None:
        """Give the lease up if it is still ours, so that the next one need not wait for it to run out."""
        held = self.is_leader
        self._renewed = self._lease = None
        if held:
            try:
                await within(self._clock, self.timings.retry_period, self._give_up())
            except _FAILURES as error:
                log.warning("%s: could not give up %s/%s: %s", self.identity, self.namespace, self.name, error)

    async def _give_up(self) -> None:
        lease = await self._client.get(LEASES, self.name, namespace=self.namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            return
        now = times.format_micro(self._clock.now())
        given_up = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        self._observe(await self._client.replace(LEASES, {**lease, "spec": {**spec, **given_up}}))
