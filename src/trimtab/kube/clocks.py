"""Time as an argument: an interface with two clocks in it, and a deadline that works on any of them.

The time of day is for people and for what is written into objects. It may be wrong, and it may jump. How long something
took, and whether a lease still holds, is only ever asked of `monotonic`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SECOND = 1_000_000_000
"""Nanoseconds."""


class Clock(Protocol):
    """What tells the time, and waits."""

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        ...

    def monotonic(self) -> int:
        """Nanoseconds since some moment; never goes back, means nothing on another machine."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic(self) -> int:
        """Nanoseconds since the machine started, counting those that it slept: a lease runs out meanwhile."""
        return time.clock_gettime_ns(_STEADY)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


_STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, or TimeoutError (and the work is cancelled) if it takes longer than that."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"not within {seconds:g} s")
    finally:
        await cancel(task, alarm)


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    """End these tasks and wait until they have ended. What they had to say is of no interest any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
