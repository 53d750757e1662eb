"""The work queue: no key is lost, none is worked on twice at once."""

from __future__ import annotations

import asyncio
import random

import pytest

from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.queues import ShutDown, WorkQueue
from trimtab.kube.retries import Backoff
from trimtab.testing.clocks import START, VirtualClock


class Tally:
    """Counts what happens in a queue."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def added(self, depth: int) -> None:
        """A key came into line."""
        self.seen.append(("added", depth))

    def started(self, depth: int, waited: float) -> None:
        """A key was taken."""
        self.seen += [("depth", depth), ("waited", waited)]

    def finished(self, worked: float) -> None:
        """A key was done."""
        self.seen.append(("worked", worked))

    def retried(self) -> None:
        """A key failed."""
        self.seen.append(("retried", 1))


async def test_keys_are_taken_in_order_and_once() -> None:
    """Adding what is waiting already changes nothing."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    for key in "abacab":
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_added_while_processed_is_processed_again() -> None:
    """Not before, and once only."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert len(queue) == 1
    queue.done(await queue.get())
    assert len(queue) == 0


async def test_a_worker_waits_for_a_key() -> None:
    """And is woken by it."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await getter == "a"


async def test_a_worker_that_is_cancelled_as_it_is_woken_wakes_another() -> None:
    """The key must not wait for the next one to come."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    await cancel(first)
    assert await second == "a"


async def test_a_delayed_key_is_queued_after_its_delay() -> None:
    """The earliest time counts; a later one does not put it off."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    came: list[tuple[str, float]] = []

    async def worker() -> None:
        while True:
            key = await queue.get()
            came.append((key, (clock.now() - START) / SECOND))
            queue.done(key)

    task = asyncio.create_task(worker())
    queue.add_after("late", 6)
    queue.add_after("put off", 5)
    await clock.advance(1)
    queue.add_after("early", 1)
    queue.add_after("put off", 9)
    queue.add_after("late", 2)
    queue.add_after("now", 0)
    await clock.advance(20)
    await cancel(task)
    assert came == [("now", 1), ("early", 2), ("late", 3), ("put off", 5)]


async def test_a_failing_key_is_requeued_with_growing_delays() -> None:
    """Until it is forgotten; each key on its own."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock, backoff=Backoff(initial=1, cap=5))
    assert [queue.retry("a") for _ in range(5)] == [1, 2, 4, 5, 5]
    assert queue.retry("b") == 1
    assert queue.failures("a") == 5
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.retry("a") == 1
    await queue.drain()


async def test_delays_after_failures_are_those_of_client_go() -> None:
    """From 5 ms, doubled each time, up to 1000 s."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    delays = [queue.retry("a") for _ in range(30)]
    assert delays[:3] == [0.005, 0.01, 0.02]
    assert delays[-1] == 1000
    await queue.drain()


async def test_without_a_delay_a_key_is_queued_at_once() -> None:
    """No task has to run for that."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    queue.add_after("a", 0)
    assert len(queue) == 1


async def test_a_key_due_between_two_others_is_queued_between_them() -> None:
    """The timer waits for the second when the third comes."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("first", 5)
    queue.add_after("last", 10)
    await clock.advance(6)
    assert await queue.get() == "first"
    queue.add_after("between", 1)
    await clock.advance(1)
    assert len(queue) == 1
    assert await queue.get() == "between"
    queue.shut_down()


async def test_shutting_down_processes_queued_keys_only() -> None:
    """Keys that are added later, or kept aside, do not come."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    queue.add_after("b", 1)
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    await clock.advance(0)
    assert clock.sleepers == 0
    await clock.advance(5)
    assert await queue.get() == "a"
    with pytest.raises(ShutDown):
        await queue.get()
    assert queue.closed


async def test_shutting_down_ends_waiting_workers() -> None:
    """All of them."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.shut_down()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [ShutDown] * 3


async def test_draining_waits_for_queued_and_processed_keys() -> None:
    """And for nothing else."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 100)
    under_way = await queue.get()
    queue.add(under_way)
    drained = asyncio.create_task(queue.drain())
    await asyncio.sleep(0)
    for _ in range(3):
        assert not drained.done()
        queue.done(under_way)
        await asyncio.sleep(0)
        if len(queue):
            under_way = await queue.get()
    await drained
    assert clock.sleepers == 0


async def test_draining_waits_for_all_keys_that_are_processed() -> None:
    """The first of two that is done does not end it."""
    queue: WorkQueue[str] = WorkQueue(VirtualClock())
    for key in "ab":
        queue.add(key)
    under_way = [await queue.get(), await queue.get()]
    drained = asyncio.create_task(queue.drain())
    await asyncio.sleep(0)
    for key in under_way:
        assert not drained.done()
        queue.done(key)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert drained.done()
    await drained


async def test_the_observer_is_called() -> None:
    """Depth, waiting, working and failures, on the queue's own clock."""
    clock, tally = VirtualClock(), Tally()
    queue: WorkQueue[str] = WorkQueue(clock, observer=tally)
    queue.add("a")
    await clock.advance(2)
    key = await queue.get()
    await clock.advance(3)
    queue.retry(key)
    queue.done(key)
    assert tally.seen == [("added", 1), ("depth", 0), ("waited", 2.0), ("retried", 1), ("worked", 3.0)]
    await queue.drain()


@pytest.mark.parametrize("seed", range(10))
async def test_chaos_never_loses_a_key_and_never_runs_one_twice_at_once(seed: int) -> None:
    """Random adds, delays, failures and cancelled workers: after every add the key is worked on once more."""
    rng, clock = random.Random(seed), VirtualClock()
    queue: WorkQueue[int] = WorkQueue(clock, backoff=Backoff(initial=0.1, cap=2))
    owed: set[int] = set()
    running: set[int] = set()
    twice: list[int] = []

    async def worker() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                return
            if key in running:
                twice.append(key)
            running.add(key)
            owed.discard(key)
            try:
                await clock.sleep(rng.random())
                if rng.random() < 0.2:
                    owed.add(key)
                    queue.retry(key)
                else:
                    queue.forget(key)
            except asyncio.CancelledError:
                owed.add(key)
                queue.add(key)
                raise
            finally:
                running.discard(key)
                queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(4)]
    for _ in range(300):
        key = rng.randrange(12)
        owed.add(key)
        if rng.random() < 0.5:
            queue.add(key)
        else:
            queue.add_after(key, rng.random() * 3)
        if rng.random() < 0.1:
            victim = rng.randrange(len(workers))
            await cancel(workers[victim])
            workers[victim] = asyncio.create_task(worker())
        await clock.advance(rng.random() * 0.3)
    await clock.advance(60)
    assert (owed, running, twice) == (set(), set(), [])
    await queue.drain()
    await asyncio.gather(*workers)


class HastyClock(VirtualClock):
    """A clock whose sleepers wake too early, as those of a real event loop may by a little."""

    async def sleep(self, seconds: float) -> None:
        """Half as long, but for the last tenth of a second."""
        await super().sleep(max(seconds / 2, min(seconds, 0.1)))


async def test_a_timer_that_ends_too_early_releases_no_key() -> None:
    """It waits again for what is left."""
    clock = HastyClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add_after("a", 1.0)
    await clock.advance(0.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert len(queue) == 1
    await queue.get()
    queue.done("a")
    await queue.drain()
