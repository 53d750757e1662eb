"""UnitedTopology on a control plane with controllers and a scheduler of its own: the proposal's stories, and trouble.

The same holds on the lab and on a real control plane: nothing here knows which one it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.e2e.processes import CONTROLLERS, WEBHOOKS, Trimtab, configuration, running, running_subsets
from tests.lab.deployments import TAINT, DeploymentSandbox, deployment_sandbox
from tests.lab.rollouts import KIND
from trimtab.api import annotations as keys
from trimtab.api.annotations import DELETION_COST, NAMESPACE_LABEL
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, TooManyRequests
from trimtab.kube.resources import untyped
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.sessions import Session
from trimtab_lab.nodes import shapes

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

log = logging.getLogger(__name__)

ZONES = {"zone-a": 2, "zone-b": 2, "zone-c": 2}
PATIENCE = 90.0
VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "CloneSet": "apps.kruise.io/v1alpha1",
    KIND.kind: KIND.api_version,
}

_OWN = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
_RENTED = {"matchExpressions": [{"key": "type", "operator": "In", "values": ["virtual-kubelet"]}]}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of the control plane under test."""
    async with Client(Session(config.discover())) as made:
        yield made
    await asyncio.sleep(0.1)  # connections under TLS end a moment after they are closed, and nobody says when


def in_zone(name: str, zone: str, most: int | str | None = None, **more: JSON) -> JSON:
    """A subset in a zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    limit = {} if most is None else {"maxReplicas": most}
    return {"name": name, "nodeSelectorTerm": term, **limit, **more}


def own_and_rented(most: int | None = None) -> list[JSON]:
    """Machines of our own, and rented ones without an end."""
    tolerations = [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]
    ecs: JSON = {"name": "ecs", "nodeSelectorTerm": _OWN} | ({} if most is None else {"maxReplicas": most})
    return [ecs, {"name": "vk", "nodeSelectorTerm": _RENTED, "tolerations": tolerations}]


async def create_topology(made: DeploymentSandbox, *subsets: JSON, kind: str = "Deployment", **spec: JSON) -> None:
    """A UnitedTopology of the workload web, and wait until it is in effect."""
    await _create(made, "web", kind, subsets=list(subsets), **spec)
    await _wait_until_asked(made)


async def _create(made: DeploymentSandbox, name: str, kind: str, **spec: Any) -> None:
    body = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedTopology",
        "metadata": {"name": name},
        "spec": {"targetRef": {"apiVersion": VERSIONS[kind], "kind": kind, "name": name}, **spec},
    }
    await made.client.create(UnitedTopology, body, namespace=made.name)


async def _wait_until_asked(made: DeploymentSandbox) -> None:
    """Wait until new pods get subsets: the API server has seen the namespace's label, the webhook the UnitedTopology.

    A later UnitedTopology of a ReplicaSet shows that; its pod is replaced until it has a subset.
    """
    await _create(made, "probe", "ReplicaSet", subsets=[{"name": "any"}])
    tree = made.deployment("probe", 1)
    await made.client.create(ReplicaSet, tree, namespace=made.name)

    async def is_asked() -> bool:
        found = [pod for pod in made.pods.store if pod.active and pod.metadata.labels.get("app") == "probe"]
        if any(keys.subset_annotations(pod.metadata.annotations) is not None for pod in found):
            return True
        for pod in found:
            await made.client.delete(Pod, pod.metadata.name, namespace=made.name, grace_period_seconds=0)
        return False

    await eventually(is_asked)
    await made.client.delete(ReplicaSet, "probe", namespace=made.name, propagation="Background")
    await made.client.delete(UnitedTopology, "probe", namespace=made.name)
    await eventually(lambda: _are_gone(made, "probe"))


async def _are_gone(made: DeploymentSandbox, app: str) -> bool:
    return not any(pod.metadata.labels.get("app") == app for pod in made.pods.store)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.1)


async def counted(made: DeploymentSandbox, **want: int) -> None:
    """Wait until the status has these counts, and no entries."""

    async def so() -> bool:
        status = (await made.client.get(UnitedTopology, "web", namespace=made.name)).status
        rows = status.subset_statuses
        quiet = not status.other_revisions and not any(row.creating or row.deleting for row in rows)
        return quiet and {row.name.replace("-", "_"): row.replicas for row in rows} == want

    await eventually(so)


def shares(made: DeploymentSandbox) -> dict[str, int]:
    """How many active pods are annotated with each subset."""
    found = [keys.subset_annotations(pod.metadata.annotations) for pod in made.pods.store if pod.active]
    return dict(Counter(known.subset if known is not None else "" for known in found))


async def rented(made: DeploymentSandbox, zones: dict[str, int]) -> None:
    """Nodes of these zones, and a virtual one."""
    taint = {"key": TAINT, "effect": "NoSchedule"}
    tree = {
        "name": made.name,
        "prefix": f"{made.name}-",
        "node": {"taints": [taint]},
        "zones": [{"name": zone, "nodes": count} for zone, count in zones.items()],
        "virtualPools": [{"name": "vk"}],
    }
    await made.nodes.reshape(shapes.read(tree))
    count = sum(zones.values()) + 1

    async def ready() -> bool:
        return sum(node.ready for node in made.machines.store) == count

    await eventually(ready)


# The proposal's stories


async def test_a_number_a_percentage_and_the_rest_in_three_zones(client: Client) -> None:
    """The first story, with its third subset renamed; bigger, smaller, and rolled out."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        await create_topology(
            made,
            in_zone("subset-a", "zone-a", 10),
            in_zone("subset-b", "zone-b", "30%"),
            in_zone("subset-c", "zone-c"),
        )
        await made.deploy("web", 20)
        assert made.spread() == (10, 6, 4)
        await counted(made, subset_a=10, subset_b=6, subset_c=4)
        await made.scale("web", 30)
        assert await made.settled(30) == (10, 9, 11)
        await counted(made, subset_a=10, subset_b=9, subset_c=11)
        await made.scale("web", 12)
        assert await made.settled(12) == (10, 2, 0)
        await counted(made, subset_a=10, subset_b=2, subset_c=0)
        await made.scale("web", 20)
        await made.settled(20)
        await counted(made, subset_a=10, subset_b=6, subset_c=4)
        image = {"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}}
        await roll_out(made, image)
        await counted(made, subset_a=10, subset_b=6, subset_c=4)


async def roll_out(made: DeploymentSandbox, template: JSON) -> None:
    """Change the template, and wait until all pods are of the new one."""
    current = made.deployment("web", 20)["spec"]["template"]
    changed = {**current, "spec": {**current["spec"], **template["spec"]}}
    await made.client.patch(Deployment, "web", {"spec": {"template": changed}}, namespace=made.name)

    async def done() -> bool:
        found = await made.client.get(Deployment, "web", namespace=made.name)
        status = found.status
        seen = status.observed_generation >= found.metadata.generation
        return seen and status.updated_replicas == status.replicas == status.available_replicas

    await eventually(done)


async def test_names_must_be_unique(client: Client) -> None:
    """The story as it is printed is refused, with the field."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made, running_subsets(client, made.name):
        with pytest.raises(ApiError, match=r"spec\.subsets\[2\]"):
            await create_topology(
                made, in_zone("subset-a", "z1", 10), in_zone("subset-b", "z2"), in_zone("subset-a", "z3")
            )


async def test_what_the_schema_cannot_express_is_refused_too(client: Client) -> None:
    """By the webhook: the message names the field and what to write."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made, running_subsets(client, made.name):
        with pytest.raises(ApiError, match=r"spec\.subsets\[0\]\.tolerations\[0\]\.operator: .* write Exists or Equal"):
            await create_topology(made, {"name": "a", "tolerations": [{"key": "rented", "operator": "Has"}]})
        with pytest.raises(ApiError, match=r"spec\.subsets\[0\]\.maxReplicas"):
            await create_topology(made, in_zone("a", "zone-a", "130%"))


async def test_a_fixed_number_on_own_nodes_the_others_on_rented_ones(client: Client) -> None:
    """The second story: rented machines are left first."""
    async with deployment_sandbox(client, {"zone-a": 2}) as made, running_subsets(client, made.name):
        await rented(made, {"zone-a": 2})
        await create_topology(made, *own_and_rented(3))
        await made.deploy("web", 7)
        await counted(made, ecs=3, vk=4)
        virtual = {node.metadata.name for node in made.machines.store if "type" in node.metadata.labels}
        assert sum(pod.spec.node_name in virtual for pod in made.pods.store) == 4
        await made.scale("web", 4)
        await made.settled(4)
        assert shares(made) == {"ecs": 3, "vk": 1}


async def test_rented_nodes_only_once_own_nodes_are_full(client: Client) -> None:
    """The third story: two machines of eight cores take four pods of four; the others go to rented ones at once."""
    async with deployment_sandbox(client, {"zone-a": 2}) as made, running_subsets(client, made.name):
        await rented(made, {"zone-a": 2})
        adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}
        await create_topology(made, *own_and_rented(), scheduleStrategy=adaptive)
        body = made.deployment("web", 6)
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        await client.create(Deployment, body, namespace=made.name)
        await made.settled(6)
        await counted(made, ecs=4, vk=2)


async def test_a_pod_that_is_unschedulable_too_long_is_rescheduled(client: Client) -> None:
    """Without simulation: what is pending on own nodes is deleted after the critical time, and replaced elsewhere."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made, running_subsets(client, made.name):
        await rented(made, {"zone-a": 1})
        adaptive = {"disableSimulationSchedule": True, "rescheduleCriticalSeconds": 3}
        await create_topology(made, *own_and_rented(), scheduleStrategy={"type": "Adaptive", "adaptive": adaptive})
        body = made.deployment("web", 3)
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        await client.create(Deployment, body, namespace=made.name)
        await made.settled(3)
        await counted(made, ecs=2, vk=1)
        status = (await client.get(UnitedTopology, "web", namespace=made.name)).status
        assert [each.name for each in status.shortages] == ["ecs"]


# Sizes


async def test_one_step_down_keeps_the_shares(client: Client) -> None:
    """From 9 to 3 at once, in thirds; again and again."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        thirds = [
            in_zone(f"third-{zone}", zone, share) for zone, share in zip(ZONES, ("34%", "33%", "33%"), strict=True)
        ]
        # A percentage of nothing is nothing: the workload comes first, and creates its pods once subsets are in effect.
        await client.create(Deployment, made.deployment("web", 9, paused=True), namespace=made.name)
        await create_topology(made, *thirds)
        await client.patch(Deployment, "web", {"spec": {"paused": False}}, namespace=made.name)
        await made.settled(9)
        assert made.spread() == (3, 3, 3)
        for _ in range(3):
            await made.scale("web", 3)
            assert await made.settled(3) == (1, 1, 1)
            await made.scale("web", 9)
            assert await made.settled(9) == (3, 3, 3)


@pytest.mark.parametrize("kind", [pytest.param(ReplicaSet, id="ReplicaSet"), pytest.param(CloneSet, id="CloneSet")])
async def test_other_workloads_keep_their_shares_too(client: Client, kind: type[ReplicaSet | CloneSet]) -> None:
    """A workload without a Deployment: up, one step down, and up again."""
    name = kind.__name__
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        tree = made.deployment("web", 1)
        body = {"apiVersion": VERSIONS[name], "kind": name, **tree}
        subsets = [in_zone("one", "zone-a", 1), in_zone("half", "zone-b", "50%"), in_zone("rest", "zone-c")]
        await create_topology(made, *subsets, kind=name)
        await client.create(kind, body, namespace=made.name)
        await made.settled(1)
        for size, want in ((8, (1, 4, 3)), (4, (1, 2, 1)), (6, (1, 3, 2))):
            await client.resize(kind, "web", size, namespace=made.name)
            assert await made.settled(size) == want
        await counted(made, one=1, half=3, rest=2)
        await client.delete(kind, "web", namespace=made.name, propagation="Background")
        await made.until(lambda store: not len(store))


# What is there already


async def test_existing_pods_are_counted_and_left_unmodified(client: Client) -> None:
    """The workload is older than its UnitedTopology, and outlives it; nothing is restarted."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        await made.deploy("web", 6)
        before = {pod.metadata.uid for pod in made.pods.store}
        await create_topology(made, in_zone("a", "zone-a", 1), in_zone("b", "zone-b", 5), in_zone("c", "zone-c"))
        first, second, third = made.spread()
        await counted(made, a=first, b=second, c=third)
        await made.until(lambda store: any(DELETION_COST in pod.metadata.annotations for pod in store))
        await client.delete(UnitedTopology, "web", namespace=made.name)
        ours = {DELETION_COST, *dict.fromkeys(keys.SUBSET_KEYS)}
        await made.until(lambda store: not any(ours & pod.metadata.annotations.keys() for pod in store))
        assert {pod.metadata.uid for pod in made.pods.store} == before
        await eventually(lambda: unlabelled(made))


async def unlabelled(made: DeploymentSandbox) -> bool:
    """Whether the namespace has lost its label."""
    return NAMESPACE_LABEL not in (await made.client.get(Namespace, made.name)).metadata.labels


# Pods that go


async def test_deleted_and_evicted_pods_are_replaced_in_their_subset(client: Client) -> None:
    """Their deletions are announced, and their successors get the capacity."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        await create_topology(made, in_zone("a", "zone-a", 3), in_zone("b", "zone-b"))
        await made.deploy("web", 6)
        first = [pod for pod in made.pods.store if (shares_of(pod)) == "a"]
        await client.delete(Pod, first[0].metadata.name, namespace=made.name)
        await client.evict(first[1].metadata.name, namespace=made.name)
        gone = {pod.metadata.uid for pod in first[:2]}
        await made.until(lambda store: not any(pod.metadata.uid in gone for pod in store))
        await made.settled(6)
        assert made.spread()[:2] == (3, 3)
        await counted(made, a=3, b=3)


def shares_of(pod: Pod) -> str:
    """The subset of a pod."""
    known = keys.subset_annotations(pod.metadata.annotations)
    return known.subset if known is not None else ""


async def test_an_eviction_that_a_budget_refuses_is_reverted(client: Client) -> None:
    """A dry run changes nothing, by any field that can say so."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name):
        await create_topology(made, in_zone("a", "zone-a", 3), in_zone("b", "zone-b"))
        await made.deploy("web", 3)
        await counted(made, a=3, b=0)
        selector = {"matchLabels": {"app": "web"}}
        budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 3, "selector": selector}}
        await client.create(PodDisruptionBudget, budget, namespace=made.name)
        name = next(iter(made.pods.store)).metadata.name

        async def refused() -> bool:
            try:
                await client.using(retry=NO_RETRIES).evict(name, namespace=made.name, dry_run=True)
            except TooManyRequests:
                return True
            return False

        await eventually(refused)
        with pytest.raises(TooManyRequests):
            await client.using(retry=NO_RETRIES).evict(name, namespace=made.name)
        await counted(made, a=3, b=0)


# Trouble


async def test_webhooks_and_controller_are_killed_and_it_converges(client: Client) -> None:
    """Pods are created all the time; those without a reservation are matched afterwards."""
    async with deployment_sandbox(client, ZONES) as made, running_subsets(client, made.name) as trimtab:
        if trimtab is None:
            pytest.skip("the Trimtab that is installed here is not ours to kill")
        await create_topology(made, in_zone("a", "zone-a", 6), in_zone("b", "zone-b", "50%"), in_zone("c", "zone-c"))
        await made.deploy("web", 4)
        await trouble(trimtab, made)
        await made.scale("web", 20)
        await made.settled(20)
        total = Counter(shares_of(pod) for pod in made.pods.store)
        status = (await client.get(UnitedTopology, "web", namespace=made.name)).status
        assert sum(total.values()) == 20
        await counted(made, **{row.name: total[row.name] for row in status.subset_statuses})


async def trouble(trimtab: Trimtab, made: DeploymentSandbox) -> None:
    """Sizes change while parts of Trimtab end and begin."""
    await made.scale("web", 10)
    await trimtab.kill(CONTROLLERS)
    await made.settled(10)
    assert made.spread()[0] == 6
    await trimtab.start(CONTROLLERS)
    await trimtab.kill(WEBHOOKS)
    await made.scale("web", 14)
    await made.settled(14)
    await trimtab.start(WEBHOOKS)
    node = next(iter(made.machines.store))
    assert isinstance(node, Node)


# Rented capacity: last in, first out, and pods that return


class Availability:
    """Watches the pods of a sandbox: the fewest that were ready at a time, and how many there were in all."""

    def __init__(self, made: DeploymentSandbox) -> None:
        self._made = made
        self._is_on = True
        self.fewest = self._ready()
        made.pods.subscribe(
            added=lambda _: self._note(), updated=lambda _, __: self._note(), deleted=lambda _: self._note()
        )

    def stop(self) -> None:
        """What follows does not count."""
        self._is_on = False

    def _ready(self) -> int:
        return sum(pod.active and pod.ready for pod in self._made.pods.store)

    def _note(self) -> None:
        self.fewest = min(self.fewest, self._ready()) if self._is_on else self.fewest


async def test_rented_pods_go_first_and_the_others_return(client: Client) -> None:
    """Story 3 end to end: own nodes fill, rented ones take the rest and are left first; with more own nodes, all pods
    return, one at a time, by a budget that allows no more; then nothing moves and nothing is written."""
    async with deployment_sandbox(client, {"zone-a": 2}) as made, running_subsets(client, made.name):
        await rented(made, {"zone-a": 2})
        settling = 5
        back = {"settlingSeconds": settling, "maxPods": 1}
        adaptive = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30, "return": back}}
        await create_topology(made, *own_and_rented(), scheduleStrategy=adaptive)
        body = made.deployment("web", 8)
        body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        await client.create(Deployment, body, namespace=made.name)
        await made.settled(8)
        await counted(made, ecs=4, vk=4)
        await made.scale("web", 4)
        await made.settled(4)
        await counted(made, ecs=4, vk=0)
        await made.scale("web", 8)
        await made.settled(8)
        await counted(made, ecs=4, vk=4)
        budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 7, "selector": body["spec"]["selector"]}}
        await client.create(PodDisruptionBudget, budget, namespace=made.name)
        availability = Availability(made)
        started = asyncio.get_running_loop().time()
        await rented(made, {"zone-a": 4})
        await counted(made, ecs=8, vk=0)
        took = asyncio.get_running_loop().time() - started
        await made.settled(8)
        availability.stop()
        assert availability.fewest >= 7
        log.info("4 pods returned in %.1f s, settling time %d s; %d of 8 ready", took, settling, availability.fewest)
        await eventually(lambda: is_quiet(client, made.name))
        uids = {pod.metadata.uid for pod in made.pods.store}
        version = (await client.get(UnitedTopology, "web", namespace=made.name)).metadata.resource_version
        await asyncio.sleep(4 * settling)
        assert {pod.metadata.uid for pod in made.pods.store} == uids
        assert (await client.get(UnitedTopology, "web", namespace=made.name)).metadata.resource_version == version


async def is_quiet(client: Client, namespace: str) -> bool:
    """Whether nothing is remembered of pods that returned."""
    status = (await client.get(UnitedTopology, "web", namespace=namespace)).status
    return not status.returns and not any(row.creating or row.deleting for row in status.subset_statuses)


async def test_a_cloneset_leaves_rented_nodes_first(client: Client) -> None:
    """BestEffort pods without any policy: exactly those of the last subset go, and on the way up they fill in order."""
    async with deployment_sandbox(client, {"zone-a": 2}) as made, running_subsets(client, made.name):
        await rented(made, {"zone-a": 2})
        await create_topology(made, *own_and_rented(), kind="CloneSet", scheduleStrategy={"type": "Adaptive"})
        tree = made.deployment("web", 7)
        tree["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        await client.create(
            CloneSet, {"apiVersion": VERSIONS["CloneSet"], "kind": "CloneSet", **tree}, namespace=made.name
        )
        await made.settled(7)
        await counted(made, ecs=4, vk=3)
        await client.resize(CloneSet, "web", 5, namespace=made.name)
        await made.settled(5)
        await counted(made, ecs=4, vk=1)
        await client.delete(CloneSet, "web", namespace=made.name, propagation="Background")
        await made.until(lambda store: not len(store))


# Patches that an API server would refuse


PRIORITIES = untyped("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)


async def test_patches_are_tried_before_pods_are(client: Client) -> None:
    """Refused with the UnitedTopology: by rule, and by a dry run. A priority class is resolved anew."""
    async with deployment_sandbox(client, {"zone-a": 1}) as made:
        tree = configuration(made.name, unitedTopology={"allowedPatchFields": ["priorityClassName"]})
        urgent = f"urgent-{made.name}"
        async with running(client, tree, [WEBHOOKS, CONTROLLERS]):
            await client.create(PRIORITIES, {"metadata": {"name": urgent}, "value": 1000})
            await client.create(Deployment, made.deployment("web", 0), namespace=made.name)
            mount = [{"name": "cache", "mountPath": "/cache"}]
            port = [{"containerPort": 80, "name": "much-too-long-a-name"}]
            for field, value, words in (
                ("volumeMounts", mount, r'no volume "cache"'),
                ("resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "more than the limit"),
                ("ports", port, r"the API server would refuse its pods.*name"),
            ):
                patch = {"spec": {"containers": [{"name": "main", field: value}]}}
                with pytest.raises(ApiError, match=words):
                    await create_topology(made, {"name": "a", "patch": patch})
            missing = {"spec": {"priorityClassName": "does-not-exist"}}
            with pytest.raises(ApiError, match="the API server would refuse its pods"):
                await create_topology(made, {"name": "a", "patch": missing})
            await create_topology(made, {"name": "a", "patch": {"spec": {"priorityClassName": urgent}}})
            await made.scale("web", 2)
            await made.settled(2)
            assert {pod.spec.priority for pod in made.pods.store} == {1000}
            assert shares(made) == {"a": 2}
            await client.delete_all(UnitedTopology, namespace=made.name)
        await client.delete(PRIORITIES, urgent)
