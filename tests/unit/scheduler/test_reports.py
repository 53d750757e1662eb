"""Reports: events and the condition PodScheduled, as kube-scheduler writes them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator

import pytest

from tests.unit.kube.fakes import failure
from tests.unit.scheduler.controlplane import ControlPlane
from trimtab.api import codec, times
from trimtab.api.annotations import Reason
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.scheduler.bursts import QUIET, Bursts
from trimtab.scheduler.reports import Reporter
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock

MESSAGE = "0/12 nodes are available: 12 Insufficient cpu."


class Stage:
    """A control plane with one pod, and a reporter."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ControlPlane(self.clock)
        self.server.add_pod(pod("p"))
        client = Client(self.server, clock=self.clock, rng=random.Random(1))
        self.bursts = Bursts(self.clock)
        self.reporter = Reporter(client, client, ["trimtab"], bursts=self.bursts, instance="here")

    @property
    def pod(self) -> Pod:
        """The pod as it is now."""
        return codec.convert(self.server.pod("p"), Pod)

    async def settle(self) -> None:
        """Let what was noted be written."""
        await self.clock.advance(0.001)

    def patches(self) -> list[JSON]:
        """The conditions that were written."""
        return [json.loads(call.body or b"")["status"]["conditions"][0] for call in self.server.calls("/status")]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A reporter at work."""
    made = Stage()
    task = asyncio.ensure_future(made.reporter.run())
    yield made
    await cancel(task)


async def test_a_bound_pod_has_a_normal_event(stage: Stage) -> None:
    """The API server writes the condition itself."""
    stage.reporter.report_scheduled(stage.pod, "a")
    await stage.settle()
    (event,) = stage.server.events()
    assert {name: event[name] for name in ("type", "reason", "action", "message")} == {
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "message": "Successfully assigned default/p to a",
    }
    assert (event["reportingComponent"], event["reportingInstance"]) == ("trimtab", "trimtab-here")
    assert event["involvedObject"]["uid"] == stage.pod.metadata.uid
    assert stage.patches() == []


async def test_a_refused_pod_has_a_warning_and_a_condition(stage: Stage) -> None:
    """Both have the same message; the condition has a transition time and a generation."""
    stage.server.change_pod("p", metadata={"generation": 3}, status={"nominatedNodeName": "theirs"})
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.settle()
    (event,) = stage.server.events()
    assert {name: event[name] for name in ("type", "reason", "action", "message")} == {
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "message": MESSAGE,
    }
    assert stage.server.condition("p") == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": MESSAGE,
        "observedGeneration": 3,
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert stage.pod.status.nominated_node_name == "theirs"


async def test_events_of_bound_pods_wait_until_a_burst_is_over(stage: Stage) -> None:
    """With the time at which the pod was bound. What is said of other pods does not wait."""
    stage.bursts.begin_binding()
    bound = stage.clock.now()
    stage.reporter.report_scheduled(stage.pod, "a")
    await stage.clock.advance(1)
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.clock.advance(4)
    assert [event["reason"] for event in stage.server.events()] == ["FailedScheduling"]
    stage.reporter.report_scheduled(stage.pod, "b")
    assert stage.reporter.pending == 2
    stage.bursts.end_binding()
    await stage.clock.advance(QUIET)
    await stage.settle()
    events = [event for event in stage.server.events() if event["reason"] == "Scheduled"]
    assert stage.reporter.pending == 0
    assert len(events) == 2
    assert {event["firstTimestamp"] for event in events} == {
        times.format_time(bound),
        times.format_time(bound + 5 * SECOND),
    }


async def test_an_unchanged_condition_is_not_written_again(stage: Stage) -> None:
    """A condition is patched where it changes, and keeps its time while its status is the same."""
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.settle()
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.settle()
    assert len(stage.patches()) == 1
    await stage.clock.advance(60)
    stage.reporter.report_failed(stage.pod, "another sentence", Reason.SCHEDULER_ERROR)
    await stage.settle()
    assert [patch.get("lastTransitionTime") for patch in stage.patches()] == ["2026-01-01T00:00:00Z", None]
    condition = stage.server.condition("p")
    assert condition is not None
    assert (condition["reason"], condition["lastTransitionTime"]) == ("SchedulerError", "2026-01-01T00:00:00Z")


async def test_repeated_events_are_counted_in_one(stage: Stage) -> None:
    """A pod that is refused a hundred times has one line."""
    for _ in range(3):
        stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
        await stage.settle()
    (event,) = stage.server.events("FailedScheduling")
    assert event["count"] == 3


async def test_the_last_of_several_pending_conditions_is_written(stage: Stage) -> None:
    """And nothing at all, once the pod is bound."""
    known = stage.pod
    for number in range(5):
        stage.reporter.report_failed(known, f"sentence {number}", Reason.UNSCHEDULABLE)
    await stage.settle()
    assert [patch["message"] for patch in stage.patches()] == ["sentence 4"]
    stage.reporter.report_failed(known, "sentence 5", Reason.UNSCHEDULABLE)
    stage.reporter.report_scheduled(known, "a")
    await stage.settle()
    assert len(stage.patches()) == 1


@pytest.mark.parametrize(
    ("code", "reason", "logged"),
    [(404, "NotFound", False), (409, "Conflict", False), (403, "Forbidden", True)],
)
async def test_a_condition_that_cannot_be_written_is_dropped(
    stage: Stage, caplog: pytest.LogCaptureFixture, code: int, reason: str, logged: bool
) -> None:
    """A deleted pod is not logged as a warning; other errors are."""
    stage.server.intercept = lambda request: failure(code, reason) if request.path.endswith("status") else None
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.settle()
    assert ("cannot write the condition" in caplog.text) is logged
    stage.server.intercept = None
    stage.reporter.report_failed(stage.pod, MESSAGE, Reason.UNSCHEDULABLE)
    await stage.settle()
    assert stage.server.condition("p") is not None


async def test_a_long_message_is_shortened_only_in_the_event(stage: Stage) -> None:
    """An API server takes no event with a longer text, and the condition has room."""
    sentence = "0/5000 nodes are available: " + ", ".join(f"1 node(s) said {'no' * 20} {n}" for n in range(50))
    stage.reporter.report_failed(stage.pod, sentence, Reason.UNSCHEDULABLE)
    await stage.settle()
    (event,) = stage.server.events()
    assert len(event["message"]) == 1024
    assert event["message"].endswith(" ...")
    condition = stage.server.condition("p")
    assert condition is not None
    assert condition["message"] == sentence


@pytest.mark.parametrize(("latency", "written"), [(0.1, 1), (100.0, 0)], ids=["it answers", "it does not answer"])
async def test_events_are_written_for_five_seconds_after_the_stop(
    latency: float, written: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing waits for them for ever."""
    stage = Stage()
    task = asyncio.ensure_future(stage.reporter.run())
    await stage.settle()
    stage.server.bad.latency = latency
    stage.reporter.report_scheduled(stage.pod, "a")
    stopping = asyncio.ensure_future(cancel(task))
    await stage.clock.advance(4.9)
    await stage.settle()
    assert (task.done(), len(stage.server.events())) == (bool(written), written)
    await stage.clock.advance(0.1)
    await stopping
    assert ("dropped 1 events of trimtab" in caplog.text) is not bool(written)
