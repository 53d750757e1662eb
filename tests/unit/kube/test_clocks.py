"""Clocks: the machine's own, and deadlines on any clock."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.kube.clocks import Clock, SystemClock, cancel, within
from trimtab.testing.clocks import VirtualClock


async def test_system_clock_is_monotonic() -> None:
    """Two readings of the monotonic clock are in order, and the time of day is in this century."""
    clock: Clock = SystemClock()
    first = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= first
    assert clock.now() > 1_700_000_000 * 10**9


async def test_work_within_the_timeout_returns_its_result() -> None:
    """The deadline leaves no trace on what makes it."""
    clock = VirtualClock()

    async def work() -> str:
        await clock.sleep(1)
        return "done"

    task = asyncio.create_task(within(clock, 2, work()))
    await clock.advance(1)
    assert await task == "done"
    assert clock.sleepers == 0


async def test_work_beyond_the_timeout_is_cancelled() -> None:
    """After the timeout the work is stopped before the caller continues."""
    clock = VirtualClock()
    ended: list[str] = []

    async def work() -> None:
        try:
            await clock.sleep(60)
        finally:
            ended.append("stopped")

    task = asyncio.create_task(within(clock, 2, work()))
    await clock.advance(2)
    with pytest.raises(TimeoutError, match="not within 2 s"):
        await task
    assert ended == ["stopped"]


async def test_an_error_of_the_work_is_raised() -> None:
    """An exception is the work's result too."""

    async def work() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await within(VirtualClock(), 1, work())


async def test_cancelling_the_caller_stops_the_work() -> None:
    """No task is left behind when the caller is cancelled."""
    clock = VirtualClock()
    task = asyncio.create_task(within(clock, 60, clock.sleep(30)))
    await clock.advance(1)
    await cancel(task)
    assert clock.sleepers == 0
