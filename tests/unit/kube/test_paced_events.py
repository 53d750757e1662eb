"""Events that are written once in a while, with the right count."""

from __future__ import annotations

import asyncio

from trimtab.api.meta import ObjectReference
from trimtab.kube.clocks import cancel
from trimtab.kube.paced_events import PacedRecorder
from trimtab.testing.clocks import VirtualClock

WEB, DB = (ObjectReference(kind="Deployment", namespace="default", name=name, uid=name) for name in ("web", "db"))


class Written:
    """The events that were written: what about, the reason, the message and the count."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, int]] = []

    def record_paced(self, about: ObjectReference, severity: str, reason: str, message: str, count: int) -> None:  # noqa: ARG002
        """Keep an event."""
        self.events.append((about.name, reason, message, count))


async def test_the_first_is_written_at_once_and_the_rest_together() -> None:
    """Ten events within the interval are two writes, and the counts add up."""
    clock, written = VirtualClock(), Written()
    paced = PacedRecorder(written, clock, interval=60.0)
    task = asyncio.ensure_future(paced.run())
    for number in range(10):
        paced.record(WEB, "Normal", "Planned", f"message {number}")
        await clock.advance(5)
    assert written.events == [("web", "Planned", "message 0", 1)]
    await clock.advance(11)
    assert written.events[1:] == [("web", "Planned", "message 9", 9)]
    await cancel(task)


async def test_other_objects_and_reasons_have_a_pace_of_their_own() -> None:
    """Each is written at once the first time."""
    clock, written = VirtualClock(), Written()
    paced = PacedRecorder(written, clock)
    for about, reason in ((WEB, "Planned"), (DB, "Planned"), (WEB, "Missed")):
        paced.record(about, "Normal", reason, "…")
    assert [(name, reason) for name, reason, _, _ in written.events] == [
        ("web", "Planned"),
        ("db", "Planned"),
        ("web", "Missed"),
    ]


async def test_after_a_quiet_interval_an_event_is_written_at_once_again() -> None:
    """Nothing is remembered of objects that were quiet for a whole interval."""
    clock, written = VirtualClock(), Written()
    paced = PacedRecorder(written, clock, interval=60.0)
    task = asyncio.ensure_future(paced.run())
    paced.record(WEB, "Normal", "Planned", "one")
    await clock.advance(61)
    paced.record(WEB, "Normal", "Planned", "two")
    assert [message for _, _, message, _ in written.events] == ["one", "two"]
    await cancel(task)


async def test_a_process_that_stops_writes_what_it_has_counted() -> None:
    """So the counts are right after a restart."""
    clock, written = VirtualClock(), Written()
    paced = PacedRecorder(written, clock)
    task = asyncio.ensure_future(paced.run())
    await clock.advance(0)
    for _ in range(3):
        paced.record(WEB, "Normal", "Planned", "message")
    await cancel(task)
    assert sum(count for _, _, _, count in written.events) == 3


async def test_a_workload_that_is_scaled_for_ten_minutes_has_less_than_an_event_a_minute() -> None:
    """As an autoscaler that flaps would; no occurrence is lost."""
    clock, written = VirtualClock(), Written()
    paced = PacedRecorder(written, clock)
    task = asyncio.ensure_future(paced.run())
    for _ in range(60):
        paced.record(WEB, "Normal", "Planned", "message")
        await clock.advance(10)
    await cancel(task)
    assert len(written.events) < 10
    assert sum(count for _, _, _, count in written.events) == 60
