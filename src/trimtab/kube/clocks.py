"""Clocks as an interface, so that time can be virtual in tests; timeouts and grace periods that work on any of them.

The time of day is for people and for timestamps in objects. It may be wrong, and it may jump. Durations, and whether
a lease is still valid, are measured with `monotonic` only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SECOND = 1_000_000_000
"""Nanoseconds."""
GRACE = 2.0
"""Seconds that work may take to finish when it is stopped."""


class Clock(Protocol):
    """A source of time that can also sleep."""

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        ...

    def monotonic(self) -> int:
        """Nanoseconds since an arbitrary start; never decreases, not comparable between machines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> int:
        """Nanoseconds since boot, including time in suspend: leases expire meanwhile."""
        return time.clock_gettime_ns(_STEADY)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)


_STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await the work; after so many seconds cancel it and raise TimeoutError."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"not within {seconds:g} s")
    finally:
        await cancel(task, alarm)


async def run_with_grace(
    clock: Clock,
    work: Coroutine[Any, Any, None],
    *,
    finish: Callable[[], Coroutine[Any, Any, None]],
    on_timeout: Callable[[], None],
    grace: float = GRACE,
) -> None:
    """Run the work until it ends. If this is cancelled, the work goes on until `finish` returns; if that takes longer
    than the grace period, `on_timeout` is called. Then the work is cancelled."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait((working,))
        working.result()
    finally:
        try:
            if not working.done():
                await within(clock, grace, finish())
        except TimeoutError:
            on_timeout()
        finally:
            await cancel(working)


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """Cancel these tasks and wait until they have ended; their results and errors are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
