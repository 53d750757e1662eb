"""A clock that stands still until it is moved: time as an argument, for tests."""

from __future__ import annotations

import asyncio
import heapq
import itertools

NANOSECOND = 1_000_000_000
START = 1_767_225_600 * NANOSECOND
"""2026-01-01T00:00:00Z, when virtual clocks start."""


class VirtualClock:
    """Time that only `advance` moves. Sleepers wake in the order of their times, each seeing its own moment.

    It has the faces that code needs: `now()`, the time of day in nanoseconds, `monotonic()`, which here is the same,
    and `sleep(seconds)`.
    """

    def __init__(self, now: int = START) -> None:
        self._now = now
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> int:
        """Nanoseconds since the epoch."""
        return self._now

    def monotonic(self) -> int:
        """Nanoseconds since some moment; never goes back."""
        return self._now

    @property
    def sleepers(self) -> int:
        """How many are waiting for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been moved so far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._now + round(seconds * NANOSECOND)
        heapq.heappush(self._sleepers, (due, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking sleepers on the way and letting each run before the next one wakes."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        end = self._now + round(seconds * NANOSECOND)
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self._now = max(self._now, due)
            if not future.done():
                future.set_result(None)
            await _settle()
        self._now = end


async def _settle() -> None:
    """Let everything that is ready to run, run: woken tasks may wake others in turn."""
    for _ in range(16):
        await asyncio.sleep(0)
