"""The ReplicaSet controller, over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.lab.workloads.clusters import World
from tests.unit.lab.workloads.objects import template
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.pods import Pod
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.wire.statuses import Refusal, refusal
from trimtab_lab.workloads.options import Options

JSON = dict[str, Any]


def manifest(replicas: int = 3, **spec: Any) -> JSON:
    """A ReplicaSet called web."""
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }


def orphan(name: str, **labels: str) -> JSON:
    """A pod of nobody."""
    return {"metadata": {"name": name, "labels": labels}, "spec": template()["spec"]}


def is_pod_creation(request: Request) -> bool:
    """Whether a request creates a pod."""
    return request.method == "POST" and request.path.endswith("/pods")


def refusing(when: Callable[[int], bool]) -> Callable[[Request], Refusal | None]:
    """Refuses pods, by the number of the attempt, from 1 on."""
    attempts = 0

    def refuse(request: Request) -> Refusal | None:
        nonlocal attempts
        if not is_pod_creation(request):
            return None
        attempts += 1
        return refusal(403, "no more pods today") if when(attempts) else None

    return refuse


def creations(world: World) -> int:
    """How many pods the controllers have tried to create."""
    return sum(map(is_pod_creation, world.wire.requests))


def failures(world: World) -> list[tuple[str, str, int]]:
    """Every failure that was reported: its reason, its message, and how many pods had been tried until then."""
    found = []
    for number, request in enumerate(world.wire.requests):
        if request.method == "PATCH" and request.path.endswith("/status"):
            tried = sum(map(is_pod_creation, world.wire.requests[:number]))
            said = msgspec.json.decode(request.body or b"")["status"]["conditions"]
            found += [(each["reason"], each["message"], tried) for each in said]
    return found


async def names(world: World) -> set[str]:
    """The names of the pods that are there to stay."""
    return {pod.metadata.name for pod in await world.pods()}


# Making pods.


async def test_pods_are_made_from_the_whole_template(world: World) -> None:
    """Every field of the template is in the pod, also those that no type here knows; and its owner is named."""
    whole = template()
    whole["metadata"]["annotations"] = {"team": "a"}
    whole["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "red"}]
    await world.create(ReplicaSet, manifest(1, template=whole))
    (made,) = await world.pods()
    raw = await world.raw(Pod, made.metadata.name)
    assert made.metadata.name.startswith("web-")
    assert raw["metadata"]["annotations"] == {"team": "a"}
    assert raw["spec"]["containers"][0]["env"] == [{"name": "COLOUR", "value": "red"}]
    (owner,) = raw["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    assert await world.told("SuccessfulCreate") == [f"Created pod: {made.metadata.name}"]


async def test_the_status_follows_the_pods(world: World) -> None:
    """From nothing over pending to available, and what is going is counted apart."""
    await world.create(ReplicaSet, manifest(2))
    pending = (await world.get(ReplicaSet, "web")).status
    assert (pending.replicas, pending.fully_labeled_replicas, pending.ready_replicas) == (2, 2, 0)
    await world.run_pods()
    ready = (await world.get(ReplicaSet, "web")).status
    assert (ready.replicas, ready.ready_replicas, ready.available_replicas, ready.observed_generation) == (2, 2, 2, 1)
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    shrunk = (await world.get(ReplicaSet, "web")).status
    assert (shrunk.replicas, shrunk.terminating_replicas, shrunk.observed_generation) == (1, 1, 2)
    await world.run_pods()
    assert (await world.get(ReplicaSet, "web")).status.terminating_replicas == 0


async def test_what_always_fails_is_tried_once_at_a_time(world: World) -> None:
    """The first batch is one pod: where it fails the other 499 are not tried; a condition and an event tell why."""
    world.wire.refuse = refusing(lambda _: True)
    await world.create(ReplicaSet, manifest(500))
    assert failures(world)[0] == ("FailedCreate", "no more pods today", 1)
    assert creations(world) < 20
    (condition,) = (await world.get(ReplicaSet, "web")).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert set(await world.told("FailedCreate")) == {"Error creating: no more pods today"}


async def test_a_failing_batch_ends_the_attempt(world: World) -> None:
    """Batches of 1, 2 and 4: the fifth pod fails, the rest of its batch is made, the next batch is not begun."""
    world.wire.refuse = refusing(lambda attempt: attempt == 5)
    await world.create(ReplicaSet, manifest(100))
    assert failures(world) == [("FailedCreate", "no more pods today", 7)]
    assert creations(world) == 101
    assert len(await world.pods()) == 100
    assert (await world.get(ReplicaSet, "web")).status.conditions == ()


async def test_a_namespace_that_is_going_is_no_failure(world: World) -> None:
    """Its refusals are not told, not retried, and stand in no condition."""
    cause = {"reason": "NamespaceTerminating", "message": "namespace default is being terminated"}
    gone = refusal(403, "it is being terminated", details={"causes": [cause]})
    world.wire.refuse = lambda request: gone if is_pod_creation(request) else None
    await world.create(ReplicaSet, manifest(3))
    await world.patch(ReplicaSet, "web", {"metadata": {"labels": {"look": "again"}}})
    assert creations(world) == 3
    assert (await world.get(ReplicaSet, "web")).status.conditions == ()
    assert await world.told("FailedCreate") == []


async def test_nothing_is_made_twice_while_it_is_not_seen() -> None:
    """The watch of pods lags: however often the ReplicaSet is looked at, it has what it has made."""
    world = World()
    await world.start()
    world.wire.hold("pods")
    await world.create(ReplicaSet, manifest(3))
    for step in range(3):
        await world.patch(ReplicaSet, "web", {"metadata": {"labels": {"step": str(step)}}})
    assert creations(world) == 3
    world.wire.go_on()
    await world.settle()
    assert creations(world) == 3
    assert (await world.get(ReplicaSet, "web")).status.replicas == 3
    await world.close()


async def test_a_burst_is_all_that_is_made_at_once() -> None:
    """The rest is made when the first ones have been seen."""
    world = World(options=Options(burst_replicas=5))
    await world.start()
    world.wire.hold("pods")
    await world.create(ReplicaSet, manifest(12))
    assert creations(world) == 5
    world.wire.go_on()
    await world.settle()
    assert creations(world) == 12
    await world.close()


async def test_a_pod_that_ends_is_replaced(world: World) -> None:
    """One that failed does not count any more; it stays for people to look at."""
    await world.create(ReplicaSet, manifest(2))
    first = (await world.pods())[0].metadata.name
    failed = {"status": {"phase": "Failed"}}
    await world.user.patch(Pod, first, failed, namespace="default", subresource="status")
    await world.settle()
    assert len(await world.pods()) == 2
    assert len(await world.all(Pod)) == 3


# Adoption.


async def test_an_orphan_that_matches_is_adopted(world: World) -> None:
    """It counts as one of the wanted ones."""
    await world.create(Pod, orphan("stray", app="web"))
    await world.create(ReplicaSet, manifest(2))
    assert "stray" in await names(world)
    assert len(await names(world)) == 2
    owner = (await world.get(Pod, "stray")).metadata.controller
    assert owner is not None
    assert owner.name == "web"


async def test_a_pod_with_other_labels_is_let_go(world: World) -> None:
    """It is nobody's then, and another one is made in its place; with its labels back it is one too many."""
    await world.create(ReplicaSet, manifest(2))
    await world.run_pods()
    first = (await world.pods())[0].metadata.name
    await world.patch(Pod, first, {"metadata": {"labels": {"app": "debug"}}})
    assert (await world.get(Pod, first)).metadata.controller is None
    assert len(await world.pods()) == 3
    await world.patch(Pod, first, {"metadata": {"labels": {"app": "web"}}})
    assert len(await world.pods()) == 2


async def test_the_dead_adopt_nothing(world: World) -> None:
    """A ReplicaSet that is gone, while its controller has not seen it, must not take anything with it."""
    await world.create(ReplicaSet, manifest(0))
    world.wire.hold("replicasets")
    await world.user.delete(ReplicaSet, "web", namespace="default")
    await world.create(Pod, orphan("stray", app="web"))
    assert (await world.get(Pod, "stray")).metadata.owner_references == ()
    world.wire.go_on()
    await world.settle()
    assert "stray" in await names(world)


async def test_others_pods_are_left_alone(world: World) -> None:
    """A selector that matches the pods of another workload makes nobody lose them."""
    await world.create(ReplicaSet, manifest(2))
    before = await names(world)
    other = manifest(1)
    other["metadata"]["name"] = "other"
    await world.create(ReplicaSet, other)
    assert before < await names(world)
    assert (await world.get(ReplicaSet, "web")).status.replicas == 2


# Availability.


async def test_a_pod_becomes_available_by_time_alone(world: World) -> None:
    """Nothing happens but that time passes, and the status tells."""
    await world.create(ReplicaSet, manifest(2, minReadySeconds=30))
    first, second = await world.pods()
    await world.run_pod(first)
    await world.advance(20)
    await world.run_pod(second)
    await world.advance(5)
    status = (await world.get(ReplicaSet, "web")).status
    assert (status.ready_replicas, status.available_replicas) == (2, 0)
    await world.advance(10)
    assert (await world.get(ReplicaSet, "web")).status.available_replicas == 1
    await world.advance(20)
    assert (await world.get(ReplicaSet, "web")).status.available_replicas == 2


# Deleting pods.


async def test_pods_that_are_not_ready_go_first(world: World) -> None:
    """In the order of Kubernetes, each by its UID, and events name them."""
    await world.create(ReplicaSet, manifest(4))
    before = await world.pods()
    for pod in before[:2]:
        await world.run_pod(pod)
    await world.settle()
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 2}})
    assert await names(world) == {pod.metadata.name for pod in before[:2]}
    deletions = [msgspec.json.decode(r.body or b"{}") for r in world.wire.requests if r.method == "DELETE"]
    assert {body["preconditions"]["uid"] for body in deletions} == {pod.metadata.uid for pod in before[2:]}
    assert set(await world.told("SuccessfulDelete")) == {f"Deleted pod: {pod.metadata.name}" for pod in before[2:]}


async def test_the_cost_decides_unless_the_gate_is_off() -> None:
    """Both ways, over the wire."""
    for gated, survivor in ((True, "dear"), (False, None)):
        world = World(options=Options(pod_deletion_cost=gated))
        await world.start()
        await world.create(Pod, orphan("dear", app="web"))
        await world.create(ReplicaSet, manifest(2))
        await world.run_pods()
        await world.patch(
            Pod, "dear", {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}}}
        )
        young = next(iter(await names(world) - {"dear"}))
        later = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        await world.user.patch(
            Pod, young, {"status": {"conditions": [later]}}, namespace="default", subresource="status"
        )
        await world.settle()
        await world.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
        assert await names(world) == {survivor or young}
        await world.close()


async def test_the_ages_of_victims_are_measured(world: World) -> None:
    """The histogram has the name that operators know, and counts victims that their age decided about."""
    await world.create(ReplicaSet, manifest(1))
    await world.run_pods()
    await world.advance(100)
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 2}})
    await world.run_pods()
    await world.advance(10)
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    name = "replicaset_controller_sorting_deletion_age_ratio"
    assert world.registry.get_sample_value(f"{name}_count") == 1
    assert world.registry.get_sample_value(f"{name}_sum") == 1.0
    assert world.registry.get_sample_value(f"{name}_bucket", {"le": "1.0"}) == 1


async def test_a_deletion_that_fails_is_tried_again(world: World) -> None:
    """The pod is not expected to go, so that nobody waits for it; and the failure is told until it works."""
    await world.create(ReplicaSet, manifest(2))
    await world.run_pods()
    tried: list[Request] = []

    def refuse(request: Request) -> Refusal | None:
        if request.method != "DELETE" or tried:
            return None
        tried.append(request)
        return refusal(403, "not this one")

    world.wire.refuse = refuse
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    assert failures(world) == [("FailedDelete", "not this one", 2)]
    assert len(await world.pods()) == 1
    assert await world.told("FailedDelete") == ["Error deleting: not this one"]
    assert (await world.get(ReplicaSet, "web")).status.conditions == ()


async def test_a_replicaset_that_is_going_makes_nothing(world: World) -> None:
    """Its pods are the garbage collector's business."""
    made = manifest(2)
    made["metadata"]["finalizers"] = ["example.com/wait"]
    await world.create(ReplicaSet, made)
    await world.user.delete(ReplicaSet, "web", namespace="default")
    await world.settle()
    victim = (await world.pods())[0]
    await world.end(victim)
    await world.settle()
    assert len(await world.pods()) == 1
    assert (await world.get(ReplicaSet, "web")).status.replicas == 1


async def test_a_successor_of_the_same_name_starts_anew(world: World) -> None:
    """What was expected of a ReplicaSet that is gone is not expected of the next one, and its pods find a new owner."""
    world.wire.hold("pods")
    await world.create(ReplicaSet, manifest(2))
    world.wire.hold("replicasets")
    await world.user.delete(ReplicaSet, "web", namespace="default", propagation="Orphan")
    await world.create(ReplicaSet, manifest(3))
    world.wire.go_on("replicasets")
    await world.settle()
    assert creations(world) == 5
    world.wire.go_on("pods")
    await world.settle()
    assert len(await world.pods()) == 3
    assert (await world.get(ReplicaSet, "web")).status.replicas == 3


async def test_siblings_crowd_a_node() -> None:
    """Pods of all ReplicaSets of one owner count: the older pod goes, because a sibling's pod is on its node."""
    world = World(collects=False)
    await world.start()
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "x", "controller": True}
    for name, replicas in (("web", 2), ("sibling", 1)):
        made = manifest(replicas, template=template(app=name), selector={"matchLabels": {"app": name}})
        made["metadata"] |= {"name": name, "ownerReferences": [owner]}
        await world.create(ReplicaSet, made)
    crowded, lonely = (pod for pod in await world.pods() if pod.metadata.labels["app"] == "web")
    (sibling,) = (pod for pod in await world.pods() if pod.metadata.labels["app"] == "sibling")
    for pod, node in ((crowded, "a"), (sibling, "a"), (lonely, "b")):
        await world.user.bind(pod.metadata.name, namespace="default", node=node)
        await world.run_pod(await world.get(Pod, pod.metadata.name))
        await world.advance(1000)
    await world.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    assert await names(world) == {lonely.metadata.name, sibling.metadata.name}
    await world.close()


# ReplicationControllers.


async def test_a_replication_controller_is_a_replicaset_of_older_days(world: World) -> None:
    """The same loop; its selector is a plain map, and its status knows no pods that are going."""
    spec = {"replicas": 2, "selector": {"app": "web"}, "template": template()}
    await world.create(ReplicationController, {"metadata": {"name": "web"}, "spec": spec})
    await world.run_pods()
    status = (await world.raw(ReplicationController, "web"))["status"]
    assert {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}.items() <= status.items()
    assert "terminatingReplicas" not in status
    await world.patch(ReplicationController, "web", {"spec": {"replicas": 1}})
    assert len(await world.pods()) == 1
    (owner,) = (await world.raw(Pod, (await world.pods())[0].metadata.name))["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")


@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_workloads_of_all_namespaces_are_kept(world: World, namespace: str) -> None:
    """And a pod of one is none of the other's."""
    if namespace != "default":
        await world.user.create(Namespace, {"metadata": {"name": namespace}})
        await world.settle()
    await world.user.create(ReplicaSet, manifest(2), namespace=namespace)
    await world.settle()
    found = (await world.user.list(Pod)).items
    assert [pod.metadata.namespace for pod in found] == [namespace] * 2
