"""UnitedTopology as people use it: the proposal's stories, rollouts, evictions, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
import pytest_asyncio

from tests.scenarios.topologies import SubsetCluster
from tests.unit.lab.workloads.objects import deployment_tree, template
from tests.unit.unitedtopology.clusters import subset, topology_tree, zone
from trimtab.api.annotations import DELETION_COST
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.errors import Invalid, TooManyRequests, Unreachable
from trimtab.kube.resources import Resource
from trimtab.kube.retries import NO_RETRIES
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab_lab.apiserver.kinds.errors import status_error

ZONES = (subset("subset-a", "z1", 10), subset("subset-b", "z2", "30%"), subset("subset-c", "z3"))
THIRDS = (subset("a", "z1", "34%"), subset("b", "z2", "33%"), subset("c", "z3", "33%"))

_OWN = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
_RENTED = {"matchExpressions": [{"key": "type", "operator": "In", "values": ["virtual-kubelet"]}]}
_TAINT = {"key": "virtual-kubelet.io/provider", "value": "cloud", "effect": "NoSchedule"}


def own_and_rented(most: int | None = None) -> tuple[JSON, JSON]:
    """Machines of our own, and rented ones without an end."""
    tolerations = [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]
    ecs: JSON = {"name": "ecs", "nodeSelectorTerm": _OWN} | ({} if most is None else {"maxReplicas": most})
    return ecs, {"name": "vk", "nodeSelectorTerm": _RENTED, "tolerations": tolerations}


@pytest_asyncio.fixture
async def world() -> AsyncIterator[SubsetCluster]:
    """A cluster with one webhook process."""
    made = SubsetCluster()
    await made.start()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def three() -> AsyncIterator[SubsetCluster]:
    """A cluster with three webhook processes."""
    made = SubsetCluster(processes=3)
    await made.start()
    yield made
    await made.close()


async def add_rented(world: SubsetCluster) -> None:
    """A node that is rented: tainted, and without an end."""
    tree = {"metadata": {"name": "vk-1", "labels": {"type": "virtual-kubelet", "topology.kubernetes.io/zone": "vk"}}}
    await world.user.create(Node, tree)
    await world.user.patch(Node, "vk-1", {"spec": {"taints": [_TAINT]}})
    await size_nodes(world, "1000", "vk-1")


async def size_nodes(world: SubsetCluster, cpu: str, *names: str) -> None:
    """Give nodes so many cores, for pods that take one each."""
    world.fits = {**world.fits, **dict.fromkeys(names, int(cpu))}
    resources = {"cpu": cpu, "memory": "1000Gi", "pods": "1000"}
    for name in names:
        status = {"status": {"capacity": resources, "allocatable": resources}}
        await world.user.patch(Node, name, status, subresource="status")
    await world.settle()


async def moving(world: SubsetCluster, work: Awaitable[Any]) -> Any:
    """Await something that takes virtual time."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await world.clock.advance(0.05)
    return task.result()


async def scale(world: SubsetCluster, size: int) -> None:
    """Resize the Deployment, holding the request as long as it takes, and let pods come and go."""
    await moving(world, world.user.patch(Deployment, "web", {"spec": {"replicas": size}}, namespace="default"))
    await world.run_pods()


# The proposal's stories


async def test_a_number_a_percentage_and_the_rest_in_three_zones(world: SubsetCluster) -> None:
    """The first story, with its third subset renamed: 20 pods are 10, 30 %, and what is left."""
    await world.create_topology(*ZONES)
    await world.deploy(20)
    assert await world.zones() == {"z1": 10, "z2": 6, "z3": 4}
    assert await world.missing() == {"subset-a": 0, "subset-b": 0, "subset-c": -1}
    assert await world.entries() == []
    await scale(world, 30)
    assert await world.zones() == {"z1": 10, "z2": 9, "z3": 11}
    await scale(world, 12)
    assert await world.zones() == {"z1": 10, "z2": 2}


async def test_names_must_be_unique(world: SubsetCluster) -> None:
    """The story as it is printed is refused, with the field and what to write."""
    twice = (subset("subset-a", "z1", 10), subset("subset-b", "z2", "30%"), subset("subset-a", "z3"))
    with pytest.raises(Invalid, match=r"spec\.subsets\[2\]"):
        await world.create_topology(*twice)


async def test_a_fixed_number_on_own_nodes_the_others_on_rented_ones(world: SubsetCluster) -> None:
    """The second story: the first three on own nodes, later ones tolerate the rented nodes' taint."""
    await add_rented(world)
    await world.create_topology(*own_and_rented(3))
    await world.deploy(7)
    assert await world.zones() == {"z1": 3, "vk": 4}
    await scale(world, 4)
    assert await world.zones() == {"z1": 3, "vk": 1}
    await scale(world, 2)
    assert await world.zones() == {"z1": 2}


async def test_rented_nodes_only_once_own_nodes_are_full(world: SubsetCluster) -> None:
    """The third story: the simulation finds our own machines full, and sends the rest to rented ones at once."""
    await add_rented(world)
    await size_nodes(world, "1", "z1-1", "z1-2", "z2-1", "z2-2", "z3-1", "z3-2")
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.create_topology(*own_and_rented(), scheduleStrategy=adaptive)
    await world.create(Deployment, thirsty(8))
    await world.run_pods()
    assert await world.shares() == {"ecs": 6, "vk": 2}
    assert await world.zones() == {"z1": 2, "z2": 2, "z3": 2, "vk": 2}
    assert await world.event_messages("Rescheduled") == []


async def test_without_simulation_pods_are_rescheduled_after_the_critical_time(world: SubsetCluster) -> None:
    """The third story without looking ahead: pods wait thirty seconds on our own machines, then go to rented ones."""
    await add_rented(world)
    world.room = 1
    adaptive = {"disableSimulationSchedule": True, "rescheduleCriticalSeconds": 30}
    await world.create_topology(*own_and_rented(), scheduleStrategy={"type": "Adaptive", "adaptive": adaptive})
    await world.create(Deployment, deployment_tree("web", 5))
    await world.run_pods()
    assert await world.shares() == {"ecs": 5}
    assert await world.zones() == {"z1": 1, "z2": 1, "z3": 1, "": 2}
    world.room = 100_000
    for node in ("z1-1", "z1-2", "z2-1", "z2-2", "z3-1", "z3-2"):
        await world.user.patch(Node, node, {"spec": {"taints": [{"key": "full", "effect": "NoSchedule"}]}})
    await world.advance(31)
    await world.run_pods()
    assert await world.shares() == {"ecs": 3, "vk": 2}
    assert await world.zones() == {"z1": 1, "z2": 1, "z3": 1, "vk": 2}
    assert len(await world.event_messages("Rescheduled")) == 2
    (shortage,) = (await world.topology()).status.shortages
    assert (shortage.name, shortage.times) == ("ecs", 1)
    await scale(world, 6)
    assert await world.shares() == {"ecs": 3, "vk": 3}


def thirsty(replicas: int) -> JSON:
    """A Deployment whose pods take a core each."""
    tree = deployment_tree("web", replicas)
    tree["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return tree


# Sizes


async def test_one_step_down_keeps_the_shares(world: SubsetCluster) -> None:
    """From 9 to 3 at once, in thirds: the request is held until the costs are those of 3."""
    await world.create_topology(*THIRDS)
    await world.deploy(9)
    assert await world.zones() == {"z1": 3, "z2": 3, "z3": 3}
    await scale(world, 3)
    assert await world.zones() == {"z1": 1, "z2": 1, "z3": 1}
    await scale(world, 7)
    assert await world.zones() == {"z1": 3, "z2": 2, "z3": 2}


async def test_many_scalings_end_in_the_same_shares_as_one(world: SubsetCluster) -> None:
    """The way there leaves no trace."""
    await world.create_topology(*THIRDS)
    await world.deploy(3)
    for size in (12, 5, 9, 2, 6):
        await scale(world, size)
    assert await world.zones() == {"z1": 2, "z2": 2, "z3": 2}
    assert await world.entries() == []


async def test_a_policy_orders_pods_inside_a_subset(world: SubsetCluster) -> None:
    """Two zones make one subset without a limit: it is left before the other one, and kept level while it is."""
    both = {"name": "both", "nodeSelectorTerm": zone("z2", "z3")}
    await world.create_topology(subset("first", "z1", 2), both)
    world.room = 3
    await world.deploy(8)
    assert await world.zones() == {"z1": 2, "z2": 3, "z3": 3}
    await scale(world, 6)
    assert await world.zones() == {"z1": 2, "z2": 2, "z3": 2}
    await scale(world, 4)
    assert await world.zones() == {"z1": 2, "z2": 1, "z3": 1}


# Other workloads


def fleet_tree(kind: str, replicas: int, image: str = "app:1") -> JSON:
    """A ReplicaSet or a CloneSet called web."""
    selector = {"matchLabels": {"app": "web"}}
    spec: JSON = {"replicas": replicas, "selector": selector, "template": template(image, app="web")}
    version = "apps.kruise.io/v1alpha1" if kind == "CloneSet" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize("kind", [pytest.param(ReplicaSet, id="ReplicaSet"), pytest.param(CloneSet, id="CloneSet")])
async def test_other_workloads_keep_their_shares_too(world: SubsetCluster, kind: type[ReplicaSet | CloneSet]) -> None:
    """Up, one step down, and up again, without a Deployment."""
    await world.start_clonesets()
    await world.create_topology(*THIRDS, kind=kind.__name__)
    await world.create(kind, fleet_tree(kind.__name__, 9))
    await world.run_pods()
    assert await world.zones() == {"z1": 3, "z2": 3, "z3": 3}
    for size, each in ((3, 1), (6, 2)):
        await moving(world, world.user.patch(kind, "web", {"spec": {"replicas": size}}, namespace="default"))
        await world.run_pods()
        assert await world.zones() == {"z1": each, "z2": each, "z3": each}
    assert await world.missing() == {"a": 0, "b": 0, "c": 0}
    assert await world.entries() == []


async def test_an_update_of_a_cloneset_ends_as_a_fresh_start_does(world: SubsetCluster) -> None:
    """Each of its revisions is counted by itself."""
    await world.start_clonesets()
    await world.create_topology(*ZONES, kind="CloneSet")
    await world.create(CloneSet, fleet_tree("CloneSet", 20))
    await world.run_pods()
    assert await world.zones() == {"z1": 10, "z2": 6, "z3": 4}
    await world.patch(CloneSet, "web", {"spec": {"template": template("app:2", app="web")}})
    await world.run_pods()
    assert await world.zones() == {"z1": 10, "z2": 6, "z3": 4}
    assert (await world.topology()).status.other_revisions == ()


# Rollouts


async def test_a_rollout_ends_as_a_fresh_start_does(world: SubsetCluster) -> None:
    """Each revision has limits of its own, and the old one is scaled down where the new one begins."""
    await world.create_topology(*ZONES)
    await world.deploy(20)
    await world.patch(Deployment, "web", {"spec": {"template": template("app:2", app="web")}})
    await world.run_pods()
    assert await world.zones() == {"z1": 10, "z2": 6, "z3": 4}
    assert (await world.topology()).status.other_revisions == ()
    assert await world.entries() == []


async def test_a_rollout_into_a_full_subset_ends_as_a_fresh_start_does(world: SubsetCluster) -> None:
    """Adaptive, and own nodes have capacity for three: old pods are deleted there first, and replaced."""
    await add_rented(world)
    await size_nodes(world, "1", "z1-1", "z1-2", "z2-1")
    for node in ("z2-2", "z3-1", "z3-2"):
        await world.user.delete(Node, node)
    adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
    await world.create_topology(*own_and_rented(3), scheduleStrategy=adaptive)
    await world.create(Deployment, thirsty(9))
    await world.run_pods()
    assert await world.shares() == {"ecs": 3, "vk": 6}
    changed = thirsty(9)["spec"]["template"]
    changed["spec"]["containers"][0]["image"] = "app:2"
    await world.patch(Deployment, "web", {"spec": {"template": changed}})
    await world.run_pods()
    assert await world.shares() == {"ecs": 3, "vk": 6}


# Pods that go


async def test_a_deleted_pod_is_replaced_in_its_subset(world: SubsetCluster) -> None:
    """Its deletion is announced before it is gone, so its successor gets the capacity."""
    await world.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    await world.deploy(4)
    victim = next(pod for pod in await world.pods() if pod.spec.node_name.startswith("z1"))
    await world.user.delete(Pod, victim.metadata.name, namespace="default")
    await world.settle()
    await world.run_pods()
    assert await world.zones() == {"z1": 2, "z2": 2}
    assert await world.entries() == []


async def test_an_eviction_that_a_budget_refuses_is_reverted(world: SubsetCluster) -> None:
    """It frees no capacity, and after two seconds the entry is gone."""
    await world.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    await world.deploy(2)
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    await world.create(PodDisruptionBudget, budget)
    name = (await world.pods())[0].metadata.name
    with pytest.raises(TooManyRequests):
        await moving(world, world.user.using(retry=NO_RETRIES).evict(name, namespace="default"))
    await world.clock.advance(2.0)
    assert await world.entries() == []
    assert await world.missing() == {"a": 0, "b": -1}
    await scale(world, 3)
    assert await world.zones() == {"z1": 2, "z2": 1}


async def test_a_pod_that_failed_is_replaced_in_its_subset(world: SubsetCluster) -> None:
    """A finished pod takes no capacity, although no webhook was called for it; several times."""
    await world.create_topology(subset("a", "z1", 3), subset("b", "z2"))
    await world.deploy(6)
    for _ in range(3):
        failed = next(pod for pod in await world.pods() if pod.active and pod.spec.node_name.startswith("z1"))
        patch = {"status": {"phase": "Failed"}}
        await world.user.patch(Pod, failed.metadata.name, patch, namespace="default", subresource="status")
        await world.run_pods()
        await world.settle()
        assert {name: row.replicas for name, row in (await world.rows()).items()} == {"a": 3, "b": 3}
    assert await world.entries() == []


async def test_a_pod_that_was_released_is_replaced_in_its_subset(world: SubsetCluster) -> None:
    """Its labels are changed, for debugging: it has no owner then."""
    await world.create_topology(subset("a", "z1", 3), subset("b", "z2"))
    await world.deploy(6)
    taken = next(pod for pod in await world.pods() if pod.spec.node_name.startswith("z1"))
    await world.user.patch(Pod, taken.metadata.name, {"metadata": {"labels": {"app": "x"}}}, namespace="default")
    await world.run_pods()
    await world.settle()
    assert {name: row.replicas for name, row in (await world.rows()).items()} == {"a": 3, "b": 3}


async def test_a_renamed_subset_keeps_its_pods(world: SubsetCluster) -> None:
    """Its pods are matched by their nodes, before the first new one is created and without a controller."""
    await world.create_topology(subset("a", "z1", 3), subset("b", "z2"))
    await world.deploy(6)
    await world.kill_controller()
    renamed = {"spec": {"subsets": [subset("zone-a", "z1", 3), subset("b", "z2")]}}
    await world.user.patch(UnitedTopology, "web", renamed, namespace="default")
    await world.clock.advance(1)
    await scale(world, 9)
    await world.start_controller()
    await world.run_pods()
    assert await world.zones() == {"z1": 3, "z2": 6}


async def test_a_percentage_of_a_smaller_size_is_not_exceeded(world: SubsetCluster) -> None:
    """Half of ten is five, and half of four is two, also where no controller has counted since."""
    await world.create_topology(subset("a", "z1", "50%"), subset("b", "z2"))
    await world.deploy(10)
    await world.kill_controller()
    await scale(world, 4)
    await world.patch(Deployment, "web", {"spec": {"template": template("app:2", app="web")}})
    await world.run_pods()
    assert await world.shares() == {"a": 2, "b": 2}
    await world.start_controller()
    await world.run_pods()
    assert await world.shares() == {"a": 2, "b": 2}


async def test_a_dry_run_changes_nothing(world: SubsetCluster) -> None:
    """There is no reservation for a pod that will not exist."""
    await world.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    await world.deploy(2)
    before = (await world.topology()).metadata.resource_version
    name = (await world.pods())[0].metadata.name
    await world.user.delete(Pod, name, namespace="default", dry_run=True)
    await world.user.evict(name, namespace="default", dry_run=True)
    await world.settle()
    assert (await world.topology()).metadata.resource_version == before


# What pods are given


async def test_a_patch_is_merged_into_the_pods_of_its_subset(world: SubsetCluster) -> None:
    """Labels, environment, and the template's fields stay."""
    patch = {
        "metadata": {"labels": {"pool": "first"}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "POOL", "value": "first"}]}]},
    }
    await world.create_topology(subset("a", "z1", 1, patch=patch), subset("b", "z2"))
    await world.deploy(2)
    trees = [await world.raw(Pod, pod.metadata.name) for pod in await world.pods()]
    first, second = sorted(trees, key=lambda tree: tree["spec"]["nodeName"])
    assert first["metadata"]["labels"]["pool"] == "first"
    assert first["spec"]["containers"][0]["env"] == [{"name": "POOL", "value": "first"}]
    assert first["spec"]["containers"][0]["image"] == "app:1"
    assert "pool" not in second["metadata"]["labels"]


async def test_webhooks_are_called_for_namespaces_with_subsets_only(world: SubsetCluster) -> None:
    """No webhook is called for pods elsewhere, nor after the last UnitedTopology is deleted."""
    await world.deploy(3)
    assert world.asked["/pods"] == 0
    await world.create_topology(subset("a", "z1", 5))
    await scale(world, 4)
    assert world.asked["/pods"] == 1
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.settle()
    await scale(world, 6)
    assert world.asked["/pods"] == 1


# What fails


async def test_three_processes_never_exceed_a_limit(three: SubsetCluster) -> None:
    """However the pods of one Deployment are shared out among them."""
    await three.create_topology(subset("a", "z1", 7), subset("b", "z2", "40%"), subset("c", "z3"))
    await three.deploy(30)
    assert await three.zones() == {"z1": 7, "z2": 12, "z3": 11}
    assert three.let_go == []
    assert all(any(request.method == "PATCH" for request in process.wire.requests) for process in three.processes)


async def test_no_pod_of_a_workload_is_taken_for_forged(three: SubsetCluster) -> None:
    """In bursts of a hundred, through sizes that grow at once, deletions and a rollout, with watches that lag."""
    await three.create_topology(subset("a", "z1", 60), subset("b", "z2", "40%"), subset("c", "z3"))
    await three.deploy(100)
    for size in (200, 120, 180):
        await scale(three, size)
    for pod in (await three.user.list(Pod, namespace="default")).items[:60]:
        await three.user.delete(Pod, pod.metadata.name, namespace="default")
    await three.run_pods()
    await three.user.patch(Deployment, "web", {"spec": {"template": template(image="web:2")}}, namespace="default")
    await three.run_pods()
    assert sum((await three.zones()).values()) == 180
    assert three.let_go == []
    assert [refused(process.subsets) for process in three.processes] == [0, 0, 0]


def refused(subsets: SubsetHooks) -> float:
    """How many pods got no reservation because no owner wanted them."""
    name = "trimtab_subset_reservations_refused_total"
    samples = (each for metric in subsets.batcher.metrics.registry.collect() for each in metric.samples)
    return sum(each.value for each in samples if each.name == name)


async def test_a_webhook_process_is_killed(three: SubsetCluster) -> None:
    """The others continue; its reservations without pods expire."""
    await three.create_topology(subset("a", "z1", 6), subset("b", "z2"))
    await three.deploy(4)
    await three.kill_webhooks(three.processes[0])
    await scale(three, 10)
    assert (await three.zones())["z1"] == 6
    await three.advance(90)
    assert await three.entries() == []


async def test_pods_created_while_all_webhooks_were_down_are_matched(world: SubsetCluster) -> None:
    """They run wherever a scheduler put them, and count there."""
    await world.create_topology(subset("a", "z1", 2), subset("b", "z2"))
    await world.deploy(2)
    await world.kill_webhooks(world.processes[0])
    await scale(world, 4)
    assert await world.shares() == {"a": 4}
    assert await world.levels() == {("z1", "Guaranteed"): 2, ("z1", "Redundant"): 2}
    await world.start_webhooks()
    await scale(world, 6)
    assert await world.shares() == {"a": 4, "b": 2}
    await scale(world, 4)
    assert await world.shares() == {"a": 2, "b": 2}


async def test_the_controller_is_killed_in_the_middle(world: SubsetCluster) -> None:
    """Webhooks go on without it; the next one counts what is there."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    await world.deploy(3)
    await world.kill_controller()
    await scale(world, 8)
    assert await world.zones() == {"z1": 5, "z2": 3}
    await world.start_controller()
    await world.settle()
    assert await world.missing() == {"a": 0, "b": -1}
    assert await world.entries() == []


@pytest.mark.parametrize("code", [pytest.param(500, id="errors"), pytest.param(0, id="connections that break")])
async def test_the_api_server_fails_now_and_then(world: SubsetCluster, code: int) -> None:
    """Every fifth write of the controller fails for a while: it converges all the same."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    writes = iter(range(1_000_000))

    def fail(request: Any) -> Exception | None:
        failing = request.method != "GET" and next(writes) % 5 == 0
        return _failure(code) if failing else None

    world.controller_wire.refuse = fail
    await world.deploy(9)
    await scale(world, 6)
    await world.advance(30)
    world.controller_wire.refuse = None
    await world.advance(60)
    assert await world.zones() == {"z1": 5, "z2": 1}
    assert await world.missing() == {"a": 0, "b": -1}
    assert await world.entries() == []


def _failure(code: int) -> Exception:
    return status_error(code, "the disk is full") if code else Unreachable("connection lost")


async def test_a_lagging_watch_exceeds_no_limit(world: SubsetCluster) -> None:
    """The controller does not see pods for a while: what is reserved stays reserved."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    await world.deploy(3)
    world.controller_wire.hold("pods")
    await scale(world, 5)
    for pod in [pod for pod in await world.pods() if pod.spec.node_name.startswith("z1")][:2]:
        await world.user.delete(Pod, pod.metadata.name, namespace="default")
    await world.settle()
    await world.run_pods()
    assert (await world.zones())["z1"] <= 5
    world.controller_wire.resume()
    await world.settle()
    assert await world.missing() == {"a": 5 - (await world.zones())["z1"], "b": -1}
    assert await world.entries() == []


async def test_a_subset_renamed_while_a_watch_lags_keeps_its_pods(world: SubsetCluster) -> None:
    """For a spec that was not counted for yet the controller does not believe its cache either."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    await world.deploy(2)
    world.controller_wire.hold("pods")
    await scale(world, 5)
    renamed = {"spec": {"subsets": [subset("first", "z1", 5), subset("b", "z2")]}}
    await world.patch(UnitedTopology, "web", renamed)
    await scale(world, 8)
    assert await world.zones() == {"z1": 5, "z2": 3}
    world.controller_wire.resume()
    await world.settle()
    assert await world.missing() == {"first": 0, "b": -1}


async def test_one_recreated_while_a_watch_lags_keeps_its_pods(world: SubsetCluster) -> None:
    """Nothing of the first one's status is left, and the pods are not in the controller's cache."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    await world.deploy(2)
    world.controller_wire.hold("pods")
    await scale(world, 5)
    await world.user.delete(UnitedTopology, "web", namespace="default")
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    await scale(world, 8)
    assert await world.zones() == {"z1": 5, "z2": 3}


async def test_a_lagging_watch_of_deployments_exceeds_no_limit(world: SubsetCluster) -> None:
    """The controller sees pods and ReplicaSets, and for minutes nothing of the Deployment above them."""
    await world.create_topology(subset("a", "z1", 5), subset("b", "z2"))
    world.controller_wire.hold("deployments")
    await world.deploy(4)
    await world.advance(100)
    assert await world.shares() == {"a": 4}
    await scale(world, 9)
    assert await world.zones() == {"z1": 5, "z2": 4}
    world.controller_wire.resume()
    await world.settle()
    assert await world.missing() == {"a": 0, "b": -1}


async def test_foreign_costs_are_kept(world: SubsetCluster) -> None:
    """A pod with a high foreign cost is kept, whatever its subset."""
    await world.create_topology(subset("a", "z1", 1), subset("b", "z2"))
    await world.deploy(4)
    kept = next(pod for pod in await world.pods() if pod.spec.node_name.startswith("z2"))
    await world.patch(Pod, kept.metadata.name, {"metadata": {"annotations": {DELETION_COST: "2147483647"}}})
    await scale(world, 1)
    assert [pod.metadata.uid for pod in await world.pods()] == [kept.metadata.uid]


def test_stories_are_manifests() -> None:
    """What is played here is what people would write."""
    assert Resource.of(UnitedTopology).api_version == topology_tree(*ZONES)["apiVersion"]
