"""Requests for one workload one after the other, and not too many."""

from __future__ import annotations

import asyncio

from trimtab.scaledown.intent.ratelimits import RateLimiter, Rates, WorkloadLocks
from trimtab.testing.clocks import VirtualClock


async def test_requests_for_one_workload_are_served_one_at_a_time() -> None:
    """In the order of arrival; another workload's requests do not wait."""
    turns, seen, go = WorkloadLocks(), list[str](), asyncio.Event()

    async def work(workload: str, name: str) -> None:
        async with turns.acquire(workload):
            seen.append(name)
            await go.wait()

    tasks = [asyncio.ensure_future(work(*each)) for each in (("web", "1"), ("web", "2"), ("db", "3"))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["1", "3"]
    go.set()
    await asyncio.gather(*tasks)
    assert seen == ["1", "3", "2"]


async def test_a_cancelled_waiter_does_not_block_others() -> None:
    """A cancelled request leaves no trace."""
    turns, entered = WorkloadLocks(), asyncio.Event()

    async def hold() -> None:
        async with turns.acquire("web"):
            entered.set()
            await asyncio.get_running_loop().create_future()

    first = asyncio.ensure_future(hold())
    await entered.wait()
    second = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    async with asyncio.timeout(1), turns.acquire("web"):
        pass


async def test_limits_are_for_each_workload_and_for_all() -> None:
    """One that asks too often does not use up what others have, beyond what all may."""
    clock = VirtualClock()
    limits = RateLimiter(Rates(each=1.0, each_burst=2, all=1.0, all_burst=4), clock)
    assert [limits.allow("web") for _ in range(3)] == [True, True, False]
    assert [limits.allow("db") for _ in range(2)] == [True, True]
    assert not limits.allow("other")
    await clock.advance(1)
    assert limits.allow("web")
