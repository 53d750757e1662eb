"""Ranks of an external component, delivered as deletion costs on scale-downs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.unit.scaledown.policy_cluster import POLICIES, template
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import ALPHA_COST, OPT_OUT
from trimtab.api.apps import ReplicaSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec, WhenUnranked
from trimtab.kube.resources import Resource
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults

COSTS = Resource.of(PodGroupCost).raw


@pytest.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Two zones, and a default policy that keeps workloads level."""
    made = ScaleCluster()
    await made.start()
    await made.add_zones(a=3, b=3)
    yield made
    await made.close()


def configured(**spec: Any) -> Defaults:
    """A default policy with these fields."""
    return Defaults(policies=(DefaultPolicy("everyone", ScaleDownPolicySpec(**spec)),))


async def names(cluster: ScaleCluster) -> list[str]:
    """The pods by name."""
    return sorted(pod.metadata.name for pod in await cluster.pods())


async def rank(cluster: ScaleCluster, owner: dict[str, str], costs: Mapping[str, int], name: str = "ranks") -> None:
    """Write a PodGroupCost, as an external component does."""
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "PodGroupCost"}
    body = {**kind, "metadata": {"name": name}, "spec": {"owner": owner, "costs": dict(costs)}}
    await cluster.user.create(COSTS, body, namespace="default")
    await cluster.settle()


async def annotate(cluster: ScaleCluster, ranks: Mapping[str, int]) -> None:
    """Write the cost proposal's annotation, as an external component does."""
    for name, value in ranks.items():
        await cluster.user.patch(
            Pod, name, {"metadata": {"annotations": {ALPHA_COST: str(value)}}}, namespace="default"
        )
    await cluster.settle()


def warnings(cluster: ScaleCluster) -> list[str]:
    """The warnings of all answers."""
    return [warning for answer in cluster.answers for warning in answer]


async def zone_of(cluster: ScaleCluster, zone: str) -> list[str]:
    """The pods in a zone."""
    return [pod.metadata.name for pod in await cluster.pods() if pod.spec.node_name.startswith(zone)]


async def test_ranks_in_annotations_win_over_the_default_policy(cluster: ScaleCluster) -> None:
    """Although the zones are not level then; no cost is left afterwards."""
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    await annotate(cluster, {name: int(name not in busy) for name in await names(cluster)})
    await cluster.scale(3)
    await cluster.advance(3)
    assert await names(cluster) == sorted(busy)
    assert await cluster.costs() == []
    (warning,) = warnings(cluster)
    assert "explicit ranks chose" in warning


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
async def test_a_pod_group_cost_may_name_the_deployment_or_its_replica_set(cluster: ScaleCluster, kind: str) -> None:
    """The pods are the same."""
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    (replica_set,) = (await cluster.user.list(ReplicaSet, namespace="default")).items
    owner = {"kind": kind, "name": "web" if kind == "Deployment" else replica_set.metadata.name}
    await rank(cluster, owner, {name: int(name not in busy) for name in await names(cluster)})
    await cluster.scale(3)
    assert await names(cluster) == sorted(busy)


async def test_ranks_of_a_replication_controller(cluster: ScaleCluster) -> None:
    """The example of the proposal, on a controller that reads deletion costs alone."""
    spec = {"replicas": 6, "selector": {"app": "web"}, "template": template(app="web")}
    await cluster.create(ReplicationController, {"metadata": {"name": "web"}, "spec": spec})
    await cluster.run_pods()
    busy = await zone_of(cluster, "a")
    owner = {"kind": "ReplicationController", "name": "web"}
    await rank(cluster, owner, {name: int(name not in busy) for name in await names(cluster)})
    await cluster.scale(3, kind=ReplicationController)
    assert await names(cluster) == sorted(busy)


async def test_one_unranked_pod_means_the_controllers_own_order() -> None:
    """For the whole group, and the user is told which pod it is."""
    cluster = ScaleCluster(defaults=configured(when_unranked=WhenUnranked(action="Fallback")))
    await cluster.start()
    await cluster.add_zones(a=3, b=3)
    await cluster.deploy(6)
    first, *others = await names(cluster)
    await annotate(cluster, dict.fromkeys(others, 1))
    await cluster.scale(3)
    gap, warning = warnings(cluster)
    assert gap == f"1 of 6 pods have no rank by the annotation {ALPHA_COST}: {first}"
    assert "the controller's own order decides" in warning
    assert cluster.count("fallbacks_total", reason="unranked") == 1
    assert cluster.writes() == []
    await cluster.close()


async def test_a_missing_rank_is_waited_for(cluster: ScaleCluster) -> None:
    """As the default policy says, within the budget of the request."""
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    ranks = {name: int(name not in busy) for name in await names(cluster)}
    late = busy[0]
    await annotate(cluster, {name: value for name, value in ranks.items() if name != late})

    async def rank_late() -> None:
        await cluster.clock.sleep(0.3)
        await cluster.user.patch(Pod, late, {"metadata": {"annotations": {ALPHA_COST: "0"}}}, namespace="default")

    ranking = asyncio.ensure_future(rank_late())
    assert await cluster.scale(3) > 0.3
    await ranking
    assert await names(cluster) == sorted(busy)


async def test_of_two_pod_group_costs_none_counts(cluster: ScaleCluster) -> None:
    """They are not chosen from by name: the default policy keeps the zones level, and the user is told."""
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    ranks = {name: int(name not in busy) for name in await names(cluster)}
    await rank(cluster, {"kind": "Deployment", "name": "web"}, ranks, "aaa")
    await rank(cluster, {"kind": "Deployment", "name": "web"}, {name: -value for name, value in ranks.items()}, "bbb")
    await cluster.scale(4)
    assert await cluster.spread() == (2, 2)
    assert warnings(cluster)[-1] == "PodGroupCosts aaa, bbb rank the same pods, so none of them counts; keep one"


async def test_a_scale_down_policy_wins_over_explicit_ranks(cluster: ScaleCluster) -> None:
    """Somebody wrote it for these pods."""
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    await annotate(cluster, {name: int(name not in busy) for name in await names(cluster)})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": target}}
    await cluster.user.create(POLICIES, body, namespace="default")
    await cluster.settle()
    await cluster.scale(4)
    assert await cluster.spread() == (2, 2)


async def test_a_default_policy_that_observes_plans_by_explicit_ranks_and_writes_nothing(cluster: ScaleCluster) -> None:
    """The record names the pods that would have been deleted."""
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: "observe"}}})
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    ranks = {name: int(name not in busy) for name in await names(cluster)}
    await annotate(cluster, ranks)
    await cluster.scale(3)
    await cluster.advance(3)
    assert cluster.writes() == []
    assert not any(cluster.answers)
    (record,) = cluster.holder.history.records()
    assert sorted(record.victims) == sorted(name for name, value in ranks.items() if value)
    assert record.outcome == "observed"


async def test_another_carrier_of_the_default_policy_does_not_matter() -> None:
    """Explicit ranks are always delivered as deletion costs, which every controller reads."""
    cluster = ScaleCluster(defaults=configured(carrier="PodGroupCost"))
    await cluster.start()
    await cluster.add_zones(a=3, b=3)
    await cluster.deploy(6)
    busy = await zone_of(cluster, "a")
    await annotate(cluster, {name: int(name not in busy) for name in await names(cluster)})
    await cluster.scale(3)
    assert await names(cluster) == sorted(busy)
    await cluster.close()


async def test_without_any_policy_nothing_is_delivered() -> None:
    """But several PodGroupCosts are reported all the same."""
    cluster = ScaleCluster(defaults=Defaults())
    await cluster.start()
    await cluster.add_zones(a=3, b=3)
    await cluster.deploy(6)
    for name in ("aaa", "bbb"):
        await rank(cluster, {"kind": "Deployment", "name": "web"}, {}, name)
    await cluster.scale(3)
    assert cluster.writes() == []
    assert warnings(cluster) == ["PodGroupCosts aaa, bbb rank the same pods, so none of them counts; keep one"]
    await cluster.close()


@pytest.mark.parametrize("has_policy", [True, False], ids=["a policy applies", "the default policy observes"])
async def test_rival_objects_are_no_warning_where_ranks_do_not_count(has_policy: bool) -> None:
    """Under a policy its status reports them; a policy that observes warns nobody."""
    cluster = ScaleCluster(defaults=configured(mode="Enforce" if has_policy else "Observe"))
    await cluster.start()
    await cluster.add_zones(a=3, b=3)
    await cluster.deploy(6)
    for name in ("aaa", "bbb"):
        await rank(cluster, {"kind": "Deployment", "name": "web"}, {}, name)
    if has_policy:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
        body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": reference}}
        await cluster.user.create(POLICIES, body, namespace="default")
        await cluster.advance(31)
    await cluster.scale(3)
    assert [warning for warning in warnings(cluster) if "PodGroupCost" in warning] == []
    await cluster.close()
