"""Whether a node can take a pod: assumed pods count, and what is not evaluated fits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.unitedtopology.clusters import TopologyCluster
from trimtab.api import codec
from trimtab.api.annotations import SubsetAnnotations
from trimtab.api.core import Namespace, Service
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import informers
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.placement.decisions import Decision
from trimtab.placement.engine import place
from trimtab.testing.builders import PodBuilder, pod
from trimtab.unitedtopology.admission import simulation
from trimtab.unitedtopology.admission.simulation import (
    ASSUMED_SECONDS,
    Simulation,
    SimulationOnDemand,
    in_namespace,
    simulates,
)
from trimtab.unitedtopology.metrics import Doubt
from trimtab.unitedtopology.view import View
from trimtab_lab.testing import Wire

JSON = dict[str, Any]


class Stage:
    """A cluster with one node of four cores, and a simulation of it."""

    def __init__(self, cluster: TopologyCluster) -> None:
        self.world = cluster
        client = Client(Wire(cluster.cluster), clock=cluster.clock)
        self.view = View(client)
        self.simulation = Simulation(self.view, cluster.clock)
        self.simulation.follow()

    async def start(self) -> None:
        """Fill the caches. No controller reverts the annotations of these pods, which have no UnitedTopology."""
        await self.world.stop_controller()
        for node in (await self.world.user.list(Node)).items:
            await self.world.user.delete(Node, node.metadata.name)
        resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        await self.world.user.create(Node, {"metadata": {"name": "n1", "labels": {"zone": "z1"}}})
        await self.world.user.patch(Node, "n1", {"spec": {"taints": None}})
        status = {"status": {"capacity": resources, "allocatable": resources}}
        await self.world.user.patch(Node, "n1", status, subresource="status")
        self.task = asyncio.create_task(self.view.run())
        await self.world.settle()

    def ask(self, built: PodBuilder, reservation: str = "") -> bool | Doubt:
        """Whether there is a node for a pod."""
        return self.simulation(annotated(built, reservation).tree(), "default")


def annotated(built: PodBuilder, reservation: str) -> PodBuilder:
    """A pod with a reservation."""
    return built.annotations(SubsetAnnotations("web", "a", reservation).written()) if reservation else built


def decoded(built: PodBuilder) -> Pod:
    """A pod with its namespace."""
    return in_namespace(codec.convert(built.tree(), Pod), "default")


def big() -> PodBuilder:
    """A pod that takes half of the node."""
    return pod("").requests(cpu="2")


@pytest_asyncio.fixture
async def stage(cluster: TopologyCluster) -> AsyncIterator[Stage]:
    """A simulation that has seen the cluster."""
    made = Stage(cluster)
    await made.start()
    yield made
    await cancel(made.task)


async def test_a_pod_fits_or_does_not(stage: Stage) -> None:
    """By the placement core."""
    assert stage.simulation.synced
    assert stage.ask(big())
    assert not stage.ask(pod("").requests(cpu="5"))
    assert not stage.ask(pod("").node_selector(zone="z9"))


async def test_services_are_waited_for_where_default_constraints_need_them(stage: Stage) -> None:
    """Before they are known, pods would be grouped by their workloads alone."""
    client = Client(Wire(stage.world.cluster), clock=stage.world.clock)
    services = Caches(client, None).open(Service)
    simulation = Simulation(stage.view, stage.world.clock, services=services)
    before = simulation.synced
    running = asyncio.create_task(services.run())
    await stage.world.settle()
    assert (before, simulation.synced) == (False, True)
    await cancel(running)


async def test_assumed_pods_count(stage: Stage) -> None:
    """Three at once, capacity for two."""
    assert [stage.ask(big(), str(number)) for number in range(3)] == [True, True, False]


async def test_the_same_reservation_counts_once(stage: Stage) -> None:
    """A round that is repeated asks again for the same pod, also where no second one fits beside it."""
    whole = pod("").requests(cpu="4")
    assert [stage.ask(whole, "one") for _ in range(3)] == [True, True, True]
    assert not stage.ask(whole, "two")


async def test_a_simulation_follows_caches_that_are_filled_already(stage: Stage) -> None:
    """It is made when it is needed first."""
    simulation = Simulation(stage.view, stage.world.clock)
    simulation.follow()
    assert simulation(big().tree(), "default") is True


async def test_an_assumed_pod_expires(stage: Stage) -> None:
    """The pod never came."""
    assert [stage.ask(big(), "one"), stage.ask(big(), "two"), stage.ask(big(), "three")] == [True, True, False]
    await stage.world.clock.advance(ASSUMED_SECONDS - 0.001)
    assert not stage.ask(big(), "three"), "it may still come"
    await stage.world.clock.advance(0.001)
    assert stage.ask(big(), "three")


async def create(stage: Stage, name: str, reservation: str) -> None:
    """A pod is created, and seen."""
    tree = annotated(pod(name).requests(cpu="2"), reservation).tree()
    tree["metadata"].pop("uid", None)
    await stage.world.user.create(Pod, tree, namespace="default")
    await stage.world.settle()


async def test_pods_of_other_processes_count_once_they_are_seen(stage: Stage) -> None:
    """Another process admitted two pods, which are not scheduled yet."""
    await create(stage, "p1", "one")
    await create(stage, "p2", "two")
    assert not stage.simulation.is_certain(decoded(big()), "three")
    assert not stage.ask(big(), "three")


async def test_hundreds_of_pods_of_other_processes_are_assumed_step_by_step(stage: Stage) -> None:
    """There is no time to simulate them all: each simulation assumes some of them."""
    for number in range(25):
        tree = annotated(pod(f"p{number}").requests(cpu="100m"), f"r{number}").tree()
        tree["metadata"].pop("uid", None)
        await stage.world.user.create(Pod, tree, namespace="default")
    await stage.world.settle()
    assert [stage.ask(big()), stage.ask(big())] == [True, False]


async def test_pods_of_other_processes_that_take_long_are_left_to_later_simulations(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pod whose simulation takes long is assumed before each: the event loop has no time for twenty of them."""
    for number in range(3):
        await create(stage, f"p{number}", f"r{number}")
    placed: list[str] = []

    def slow(pod: Pod, *rest: Any) -> Decision:
        placed.append(pod.metadata.name)
        monkeypatch.setattr(stage.world.clock, "_now", stage.world.clock.now() + SECOND // 100)
        return place(pod, *rest)

    monkeypatch.setattr(simulation, "place", slow)
    stage.ask(big())
    assert placed == ["p0", ""]
    stage.ask(big())
    assert placed == ["p0", "", "p1", ""]


async def test_a_running_pod_counts_on_its_node(stage: Stage) -> None:
    """It is not counted twice, and its capacity is free again when it is gone."""
    assert stage.ask(big(), "one")
    await create(stage, "p1", "one")
    await stage.world.user.bind("p1", namespace="default", node="n1")
    await stage.world.settle()
    assert [stage.ask(big(), "two"), stage.ask(big(), "three")] == [True, False]
    await stage.world.user.delete(Pod, "p1", namespace="default", grace_period_seconds=0)
    await stage.world.settle()
    assert stage.ask(big(), "three")


@pytest.mark.parametrize("is_ours", [True, False], ids=["that this process has assumed", "of another process"])
async def test_a_pod_that_is_deleted_before_it_has_a_node_takes_no_capacity(stage: Stage, is_ours: bool) -> None:
    """What was assumed for it is free at once."""
    if is_ours:
        assert stage.ask(big(), "one")
    await create(stage, "p1", "one")
    await stage.world.user.delete(Pod, "p1", namespace="default", grace_period_seconds=0)
    await stage.world.settle()
    assert [stage.ask(big(), "two"), stage.ask(big(), "three")] == [True, True]


async def test_a_terminating_pod_counts_as_gone(stage: Stage) -> None:
    """A rollout finds the capacity of old pods, although they take a while to end."""
    for name in ("p1", "p2"):
        await create(stage, name, name)
        await stage.world.user.bind(name, namespace="default", node="n1")
    await stage.world.settle()
    assert not stage.ask(big())
    await stage.world.user.delete(Pod, "p1", namespace="default")
    await stage.world.settle()
    assert stage.ask(big())


async def test_a_finished_pod_takes_no_capacity(stage: Stage) -> None:
    """It stays on its node in name only."""
    for name in ("p1", "p2"):
        await create(stage, name, name)
        await stage.world.user.bind(name, namespace="default", node="n1")
    done = {"status": {"phase": "Succeeded"}}
    await stage.world.user.patch(Pod, "p1", done, namespace="default", subresource="status")
    await stage.world.settle()
    assert [stage.ask(big(), "three"), stage.ask(big(), "four")] == [True, False]


async def test_an_unschedulable_pod_takes_no_capacity(stage: Stage) -> None:
    """Its scheduler has set the condition that no node can take it."""
    assert [stage.ask(big(), "one"), stage.ask(big(), "two")] == [True, True]
    await create(stage, "p1", "one")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await stage.world.user.patch(
        Pod, "p1", {"status": {"conditions": [condition]}}, namespace="default", subresource="status"
    )
    await stage.world.settle()
    assert stage.ask(big(), "three")


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        pytest.param(
            pod("").spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]).tree(),
            Doubt.NOT_EVALUATED,
            id="volumes",
        ),
        pytest.param({"metadata": {}, "spec": {"priority": "high"}}, Doubt.UNREADABLE, id="what cannot be read"),
    ],
)
async def test_what_is_not_evaluated_is_in_doubt(stage: Stage, tree: JSON, why: Doubt) -> None:
    """The pod takes the subset."""
    assert stage.simulation(tree, "default") is why


async def test_a_pod_that_runs_is_not_evicted_in_doubt(stage: Stage) -> None:
    """Whether a node can take its volumes is not known."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    assert stage.simulation.is_certain(decoded(big()), "one")
    assert not stage.simulation.is_certain(decoded(big().spec(volumes=[claim])), "two")


async def test_before_the_caches_are_filled_every_pod_is_in_doubt(cluster: TopologyCluster) -> None:
    """No request is kept waiting, and no pod is evicted."""
    stage = Stage(cluster)
    assert stage.ask(big()) is Doubt.NOT_FILLED
    assert not stage.simulation.is_certain(decoded(big()), "three")


async def test_namespaces_that_terms_select_are_known(stage: Stage) -> None:
    """By their labels, as they are now."""
    tree = pod("db").labels(app="db").on("n1").tree()
    tree["metadata"].pop("uid")
    await stage.world.user.create(Pod, tree, namespace="default")
    await stage.world.user.patch(Namespace, "default", {"metadata": {"labels": {"team": "shop"}}})
    await stage.world.settle()

    def avoiding(team: str) -> PodBuilder:
        selectors = {
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {"matchLabels": {"team": team}},
        }
        terms = [{"topologyKey": "zone", **selectors}]
        return pod("").affinity({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})

    assert [stage.ask(avoiding(team)) for team in ("shop", "bank")] == [False, True]
    await stage.world.user.patch(Namespace, "default", {"metadata": {"labels": {"team": "bank"}}})
    await stage.world.settle()
    assert [stage.ask(avoiding(team)) for team in ("shop", "bank")] == [True, False]


async def test_of_equal_nodes_any_is_assumed(stage: Stage) -> None:
    """Four pods fit two nodes, whichever each of them goes to."""
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    await stage.world.user.create(Node, {"metadata": {"name": "n2", "labels": {"zone": "z1"}}})
    await stage.world.user.patch(Node, "n2", {"spec": {"taints": None}})
    status = {"status": {"capacity": resources, "allocatable": resources}}
    await stage.world.user.patch(Node, "n2", status, subresource="status")
    await stage.world.settle()
    assert [stage.ask(big(), str(number)) for number in range(5)] == [True] * 4 + [False]


async def test_a_simulation_is_filled_when_the_first_topology_needs_it(stage: Stage) -> None:
    """Until then it is in doubt whether subsets have room, and all pods of the cluster are kept once."""
    simulation = Simulation(stage.view, stage.world.clock)
    on_demand = SimulationOnDemand(simulation, stage.view.topologies)
    task = asyncio.create_task(on_demand.run())
    await create(stage, "p1", "")
    await stage.world.user.create(UnitedTopology, topology_tree("fixed", "Fixed"), namespace="default")
    await stage.world.settle()
    too_large = pod("").requests(cpu="5").tree()
    assert on_demand.synced
    assert on_demand(too_large, "default") is Doubt.NOT_FILLED
    assert not len(simulation.snapshot.nodes)
    await stage.world.user.create(UnitedTopology, topology_tree("adaptive", "Adaptive"), namespace="default")
    await stage.world.settle()
    assert (on_demand.synced, on_demand.problems) == (True, [])
    assert [on_demand(tree, "default") for tree in (too_large, big().tree())] == [False, True]
    await stage.world.user.delete(Node, "n1")
    await stage.world.settle()
    assert not on_demand(big().tree(), "default")
    assert not task.done(), "a component that ends has failed"
    await cancel(task)


async def test_other_tasks_run_while_a_simulation_is_filled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cluster takes long: requests are answered meanwhile."""
    monkeypatch.setattr(informers, "PART", 2)
    for number in range(2, 6):
        await stage.world.user.create(Node, {"metadata": {"name": f"n{number}"}})
    await stage.world.settle()
    simulation = Simulation(stage.view, stage.world.clock)
    sizes: list[int] = []

    async def look() -> None:
        while True:
            sizes.append(len(simulation.snapshot.nodes))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    simulation.follow()
    await simulation.wait_filled()
    await cancel(looking)
    assert sizes[:3] == [0, 2, 4]
    assert len(simulation.snapshot.nodes) == 5


@pytest.mark.parametrize(
    ("kind", "disabled", "want"), [("Fixed", False, False), ("Adaptive", True, False), ("Adaptive", False, True)]
)
def test_only_adaptive_topologies_are_simulated(kind: str, disabled: bool, want: bool) -> None:
    """Unless that is disabled."""
    tree = topology_tree("web", kind)
    tree["spec"]["scheduleStrategy"]["adaptive"] = {"disableSimulationSchedule": disabled}
    assert simulates(codec.convert(tree, UnitedTopology)) is want


def topology_tree(name: str, kind: str) -> dict[str, Any]:
    """A UnitedTopology with this strategy."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"targetRef": target, "subsets": [{"name": "a"}], "scheduleStrategy": {"type": kind}}
    kind_of = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedTopology"}
    return {**kind_of, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
