"""Components together, and by turns."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer, failure, pod_tree
from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSet
from trimtab.api.meta import ObjectMeta
from trimtab.api.pods import Pod
from trimtab.kube import components
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import GRACE, cancel
from trimtab.kube.components import (
    Background,
    CacheGroup,
    Candidate,
    ComponentGroup,
    FeatureGroup,
    LeaderElectedComponent,
    notes_of,
)
from trimtab.kube.errors import LeadershipLost
from trimtab.kube.events import Recorder
from trimtab.kube.leases import Elector
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import object_key
from trimtab.kube.runners import Result, Runner
from trimtab.testing.clocks import VirtualClock


@dataclass(slots=True)
class Part:
    """A component that behaves as configured."""

    synced: bool = True
    problems: list[str] = field(default_factory=list)
    error: Exception | None = None
    ends: bool = False
    ended: bool = False

    async def run(self) -> None:
        """Run, fail, or end."""
        try:
            if self.error is not None:
                raise self.error
            if not self.ends:
                await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_an_error_of_one_component_ends_the_others() -> None:
    """And is raised as it is, not wrapped."""
    patient = Part()
    with pytest.raises(KeyError, match="zone"):
        await ComponentGroup({"patient": patient, "broken": Part(error=KeyError("zone"))}).run()
    assert patient.ended


async def test_a_component_that_returns_ends_the_others() -> None:
    """A process that does half of its work would look healthy from the outside."""
    patient = Part()
    with pytest.raises(RuntimeError, match="short ended unexpectedly"):
        await ComponentGroup({"patient": patient, "short": Part(ends=True)}).run()
    assert patient.ended


def test_a_group_has_synced_when_all_components_have() -> None:
    """Problems are listed with the name of the component."""
    together = ComponentGroup({"one": Part(), "other": Part(synced=False, problems=["nodes: forbidden"])})
    assert not together.synced
    assert together.problems == ["other: nodes: forbidden"]


async def test_a_leader_elected_component_is_created_anew_for_each_term() -> None:
    """A process that waits is ready; one that loses the lease stops, and stands again."""
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    made: list[Part] = []
    electors: list[Elector] = []

    def elect() -> Elector:
        electors.append(Elector(client, name="lease", namespace="default", identity="me", rng=random.Random(1)))
        return electors[-1]

    def make(leading: Client, _: Caches[None]) -> Part:
        assert leading.settings.before_write == electors[-1].check
        made.append(Part(synced=False, problems=["reading"]))
        return made[-1]

    led = LeaderElectedComponent(Caches(client, None), elect, make)
    assert led.synced
    task = asyncio.ensure_future(led.run())
    await clock.advance(1)
    assert (led.synced, led.problems, len(made)) == (False, ["reading"], 1)
    made[0].error = LeadershipLost("taken")
    electors[0]._renewed = None  # noqa: SLF001 - as if it had not been renewed in time
    await clock.advance(30)
    assert (made[0].ended, len(made)) == (True, 2)
    await cancel(task)
    assert made[1].ended
    assert led.synced


class Knot(Part):
    """A component whose parts refer to one another."""

    def __init__(self) -> None:
        super().__init__(error=LeadershipLost("taken"))
        self.itself = self


async def test_nothing_is_left_of_a_term(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Also where its parts refer to one another, and though the garbage collector runs rarely."""
    caplog.set_level(logging.ERROR)  # the record of a lost lease, which pytest keeps, refers to what raised it
    returned = threading.Event()
    monkeypatch.setattr(components, "return_free_memory", returned.set)
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    made: list[weakref.ref[Knot]] = []

    def make(_: Client, __: Caches[None]) -> Part:
        knot = Knot()
        made.append(weakref.ref(knot))
        return knot

    def elect() -> Elector:
        return Elector(client, name="lease", namespace="default", identity="me", rng=random.Random(1))

    gc.disable()
    try:
        task = asyncio.ensure_future(LeaderElectedComponent(Caches(client, None), elect, make).run())
        while len(made) < 2:
            await clock.advance(1)
    finally:
        gc.enable()
    assert made[0]() is None
    assert await asyncio.to_thread(returned.wait, 10)
    await cancel(task)


async def test_a_candidate_leads_until_the_lease_is_lost_and_tries_again() -> None:
    """is_leader is always current."""
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    electors: list[Elector] = []

    def elect() -> Elector:
        electors.append(Elector(client, name="lease", namespace="default", identity="me", rng=random.Random(1)))
        return electors[-1]

    candidate = Candidate(elect)
    seen = [candidate.is_leader]
    task = asyncio.ensure_future(candidate.run())
    await clock.advance(1)
    seen.append(candidate.is_leader)
    electors[0]._renewed = None  # noqa: SLF001 - as if it had not been renewed in time
    seen.append(candidate.is_leader)
    await clock.advance(30)
    seen.append(candidate.is_leader)
    await cancel(task)
    seen.append(candidate.is_leader)
    assert seen == [False, True, False, True, False]
    assert len(electors) == 2


class Feature:
    """A component in a given state."""

    def __init__(self, *, synced: bool, problems: Sequence[str] = ()) -> None:
        self.synced = synced
        self.problems = list(problems)

    async def run(self) -> None:
        """Run until cancelled."""
        await asyncio.Event().wait()


READY, WAITING, BROKEN = {"synced": True}, {"synced": False}, {"synced": False, "problems": ["pods: forbidden"]}
STALE = {"synced": True, "problems": ["pods: forbidden"]}


@pytest.mark.parametrize(
    ("one", "other", "synced", "problems", "notes"),
    [
        pytest.param(READY, READY, True, [], [], id="both ready"),
        pytest.param(READY, WAITING, False, [], [], id="one that has not synced is waited for"),
        pytest.param(READY, BROKEN, True, [], ["b: pods: forbidden"], id="one that cannot sync is not waited for"),
        pytest.param(READY, STALE, True, [], ["b: pods: forbidden"], id="a failing watch affects its feature alone"),
        pytest.param(BROKEN, STALE, True, ["a: pods: forbidden", "b: pods: forbidden"], [], id="all have problems"),
    ],
)
async def test_each_feature_is_ready_by_itself(
    one: Any, other: Any, synced: bool, problems: list[str], notes: list[str]
) -> None:
    """The process is ready if any of them can work and none is still starting."""
    clock = VirtualClock()
    group = FeatureGroup({"a": Feature(**one), "b": Feature(**other)}, clock)
    assert group.synced is (one["synced"] and other["synced"]), "problems at the start may not last"
    await clock.advance(31)
    assert (group.synced, group.problems, group.notes) == (synced, problems, notes)
    assert notes_of(ComponentGroup({"features": group})) == [f"features: {note}" for note in notes]


@dataclass
class Stage:
    """A controller over one informer, with an event to write at the end."""

    seconds: float
    """How long a reconcile takes."""
    finished: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, clock=self.clock, rng=random.Random(1))
        self.pods = Caches(client, None, rng=random.Random(1)).open(Pod)
        self.queue: WorkQueue[str] = WorkQueue(self.clock)
        self.runner = Runner("pods", self._reconcile, self.queue, after=(self.pods,))
        self.recorder = Recorder(client, component="trimtab-test", rng=random.Random(1))
        self.component = ComponentGroup(
            {"controller": Background(self.runner.run)},
            {"events": Background(self.recorder.run)},
            {"caches": CacheGroup((self.pods,))},
        )
        self.dropped: list[tuple[str, str]] = []
        client.dropped_events.on_report = lambda component, reason: self.dropped.append((component, reason.value))

    async def _reconcile(self, key: str) -> Result:
        await self.clock.sleep(self.seconds)
        self.finished.append(key)
        self.recorder.record(Pod(metadata=ObjectMeta(name=key, namespace="default")), "Normal", Reason.UNREADABLE, key)
        return Result()

    async def stop_after(self, seconds: float) -> None:
        """Run the controller for so long, and stop it."""
        task = asyncio.ensure_future(self.component.run())
        await self.clock.advance(seconds)
        stopping = asyncio.ensure_future(cancel(task))
        await self.clock.advance(2 * GRACE)
        await stopping

    @property
    def events(self) -> int:
        """How many events have been written."""
        return len(self.server.objects("events"))


async def test_reconciles_in_flight_finish_and_events_are_written_when_controllers_stop() -> None:
    """Within the grace period."""
    stage = Stage(seconds=1.0)
    stage.queue.add("a")
    await stage.stop_after(0.5)
    assert (stage.finished, stage.events) == (["a"], 1)


async def test_caches_are_current_until_the_last_reconcile_has_finished() -> None:
    """It may wait for what it has written."""
    stage = Stage(seconds=1.0)
    stage.queue.add("a")
    task = asyncio.ensure_future(stage.component.run())
    await stage.clock.advance(0.5)
    stopping = asyncio.ensure_future(cancel(task))
    await stage.clock.advance(0.1)
    stage.server.put("/api/v1", "pods", pod_tree("late"))
    await stage.clock.advance(0.1)
    assert not task.done()
    assert stage.pods.get(object_key("default", "late")) is not None
    await stage.clock.advance(GRACE)
    await stopping


async def test_a_process_ends_although_the_api_server_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Events that are not written within the grace period are logged with their number, and counted."""
    stage = Stage(seconds=0.0)
    task = asyncio.ensure_future(stage.component.run())
    await stage.clock.advance(1)
    stage.server.bad.latency = 60.0
    for key in "abc":
        stage.queue.add(key)
    stopping = asyncio.ensure_future(cancel(task))
    await stage.clock.advance(GRACE / 2)
    assert (task.done(), stage.finished) == (False, ["a", "b", "c"])
    await stage.clock.advance(GRACE)
    await stopping
    assert "dropped 3 events of trimtab-test: they could not be written within 2 s of the stop" in caplog.text
    assert stage.dropped == [("trimtab-test", "stopped")] * 3


async def test_reconciles_that_take_longer_than_the_grace_period_are_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next start repeats them."""
    stage = Stage(seconds=30.0)
    stage.queue.add("a")
    await stage.stop_after(0.5)
    assert stage.finished == []
    assert "pods: 1 reconciles were not finished within 2 s of the stop; the next start repeats them" in caplog.text


async def test_another_cancellation_ends_the_grace_period() -> None:
    """As a second signal to a process; nothing is left running."""
    before = asyncio.all_tasks()
    stage = Stage(seconds=30.0)
    stage.queue.add("a")
    task = asyncio.ensure_future(stage.component.run())
    await stage.clock.advance(0.5)
    task.cancel()
    await stage.clock.advance(0.5)
    assert not task.done()
    await cancel(task)
    assert asyncio.all_tasks() == before


async def test_controllers_that_have_not_synced_stop_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """No reconcile has started; the keys that are queued are found again by the next start."""
    stage = Stage(seconds=1.0)
    stage.server.intercept = lambda _: failure(503, "ServiceUnavailable")
    stage.queue.add("a")
    task = asyncio.ensure_future(stage.component.run())
    await stage.clock.advance(1)
    await cancel(task)
    assert stage.finished == []
    assert "not finished" not in caplog.text


async def test_a_group_of_caches_does_without_optional_kinds_that_are_not_installed() -> None:
    """And not without the others."""
    clock = VirtualClock()
    server = FakeServer(clock)
    caches = Caches(Client(server, clock=clock, rng=random.Random(1)), None, rng=random.Random(1))
    pods, clonesets = caches.open(Pod), caches.open(CloneSet)
    server.intercept = lambda request: failure(404, "NotFound") if "clonesets" in request.path else None
    lenient, strict = CacheGroup((pods,), (clonesets,)), CacheGroup((pods, clonesets))
    assert not lenient.synced
    task = asyncio.ensure_future(lenient.run())
    await clock.advance(1)
    assert (lenient.synced, lenient.problems) == (True, [])
    assert (strict.synced, [each.partition(":")[0] for each in strict.problems]) == (False, ["clonesets"])
    await cancel(task)


async def test_what_runs_beside_work_ends_after_it() -> None:
    """Work in progress needs it to finish: events, certificates, caches."""
    ended: list[str] = []

    async def run(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    task = asyncio.ensure_future(
        components.run_together([run("work"), run("more work")], [run("events")], [run("caches")])
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await cancel(task)
    assert ended == ["work", "more work", "events", "caches"]


async def test_work_ends_when_what_runs_beside_it_ends() -> None:
    """Work that goes on without its caches decides from what is outdated."""
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise RuntimeError("the watch of pods ended")

    with pytest.raises(RuntimeError, match="the watch of pods ended"):
        await components.run_together([work()], [fail()])
    assert ended == ["work"]
