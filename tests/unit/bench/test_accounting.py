"""CPU time by part: what counts for which, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.binding import accounting
from bench.binding.accounting import PARTS, REST, Account


@dataclass(slots=True)
class CpuClock:
    """A clock that only work moves."""

    now: float = 0.0

    def read(self) -> float:
        """The time."""
        return self.now

    def work(self, seconds: float) -> None:
        """Use CPU."""
        self.now += seconds


@pytest.fixture(name="clock")
def _clock() -> CpuClock:
    return CpuClock()


@pytest.fixture(name="account")
def _account(clock: CpuClock) -> Account:
    return Account(clock.read)


def test_a_function_inside_another_counts_for_its_own_part_alone(clock: CpuClock, account: Account) -> None:
    inner = account.counted("inner", lambda: clock.work(2))

    def outer() -> None:
        clock.work(1)
        inner()
        clock.work(4)
        inner()

    account.counted("outer", outer)()
    assert account.seconds == {"inner": 4, "outer": 5}


def test_a_function_that_calls_itself_counts_once(clock: CpuClock, account: Account) -> None:
    def descend(depth: int) -> None:
        clock.work(1)
        if depth:
            counted(depth - 1)

    counted = account.counted("part", descend)
    counted(3)
    assert account.seconds == {"part": 4}


def test_what_runs_outside_of_all_parts_is_not_counted(clock: CpuClock, account: Account) -> None:
    part = account.counted("part", lambda: clock.work(1))
    clock.work(10)
    part()
    clock.work(10)
    part()
    assert account.seconds == {"part": 2}


def test_arguments_and_results_are_passed_on(account: Account) -> None:
    assert account.counted("part", divmod)(7, 2) == (3, 1)


def test_an_exception_passes_through_and_ends_the_part(clock: CpuClock, account: Account) -> None:
    def fail() -> None:
        clock.work(1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        account.counted("part", fail)()
    clock.work(10)
    account.counted("other", lambda: clock.work(2))()
    assert account.seconds == {"part": 1, "other": 2}


def test_other_threads_are_not_counted(clock: CpuClock, account: Account) -> None:
    part = account.counted("part", lambda: clock.work(1))
    thread = threading.Thread(target=part)
    thread.start()
    thread.join()
    assert clock.now == 1
    assert account.seconds == {"part": 0}


async def test_a_coroutine_that_waits_counts_nothing(clock: CpuClock, account: Account) -> None:
    waiting, proceed = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        clock.work(1)
        waiting.set()
        await proceed.wait()
        clock.work(2)
        return "done"

    task = asyncio.ensure_future(account.counted("part", work)())
    await waiting.wait()
    clock.work(100)
    proceed.set()
    assert await task == "done"
    assert account.seconds == {"part": 3}


async def test_coroutines_by_turns_count_each_for_its_part(clock: CpuClock, account: Account) -> None:
    async def work(seconds: float) -> None:
        for _ in range(3):
            clock.work(seconds)
            await asyncio.sleep(0)

    inner = account.counted("inner", work)

    async def outer() -> None:
        clock.work(100)
        await inner(10)

    await asyncio.gather(account.counted("outer", outer)(), account.counted("other", work)(1))
    assert account.seconds == {"inner": 30, "outer": 100, "other": 3}


async def test_a_cancellation_passes_through(clock: CpuClock, account: Account) -> None:
    waiting = asyncio.Event()

    async def work() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            clock.work(1)

    task = asyncio.ensure_future(account.counted("part", work)())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert account.seconds == {"part": 1}


async def test_a_coroutine_may_handle_what_it_waits_for_raising(account: Account) -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> str:
        try:
            await failing
        except ValueError as error:
            return str(error)
        return ""

    task = asyncio.ensure_future(account.counted("part", work)())
    failing.set_exception(ValueError("handled"))
    assert await task == "handled"


async def test_an_exception_of_a_coroutine_passes_through(account: Account) -> None:
    async def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await account.counted("part", fail)()


@pytest.mark.parametrize("name", [name for names in PARTS.values() for name in names])
def test_each_function_of_the_table_exists(name: str) -> None:
    owner, last = accounting.find(name)
    assert callable(getattr(owner, last))


def test_the_parts_and_the_rest_are_the_whole_process(account: Account, tmp_path: Path) -> None:
    account.seconds["part"] = -1.0
    account.write(tmp_path / "account.json")
    written = json.loads((tmp_path / "account.json").read_text())
    assert written["part"] == -1.0
    assert written[REST] > 1.0


@pytest.fixture(name="file")
def _file(account: Account, tmp_path: Path) -> Iterator[Path]:
    """The file that this process writes on SIGUSR1."""
    file = tmp_path / "account.json"
    before = signal.signal(signal.SIGUSR1, lambda *_: account.write(file))
    yield file
    signal.signal(signal.SIGUSR1, before)


def test_a_reader_gets_what_is_counted_since_the_last_time(clock: CpuClock, account: Account, file: Path) -> None:
    part = account.counted("part", lambda: clock.work(1))
    for expected in (1, 2):
        part()
        assert accounting.read(os.getpid(), file)["part"] == expected
