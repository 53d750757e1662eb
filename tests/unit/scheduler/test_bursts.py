"""Bursts of bindings: events of bound pods wait until one is over, or has lasted too long."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from trimtab.scheduler.bursts import LONGEST, QUIET, Bursts
from trimtab.testing.clocks import VirtualClock


async def waits(bursts: Bursts, clock: VirtualClock, seconds: float) -> bool:
    """Whether an event that is to be written now still waits so much later."""
    task = asyncio.ensure_future(bursts.wait())
    await clock.advance(seconds)
    is_waiting = not task.done()
    task.cancel()
    return is_waiting


async def test_without_bindings_nothing_waits() -> None:
    """Also a process that has just started."""
    clock = VirtualClock()
    assert not await waits(Bursts(clock), clock, 0)


async def test_events_wait_for_a_moment_without_bindings() -> None:
    """While a binding is in flight, and a moment after the last one."""
    clock = VirtualClock()
    bursts = Bursts(clock)
    bursts.begin_binding()
    assert await waits(bursts, clock, 10)
    bursts.end_binding()
    assert await waits(bursts, clock, QUIET - 0.01)
    assert not await waits(bursts, clock, 0.01)


async def test_a_burst_goes_on_if_the_next_binding_begins_soon() -> None:
    """There are moments without any, since pods are created one by one."""
    clock = VirtualClock()
    bursts = Bursts(clock)
    for _ in range(100):
        bursts.begin_binding()
        await clock.advance(0.01)
        bursts.end_binding()
        assert await waits(bursts, clock, QUIET / 2)


async def test_a_long_burst_does_not_delay_events_for_ever() -> None:
    """After half a minute they are written beside bindings, until there is a pause; the next burst counts anew."""
    clock = VirtualClock()
    bursts = Bursts(clock)
    bursts.begin_binding()
    assert await waits(bursts, clock, LONGEST - 0.01)
    assert not await waits(bursts, clock, 0.01)
    bursts.begin_binding()
    assert not await waits(bursts, clock, 0)
    bursts.end_binding()
    bursts.end_binding()
    await clock.advance(QUIET)
    bursts.begin_binding()
    assert await waits(bursts, clock, LONGEST - 0.01)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 2 * QUIET)), max_size=40))
async def test_no_event_waits_longer_than_a_burst_may_last(steps: list[tuple[bool, float]]) -> None:
    """Whatever bindings begin and end, and when."""
    clock = VirtualClock()
    bursts = Bursts(clock)
    in_flight = 0
    for begins, pause in steps:
        if begins:
            bursts.begin_binding()
            in_flight += 1
        elif in_flight:
            bursts.end_binding()
            in_flight -= 1
        await clock.advance(pause)
        assert 0.0 <= bursts.wait_seconds <= QUIET
    if in_flight:
        assert not await waits(bursts, clock, LONGEST)
    else:
        assert not await waits(bursts, clock, QUIET)
