"""A clock that differs from the API server's is reported once, with what to do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from trimtab.kube.clock_offset import ClockMonitor, describe_offset
from trimtab.kube.clocks import cancel
from trimtab.kube.server_time import ServerTime
from trimtab.testing.clocks import VirtualClock


def answer(server_time: ServerTime, clock: VirtualClock, ahead: float) -> None:
    """An answer of a server whose clock is ahead of ours by so many seconds."""
    moment = datetime.fromtimestamp(clock.now() / 1_000_000_000, UTC) + timedelta(seconds=ahead)
    date = format_datetime(moment.replace(microsecond=0), usegmt=True)
    server_time.observe(date, sent=clock.monotonic(), received=clock.monotonic())


@pytest.mark.parametrize(
    ("ahead", "text"),
    [
        pytest.param(3600, "this process's clock is 3600 s behind the API server's", id="an hour behind"),
        pytest.param(-3600, "this process's clock is 3600 s ahead of the API server's", id="an hour ahead"),
        pytest.param(30, "", id="within the tolerance"),
    ],
)
def test_the_offset_is_described_beyond_the_tolerance(ahead: float, text: str) -> None:
    """From the process's point of view."""
    clock = VirtualClock()
    server_time = ServerTime(clock)
    answer(server_time, clock, ahead)
    assert describe_offset(server_time).replace("3599", "3600") == text


async def test_a_difference_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often the clocks are compared."""
    caplog.set_level("INFO")
    clock = VirtualClock()
    server_time = ServerTime(clock)
    running = asyncio.ensure_future(ClockMonitor(server_time, clock).run())
    await clock.advance(5)
    assert caplog.messages == []
    for ahead in (-3600, 0):
        answer(server_time, clock, ahead)
        await clock.advance(60)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "ahead of the API server's; synchronize" in caplog.messages[0]
    await cancel(running)
