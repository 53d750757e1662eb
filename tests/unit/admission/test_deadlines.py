"""Deadlines of decisions: kept, also by a loop that is late."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.admission.deadlines import Deadlines
from trimtab.kube.clocks import SECOND
from trimtab.testing.clocks import VirtualClock


class LateClock(VirtualClock):
    """A clock that wakes sleepers late, as a loop with much to do does."""

    delay: float = 0.0

    async def sleep(self, seconds: float) -> None:
        """Sleep for longer than asked."""
        await super().sleep(seconds + self.delay)


async def decided(clock: VirtualClock, seconds: float, *, budget: float = 2.0) -> tuple[str, float]:
    """What becomes of a decision that takes so long, and when."""
    deadlines, started = Deadlines(clock), clock.monotonic()

    async def decide() -> str:
        await VirtualClock.sleep(clock, seconds)
        return "decided"

    async def attempt() -> str:
        try:
            return await deadlines.within(budget, started, decide())
        except TimeoutError:
            return "given up"

    task = asyncio.ensure_future(attempt())
    while not task.done():
        await clock.advance(0.05)
    await deadlines.close()
    return task.result(), (clock.monotonic() - started) / SECOND


@pytest.mark.parametrize(
    ("seconds", "delay", "outcome", "between"),
    [
        pytest.param(0.0, 0.0, "decided", (0.0, 0.1), id="at once"),
        pytest.param(1.3, 0.0, "decided", (1.3, 1.4), id="in time"),
        pytest.param(9.0, 0.0, "given up", (2.0, 2.05), id="not in time"),
        pytest.param(9.0, 0.5, "given up", (1.2, 2.05), id="not in time, in a loop that is half a second late"),
        pytest.param(9.0, 1.0, "given up", (1.0, 2.05), id="not in time, in a loop that is a second late"),
    ],
)
async def test_a_decision_is_made_or_given_up_by_its_deadline(
    seconds: float, delay: float, outcome: str, between: tuple[float, float]
) -> None:
    """A single alarm of two seconds would go off late."""
    clock = LateClock()
    clock.delay = delay
    found, took = await decided(clock, seconds)
    assert found == outcome
    assert between[0] - 0.001 <= took <= between[1] + 0.001, took


async def test_a_decision_that_is_given_up_is_cancelled_and_not_waited_for() -> None:
    """What it does to end takes another turn of the loop, or many."""
    clock = VirtualClock()
    deadlines, cleaned = Deadlines(clock), asyncio.Event()

    async def decide() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(10)
            cleaned.set()

    task = asyncio.ensure_future(deadlines.within(1.0, clock.monotonic(), decide()))
    await clock.advance(1.1)
    with pytest.raises(TimeoutError):
        await task
    assert not cleaned.is_set()
    closing = asyncio.ensure_future(deadlines.close())
    await clock.advance(11)
    await closing
    assert cleaned.is_set()


async def test_the_error_of_a_decision_is_raised() -> None:
    """Within the budget it is the caller's."""
    clock = VirtualClock()

    async def fails() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError):
        await Deadlines(clock).within(1.0, clock.monotonic(), fails())
