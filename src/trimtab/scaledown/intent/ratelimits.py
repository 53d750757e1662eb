"""Limits on requests: one at a time for each workload, and not too many.

The load of a request on the API server is in the costs that are written for it, so these are limited too: a few
requests for the largest workloads write as much as thousands for small ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from trimtab.kube.clocks import Clock
from trimtab.kube.limits import TokenBucket

_REMEMBERED = 1024
"""How many workloads' limits are remembered."""


class WorkloadLocks:
    """A lock for each workload, granted in the order of arrival."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def acquire(self, workload: str) -> AsyncIterator[None]:
        """Wait for earlier requests, and hold the lock."""
        lock, count = self._locks.get(workload, (asyncio.Lock(), 0))
        self._locks[workload] = (lock, count + 1)
        try:
            async with lock:
                yield
        finally:
            lock, count = self._locks.pop(workload)
            if count > 1:
                self._locks[workload] = (lock, count - 1)


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
