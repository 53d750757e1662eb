"""Pods return to an earlier subset: evictions, the status, events and metrics."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, answer, failure
from tests.unit.lab.workloads.objects import template
from tests.unit.unitedtopology.admission.test_status_batcher import DEPLOYMENTS, TOPOLOGIES, topology
from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree
from trimtab.api import codec, times
from trimtab.api.annotations import AIMED_SIZE, SCALE_PLAN, Reason
from trimtab.api.apps import Deployment
from trimtab.api.nodes import Node
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.events import Recorder
from trimtab.kube.transport import Request, Response
from trimtab.subsets import shaping
from trimtab.subsets.members import Member
from trimtab.testing.builders import PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.simulation import Simulation
from trimtab.unitedtopology.controller.counting import CountedTopology, StatusCounter
from trimtab.unitedtopology.controller.returning import Returner, _pod_of, is_at_rest
from trimtab.unitedtopology.costs import target_size_text
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.targets import Target
from trimtab.unitedtopology.view import View

JSON = dict[str, Any]
RETURN = {"settlingSeconds": 60, "maxPods": 1}
STRATEGY = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30, "return": RETURN}}


class ElasticCluster(TopologyCluster):
    """Nodes with a number of places that the scheduler and the simulation agree on."""

    async def give_places(self, name: str, places: int) -> None:
        """How many pods a node takes."""
        self.fits = {**self.fits, name: places}
        amounts = {"cpu": "64", "memory": "64Gi", "pods": str(places)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.user.patch(Node, name, status, subresource="status")
        await self.settle()

    async def pass_time(self, seconds: int, *, step: float = 1) -> None:
        """Let time pass, and pods come and go."""
        end = self.clock.now() + seconds * SECOND
        while self.clock.now() < end:
            await self.clock.advance(step)
            await self.run_pods()


@pytest_asyncio.fixture
async def elastic() -> AsyncIterator[ElasticCluster]:
    """Own nodes (z1) with two places, rented ones (z2) with many; four pods, two of each."""
    made = ElasticCluster()
    await made.start()
    for name, places in (("z1-1", 2), ("z1-2", 0), ("z2-1", 50), ("z2-2", 50), ("z3-1", 0), ("z3-2", 0)):
        await made.give_places(name, places)
    await made.create_topology(subset("own", "z1"), subset("rented", "z2"), scheduleStrategy=STRATEGY)
    await made.deploy(4)
    yield made
    await made.stop()


async def test_pods_return_one_after_the_other(elastic: ElasticCluster) -> None:
    """Once there is room, each after a settling time; then nothing is written."""
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.pass_time(120)
    assert (await elastic.topology()).status.returns == ()
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(30)
    (entry,) = (await elastic.topology()).status.returns
    assert (entry.name, entry.expected) == ("own", 0)
    await elastic.pass_time(60)
    assert await elastic.pods_by_subset() == {"own": 3, "rented": 1}
    await elastic.pass_time(90)
    assert await elastic.pods_by_subset() == {"own": 4}
    messages = await elastic.event_messages(Reason.RETURNED)
    assert len(messages) == 2
    assert all("of rented: own has room again, where its successor goes" in each for each in messages)
    assert elastic.metrics.registry.get_sample_value("trimtab_unitedtopology_pods_returned_total") == 2
    await elastic.pass_time(60)
    before = len([each for each in elastic.controller_wire.requests if each.method != "GET"])
    await elastic.pass_time(600, step=5)
    assert len([each for each in elastic.controller_wire.requests if each.method != "GET"]) == before
    assert (await elastic.topology()).status.returns == ()


async def test_a_disruption_budget_is_obeyed(elastic: ElasticCluster) -> None:
    """The pod stays, an event says why, and the subset does not count as full."""
    selector = {"matchLabels": template(app="web")["metadata"]["labels"]}
    body = {"metadata": {"name": "web"}, "spec": {"minAvailable": 4, "selector": selector}}
    await elastic.create(PodDisruptionBudget, body)
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(200)
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    assert await elastic.event_messages(Reason.RETURN_DELAYED)
    assert (await elastic.topology()).status.shortages == ()
    await elastic.patch(PodDisruptionBudget, "web", {"spec": {"minAvailable": 3}})
    await elastic.pass_time(400)
    assert await elastic.pods_by_subset() == {"own": 4}


async def test_nothing_returns_while_the_workload_is_not_whole(elastic: ElasticCluster) -> None:
    """A pod that no node takes yet: the next move would cost one more."""
    await elastic.patch(Deployment, "web", {"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}})
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(100)
    assert await elastic.event_messages(Reason.RETURNED) == []


async def test_nothing_returns_where_the_workload_does_not_exist(elastic: ElasticCluster) -> None:
    """The condition says so."""
    await elastic.create_topology(
        subset("own", "z1"), subset("rented", "z2"), name="early", target="missing", scheduleStrategy=STRATEGY
    )
    assert (await elastic.condition("early"))[1] == "TargetNotFound"


class Stage:
    """A workload at rest, with two pods in the second of two subsets; the first has had room for long enough."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.metrics = Metrics()
        self.refusals: dict[str, Response] = {}
        self.evicted: list[str] = []
        self.server.intercept = self._answer
        client = Client(self.server, clock=self.clock)
        self.view = View(client)
        self.recorder = Recorder(client, component="test")
        counter = StatusCounter(client, self.view, self.metrics, self.recorder)
        self.returner = Returner(client, self.view, counter, self.metrics, self.recorder)
        self.server.put("/api/v1", "nodes", node("n1").allocatable(pods="2").tree())
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(app="web")}
        status = {"observedGeneration": 1, "availableReplicas": 2}
        metadata = {"name": "web", "namespace": "shop", "generation": 1}
        self.server.put(*DEPLOYMENTS, {"metadata": metadata, "spec": spec, "status": status})

    def _answer(self, request: Request) -> Response | None:
        """Record evictions, and admit those that are not refused."""
        if not request.path.endswith("/eviction"):
            return None
        name = request.path.split("/")[-2]
        self.evicted += [] if name in self.refusals else [name]
        return self.refusals.get(name, answer(201, {"kind": "Status", "status": "Success"}))

    async def run(
        self, *pods: PodBuilder, strategy: JSON | None = None, patch: JSON | None = None, target: str = "web"
    ) -> float | None:
        """Return pods; in how many seconds to check again."""
        tree = topology(-1, -1)
        tree["spec"]["scheduleStrategy"] = strategy or RETURNING
        tree["spec"]["targetRef"]["name"] = target
        tree["spec"]["subsets"][0] |= {"patch": patch} if patch is not None else {}
        tree["status"]["subsetStatuses"][1] |= {"replicas": 2}
        since = times.format_time(self.clock.now() - 100 * SECOND)
        tree["status"] |= {"replicas": 2, "returns": [{"name": "a", "since": since}]}
        stored = codec.convert(self.server.put(*TOPOLOGIES, tree), UnitedTopology)
        await self.clock.advance(0.1)
        members = [Member(name, f"uid-{name}", "r1", "b", ready=True) for name in ("p1", "p2")]
        built = [each.build() for each in pods]
        return await self.returner.run(CountedTopology(stored, members, built, Target("d1", 2, "r1")))

    async def enlarge_template(self) -> None:
        """Give the workload a template that takes long to read."""
        (stored,) = self.server.objects("deployments")
        stored["spec"]["template"]["metadata"]["annotations"] = {"text": "x" * 20_000}
        self.server.put(*DEPLOYMENTS, stored)
        await self.clock.advance(0.1)

    @property
    def returns(self) -> list[tuple[str, int]]:
        """The subsets to which pods return, by the status, and how many pods each is to have."""
        (stored,) = self.server.objects("unitedtopologies")
        return [(each["name"], each.get("expected", 0)) for each in stored["status"].get("returns") or []]

    @property
    def returned(self) -> float | None:
        """The counter."""
        return self.metrics.registry.get_sample_value("trimtab_unitedtopology_pods_returned_total")

    async def events(self) -> list[str]:
        """The reasons of the events that were recorded."""
        await self.clock.advance(5)
        return [each["reason"] for each in self.server.objects("events")]


class Turns:
    """Counts the turns of the event loop. Use it with `async with`."""

    def __init__(self) -> None:
        self.number = 0

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._count())

    async def __aexit__(self, *_: object) -> None:
        await cancel(self._task)

    async def _count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)


RETURNING = {"type": "Adaptive", "adaptive": {"return": {"settlingSeconds": 60, "maxPods": "100%"}}}


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With caches and a recorder that run."""
    made = Stage()
    running = [asyncio.create_task(each) for each in (made.view.run(), made.recorder.run())]
    await made.clock.advance(1)
    yield made
    await cancel(*running)


async def test_pods_are_evicted_after_the_status_was_written(stage: Stage) -> None:
    """With events and a metric; what was assumed for them is forgotten, so that the same room is found again."""
    for number in (1, 2):
        assert await stage.run() == 15.0
        assert stage.evicted == ["p2", "p1"] * number
    assert stage.returns == [("a", 2)]
    writes = [each.path.rpartition("/")[2] for each in stage.server.requests if each.method != "GET"]
    assert [each for each in writes if each != "events"] == ["status", "eviction", "eviction"] * 2
    assert stage.returned == 4
    assert await stage.events() == ["Returned", "Returned"], "one of each pod"


async def test_no_more_pods_are_evicted_than_nodes_have_room_for(stage: Stage) -> None:
    """A node takes one more pod."""
    stage.server.put("/api/v1", "nodes", node("n1").allocatable(pods="1").tree())
    await stage.run()
    assert (stage.evicted, stage.returns) == (["p2"], [("a", 1)])


async def test_a_subset_whose_patch_does_not_apply_has_no_room(stage: Stage) -> None:
    """No successor would get it."""
    await stage.run(patch={"spec": {"containers": [{"image": "web:2"}]}})
    assert (stage.evicted, stage.returns) == ([], [])


async def test_after_a_refused_eviction_no_other_pod_is_evicted(stage: Stage) -> None:
    """The budget would refuse it too: an event says why the pod stays."""
    stage.refusals["p2"] = failure(429, "TooManyRequests", "the disruption budget web needs 2 healthy pods")
    await stage.run()
    assert (stage.evicted, stage.returned) == ([], 0)
    assert await stage.events() == ["ReturnDelayed"]


async def test_other_tasks_run_between_simulations(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a thousand subsets and a hundred pods; here each simulation takes longer than a slice."""
    turns, simulated = Turns(), list[int]()

    def slow(*_: object) -> bool:
        simulated.append(turns.number)
        monkeypatch.setattr(stage.clock, "_now", stage.clock.now() + SECOND // 50)
        return True

    monkeypatch.setattr(Simulation, "is_certain", slow)
    async with turns:
        await stage.run()
    assert len(simulated) == len(set(simulated)) == 2
    assert stage.evicted == ["p2", "p1"]


async def test_of_one_subset_a_pod_is_shaped_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number of pods; in another thread where the template is large."""
    threads: list[int] = []

    def watched(*arguments: Any, **more: Any) -> JSON:
        threads.append(threading.get_ident())
        return shape(*arguments, **more)

    shape = shaping.shape
    monkeypatch.setattr(shaping, "shape", watched)
    await stage.run()
    assert threads == [threading.get_ident()]
    await stage.enlarge_template()
    await stage.run()
    assert stage.evicted == ["p2", "p1"] * 2
    assert len(threads) == 2
    assert threads[1] != threads[0]


async def test_nothing_returns_where_the_workload_changes_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scale-down may have begun while nodes were simulated: the plan is made again, from what is there then."""
    workload = stage.view.workload("Deployment", "shop", "web")
    assert isinstance(workload, Deployment)
    scaled = msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, replicas=1))
    versions = iter((workload, scaled))
    monkeypatch.setattr(stage.view, "workload", lambda *_: next(versions))
    assert await stage.run() == 0.5
    assert (stage.evicted, stage.returns) == ([], [("a", 0)])


async def test_nothing_returns_where_a_scale_down_is_prepared_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its costs are on the pods before the workload is changed."""
    prepared = aimed(stage.clock.now() // SECOND + 10).build()
    monkeypatch.setattr(stage.view, "pods_of", lambda *_: [prepared])
    assert await stage.run() == 0.5
    assert (stage.evicted, stage.returns) == ([], [("a", 0)])


async def test_a_plan_waits_for_no_other_one(stage: Stage) -> None:
    """It is made later: the worker has other UnitedTopologies to count."""
    async with stage.returner.planning:
        assert await stage.run() == 0.5
    assert (stage.evicted, stage.returns) == ([], [("a", 0)])


@pytest.mark.parametrize("reason", ["NotFound", "Conflict"])
async def test_a_pod_that_is_gone_is_not_counted(stage: Stage, reason: str) -> None:
    """The pods after it are evicted all the same."""
    stage.refusals["p2"] = failure({"NotFound": 404, "Conflict": 409}[reason], reason)
    await stage.run()
    assert (stage.evicted, stage.returned) == (["p1"], 1)
    assert await stage.events() == ["Returned"]


async def test_pods_stay_while_a_scale_down_is_prepared(stage: Stage) -> None:
    """The pods that it deletes are chosen already; later they return."""
    prepared = aimed(stage.clock.now() // SECOND + 10)
    assert await stage.run(prepared) is None
    assert (stage.evicted, stage.returns) == ([], [("a", 0)])
    await stage.clock.advance(10)
    await stage.run(prepared)
    assert stage.evicted == ["p2", "p1"]


async def test_returns_are_forgotten_where_pods_do_not_return_any_more(stage: Stage) -> None:
    """The strategy was removed from the spec."""
    assert await stage.run(strategy={"type": "Adaptive"}) is None
    assert (stage.evicted, stage.returns) == ([], [])


async def test_nothing_is_written_for_a_workload_that_is_not_cached(stage: Stage) -> None:
    """Its template is not known."""
    assert await stage.run(target="other") is None
    assert (stage.evicted, stage.returns) == ([], [("a", 0)])


NOW = 1_000
"""Seconds since the epoch."""
TARGET = Target("d1", 2, "r1")
AT_REST = Member("p1", revision="r1", subset="a", ready=True)


def counted(
    *members: Member, pods: Sequence[PodBuilder] = (), target: Target | None = TARGET, **status: Any
) -> CountedTopology:
    """A UnitedTopology with this status, counted from these pods of a Deployment that wants two."""
    found = codec.convert({**topology_tree(subset("a")), "status": status}, UnitedTopology)
    return CountedTopology(found, members, [each.build() for each in pods], target)


def workload(*, observed: int = 3, available: int = 2) -> Deployment:
    """The Deployment, of the third generation."""
    status = {"observedGeneration": observed, "availableReplicas": available}
    return codec.convert({"metadata": {"name": "web", "generation": 3}, "spec": {}, "status": status}, Deployment)


def aimed(until: int) -> PodBuilder:
    """A pod whose cost was written ahead of a scale-down."""
    return pod("p1").annotations({AIMED_SIZE: target_size_text(1, until)})


WHOLE = (AT_REST, replace(AT_REST, name="p2"))


@pytest.mark.parametrize(
    ("found", "deployment", "want"),
    [
        pytest.param(counted(*WHOLE, pods=[pod("p1")]), workload(), True, id="nothing happens"),
        pytest.param(counted(*WHOLE, target=None), workload(), False, id="the workload is not cached"),
        pytest.param(counted(*WHOLE), workload(observed=2), False, id="its controller has not seen its spec"),
        pytest.param(counted(*WHOLE), workload(observed=4), True, id="its controller is ahead of our cache"),
        pytest.param(counted(*WHOLE, otherRevisions=[{"revision": "r0"}]), workload(), False, id="a rollout"),
        pytest.param(
            counted(*WHOLE, subsetStatuses=[{"name": "a"}, {"name": "b", "creating": {"x": "2026-01-01T00:00:00Z"}}]),
            workload(),
            False,
            id="a pod is being created",
        ),
        pytest.param(
            counted(*WHOLE, subsetStatuses=[{"name": "a", "deleting": {"x": "2026-01-01T00:00:00Z"}}, {"name": "b"}]),
            workload(),
            False,
            id="a pod is being deleted",
        ),
        pytest.param(counted(*WHOLE, subsetStatuses=[{"name": "a"}]), workload(), True, id="neither"),
        pytest.param(counted(AT_REST), workload(), False, id="a pod is missing"),
        pytest.param(counted(*WHOLE, AT_REST), workload(), False, id="one pod too many"),
        pytest.param(counted(*WHOLE), workload(available=1), False, id="one is not available"),
        pytest.param(
            counted(*WHOLE, replace(AT_REST, active=False, ready=False)), workload(), True, id="a pod that has finished"
        ),
        pytest.param(counted(AT_REST, replace(AT_REST, ready=False)), workload(), False, id="one is not ready"),
        pytest.param(
            counted(AT_REST, replace(AT_REST, revision="r0")), workload(), False, id="one is of another revision"
        ),
        pytest.param(counted(*WHOLE, pods=[pod("p1"), pod("p2").terminating()]), workload(), False, id="one leaves"),
        pytest.param(
            counted(*WHOLE, pods=[pod("p1").annotations({SCALE_PLAN: "{}"}), pod("p2")]),
            workload(),
            False,
            id="one has a cost of a scale-down",
        ),
        pytest.param(counted(*WHOLE, pods=[aimed(NOW + 1)]), workload(), False, id="a scale-down is prepared"),
        pytest.param(counted(*WHOLE, pods=[aimed(NOW)]), workload(), True, id="that has just expired"),
    ],
)
def test_pods_return_only_while_nothing_happens(found: CountedTopology, deployment: Deployment, want: bool) -> None:
    """Whatever else moves pods is over."""
    assert is_at_rest(found, deployment, NOW) is want


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(
            {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"nodeName": "n"}},
            ({"app": "web"}, {"a": "b"}, {"nodeName": "n"}),
            id="with its labels, annotations and spec",
        ),
        pytest.param({"metadata": {"labels": None}}, ({}, {}, {}), id="without any"),
        pytest.param(None, ({}, {}, {}), id="without a template"),
    ],
)
def test_room_is_looked_for_with_a_pod_of_the_template(template: JSON | None, want: tuple[JSON, JSON, JSON]) -> None:
    """Named as its controller would name it."""
    tree = {"metadata": {"name": "web"}, "spec": {} if template is None else {"template": template}}
    found = _pod_of(codec.convert(tree, Deployment))
    labels, annotations, spec = want
    assert found == {"metadata": {"generateName": "web-", "labels": labels, "annotations": annotations}, "spec": spec}
