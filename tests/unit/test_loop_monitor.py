"""The monitor of the event loop, and the health pages beside a loop that is busy."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import urllib.request
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client import CollectorRegistry

from trimtab.api.configuration import Serving
from trimtab.app import health
from trimtab.app.busy_places import BusyPlaces
from trimtab.app.health import Pages
from trimtab.app.loop_monitor import LoopMonitor
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.side_loop import SideLoop
from trimtab.testing.clocks import VirtualClock


class BusyClock(VirtualClock):
    """A virtual clock in which work without a pause can pass time."""

    late: int = 0

    def monotonic(self) -> int:
        """The virtual time, and what the work took."""
        return super().monotonic() + self.late


async def test_the_lag_is_what_a_measurement_is_late() -> None:
    """None when the loop is free."""
    clock, seen = BusyClock(), list[float]()
    monitor = LoopMonitor(clock, lambda late, _: seen.append(late))
    assert monitor.lag == 0.0
    task = asyncio.create_task(monitor.run())
    await clock.advance(0.04)
    assert seen == [0.0, 0.0]
    clock.late = 2 * SECOND
    assert monitor.lag == pytest.approx(1.98), "known before the loop is free again"
    await clock.advance(0.02)
    assert seen[2] == pytest.approx(2.0)
    await clock.advance(0.02)
    assert seen[3] == pytest.approx(0.0)
    await cancel(task)


@pytest.mark.parametrize(
    ("used", "by_others", "work", "waits_for"),
    [
        pytest.param(3.0, 0.0, 2.0, "", id="by its own work: CPU time from before it was late does not count"),
        pytest.param(1.2, 0.6, 1.2, "", id="mostly by its own work"),
        pytest.param(0.3, 0.0, 0.3, "a processor", id="mostly because it had no processor"),
        pytest.param(0.3, 0.6, 0.3, "a processor", id="other threads had none either"),
        pytest.param(0.9, 0.15, 0.9, "a processor", id="other threads worked less than half the time"),
        pytest.param(0.3, 1.6, 0.3, "other threads", id="mostly because other threads worked"),
    ],
)
async def test_work_is_told_from_waiting(
    used: float, by_others: float, work: float, waits_for: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What the loop's thread has not used of a processor, it cannot have worked."""
    clock, seen, cpu, process = BusyClock(), list[tuple[float, float]](), [0], [0]
    monitor = LoopMonitor(
        clock,
        lambda *observed: seen.append(observed),
        cpu_time=lambda: cpu[0],
        process_cpu_time=lambda: process[0],
    )
    task = asyncio.create_task(monitor.run())
    await clock.advance(0.02)
    assert seen == [(0.0, 0.0)]
    clock.late = 2 * SECOND
    cpu[0] += round(used * SECOND)
    process[0] += round((used + by_others) * SECOND)
    await clock.advance(0.02)
    assert seen[1] == pytest.approx((2.0, work))
    assert f"late by 2.0 s, of which it worked {work:.1f} s" in caplog.text
    assert ("It had to wait" in caplog.text) is bool(waits_for)
    assert f"It had to wait for {waits_for}" in caplog.text or not waits_for
    await cancel(task)


def _work(seconds: float) -> None:
    """Use CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


async def test_what_keeps_the_loop_busy_is_logged_at_most_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    """Short work is not."""
    caplog.set_level(logging.INFO)
    clock, cpu = BusyClock(), [0]
    monitor = LoopMonitor(clock, lambda *_: None, cpu_time=lambda: cpu[0])
    task = asyncio.create_task(monitor.run())
    logged = []
    for seconds in (0.0, 0.2, 0.2):
        await clock.advance(0.02)
        _work(seconds)
        clock.late += round(seconds * SECOND)
        cpu[0] += round(seconds * SECOND)
        await clock.advance(0.02)
        logged.append(len(caplog.messages))
    assert logged == [0, 1, 1]
    assert caplog.messages[0].startswith("the event loop was busy for 200 ms without a pause, in tests.unit.")
    assert "._work:" in caplog.messages[0]
    await clock.advance(1.0)
    _work(0.2)
    clock.late += SECOND // 5
    cpu[0] += SECOND // 5
    await clock.advance(0.02)
    assert len(caplog.messages) == 2
    await cancel(task)


def test_the_place_is_where_the_time_was_used_up() -> None:
    """It is forgotten when the time starts anew; after the end no signal comes."""
    with BusyPlaces(0.02) as busy:
        busy.restart()
        assert busy.place == ""
        _work(0.1)
        assert "._work:" in busy.place
        busy.restart()
        assert busy.place == ""
    _work(0.1)
    assert busy.place == ""


def test_a_signal_that_is_pending_at_the_end_does_not_start_the_timer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls its handler while the one before is restored, and that one would end the process."""
    timers = list[float]()
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: timers.append(seconds))
    restore = signal.signal

    def deliver(number: int, handler: Any) -> Any:
        pending = signal.getsignal(number)
        assert callable(pending)
        pending(number, None)
        return restore(number, handler)

    with BusyPlaces(1000.0) as busy:
        busy.restart()
        monkeypatch.setattr(signal, "signal", deliver)
    assert timers == [1000.0, 0]
    assert busy.place == ""


def test_the_time_of_other_threads_does_not_count() -> None:
    """The place is found all the same when the main thread has used its own time."""
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            pass

    with BusyPlaces(0.05) as busy:
        thread = threading.Thread(target=run)
        busy.restart()
        thread.start()
        end = time.process_time() + 0.2
        while time.process_time() < end:
            time.sleep(0.01)  # only the other thread works
        place = busy.place
        done.set()
        thread.join()
        _work(0.2)
        assert (place, "._work:" in busy.place) == ("", True)


def test_other_threads_than_the_main_one_are_not_watched() -> None:
    """They cannot handle signals."""
    places = list[str]()

    def run() -> None:
        with BusyPlaces(0.01) as busy:
            busy.restart()
            _work(0.05)
            places.append(busy.place)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert places == [""]


@pytest.mark.parametrize(
    ("late", "ready", "alive"),
    [
        pytest.param(5, 200, 200, id="busy"),
        pytest.param(20, 503, 200, id="stalled: another replica should answer"),
        pytest.param(70, 503, 503, id="stuck: only a restart helps"),
    ],
)
async def test_probes_say_how_late_the_loop_is(late: int, ready: int, alive: int) -> None:
    """They are answered all the same."""
    clock = BusyClock()
    monitor = LoopMonitor(clock, lambda *_: None)
    task = asyncio.create_task(monitor.run())
    await clock.advance(0.1)
    clock.late = late * SECOND
    pages = Pages({}, CollectorRegistry(), monitor=monitor)
    answers = [await pages.readyz(make_mocked_request("GET", "/readyz")), await pages.healthz(_ANY)]
    assert [answer.status for answer in answers] == [ready, alive]
    if ready != 200:
        assert answers[0].text == f"the event loop has been busy for {late} s\n"
    await cancel(task)


_ANY = make_mocked_request("GET", "/healthz")


async def test_probes_and_metrics_are_answered_while_the_main_loop_is_busy() -> None:
    """This function calls them without a pause, in the main loop."""
    async with SideLoop() as side:
        pages = health.served(Serving(host="127.0.0.1", port=0), {}, CollectorRegistry())
        port = await side.run(pages.__aenter__())
        for path in ("/readyz", "/healthz", "/metrics"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                assert answer.status == 200
        await side.run(pages.__aexit__(None, None, None))
