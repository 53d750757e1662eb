"""The controller of disruption budgets, over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.clusters import World
from tests.unit.lab.workloads.objects import deployment_tree, template
from trimtab.api import times
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.kube import conditions
from trimtab.kube.resources import untyped
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.wire.statuses import Refusal, refusal

JSON = dict[str, Any]


def manifest(app: str = "web", **spec: Any) -> JSON:
    """A budget for the pods of an app."""
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}


def owned(name: str, owner: JSON) -> JSON:
    """A pod that somebody controls."""
    references = [{**owner, "controller": True}]
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": references},
        "spec": template()["spec"],
    }


async def count_status(world: World) -> tuple[int, int, int, int]:
    """Expected, desired, healthy, allowed."""
    status = (await world.get(PodDisruptionBudget, "web")).status
    return status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed


async def verdict(world: World) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    found = conditions.find((await world.get(PodDisruptionBudget, "web")).status.conditions, "DisruptionAllowed")
    assert found is not None
    return found.status, found.reason, found.message


async def test_a_deployment_s_pods_are_counted(world: World) -> None:
    """Of all its ReplicaSets together, whatever happens to them."""
    await world.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await count_status(world) == (0, 0, 0, 0)
    assert await verdict(world) == ("False", "InsufficientPods", "")
    await world.create(Deployment, deployment_tree("web", 4))
    assert await count_status(world) == (4, 3, 0, 0)
    await world.run_pods()
    assert await count_status(world) == (4, 3, 4, 1)
    assert await verdict(world) == ("True", "SufficientPods", "")
    await world.run_pod((await world.pods())[0], ready=False)
    await world.settle()
    assert await count_status(world) == (4, 3, 3, 0)


async def test_scaling_is_seen_before_its_pods_are(world: World) -> None:
    """The owner's size is watched as well: pods may be seen before it, and would be count_status against the old one."""
    await world.create(Deployment, deployment_tree("web", 2))
    await world.run_pods()
    await world.create(PodDisruptionBudget, manifest(minAvailable="100%"))
    world.wire.hold("pods", "replicasets")
    await world.patch(Deployment, "web", {"spec": {"replicas": 10}})
    assert (await count_status(world))[:2] == (10, 10)
    world.wire.go_on()
    await world.settle()


@pytest.mark.parametrize(
    ("budget", "want"),
    [
        pytest.param({"minAvailable": 1}, (2, 1, 2, 1), id="bare pods count with a plain number"),
        pytest.param({"maxUnavailable": 1}, (0, 0, 2, 0), id="and for nothing with any other"),
    ],
)
async def test_bare_pods(world: World, budget: JSON, want: tuple[int, int, int, int]) -> None:
    """Nobody expects them; people are told where that matters."""
    for name in ("one", "two"):
        await world.create(Pod, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": template()["spec"]})
    await world.run_pods()
    await world.create(PodDisruptionBudget, manifest(**budget))
    assert await count_status(world) == want
    assert bool(await world.told("UnmanagedPods")) is ("maxUnavailable" in budget)


async def test_a_replicaset_without_a_deployment_counts_itself(world: World) -> None:
    """And a StatefulSet does too, though nobody here keeps its pods."""
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await world.create(ReplicaSet, {"metadata": {"name": "web"}, "spec": spec})
    made = await world.create(
        StatefulSet, {"metadata": {"name": "db"}, "spec": {**spec, "replicas": 5, "serviceName": "db"}}
    )
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": made.metadata.uid}
    await world.create(Pod, owned("db-0", owner))
    await world.run_pods()
    await world.create(PodDisruptionBudget, manifest(maxUnavailable="50%"))
    assert await count_status(world) == (8, 4, 4, 0)


async def test_an_owner_of_another_kind_is_asked_for_its_scale(world: World) -> None:
    """A custom kind with a scale subresource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
    }
    names = {"kind": "Fleet", "plural": "fleets", "singular": "fleet", "listKind": "FleetList"}
    definition = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await world.user.create(CustomResourceDefinition, {"metadata": {"name": "fleets.example.com"}, "spec": definition})
    await world.settle()
    fleets = untyped("example.com/v1", "Fleet", "fleets")
    body = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"size": 7}}
    made = await world.user.create(fleets, body, namespace="default")
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": made["metadata"]["uid"]}
    await world.create(Pod, owned("f-0", owner))
    await world.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert (await count_status(world))[:2] == (7, 6)


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x"},
            'no matches for kind "Thing" in version "example.com/v1"',
            id="a kind that is not served",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"},
            "configmaps does not implement the scale subresource",
            id="a kind without a scale",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone"},
            'found no controllers for pod "p"',
            id="an owner that is gone",
        ),
    ],
)
async def test_where_an_owner_cannot_be_counted_nothing_is_allowed(owner: JSON, message: str) -> None:
    """The reason stands in the condition and in an event."""
    world = World(collects=False)
    await world.start()
    await world.create(Pod, owned("p", {**owner, "uid": "nobody"}))
    await world.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await verdict(world) == ("False", "SyncFailed", message)
    (told,) = set(await world.told("CalculateExpectedPodCountFailed"))
    assert told.endswith(message)
    await world.close()


async def test_a_failing_server_allows_nothing_until_it_works() -> None:
    """It is tried again."""
    world = World(collects=False)
    await world.start()

    def refuse(request: Request) -> Refusal | None:
        return refusal(403, "not now") if request.path.endswith("/scale") else None

    world.wire.refuse = refuse
    gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "gone", "controller": True}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await world.create(ReplicaSet, {"metadata": {"name": "web", "ownerReferences": [gone]}, "spec": spec})
    await world.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await verdict(world) == ("False", "SyncFailed", "not now")
    world.wire.refuse = None
    await world.advance(10)
    assert (await count_status(world))[:2] == (2, 1)
    await world.close()


async def test_an_eviction_is_waited_for_and_then_forgotten(world: World) -> None:
    """A pod that may be evicted counts as gone for two minutes; then it counts again, and people are told."""
    await world.create(Deployment, deployment_tree("web", 3))
    await world.run_pods()
    await world.create(PodDisruptionBudget, manifest(minAvailable=1))
    victim = (await world.pods())[0].metadata.name
    noted = {victim: times.format_time(world.clock.now())}
    await world.user.patch(
        PodDisruptionBudget, "web", {"status": {"disruptedPods": noted}}, namespace="default", subresource="status"
    )
    await world.settle()
    assert await count_status(world) == (3, 1, 2, 1)
    await world.advance(125)
    assert await count_status(world) == (3, 1, 3, 2)
    assert (await world.get(PodDisruptionBudget, "web")).status.disrupted_pods == {}
    assert len(await world.told("NotDeleted")) == 1


async def test_a_budget_without_pods_says_so(world: World) -> None:
    """The selector may be misspelt."""
    await world.create(PodDisruptionBudget, manifest("nobody", minAvailable=1))
    assert set(await world.told("NoPods")) == {"No matching pods found"}


async def test_pods_that_change_their_labels_change_budgets(world: World) -> None:
    """Both the one that loses the pod and the one that gets it are count_status anew."""
    await world.create(Pod, {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": template()["spec"]})
    await world.create(PodDisruptionBudget, manifest(minAvailable=0))
    assert (await count_status(world))[0] == 1
    await world.patch(Pod, "p", {"metadata": {"labels": {"app": "other"}}})
    assert (await count_status(world))[0] == 0
