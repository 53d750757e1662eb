"""Pods that no node of their subset can take: which are deleted, what is written first, and when to check again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, failure
from tests.unit.unitedtopology.admission.test_status_batcher import PODS, TOPOLOGIES, topology
from trimtab.api import codec, times
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.events import Recorder
from trimtab.subsets import rescheduling
from trimtab.subsets.members import Member
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.controller.counting import CountedTopology, StatusCounter
from trimtab.unitedtopology.controller.rescheduling import Rescheduler
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.view import View

JSON = dict[str, Any]
STRATEGY = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
AUTOSCALER_SECONDS = 300.0


class Stage:
    """An Adaptive UnitedTopology, pods of its first subset that no node takes, and their rescheduler."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.metrics = Metrics()
        client = Client(self.server, clock=self.clock)
        self.recorder = Recorder(client, component="test")
        counter = StatusCounter(client, View(client), self.metrics, self.recorder)
        self.rescheduler = Rescheduler(
            *(client, counter, self.metrics, self.recorder), autoscaler_seconds=AUTOSCALER_SECONDS
        )

    def ago(self, seconds: float) -> str:
        """A time so many seconds ago."""
        return times.format_time(self.clock.now() - round(seconds * SECOND))

    def counted(self, *missing: int, **waited: float) -> CountedTopology:
        """So many pods are missing in each subset; the pods of the first have been waiting for so many seconds."""
        tree = topology(*missing)
        tree["spec"]["scheduleStrategy"] = STRATEGY
        tree["status"]["subsetStatuses"][0] |= {"replicas": len(waited)}
        stored = codec.convert(self.server.put(*TOPOLOGIES, tree), UnitedTopology)
        pods = [self._pod(name, seconds) for name, seconds in waited.items()]
        members = [Member(each.metadata.name, each.metadata.uid, "r1", "a") for each in pods]
        return CountedTopology(stored, members, pods, None)

    def _pod(self, name: str, waited: float) -> Pod:
        built = pod(name, namespace="shop")
        tree = built.condition("PodScheduled", "False", since=self.ago(waited), reason="Unschedulable").tree()
        return codec.convert(self.server.put(*PODS, tree), Pod)

    def announce_node(self, seconds: float) -> None:
        """An autoscaler has recorded, so many seconds ago, that it adds a node."""
        body = {"metadata": {"name": "up", "namespace": "shop"}, "reason": "TriggeredScaleUp"}
        self.server.put("/api/v1", "events", {**body, "lastTimestamp": self.ago(seconds)})

    @property
    def left(self) -> list[str]:
        """The pods that were not deleted."""
        return [each["metadata"]["name"] for each in self.server.objects("pods")]

    @property
    def status(self) -> JSON:
        """The status as it is stored."""
        (stored,) = self.server.objects("unitedtopologies")
        status: JSON = stored["status"]
        return status

    async def events(self) -> list[str]:
        """The reasons of the events that were recorded."""
        await self.clock.advance(5)
        return [each["reason"] for each in self.server.objects("events")]

    @property
    def rescheduled(self) -> float | None:
        """The counter."""
        return self.metrics.registry.get_sample_value("trimtab_unitedtopology_pods_rescheduled_total")


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With a recorder that runs."""
    made = Stage()
    running = asyncio.create_task(made.recorder.run())
    yield made
    await cancel(running)


async def test_pods_that_waited_too_long_are_deleted_after_the_status_was_written(stage: Stage) -> None:
    """Their successors are expected in the next subset; the pod that waits for less is checked when it is due."""
    assert await stage.rescheduler.run(stage.counted(-1, -1, p1=40, p2=35, p3=20)) == 10.0
    assert stage.left == ["p3"]
    first, second = stage.status["subsetStatuses"]
    assert (list(first["deleting"]), second["missingReschedule"]) == (["p1", "p2"], 2)
    assert [each["name"] for each in stage.status["shortages"]] == ["a"]
    assert [each.method for each in stage.server.requests if each.method != "GET"] == ["PATCH", "DELETE", "DELETE"]
    assert stage.rescheduled == 2
    assert await stage.events() == ["Rescheduled", "Rescheduled"]


async def test_without_capacity_elsewhere_pods_are_checked_again_later(stage: Stage) -> None:
    """Nothing is written, and no autoscaler is asked for."""
    again = await stage.rescheduler.run(stage.counted(-1, 0, p1=40))
    assert again is not None
    assert again > 1
    assert (stage.left, stage.server.requests) == (["p1"], [])


@pytest.mark.parametrize(
    ("ago", "again", "left"),
    [
        pytest.param(100, 200.0, ["p1"], id="a node may still come"),
        pytest.param(AUTOSCALER_SECONDS, None, [], id="the time for it is over"),
    ],
)
async def test_a_node_that_an_autoscaler_adds_is_waited_for(
    stage: Stage, ago: float, again: float | None, left: list[str]
) -> None:
    """By the events on that pod."""
    counted = stage.counted(-1, -1, p1=400)
    stage.announce_node(ago)
    assert (await stage.rescheduler.run(counted), stage.left) == (again, left)
    (listed,) = (each for each in stage.server.requests if each.path.endswith("/events"))
    uid = counted.members[0].uid
    assert dict(listed.params)["fieldSelector"] == f"involvedObject.kind=Pod,involvedObject.uid={uid}"


@pytest.mark.parametrize("code", [404, 409], ids=["gone", "another pod of that name"])
async def test_a_pod_that_is_deleted_already_is_not_counted(stage: Stage, code: int) -> None:
    """The pods after it are deleted all the same."""
    refused = failure(code, "NotFound" if code == 404 else "Conflict")
    stage.server.intercept = lambda request: (
        refused if request.method == "DELETE" and request.path.endswith("/p1") else None
    )
    await stage.rescheduler.run(stage.counted(-1, -1, p1=40, p2=40))
    assert (stage.left, stage.rescheduled) == (["p1"], 1)
    assert await stage.events() == ["Rescheduled"]


async def test_without_unschedulable_pods_nothing_is_read(stage: Stage) -> None:
    """There is nothing to check again."""
    assert await stage.rescheduler.run(stage.counted(-1, -1)) is None
    assert stage.server.requests == []


async def test_other_tasks_run_between_pods_that_no_subset_can_take(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read for them, so nothing else would let other tasks run, however many pods there are."""
    turns = 0
    checked: list[int] = []

    def slowly(*_: object, **__: object) -> None:
        checked.append(turns)
        monkeypatch.setattr(stage.clock, "_now", stage.clock.now() + SECOND // 50)

    monkeypatch.setattr(rescheduling, "reschedule", slowly)
    work = asyncio.ensure_future(stage.rescheduler.run(stage.counted(-1, 0, p1=40, p2=40, p3=40)))
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert checked == [1, 2, 3]
