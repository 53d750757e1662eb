"""Events: told to people, counted, combined, and never in the way."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from tests.unit.kube.fakes import FakeServer, Misbehaviour, failure
from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectMeta, ObjectReference
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.workloads import WorkloadKind, workload_type
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import LeadershipLost, Unreachable
from trimtab.kube.events import NORMAL, WARNING, Recorder, reference_to
from trimtab.testing.clocks import VirtualClock

POD = Pod(metadata=ObjectMeta(name="web", namespace="prod", uid="u1", resource_version="7"))


class Scene:
    """A recorder at work."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.client = client = Client(self.server, clock=self.clock, rng=random.Random(1))
        self.dropped: list[tuple[str, str]] = []
        client.dropped_events.on_report = lambda component, reason: self.dropped.append((component, reason.value))
        self.recorder = Recorder(client, component="trimtab", instance="trimtab-0", rng=random.Random(1))
        self.task = asyncio.create_task(self.recorder.run())

    async def record(self, reason: str = "Kept", message: str = "kept 7/7/6", about: Pod | Node = POD) -> None:
        """Record, and let it be written."""
        self.recorder.record(about, NORMAL, reason, message)
        await self.clock.advance(0)

    @property
    def events(self) -> list[JSON]:
        """What was written."""
        return self.server.objects("events")

    async def end(self) -> None:
        """Stop."""
        await cancel(self.task)


async def test_an_event_has_its_object_reason_and_message() -> None:
    """All that kubectl shows, and where it came from."""
    scene = Scene()
    scene.recorder.record(POD, WARNING, "Uneven", "skew 2", action="ScaleDown")
    await scene.recorder.flush()
    (event,) = scene.events
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "prod",
        "name": "web",
        "uid": "u1",
        "resourceVersion": "7",
    }
    told = ("type", "reason", "message", "action", "count", "reportingComponent", "reportingInstance")
    assert [event[name] for name in told] == ["Warning", "Uneven", "skew 2", "ScaleDown", 1, "trimtab", "trimtab-0"]
    assert event["source"] == {"component": "trimtab"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["metadata"]["namespace"] == "prod"
    await scene.end()


async def test_repeated_events_are_counted() -> None:
    """One object, counted up; another message or another object is another event."""
    scene = Scene()
    for _ in range(3):
        await scene.record()
        await scene.clock.advance(60)
    await scene.record(message="kept 6/7/7")
    await scene.record(about=Pod(metadata=ObjectMeta(name="other", namespace="prod", uid="u2")))
    counts = [(e["involvedObject"]["name"], e["message"], e["count"], e["lastTimestamp"]) for e in scene.events]
    assert counts == [
        ("web", "kept 7/7/6", 3, "2026-01-01T00:02:00Z"),
        ("web", "kept 6/7/7", 1, "2026-01-01T00:03:00Z"),
        ("other", "kept 7/7/6", 1, "2026-01-01T00:03:00Z"),
    ]
    await scene.end()


async def test_an_expired_event_is_created_again() -> None:
    """API servers forget events after an hour."""
    scene = Scene()
    await scene.record()
    key = f"prod/{scene.events[0]['metadata']['name']}"
    scene.server.drop("/api/v1", "events", key)
    await scene.record()
    await scene.record()
    assert [event["count"] for event in scene.events] == [2]
    assert f"prod/{scene.events[0]['metadata']['name']}" != key
    await scene.end()


async def test_similar_events_become_one() -> None:
    """Ten texts within ten minutes; after ten quiet minutes they are news again."""
    scene = Scene()
    for n in range(15):
        await scene.record(message=f"text {n}")
    messages = [event["message"] for event in scene.events]
    assert messages == [f"text {n}" for n in range(9)] + ["(combined from similar events): text 14"]
    assert scene.events[-1]["count"] == 6
    await scene.clock.advance(3000)
    await scene.record(message="text 99")
    assert scene.events[-1]["message"] == "text 99"
    await scene.end()


async def test_events_of_one_object_are_rate_limited() -> None:
    """25 at once, then one every five minutes; others are not affected."""
    scene = Scene()
    for n in range(40):
        await scene.record(reason=f"Reason{n}")
    assert len(scene.events) == 25
    await scene.record(about=Pod(metadata=ObjectMeta(name="other", namespace="prod", uid="u2")))
    assert len(scene.events) == 26
    await scene.clock.advance(300)
    await scene.record(reason="Later")
    await scene.record(reason="TooSoon")
    assert len(scene.events) == 27
    assert scene.dropped == [("trimtab", "rate-limited")] * 16
    await scene.end()


async def test_an_object_without_a_namespace_has_its_events_in_default() -> None:
    """As kubectl looks for them."""
    scene = Scene()
    await scene.record(about=Node(metadata=ObjectMeta(name="n1", uid="u")))
    (event,) = scene.events
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]
    await scene.end()


async def test_an_unavailable_server_is_retried() -> None:
    """Recording continues, and queued events are written when the server is back."""
    scene = Scene()
    scene.server.intercept = lambda _: Unreachable("away")
    await scene.record()
    scene.recorder.record(POD, NORMAL, "More", "more")
    await scene.clock.advance(30)
    assert scene.events == []
    scene.server.intercept = None
    await scene.clock.advance(15)
    assert [event["reason"] for event in scene.events] == ["Kept", "More"]
    await scene.end()


async def test_a_lost_response_does_not_create_two_events() -> None:
    """The second attempt finds the event of the first, and counting continues."""
    scene = Scene()
    scene.server.bad = Misbehaviour(lose_answer=1.0)
    await scene.record()
    scene.server.bad = Misbehaviour()
    await scene.clock.advance(15)
    await scene.record()
    assert [event["count"] for event in scene.events] == [2]
    await scene.end()


async def test_an_unavailable_server_drops_only_the_event(caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped in the end, and the next ones get their turn."""
    scene = Scene()
    scene.server.intercept = lambda _: Unreachable("away")
    await scene.record()
    with caplog.at_level(logging.WARNING):
        await scene.clock.advance(600)
    assert "Pod prod/web: the API server was unavailable for 12 attempts" in caplog.text
    assert scene.dropped == [("trimtab", "unavailable")]
    scene.server.intercept = None
    await scene.record(reason="Next")
    assert [event["reason"] for event in scene.events] == ["Next"]
    await scene.end()


async def test_an_event_that_is_refused_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """A terminating namespace accepts no events; the caller is not affected."""
    scene = Scene()
    scene.server.intercept = lambda _: failure(403, "Forbidden", "namespace prod is being terminated")
    with caplog.at_level(logging.WARNING):
        await scene.record()
        await scene.recorder.flush()
    assert "dropped an event about Pod prod/web" in caplog.text
    assert scene.dropped == [("trimtab", "refused")]
    assert len(scene.server.requests) == 1
    await scene.end()


async def test_recording_never_waits_and_never_fails(caplog: pytest.LogCaptureFixture) -> None:
    """A flood is cut off at the door."""
    scene = Scene()
    with caplog.at_level(logging.WARNING):
        for n in range(1500):
            scene.recorder.record(POD, NORMAL, "Flood", f"{n}")
    assert caplog.text.count("the queue is full") == 500
    assert scene.dropped == [("trimtab", "queue-full")] * 500
    await scene.end()


async def test_long_messages_and_names_are_truncated() -> None:
    """An API server would refuse them."""
    scene = Scene()
    name = "x" * 253
    await scene.record(message="y" * 5000, about=Pod(metadata=ObjectMeta(name=name, namespace="prod", uid="u")))
    (event,) = scene.events
    assert len(event["message"]) == 1024
    assert len(event["metadata"]["name"]) <= 253
    await scene.end()


async def test_one_failing_event_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """An object that cannot exist has no events, and that is all."""
    scene = Scene()
    scene.recorder.record(ObjectReference(kind="Pod", name="x", namespace="../.."), NORMAL, "Odd", "odd")
    await scene.clock.advance(0)
    assert "dropped an event about Pod ../../x" in caplog.text
    assert scene.dropped == [("trimtab", "refused")]
    await scene.record()
    assert len(scene.events) == 1
    await scene.end()


async def test_an_error_of_ours_drops_only_the_event(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback, and the next events are written."""
    scene = Scene()

    def fails(_: object) -> None:
        raise RuntimeError("a bug")

    scene.server.intercept = fails
    await scene.record()
    assert "a bug" in caplog.text
    assert scene.dropped == [("trimtab", "failed")]
    scene.server.intercept = None
    await scene.record(reason="Next")
    assert [event["reason"] for event in scene.events] == ["Next"]
    await scene.end()


def test_a_reference_points_at_its_object() -> None:
    """Kind and version come from the registry."""
    assert reference_to(POD) == ObjectReference(
        api_version="v1", kind="Pod", namespace="prod", name="web", uid="u1", resource_version="7"
    )
    rollout = workload_type(WorkloadKind(group="argoproj.io", version="v1alpha1", kind="Rollout", plural="rollouts"))
    found = reference_to(rollout(metadata=POD.metadata))
    assert (found.api_version, found.kind) == ("argoproj.io/v1alpha1", "Rollout"), "a kind of the configuration"


async def test_a_recorder_that_stops_writes_what_is_queued() -> None:
    """Its last events are often the ones that explain the stop."""
    scene = Scene()
    await scene.clock.advance(0)
    for name in ("one", "two"):
        scene.recorder.record(POD, NORMAL, name, "queued")
    await scene.end()
    assert [event["reason"] for event in scene.events] == ["one", "two"]
    assert scene.recorder.pending == 0


async def test_events_are_written_after_leadership_was_lost() -> None:
    """And nothing else is: they report what this process did while it was the leader."""

    def check() -> None:
        raise LeadershipLost("taken")

    scene = Scene()
    leading = scene.client.using(before_write=check)
    recorder = Recorder(leading, component="trimtab")
    task = asyncio.ensure_future(recorder.run())
    await scene.clock.advance(0)
    recorder.record(POD, NORMAL, "Kept", "kept 7/7/6")
    await cancel(task)
    assert [event["reason"] for event in scene.events] == ["Kept"]
    with pytest.raises(LeadershipLost):
        await leading.patch(Pod, "web", {"metadata": {"annotations": {"a": "b"}}}, namespace="prod")
    await scene.end()
