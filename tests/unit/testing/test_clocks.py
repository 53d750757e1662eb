"""The virtual clock: time that only moves when it is told to."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.testing.clocks import NANOSECOND, START, VirtualClock


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    """A long step wakes everyone on the way, and each sees the time it asked for."""
    clock = VirtualClock()
    seen: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append((name, (clock.now() - START) // NANOSECOND))

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in (("late", 3), ("early", 1))]
    await clock.advance(10)
    await asyncio.gather(*tasks)
    assert seen == [("early", 1), ("late", 3)]
    assert clock.now() == START + 10 * NANOSECOND


async def test_a_sleeper_that_sleeps_again_is_woken_again() -> None:
    """What a woken task asks for within the same step is still part of that step."""
    clock = VirtualClock()
    ticks: list[int] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(1)
            ticks.append((clock.now() - START) // NANOSECOND)

    task = asyncio.create_task(ticker())
    await clock.advance(3)
    task.cancel()
    assert ticks == [1, 2, 3]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """Cancelling does not disturb the others."""
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)
    assert clock.sleepers == 1
    task.cancel()
    await clock.advance(10)
    assert clock.sleepers == 0


async def test_time_does_not_run_backwards() -> None:
    """Nor does it stand in the way of one who does not want to wait."""
    clock = VirtualClock()
    await clock.sleep(0)
    with pytest.raises(ValueError, match="backwards"):
        await clock.advance(-1)
