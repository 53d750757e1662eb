"""PodGroupCosts beside those of a policy, and several for one workload: reported, and never obeyed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.unit.scaledown.policy_cluster import PolicyCluster, target, template
from trimtab.api import codec
from trimtab.api.annotations import ALPHA_COST, FIELD_MANAGER, POLICY_COST, policy_cost_annotation
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec, WhenUnranked
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.continuous.group_costs import GroupCosts
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults
from trimtab.scaledown.policy.findings import WITH_POD_COST
from trimtab.scaledown.policy.groups import GroupOwner

RAW_COSTS = Resource.of(PodGroupCost).raw
KIND = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
CLONESET = target("web", "CloneSet", KIND["apiVersion"])


@pytest.fixture
async def cluster() -> AsyncIterator[PolicyCluster]:
    """A CloneSet of three pods, whose controller reads PodGroupCosts."""
    made = PolicyCluster()
    made.readers = WITH_POD_COST
    await made.start()
    await made.add_nodes("node-0", "node-1", "node-2", zone="z")
    labels = {"app": "web"}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template(**labels)}
    body = {**KIND, "metadata": {"name": "web"}, "spec": spec}
    owner = await made.user.create(Resource.of(CloneSet).raw, body, namespace="default")
    uid = owner["metadata"]["uid"]
    reference = {**CLONESET, "uid": uid, "controller": True}
    for number in range(3):
        pod = {"name": f"web-{number}", "labels": labels, "ownerReferences": [reference]}
        await made.user.create(Resource.of(Pod).raw, {**template(), "metadata": pod}, namespace="default")
    await made.run_pods()
    await made.look()
    yield made
    await made.close()


async def rank(
    cluster: PolicyCluster, name: str, costs: Mapping[str, int], owner: dict[str, str] | None = None
) -> None:
    """Write a PodGroupCost, as another component does; reconciled."""
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost"}
    body = {**kind, "metadata": {"name": name}, "spec": {"owner": owner or CLONESET, "costs": dict(costs)}}
    await cluster.user.create(RAW_COSTS, body, namespace="default")
    await cluster.look()


async def govern(cluster: PolicyCluster, **spec: Any) -> None:
    """A policy that writes PodGroupCosts at all times."""
    whole = {"carrier": "PodGroupCost", "strategies": [{"name": "Youngest"}], "delivery": "Continuous", **spec}
    await cluster.policy(targetRef=CLONESET, **whole)


async def test_a_rival_of_a_policys_object_raises_a_condition_and_an_event(cluster: PolicyCluster) -> None:
    """The experiment: an editor creates `aaa` with the reversed costs."""
    await govern(cluster)
    assert await cluster.condition("RivalCosts") is None
    await rank(cluster, "aaa", {"web-0": 3, "web-1": 2, "web-2": 1})
    found = await cluster.condition("RivalCosts")
    assert found is not None
    assert (found.status, found.reason) == ("True", "RivalCosts")
    assert found.message.startswith("PodGroupCost aaa for CloneSet web: these ranks of other writers do not count")
    ready = await cluster.condition()
    assert ready is not None
    assert ready.status == "True", "the policy's own object counts"
    message = "PodGroupCost aaa does not count: ScaleDownPolicy default/web ranks these pods; delete it"
    assert cluster.events == [("CloneSet web", "RivalCosts", message)]
    assert cluster.sample("rival_costs") == 1
    await cluster.user.delete(RAW_COSTS, "aaa", namespace="default")
    await cluster.look()
    assert await cluster.condition("RivalCosts") is None
    assert cluster.sample("rival_costs") == 0
    assert len(cluster.events) == 1


async def test_a_rival_that_has_the_name_of_the_policys_object_keeps_it_from_working(cluster: PolicyCluster) -> None:
    """It is not overwritten, and the policy says what to do."""
    await rank(cluster, "cloneset-web", {"web-0": 3})
    await govern(cluster)
    ready = await cluster.condition()
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "RivalCosts")
    assert "delete it" in ready.message
    await cluster.user.delete(RAW_COSTS, "cloneset-web", namespace="default")
    await cluster.look()
    ready = await cluster.condition()
    assert ready is not None
    assert ready.status == "True"
    (written,) = (await cluster.user.list(PodGroupCost, namespace="default")).items
    assert POLICY_COST in written.metadata.annotations


async def test_a_rival_of_the_deployment_is_one_of_its_replica_sets(cluster: PolicyCluster) -> None:
    """A policy for a Deployment, and an object that names the Deployment."""
    await cluster.deploy(2, "api")
    await cluster.policy("api", targetRef=target("api"))
    await rank(cluster, "ranks", {}, target("api"))
    found = await cluster.condition("RivalCosts", "api")
    assert found is not None
    assert "PodGroupCost ranks for Deployment api" in found.message
    assert [event[0] for event in cluster.events] == ["Deployment api"]


async def test_annotated_ranks_that_a_policy_ignores_are_reported(cluster: PolicyCluster) -> None:
    """Not without a word."""
    await govern(cluster)
    await cluster.user.patch(Pod, "web-0", {"metadata": {"annotations": {ALPHA_COST: "9"}}}, namespace="default")
    await cluster.look()
    found = await cluster.condition("RivalCosts")
    assert found is not None
    assert f"{ALPHA_COST} of 1 pods" in found.message


async def test_a_policy_that_observes_has_no_rivals(cluster: PolicyCluster) -> None:
    """It ranks nothing itself; several objects are several all the same."""
    await govern(cluster, mode="Observe")
    await rank(cluster, "aaa", {"web-0": 3})
    assert await cluster.condition("RivalCosts") is None
    assert cluster.events == []
    await rank(cluster, "bbb", {"web-0": 3})
    assert [event[1] for event in cluster.events] == ["RivalCosts"]


async def test_several_objects_without_a_policy_are_reported_and_one_is_not(cluster: PolicyCluster) -> None:
    """By an event that names both, and by the metric."""
    await rank(cluster, "bbb", {"web-0": 3})
    assert (cluster.events, cluster.sample("rival_costs")) == ([], 0)
    await rank(cluster, "aaa", {"web-0": 1})
    message = "PodGroupCosts aaa, bbb rank the same pods, so none of them counts; keep one"
    assert cluster.events == [("CloneSet web", "RivalCosts", message)]
    assert cluster.sample("rival_costs") == 2


async def test_a_workload_that_has_gone_has_no_rivals(cluster: PolicyCluster) -> None:
    """The metric is about what is there."""
    for name in ("aaa", "bbb"):
        await rank(cluster, name, {"web-0": 3})
    await cluster.user.delete(CloneSet, "web", namespace="default")
    await cluster.look()
    assert cluster.sample("rival_costs") == 0


async def test_an_edited_object_of_a_policy_is_written_again(cluster: PolicyCluster) -> None:
    """It is deleted first: after an update the other writer would stay the manager of what it had written."""
    await govern(cluster)
    (before,) = (await cluster.user.list(RAW_COSTS, namespace="default")).items
    entries = [{"manager": name, "fieldsV1": {"f:spec": {}}} for name in (FIELD_MANAGER, "kubectl-edit")]
    edited = codec.convert({**before, "metadata": {**before["metadata"], "managedFields": entries}}, PodGroupCost)
    owner = GroupOwner(CLONESET["apiVersion"], "CloneSet", "default", "web", "")
    writer = GroupCosts(cluster.user, TokenBucket(10.0, 10, cluster.clock))
    await writer.write(owner, "ScaleDownPolicy default/web", edited.spec.costs, edited, CarrierReport())
    await cluster.look()
    (after,) = (await cluster.user.list(RAW_COSTS, namespace="default")).items
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"] == before["spec"]


# Costs that are kept current by a default policy.


def kept_current(**spec: Any) -> Defaults:
    """A default policy that keeps costs current."""
    return Defaults(policies=(DefaultPolicy("everyone", ScaleDownPolicySpec(delivery="Continuous", **spec)),))


async def test_explicit_ranks_are_kept_current_as_deletion_costs(cluster: PolicyCluster) -> None:
    """In place of the ranks of the default policy, whatever its carrier; and as they change."""
    cluster.controller.configure(kept_current(carrier="AlphaAnnotation"))
    await rank(cluster, "ranks", {"web-0": 30, "web-1": 20, "web-2": 10})
    found = await cluster.costs()
    assert sorted(found, key=lambda name: found[name]) == ["web-0", "web-1", "web-2"]
    assert await cluster.costs(ALPHA_COST) == {}
    change = {"spec": {"costs": {"web-0": 1}}}
    await cluster.user.patch(RAW_COSTS, "ranks", change, namespace="default")
    await cluster.look()
    found = await cluster.costs()
    assert sorted(found, key=lambda name: found[name]) == ["web-1", "web-2", "web-0"]
    marks = [policy_cost_annotation(pod.metadata.annotations) for pod in await cluster.pods()]
    assert {mark.carrier for mark in marks if mark is not None} == {Carrier.ANNOTATION}


async def test_a_change_of_an_annotated_rank_is_followed(cluster: PolicyCluster) -> None:
    """Pods are requeued by it."""
    cluster.controller.configure(kept_current())
    for number in range(3):
        patch = {"metadata": {"annotations": {ALPHA_COST: str(number)}}}
        await cluster.user.patch(Pod, f"web-{number}", patch, namespace="default")
    await cluster.look()
    found = await cluster.costs()
    assert sorted(found, key=lambda name: found[name]) == ["web-2", "web-1", "web-0"]
    await cluster.user.patch(Pod, "web-0", {"metadata": {"annotations": {ALPHA_COST: "9"}}}, namespace="default")
    await cluster.look()
    found = await cluster.costs()
    assert min(found, key=lambda name: found[name]) == "web-0"


async def test_with_one_rank_missing_no_costs_are_kept(cluster: PolicyCluster) -> None:
    """The controller's own order decides for the group."""
    cluster.controller.configure(kept_current(when_unranked=WhenUnranked(action="Fallback")))
    await rank(cluster, "ranks", {"web-0": 30, "web-1": 20, "web-2": 10})
    assert len(await cluster.costs()) == 3
    await cluster.user.patch(RAW_COSTS, "ranks", {"spec": {"costs": {"web-1": None}}}, namespace="default")
    await cluster.look()
    assert await cluster.costs() == {}
