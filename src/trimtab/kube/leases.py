"""Leader election on a Lease: of several processes, one acts.

**The rule.** A leader may act until `renew_deadline` after it *sent* its last successful renewal. Another process may
acquire the lease once it has seen it unchanged for the `lease_duration` written in it, counted from when it *received*
that state. The server stored the renewal between those two moments, so the first process stops before the second
starts, unless one clock runs 1.5 times as fast as the other (15 s against 10 s). Only durations on the own machine are
measured; the timestamps in the lease are for people.

**Work** is a coroutine that is cancelled when the lease is lost. Cancellation does not stop code that never awaits, so
`check`, which reads the clock, also runs before every write (`Settings.before_write`).

**A busy process keeps its lease.** All calls may be made in another event loop (`LeaseCalls`), so that work that keeps
the main loop busy does not delay a renewal.

**Shutdown.** The work is stopped first, while the lease is still renewed, and then the lease is released: the next
leader need not wait, and the two never overlap.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """The timings of leader election, in seconds, named as in client-go."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError(
                "lease_duration must be greater than renew_deadline: a leader must stop before another may start"
            )
        if self.renew_deadline <= self.retry_period * _JITTER:
            raise ValueError(
                "renew_deadline must be greater than 1.2 · retry_period: a leader must be able to try twice"
            )


LEASE_TIMINGS = LeaseTimings()


async def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run the work in the loop of the caller."""
    return await work


class RunIn(Protocol):
    """Runs a coroutine, perhaps in another event loop."""

    async def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run it and wait for it."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseCalls:
    """How leases are read and written: by a client, in its event loop."""

    client: Client
    run_in: RunIn = run_here
    on_candidate: Callable[[Elector], None] = lambda _: None
    """Called with each candidate that is made with these calls."""

    def candidate(
        self, *, name: str, namespace: str, identity: str, timings: LeaseTimings, rng: random.Random | None = None
    ) -> Elector:
        """A candidate for a lease."""
        made = Elector(
            self.client,
            name=name,
            namespace=namespace,
            identity=identity,
            timings=timings,
            rng=rng,
            run_in=self.run_in,
        )
        self.on_candidate(made)
        return made


@dataclass(slots=True)
class _Observation:
    """The spec of a lease, and when it was first seen."""

    spec: JSON
    since: int


class Elector:
    """A candidate for a lease. `identity` must be unique to this process."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        timings: LeaseTimings = LEASE_TIMINGS,
        rng: random.Random | None = None,
        run_in: RunIn = run_here,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self.timings = timings
        self._client = client.using(retry=NO_RETRIES, timeout=timings.renew_deadline, urgent=True, before_write=None)
        self._clock = client.clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter of attempts, not a secret
        self._observed: _Observation | None = None
        self._lease: JSON | None = None
        self._renewed: int | None = None
        self._run_in = run_in

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; empty if it has none."""
        return str((self._observed.spec.get("holderIdentity") or "") if self._observed else "")

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease now and may act."""
        return self._seconds_left() > 0

    def check(self) -> None:
        """Raise LeadershipLost unless this process holds the lease now."""
        if not self.is_leader:
            raise LeadershipLost(f"{self.identity} does not hold the lease {self.namespace}/{self.name}")

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire the lease, run the work while it is held or until the work ends, then release it.

        Raises LeadershipLost, after the work has stopped, if the lease was lost.
        """
        await self._run_in(self._acquire())
        keeping = asyncio.ensure_future(self._run_in(self._keep()))  # first: the work may begin with a long step
        working = asyncio.ensure_future(work())
        try:
            await asyncio.wait((working, keeping), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                log.error("%s lost the lease %s/%s, stopping", self.identity, self.namespace, self.name)
                raise LeadershipLost(f"{self.identity} could not renew the lease {self.namespace}/{self.name}")
            working.result()
        finally:
            await self._stop(working, keeping)

    async def _stop(self, working: asyncio.Future[None], keeping: asyncio.Future[None]) -> None:
        """End the work, and then release the lease. If this is cancelled meanwhile, so is the work, once more."""
        try:
            await cancel(working)
        except asyncio.CancelledError:
            await cancel(working)
            raise
        finally:
            try:
                await cancel(keeping)
            finally:
                await self._run_in(self._release())

    async def _acquire(self) -> None:
        log.info("%s is waiting for the lease %s/%s", self.identity, self.namespace, self.name)
        while not (await self._attempt(self.timings.renew_deadline) and self.is_leader):
            await self._clock.sleep(self.timings.retry_period * (1 + (_JITTER - 1) * self._rng.random()))
        log.info("%s acquired the lease %s/%s", self.identity, self.namespace, self.name)

    async def _keep(self) -> None:
        """Renew until the renew deadline has passed, or another process holds the lease."""
        while (left := self._seconds_left()) > 0:
            await self._clock.sleep(min(self.timings.retry_period, left))
            left = self._seconds_left()
            if left > 0 and not await self._attempt(left) and self.holder != self.identity:
                self._renewed = None

    async def _attempt(self, seconds: float) -> bool:
        """Try to acquire or renew the lease within so many seconds; after a failure it may be written or not."""
        try:
            return await within(self._clock, seconds, self._acquire_or_renew())
        except _FAILURES as error:
            log.warning(
                "%s could not acquire or renew the lease %s/%s, will retry: %s",
                self.identity,
                self.namespace,
                self.name,
                error,
            )
            return False

    async def _acquire_or_renew(self) -> bool:
        is_ours = self.holder == self.identity and self.is_leader
        if is_ours and self._lease is not None and await self._write(self._lease):
            return True
        try:
            lease = await self._client.get(LEASES, self.name, namespace=self.namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        return self._is_free() and await self._write(lease)

    async def _create(self) -> bool:
        sent = self._clock.monotonic()
        body = {"metadata": {"name": self.name, "namespace": self.namespace}, "spec": self._spec({})}
        try:
            lease = await self._client.create(LEASES, body, namespace=self.namespace)
        except AlreadyExists:
            return False
        self._record(lease, sent)
        return True

    async def _write(self, lease: JSON) -> bool:
        """Write our identity into exactly this version of the lease; not if it has changed or was deleted since."""
        sent = self._clock.monotonic()
        spec = lease.get("spec") or {}
        try:
            stored = await self._client.replace(LEASES, {**lease, "spec": {**spec, **self._spec(spec)}})
        except (Conflict, NotFound):
            return False
        self._record(stored, sent)
        return True

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

    def _record(self, lease: JSON, sent: int) -> None:
        self._observe(lease)
        self._lease = lease
        self._renewed = sent

    def _observe(self, lease: JSON) -> None:
        """Note the spec. Only a change restarts its time: reading the same lease again must not prolong it."""
        spec = lease.get("spec") or {}
        if self._observed is None or self._observed.spec != spec:
            self._observed = _Observation(spec, self._clock.monotonic())

    def _is_free(self) -> bool:
        if not self.holder or self.holder == self.identity or self._observed is None:
            return True
        lasts = self._observed.spec.get("leaseDurationSeconds") or self.timings.lease_duration
        return self._clock.monotonic() - self._observed.since >= lasts * SECOND

    def _seconds_left(self) -> float:
        """Seconds for which this process may still act."""
        if self._renewed is None:
            return 0.0
        return self.timings.renew_deadline - (self._clock.monotonic() - self._renewed) / SECOND

    async def _release(self) -> None:
        """Release the lease if it is still ours, so that the next leader need not wait until it expires."""
        held = self.is_leader
        self._renewed = self._lease = None
        if held:
            try:
                await within(self._clock, self.timings.retry_period, self._write_release())
            except _FAILURES as error:
                log.warning(
                    "%s could not release the lease %s/%s, it expires by itself: %s",
                    self.identity,
                    self.namespace,
                    self.name,
                    error,
                )

    async def _write_release(self) -> None:
        lease = await self._client.get(LEASES, self.name, namespace=self.namespace)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            return
        now = times.format_micro(self._clock.now())
        released = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        self._observe(await self._client.replace(LEASES, {**lease, "spec": {**spec, **released}}))
