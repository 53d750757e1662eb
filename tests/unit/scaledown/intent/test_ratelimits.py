"""Requests for one workload one after the other, and not too many."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.scaledown.intent.ratelimits import MOST_WAITING, RateLimiter, Rates, WorkloadLocks
from trimtab.testing.clocks import VirtualClock


async def test_requests_for_one_workload_are_served_one_at_a_time() -> None:
    """In the order of arrival; another workload's requests do not wait."""
    clock = VirtualClock()
    turns, seen, go = WorkloadLocks(clock), list[str](), asyncio.Event()

    async def work(workload: str, name: str) -> None:
        async with turns.acquire(workload, 1.0):
            seen.append(name)
            await go.wait()

    tasks = [asyncio.ensure_future(work(*each)) for each in (("web", "1"), ("web", "2"), ("db", "3"))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["1", "3"]
    go.set()
    await asyncio.gather(*tasks)
    assert seen == ["1", "3", "2"]
    assert clock.sleepers == 0, "no alarm is left of a wait that is over"


async def test_a_cancelled_waiter_does_not_block_others() -> None:
    """A cancelled request leaves no trace."""
    turns, entered = WorkloadLocks(VirtualClock()), asyncio.Event()

    async def hold() -> None:
        async with turns.acquire("web", 1.0):
            entered.set()
            await asyncio.get_running_loop().create_future()

    first = asyncio.ensure_future(hold())
    await entered.wait()
    second = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    async with turns.acquire("web", 0.0) as is_granted:
        assert is_granted


async def test_a_request_waits_for_others_only_so_long() -> None:
    """One that gives up is passed over: the next one waits for the request that is being served, not for it."""
    clock, served = VirtualClock(), list[str]()
    turns = WorkloadLocks(clock)

    async def serve(name: str, seconds: float, patience: float) -> bool:
        async with turns.acquire("web", patience) as is_granted:
            if is_granted:
                served.append(name)
                await clock.sleep(seconds)
            return is_granted

    tasks = [asyncio.ensure_future(serve(*each)) for each in (("1", 3.0, 1.0), ("2", 1.0, 1.0), ("3", 1.0, 5.0))]
    await clock.advance(2.0)
    assert tasks[1].done()
    assert not tasks[1].result()
    assert served == ["1"]
    await clock.advance(3.0)
    assert [task.result() for task in tasks] == [True, False, True]
    assert served == ["1", "3"]


async def test_few_requests_wait() -> None:
    """A flood of requests is not held up; once those that wait are served, others may wait again."""
    turns = WorkloadLocks(VirtualClock())
    outcomes = list[bool]()

    async def serve(go: asyncio.Event) -> None:
        async with turns.acquire("web", 1.0) as is_granted:
            outcomes.append(is_granted)
            await go.wait()

    go = asyncio.Event()
    tasks = [asyncio.ensure_future(serve(go)) for _ in range(MOST_WAITING + 3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert outcomes == [True, False, False]
    go.set()
    await asyncio.gather(*tasks)
    assert outcomes == [True, False, False, *[True] * MOST_WAITING]


async def test_a_request_that_is_cancelled_as_it_gets_the_lock_passes_it_on() -> None:
    """Otherwise no request for the workload would ever be served again."""
    turns = WorkloadLocks(VirtualClock())
    async with turns.acquire("web", 1.0):
        waiting = asyncio.ensure_future(turns.acquire("web", 1.0).__aenter__())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with turns.acquire("web", 0.0) as is_granted:
        assert is_granted


async def test_limits_are_for_each_workload_and_for_all() -> None:
    """One that asks too often does not use up what others have, beyond what all may."""
    clock = VirtualClock()
    limits = RateLimiter(Rates(each=1.0, each_burst=2, all=1.0, all_burst=4), clock)
    assert [limits.allow("web") for _ in range(3)] == [True, True, False]
    assert [limits.allow("db") for _ in range(2)] == [True, True]
    assert not limits.allow("other")
    await clock.advance(1)
    assert limits.allow("web")


async def test_workloads_that_have_not_asked_for_longest_are_forgotten() -> None:
    """However many there are; one that asked again is remembered."""
    limits = RateLimiter(Rates(each=0.001, each_burst=1, all=1e6, all_burst=10_000), VirtualClock())
    assert limits.allow("first")
    assert limits.allow("second")
    for number in range(1022):
        limits.allow(f"other-{number}")
    assert not limits.allow("first"), "all are remembered"
    assert limits.allow("one more")
    assert not limits.allow("first")
    assert limits.allow("second"), "it was forgotten"


async def test_without_writes_left_nothing_is_planned() -> None:
    """And no token is spent for that."""
    clock = VirtualClock()
    limits = RateLimiter(Rates(each=0.001, each_burst=1, writes=1.0, writes_burst=5), clock)
    with limits.writing(5) as allowed:
        assert allowed == 5
    assert not limits.allow("web")
    await clock.advance(1)
    assert limits.allow("web")
    with limits.writing(5) as allowed:
        assert allowed == 1


async def test_requests_that_write_at_the_same_time_share_what_is_left() -> None:
    """Each gets a part of it, rounded up; one that comes when they are done has all of it."""
    limits = RateLimiter(Rates(writes=0.001, writes_burst=90), VirtualClock())
    with limits.writing(10) as first, limits.writing(100) as second, limits.writing(100) as third:
        assert (first, second, third) == (10, 40, 14)
    with limits.writing(100) as alone:
        assert alone == 26


def test_reads_and_observations_have_limits_of_their_own() -> None:
    """Neither uses up what the other may, nor what may be planned."""
    limits = RateLimiter(Rates(observations=0.001, observations_burst=1, reads=0.001, reads_burst=2), VirtualClock())
    assert [limits.observations.take() for _ in range(2)] == [True, False]
    assert [limits.reads.take() for _ in range(3)] == [True, True, False]
    assert limits.allow("web")
