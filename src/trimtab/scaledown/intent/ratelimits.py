"""Limits on requests: one at a time for each workload, and not too many.

The load of a request on the API server is in the costs that are written for it, so these are limited too: a few
requests for the largest workloads write as much as thousands for small ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from trimtab.kube.clocks import Clock, cancel
from trimtab.kube.limits import TokenBucket

MOST_WAITING = 2
"""How many requests for one workload wait for another one."""
_REMEMBERED = 1024
"""How many workloads' limits are remembered."""


class WorkloadLocks:
    """A lock for each workload, granted in the order of arrival to those that still wait for it.

    Few may wait. When one request is stored, the API server reviews the others again, since they were made for a
    workload that has changed: with many waiting, each of them would wait many times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Who waits for each lock that is held."""

    @asynccontextmanager
    async def acquire(self, workload: str, seconds: float) -> AsyncIterator[bool]:
        """Wait for earlier requests, for some seconds at most, and hold the lock: whether it was granted.

        If others are waiting for it already, it is not.
        """
        is_held = await self._wait(workload, seconds)
        try:
            yield is_held
        finally:
            if is_held:
                self._release(workload)

    async def _wait(self, workload: str, seconds: float) -> bool:
        waiting = self._waiting.get(workload)
        if waiting is None:
            self._waiting[workload] = deque()
            return True
        if sum(not turn.done() for turn in waiting) >= MOST_WAITING:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((turn, alarm), return_when=asyncio.FIRST_COMPLETED)
            return turn.done()
        except asyncio.CancelledError:
            if turn.done():
                self._release(workload)
            raise
        finally:
            turn.cancel()
            await cancel(alarm)

    def _release(self, workload: str) -> None:
        """Grant the lock to the first that still waits."""
        waiting = self._waiting[workload]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[workload]


@dataclass(frozen=True, slots=True)
class Rates:
    """How many requests a second are planned over time, and how many at once; the rest is admitted without a plan."""

    each: float = 1.0
    """For one workload."""
    each_burst: int = 10
    all: float = 50.0
    all_burst: int = 200
    writes: float = 500.0
    """How many costs a second all requests together may write."""
    writes_burst: int = 10_000
    reads: float = 200.0
    """How many requests a second are verified at all."""
    reads_burst: int = 1_000


RATES = Rates()


class RateLimiter:
    """Limits how often requests are planned, for one workload and for all together."""

    def __init__(self, rates: Rates, clock: Clock) -> None:
        self._rates = rates
        self._clock = clock
        self._all = TokenBucket(rates.all, rates.all_burst, clock)
        self.writes = TokenBucket(rates.writes, rates.writes_burst, clock)
        self.reads = TokenBucket(rates.reads, rates.reads_burst, clock)
        self._writing = 0
        self._each: dict[str, TokenBucket] = {}

    @contextmanager
    def writing(self, count: int) -> Iterator[int]:
        """How many of `count` costs a request may write: a fair share of what is left among those that write now."""
        self._writing += 1
        allowed = min(count, -(-self.writes.left // self._writing))
        self.writes.spend(allowed)
        try:
            yield allowed
        finally:
            self._writing -= 1

    def allow(self, workload: str) -> bool:
        """Whether one more request may be planned now."""
        bucket = self._each.pop(workload, None)
        if bucket is None:
            bucket = TokenBucket(self._rates.each, self._rates.each_burst, self._clock)
        self._each[workload] = bucket
        while len(self._each) > _REMEMBERED:
            del self._each[next(iter(self._each))]
        return self.writes.left > 0 and bucket.take() and self._all.take()
