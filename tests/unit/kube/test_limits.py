"""How many requests a second a client allows itself."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.kube.clocks import SECOND
from trimtab.kube.limits import TokenBucket
from trimtab.testing.clocks import START, VirtualClock


async def test_a_burst_passes_and_the_rest_follows_at_the_rate() -> None:
    """Waiters go in the order they came, evenly spaced."""
    clock = VirtualClock()
    bucket = TokenBucket(rate=2, burst=3, clock=clock)
    went: list[tuple[int, float]] = []

    async def go(number: int) -> None:
        await bucket.wait()
        went.append((number, (clock.now() - START) / SECOND))

    tasks = [asyncio.create_task(go(number)) for number in range(6)]
    await clock.advance(10)
    await asyncio.gather(*tasks)
    assert went == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.5), (4, 1.0), (5, 1.5)]


async def test_tokens_taken_in_advance_delay_later_ones() -> None:
    """Several tokens, more than available: later callers wait until they are refilled."""
    clock = VirtualClock()
    bucket = TokenBucket(2.0, 5, clock)
    assert bucket.left == 5
    bucket.spend(7)
    assert (bucket.left, bucket.take()) == (0, False)
    await clock.advance(2)
    assert (bucket.left, bucket.take()) == (2, True)


async def test_an_idle_bucket_fills_up_to_its_burst() -> None:
    """Time saves up a burst, not more."""
    clock = VirtualClock()
    bucket = TokenBucket(rate=1, burst=2, clock=clock)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    await clock.advance(100)
    assert [bucket.take() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_without_tokens_is_refused(rate: float, burst: int) -> None:
    """It would be a deadlock with extra steps."""
    with pytest.raises(ValueError, match="a token bucket needs"):
        TokenBucket(rate, burst, VirtualClock())
