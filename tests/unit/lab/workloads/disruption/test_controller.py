"""The controller of disruption budgets, over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.objects import deployment_tree, template
from trimtab.api import times
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.kube import conditions
from trimtab.kube.resources import untyped
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.testing import InMemoryLab

JSON = dict[str, Any]


def manifest(app: str = "web", **spec: Any) -> JSON:
    """A budget for the pods of an app."""
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}


def owned(name: str, owner: JSON) -> JSON:
    """A pod with a controller."""
    references = [{**owner, "controller": True}]
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": references},
        "spec": template()["spec"],
    }


async def counts(lab: InMemoryLab) -> tuple[int, int, int, int]:
    """Expected, desired, healthy, allowed."""
    status = (await lab.get(PodDisruptionBudget, "web")).status
    return status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed


async def verdict(lab: InMemoryLab) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    found = conditions.find((await lab.get(PodDisruptionBudget, "web")).status.conditions, "DisruptionAllowed")
    assert found is not None
    return found.status, found.reason, found.message


async def test_a_deployment_s_pods_are_counted(lab: InMemoryLab) -> None:
    """Of all its ReplicaSets together, whatever happens to them."""
    await lab.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await counts(lab) == (0, 0, 0, 0)
    assert await verdict(lab) == ("False", "InsufficientPods", "")
    await lab.create(Deployment, deployment_tree("web", 4))
    assert await counts(lab) == (4, 3, 0, 0)
    await lab.run_pods()
    assert await counts(lab) == (4, 3, 4, 1)
    assert await verdict(lab) == ("True", "SufficientPods", "")
    await lab.run_pod((await lab.pods())[0], ready=False)
    await lab.settle()
    assert await counts(lab) == (4, 3, 3, 0)


async def test_scaling_is_seen_before_its_pods_are(lab: InMemoryLab) -> None:
    """The owner's size is watched as well: pods may be seen before it, and would be counted against the old one."""
    await lab.create(Deployment, deployment_tree("web", 2))
    await lab.run_pods()
    await lab.create(PodDisruptionBudget, manifest(minAvailable="100%"))
    lab.wire.hold("pods", "replicasets")
    await lab.patch(Deployment, "web", {"spec": {"replicas": 10}})
    assert (await counts(lab))[:2] == (10, 10)
    lab.wire.resume()
    await lab.settle()


@pytest.mark.parametrize(
    ("budget", "want"),
    [
        pytest.param({"minAvailable": 1}, (2, 1, 2, 1), id="bare pods count with a plain number"),
        pytest.param({"maxUnavailable": 1}, (0, 0, 2, 0), id="and for nothing with any other"),
    ],
)
async def test_bare_pods(lab: InMemoryLab, budget: JSON, want: tuple[int, int, int, int]) -> None:
    """They are not expected; an event reports it where that matters."""
    for name in ("one", "two"):
        await lab.create(Pod, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": template()["spec"]})
    await lab.run_pods()
    await lab.create(PodDisruptionBudget, manifest(**budget))
    assert await counts(lab) == want
    assert bool(await lab.event_messages("UnmanagedPods")) is ("maxUnavailable" in budget)


async def test_a_replicaset_without_a_deployment_counts_itself(lab: InMemoryLab) -> None:
    """Also a StatefulSet, whose pods no controller here keeps."""
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await lab.create(ReplicaSet, {"metadata": {"name": "web"}, "spec": spec})
    made = await lab.create(
        StatefulSet, {"metadata": {"name": "db"}, "spec": {**spec, "replicas": 5, "serviceName": "db"}}
    )
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": made.metadata.uid}
    await lab.create(Pod, owned("db-0", owner))
    await lab.run_pods()
    await lab.create(PodDisruptionBudget, manifest(maxUnavailable="50%"))
    assert await counts(lab) == (8, 4, 4, 0)


async def test_an_owner_of_another_kind_is_asked_for_its_scale(lab: InMemoryLab) -> None:
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
    await lab.user.create(CustomResourceDefinition, {"metadata": {"name": "fleets.example.com"}, "spec": definition})
    await lab.settle()
    fleets = untyped("example.com/v1", "Fleet", "fleets")
    body = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"size": 7}}
    made = await lab.user.create(fleets, body, namespace="default")
    owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": made["metadata"]["uid"]}
    await lab.create(Pod, owned("f-0", owner))
    await lab.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert (await counts(lab))[:2] == (7, 6)


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
    lab = InMemoryLab(collects=False)
    await lab.start()
    await lab.create(Pod, owned("p", {**owner, "uid": "nobody"}))
    await lab.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await verdict(lab) == ("False", "SyncFailed", message)
    (told,) = set(await lab.event_messages("CalculateExpectedPodCountFailed"))
    assert told.endswith(message)
    await lab.close()


async def test_a_failing_server_allows_nothing_until_it_works() -> None:
    """It is tried again."""
    lab = InMemoryLab(collects=False)
    await lab.start()

    def refuse(request: Request) -> StatusError | None:
        return status_error(403, "not now") if request.path.endswith("/scale") else None

    lab.wire.refuse = refuse
    gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone", "uid": "gone", "controller": True}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await lab.create(ReplicaSet, {"metadata": {"name": "web", "ownerReferences": [gone]}, "spec": spec})
    await lab.create(PodDisruptionBudget, manifest(maxUnavailable=1))
    assert await verdict(lab) == ("False", "SyncFailed", "not now")
    lab.wire.refuse = None
    await lab.advance(10)
    assert (await counts(lab))[:2] == (2, 1)
    await lab.close()


async def test_an_eviction_is_waited_for_and_then_forgotten(lab: InMemoryLab) -> None:
    """An evicted pod counts as gone for two minutes; then it counts again, with an event."""
    await lab.create(Deployment, deployment_tree("web", 3))
    await lab.run_pods()
    await lab.create(PodDisruptionBudget, manifest(minAvailable=1))
    victim = (await lab.pods())[0].metadata.name
    noted = {victim: times.format_time(lab.clock.now())}
    await lab.user.patch(
        PodDisruptionBudget, "web", {"status": {"disruptedPods": noted}}, namespace="default", subresource="status"
    )
    await lab.settle()
    assert await counts(lab) == (3, 1, 2, 1)
    await lab.advance(125)
    assert await counts(lab) == (3, 1, 3, 2)
    assert (await lab.get(PodDisruptionBudget, "web")).status.disrupted_pods == {}
    assert len(await lab.event_messages("NotDeleted")) == 1


async def test_a_budget_without_pods_is_reported(lab: InMemoryLab) -> None:
    """The selector may be misspelt."""
    await lab.create(PodDisruptionBudget, manifest("nobody", minAvailable=1))
    assert set(await lab.event_messages("NoPods")) == {"No matching pods found"}


async def test_pods_that_change_their_labels_change_budgets(lab: InMemoryLab) -> None:
    """Both the one that loses the pod and the one that gets it are counted anew."""
    await lab.create(Pod, {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": template()["spec"]})
    await lab.create(PodDisruptionBudget, manifest(minAvailable=0))
    assert (await counts(lab))[0] == 1
    await lab.patch(Pod, "p", {"metadata": {"labels": {"app": "other"}}})
    assert (await counts(lab))[0] == 0
