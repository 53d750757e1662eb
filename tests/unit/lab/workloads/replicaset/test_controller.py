"""The ReplicaSet controller, over the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.lab.workloads.objects import template
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.pods import Pod
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.testing import InMemoryLab
from trimtab_lab.workloads.options import Options

JSON = dict[str, Any]


def manifest(replicas: int = 3, **spec: Any) -> JSON:
    """A ReplicaSet called web."""
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }


def orphan(name: str, **labels: str) -> JSON:
    """A pod without an owner."""
    return {"metadata": {"name": name, "labels": labels}, "spec": template()["spec"]}


def is_pod_creation(request: Request) -> bool:
    """Whether a request creates a pod."""
    return request.method == "POST" and request.path.endswith("/pods")


def refusing(when: Callable[[int], bool]) -> Callable[[Request], StatusError | None]:
    """Refuses pods, by the number of the attempt, from 1 on."""
    attempts = 0

    def refuse(request: Request) -> StatusError | None:
        nonlocal attempts
        if not is_pod_creation(request):
            return None
        attempts += 1
        return status_error(403, "no more pods today") if when(attempts) else None

    return refuse


def creations(lab: InMemoryLab) -> int:
    """How many pods the controllers have tried to create."""
    return sum(map(is_pod_creation, lab.wire.requests))


def failures(lab: InMemoryLab) -> list[tuple[str, str, int]]:
    """Every failure that was reported: its reason, its message, and how many pods had been tried until then."""
    found = []
    for number, request in enumerate(lab.wire.requests):
        if request.method == "PATCH" and request.path.endswith("/status"):
            tried = sum(map(is_pod_creation, lab.wire.requests[:number]))
            said = msgspec.json.decode(request.body or b"")["status"]["conditions"]
            found += [(each["reason"], each["message"], tried) for each in said]
    return found


async def names(lab: InMemoryLab) -> set[str]:
    """The names of the pods that are there to stay."""
    return {pod.metadata.name for pod in await lab.pods()}


# Making pods.


async def test_pods_are_made_from_the_whole_template(lab: InMemoryLab) -> None:
    """Every field of the template is in the pod, also those that no type here knows; and its owner is named."""
    whole = template()
    whole["metadata"]["annotations"] = {"team": "a"}
    whole["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "red"}]
    await lab.create(ReplicaSet, manifest(1, template=whole))
    (made,) = await lab.pods()
    raw = await lab.raw(Pod, made.metadata.name)
    assert made.metadata.name.startswith("web-")
    assert raw["metadata"]["annotations"] == {"team": "a"}
    assert raw["spec"]["containers"][0]["env"] == [{"name": "COLOUR", "value": "red"}]
    (owner,) = raw["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    assert await lab.event_messages("SuccessfulCreate") == [f"Created pod: {made.metadata.name}"]


async def test_the_status_follows_the_pods(lab: InMemoryLab) -> None:
    """From nothing over pending to available, and what is going is counted apart."""
    await lab.create(ReplicaSet, manifest(2))
    pending = (await lab.get(ReplicaSet, "web")).status
    assert (pending.replicas, pending.fully_labeled_replicas, pending.ready_replicas) == (2, 2, 0)
    await lab.run_pods()
    ready = (await lab.get(ReplicaSet, "web")).status
    assert (ready.replicas, ready.ready_replicas, ready.available_replicas, ready.observed_generation) == (2, 2, 2, 1)
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    shrunk = (await lab.get(ReplicaSet, "web")).status
    assert (shrunk.replicas, shrunk.terminating_replicas, shrunk.observed_generation) == (1, 1, 2)
    await lab.run_pods()
    assert (await lab.get(ReplicaSet, "web")).status.terminating_replicas == 0


async def test_what_always_fails_is_tried_once_at_a_time(lab: InMemoryLab) -> None:
    """The first batch is one pod: if it fails the other 499 are not tried; a condition and an event report it."""
    lab.wire.refuse = refusing(lambda _: True)
    await lab.create(ReplicaSet, manifest(500))
    assert failures(lab)[0] == ("FailedCreate", "no more pods today", 1)
    assert creations(lab) < 20
    (condition,) = (await lab.get(ReplicaSet, "web")).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    assert set(await lab.event_messages("FailedCreate")) == {"Error creating: no more pods today"}


async def test_a_failing_batch_ends_the_attempt(lab: InMemoryLab) -> None:
    """Batches of 1, 2 and 4: the fifth pod fails, the rest of its batch is made, the next batch is not begun."""
    lab.wire.refuse = refusing(lambda attempt: attempt == 5)
    await lab.create(ReplicaSet, manifest(100))
    assert failures(lab) == [("FailedCreate", "no more pods today", 7)]
    assert creations(lab) == 101
    assert len(await lab.pods()) == 100
    assert (await lab.get(ReplicaSet, "web")).status.conditions == ()


async def test_a_terminating_namespace_is_not_a_failure(lab: InMemoryLab) -> None:
    """Its refusals are not reported, not retried, and not in any condition."""
    cause = {"reason": "NamespaceTerminating", "message": "namespace default is being terminated"}
    gone = status_error(403, "it is being terminated", details={"causes": [cause]})
    lab.wire.refuse = lambda request: gone if is_pod_creation(request) else None
    await lab.create(ReplicaSet, manifest(3))
    await lab.patch(ReplicaSet, "web", {"metadata": {"labels": {"look": "again"}}})
    assert creations(lab) == 3
    assert (await lab.get(ReplicaSet, "web")).status.conditions == ()
    assert await lab.event_messages("FailedCreate") == []


async def test_nothing_is_made_twice_while_it_is_not_seen() -> None:
    """The watch of pods lags: however often the ReplicaSet is reconciled, it creates its pods once."""
    lab = InMemoryLab()
    await lab.start()
    lab.wire.hold("pods")
    await lab.create(ReplicaSet, manifest(3))
    for step in range(3):
        await lab.patch(ReplicaSet, "web", {"metadata": {"labels": {"step": str(step)}}})
    assert creations(lab) == 3
    lab.wire.resume()
    await lab.settle()
    assert creations(lab) == 3
    assert (await lab.get(ReplicaSet, "web")).status.replicas == 3
    await lab.close()


async def test_a_burst_is_all_that_is_made_at_once() -> None:
    """The rest is made when the first ones have been seen."""
    lab = InMemoryLab(options=Options(burst_replicas=5))
    await lab.start()
    lab.wire.hold("pods")
    await lab.create(ReplicaSet, manifest(12))
    assert creations(lab) == 5
    lab.wire.resume()
    await lab.settle()
    assert creations(lab) == 12
    await lab.close()


async def test_a_pod_that_ends_is_replaced(lab: InMemoryLab) -> None:
    """One that failed does not count any more; it stays for people to look at."""
    await lab.create(ReplicaSet, manifest(2))
    first = (await lab.pods())[0].metadata.name
    failed = {"status": {"phase": "Failed"}}
    await lab.user.patch(Pod, first, failed, namespace="default", subresource="status")
    await lab.settle()
    assert len(await lab.pods()) == 2
    assert len(await lab.all(Pod)) == 3


# Adoption.


async def test_an_orphan_that_matches_is_adopted(lab: InMemoryLab) -> None:
    """It counts as one of the wanted ones."""
    await lab.create(Pod, orphan("stray", app="web"))
    await lab.create(ReplicaSet, manifest(2))
    assert "stray" in await names(lab)
    assert len(await names(lab)) == 2
    owner = (await lab.get(Pod, "stray")).metadata.controller
    assert owner is not None
    assert owner.name == "web"


async def test_a_pod_with_other_labels_is_released(lab: InMemoryLab) -> None:
    """It has no owner then, and is replaced; with its labels restored there is one too many."""
    await lab.create(ReplicaSet, manifest(2))
    await lab.run_pods()
    first = (await lab.pods())[0].metadata.name
    await lab.patch(Pod, first, {"metadata": {"labels": {"app": "debug"}}})
    assert (await lab.get(Pod, first)).metadata.controller is None
    assert len(await lab.pods()) == 3
    await lab.patch(Pod, first, {"metadata": {"labels": {"app": "web"}}})
    assert len(await lab.pods()) == 2


async def test_the_dead_adopt_nothing(lab: InMemoryLab) -> None:
    """A ReplicaSet that is gone, while its controller has not seen it, must not take anything with it."""
    await lab.create(ReplicaSet, manifest(0))
    lab.wire.hold("replicasets")
    await lab.user.delete(ReplicaSet, "web", namespace="default")
    await lab.create(Pod, orphan("stray", app="web"))
    assert (await lab.get(Pod, "stray")).metadata.owner_references == ()
    lab.wire.resume()
    await lab.settle()
    assert "stray" in await names(lab)


async def test_pods_of_other_owners_are_not_touched(lab: InMemoryLab) -> None:
    """A selector that matches the pods of another workload does not take them."""
    await lab.create(ReplicaSet, manifest(2))
    before = await names(lab)
    other = manifest(1)
    other["metadata"]["name"] = "other"
    await lab.create(ReplicaSet, other)
    assert before < await names(lab)
    assert (await lab.get(ReplicaSet, "web")).status.replicas == 2


# Availability.


async def test_a_pod_becomes_available_by_time_alone(lab: InMemoryLab) -> None:
    """By the passing of time alone; the status shows it."""
    await lab.create(ReplicaSet, manifest(2, minReadySeconds=30))
    first, second = await lab.pods()
    await lab.run_pod(first)
    await lab.advance(20)
    await lab.run_pod(second)
    await lab.advance(5)
    status = (await lab.get(ReplicaSet, "web")).status
    assert (status.ready_replicas, status.available_replicas) == (2, 0)
    await lab.advance(10)
    assert (await lab.get(ReplicaSet, "web")).status.available_replicas == 1
    await lab.advance(20)
    assert (await lab.get(ReplicaSet, "web")).status.available_replicas == 2


# Deleting pods.


async def test_pods_that_are_not_ready_go_first(lab: InMemoryLab) -> None:
    """In the order of Kubernetes, each by its UID, and events name them."""
    await lab.create(ReplicaSet, manifest(4))
    before = await lab.pods()
    for pod in before[:2]:
        await lab.run_pod(pod)
    await lab.settle()
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 2}})
    assert await names(lab) == {pod.metadata.name for pod in before[:2]}
    deletions = [msgspec.json.decode(r.body or b"{}") for r in lab.wire.requests if r.method == "DELETE"]
    assert {body["preconditions"]["uid"] for body in deletions} == {pod.metadata.uid for pod in before[2:]}
    assert set(await lab.event_messages("SuccessfulDelete")) == {
        f"Deleted pod: {pod.metadata.name}" for pod in before[2:]
    }


async def test_the_cost_decides_unless_the_gate_is_off() -> None:
    """Both ways, over the wire."""
    for gated, survivor in ((True, "dear"), (False, None)):
        lab = InMemoryLab(options=Options(pod_deletion_cost=gated))
        await lab.start()
        await lab.create(Pod, orphan("dear", app="web"))
        await lab.create(ReplicaSet, manifest(2))
        await lab.run_pods()
        await lab.patch(Pod, "dear", {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}}})
        young = next(iter(await names(lab) - {"dear"}))
        later = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
        await lab.user.patch(Pod, young, {"status": {"conditions": [later]}}, namespace="default", subresource="status")
        await lab.settle()
        await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
        assert await names(lab) == {survivor or young}
        await lab.close()


async def test_the_ages_of_victims_are_measured(lab: InMemoryLab) -> None:
    """The histogram has the name that operators know, and counts victims that their age decided about."""
    await lab.create(ReplicaSet, manifest(1))
    await lab.run_pods()
    await lab.advance(100)
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 2}})
    await lab.run_pods()
    await lab.advance(10)
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    name = "replicaset_controller_sorting_deletion_age_ratio"
    assert lab.registry.get_sample_value(f"{name}_count") == 1
    assert lab.registry.get_sample_value(f"{name}_sum") == 1.0
    assert lab.registry.get_sample_value(f"{name}_bucket", {"le": "1.0"}) == 1


async def test_only_pods_that_were_deleted_count(lab: InMemoryLab) -> None:
    """A refused deletion is retried: each attempt would look like a runaway scale-down."""

    def count() -> float | None:
        return lab.registry.get_sample_value("trimtab_lab_pods_deleted_total", {"kind": "ReplicaSet"})

    await lab.create(ReplicaSet, manifest(3))
    await lab.run_pods()
    lab.wire.refuse = lambda request: status_error(403, "protected") if request.method == "DELETE" else None
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    await lab.advance(30)
    assert not count()
    lab.wire.refuse = None
    await lab.advance(60)
    assert count() == 2


async def test_a_deletion_that_fails_is_tried_again(lab: InMemoryLab) -> None:
    """The deletion is not expected any more; the failure is reported until it succeeds."""
    await lab.create(ReplicaSet, manifest(2))
    await lab.run_pods()
    tried: list[Request] = []

    def refuse(request: Request) -> StatusError | None:
        if request.method != "DELETE" or tried:
            return None
        tried.append(request)
        return status_error(403, "not this one")

    lab.wire.refuse = refuse
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    assert failures(lab) == [("FailedDelete", "not this one", 2)]
    assert len(await lab.pods()) == 1
    assert await lab.event_messages("FailedDelete") == ["Error deleting: not this one"]
    assert (await lab.get(ReplicaSet, "web")).status.conditions == ()


async def test_a_replicaset_being_deleted_creates_nothing(lab: InMemoryLab) -> None:
    """Its pods are the garbage collector's business."""
    made = manifest(2)
    made["metadata"]["finalizers"] = ["example.com/wait"]
    await lab.create(ReplicaSet, made)
    await lab.user.delete(ReplicaSet, "web", namespace="default")
    await lab.settle()
    victim = (await lab.pods())[0]
    await lab.end(victim)
    await lab.settle()
    assert len(await lab.pods()) == 1
    assert (await lab.get(ReplicaSet, "web")).status.replicas == 1


async def test_a_successor_of_the_same_name_starts_anew(lab: InMemoryLab) -> None:
    """What was expected of a ReplicaSet that is gone is not expected of the next one, and its pods find a new owner."""
    lab.wire.hold("pods")
    await lab.create(ReplicaSet, manifest(2))
    lab.wire.hold("replicasets")
    await lab.user.delete(ReplicaSet, "web", namespace="default", propagation="Orphan")
    await lab.create(ReplicaSet, manifest(3))
    lab.wire.resume("replicasets")
    await lab.settle()
    assert creations(lab) == 5
    lab.wire.resume("pods")
    await lab.settle()
    assert len(await lab.pods()) == 3
    assert (await lab.get(ReplicaSet, "web")).status.replicas == 3


async def test_siblings_crowd_a_node() -> None:
    """Pods of all ReplicaSets of one owner count: the older pod goes, because a sibling's pod is on its node."""
    lab = InMemoryLab(collects=False)
    await lab.start()
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "x", "controller": True}
    for name, replicas in (("web", 2), ("sibling", 1)):
        made = manifest(replicas, template=template(app=name), selector={"matchLabels": {"app": name}})
        made["metadata"] |= {"name": name, "ownerReferences": [owner]}
        await lab.create(ReplicaSet, made)
    crowded, lonely = (pod for pod in await lab.pods() if pod.metadata.labels["app"] == "web")
    (sibling,) = (pod for pod in await lab.pods() if pod.metadata.labels["app"] == "sibling")
    for pod, node in ((crowded, "a"), (sibling, "a"), (lonely, "b")):
        await lab.user.bind(pod.metadata.name, namespace="default", node=node)
        await lab.run_pod(await lab.get(Pod, pod.metadata.name))
        await lab.advance(1000)
    await lab.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
    assert await names(lab) == {lonely.metadata.name, sibling.metadata.name}
    await lab.close()


# ReplicationControllers.


async def test_a_replication_controller_is_a_replicaset_of_older_days(lab: InMemoryLab) -> None:
    """The same loop; its selector is a plain map, and its status knows no pods that are going."""
    spec = {"replicas": 2, "selector": {"app": "web"}, "template": template()}
    await lab.create(ReplicationController, {"metadata": {"name": "web"}, "spec": spec})
    await lab.run_pods()
    status = (await lab.raw(ReplicationController, "web"))["status"]
    assert {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}.items() <= status.items()
    assert "terminatingReplicas" not in status
    await lab.patch(ReplicationController, "web", {"spec": {"replicas": 1}})
    assert len(await lab.pods()) == 1
    (owner,) = (await lab.raw(Pod, (await lab.pods())[0].metadata.name))["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")


@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_workloads_of_all_namespaces_are_kept(lab: InMemoryLab, namespace: str) -> None:
    """And a pod of one is none of the other's."""
    if namespace != "default":
        await lab.user.create(Namespace, {"metadata": {"name": namespace}})
        await lab.settle()
    await lab.user.create(ReplicaSet, manifest(2), namespace=namespace)
    await lab.settle()
    found = (await lab.user.list(Pod)).items
    assert [pod.metadata.namespace for pod in found] == [namespace] * 2
