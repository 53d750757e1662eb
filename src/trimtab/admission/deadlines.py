"""Decisions with a deadline that holds even if the event loop is late.

An alarm of two seconds goes off when the loop has time for it: under load that may be a second later, and what was
promised to the API server is broken. So the alarm is set in slices, and each slice that was late brings the deadline
forward by as much: the answer is sent by the time that was promised, rather too early than too late. A decision that is
given up is cancelled and not waited for, because that takes another turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from trimtab.kube.clocks import SECOND, Clock

T = TypeVar("T")

_SLICE = 0.25
"""Seconds after which it is looked how late the loop is."""

log = logging.getLogger(__name__)


class Deadlines:
    """Awaits decisions, each until its deadline."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ending: set[asyncio.Future[Any]] = set()

    async def within(self, budget: float, started: int, decision: Awaitable[T]) -> T:
        """The decision, if it is made within so many seconds of a moment on the monotonic clock; or TimeoutError."""
        task = asyncio.ensure_future(decision)
        late = 0.0
        try:
            while (left := budget - late - self._since(started)) > 0:
                late = await self._wait(task, min(left, _SLICE))
                if task.done():
                    return task.result()
            raise TimeoutError(f"not within {budget:g} s")
        finally:
            self._abandon(task)

    async def close(self) -> None:
        """Wait until the decisions that were given up have ended."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _wait(self, task: asyncio.Future[Any], seconds: float) -> float:
        """Wait for the task, for so many seconds at most; how many seconds later than that it is."""
        before = self._clock.monotonic()
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._abandon(alarm)
        return max(0.0, self._since(before) - seconds)

    def _abandon(self, task: asyncio.Future[Any]) -> None:
        if not task.done():
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Future[Any]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("a decision that was given up failed", exc_info=task.exception())

    def _since(self, moment: int) -> float:
        return (self._clock.monotonic() - moment) / SECOND
