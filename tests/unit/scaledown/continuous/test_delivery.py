"""Costs kept current, with as few writes as can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, failure
from tests.unit.scaledown.executors import LateExecutor
from tests.unit.scaledown.policy_cluster import POLICIES, PolicyCluster, target, template
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    OPT_OUT,
    POLICY_COST,
    STATED_COST,
    policy_cost_annotation,
)
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Resource
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.transport import Request
from trimtab.ranking.costs import Band, Level
from trimtab.scaledown.continuous import assessor
from trimtab.scaledown.continuous.assessment import Assessment
from trimtab.scaledown.continuous.assessor import Assess
from trimtab.scaledown.continuous.delivery import SETTINGS, Bands, Continuous, no_bands
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.requests import ScaleDownRequest
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, NO_DEFAULTS, DefaultPolicy, Defaults
from trimtab.scaledown.policy.groups import Group, GroupKey, Groups
from trimtab.scaledown.sources.targets import sources_for
from trimtab.scaledown.view import View
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
from trimtab_lab.testing.labs import JSON

BALANCE = [{"name": "Balance"}]


async def balanced(cluster: PolicyCluster, replicas: int = 6, **spec: Any) -> None:
    """A Deployment whose costs are kept current."""
    await cluster.deploy(replicas)
    await cluster.policy(**{"strategies": BALANCE, "delivery": "Continuous", **spec})


async def test_costs_follow_the_policy(cluster: PolicyCluster) -> None:
    """The youngest of the fullest zone costs least: 4 pods in zone a, 2 in zone b."""
    await balanced(cluster)
    assert sorted((await cluster.costs()).values()) == [-4, -3, -2, -2, -1, -1]


async def test_costs_stay_until_policies_have_synced(cluster: PolicyCluster) -> None:
    """A new leader whose list of policies is late reverts nothing, and writes nothing."""
    await balanced(cluster)
    before = await cluster.costs()
    await cluster.stop_policies()

    def refuse(request: Request) -> Exception | None:
        return status_error(500, "etcd is away") if "/scaledownpolicies" in request.path else None

    await cluster.start_policies(refuse=refuse)
    await cluster.look()
    assert not cluster.view.synced
    assert [problem for problem in cluster.view.problems if "etcd is away" in problem]
    assert cluster.writes() == []
    cluster.product.refuse = None
    await cluster.advance(60)
    await cluster.look()
    assert cluster.view.problems == []
    assert cluster.writes() == []
    assert await cluster.costs() == before


async def test_costs_of_clonesets_stay_until_clonesets_have_synced(cluster: PolicyCluster) -> None:
    """Pods whose owner has not been seen yet are not taken for strays."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "own"}}, "template": template(app="own")}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    await cluster.create(CloneSet, {**kind, "metadata": {"name": "own"}, "spec": spec})
    uid = (await cluster.get(CloneSet, "own")).metadata.uid
    owner = {**kind, "name": "own", "uid": uid, "controller": True}
    for name in ("own-1", "own-2"):
        metadata = {"name": name, "labels": {"app": "own"}, "ownerReferences": [owner]}
        body = {"metadata": metadata, "spec": template()["spec"]}
        await cluster.user.create(Resource.of(Pod).raw, body, namespace="default")
    await cluster.run_pods()
    await cluster.policy(targetRef=target("own", "CloneSet", "apps.kruise.io/v1alpha1"), delivery="Continuous")
    before = await cluster.costs()
    assert len(before) == 2
    await cluster.stop_policies()
    await cluster.start_policies(
        refuse=lambda request: status_error(500, "etcd is away") if "/clonesets" in request.path else None
    )
    await cluster.look()
    assert cluster.writes() == []
    assert await cluster.costs() == before


async def test_without_the_kind_there_are_no_policies(cluster: PolicyCluster) -> None:
    """The API server answers that the kind is not installed: costs that are left are reverted."""
    await balanced(cluster)
    await cluster.stop_policies()
    await cluster.start_policies(
        refuse=lambda request: status_error(404, "not found") if "/scaledownpolicies" in request.path else None
    )
    await cluster.look()
    assert cluster.view.synced
    assert cluster.view.problems == []
    assert await cluster.costs() == {}


async def test_the_age_of_ranks_is_reported(cluster: PolicyCluster) -> None:
    """At most as long as the next look is away; nothing, where none are kept."""
    await balanced(cluster)
    await cluster.advance(250)
    assert 200 < cluster.sample("oldest_ranks_seconds") < 300
    await cluster.advance(100)
    assert cluster.sample("oldest_ranks_seconds") < 100
    await cluster.drop_policy()
    assert cluster.sample("oldest_ranks_seconds") == 0


async def test_a_scale_down_leaves_the_zones_level(cluster: PolicyCluster) -> None:
    """By what the ReplicaSet controller makes of the costs, one at a time and several at once."""
    await balanced(cluster, 9)
    for size, wanted in ((8, {"a": 5, "b": 3}), (6, {"a": 3, "b": 3}), (3, {"a": 1, "b": 2}), (2, {"a": 1, "b": 1})):
        await cluster.scale(size)
        found = await cluster.zones()
        assert (sum(found.values()), max(found.values()) - min(found.values())) == (
            size,
            max(wanted.values()) - min(wanted.values()),
        )


async def test_a_policy_without_strategies_keeps_zones_level(cluster: PolicyCluster) -> None:
    """At every size."""
    await cluster.deploy(9)
    await cluster.policy(delivery="Continuous")
    for size in (6, 4, 2):
        await cluster.scale(size)
        assert await cluster.zones() == {"a": size // 2, "b": size // 2}


async def test_a_new_pod_is_the_only_one_written_to(cluster: PolicyCluster) -> None:
    """Strategies that need no recomputation change no other cost: one pod more, one write."""
    await balanced(cluster, 8)
    before = await cluster.costs()
    cluster.product.requests.clear()
    await cluster.scale(9)
    await cluster.look()
    assert len(cluster.writes()) == 1
    after = await cluster.costs()
    assert {name: after[name] for name in before} == before


async def test_pods_deleted_in_order_cause_no_write(cluster: PolicyCluster) -> None:
    """The remaining pods keep their costs."""
    await balanced(cluster, 9)
    cluster.product.requests.clear()
    await cluster.scale(5)
    await cluster.look()
    assert cluster.writes() == []


async def test_a_pod_deleted_out_of_order_changes_only_costs_behind_it(cluster: PolicyCluster) -> None:
    """And its replacement gets a cost: no pod of the other zone is written to."""
    await balanced(cluster, 9)
    pods = sorted(await cluster.pods(), key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.uid))
    first = next(pod for pod in pods if pod.spec.node_name == "b1")
    behind = [pod for pod in pods if pod.spec.node_name == "b1" and pod is not first]
    cluster.product.requests.clear()
    cluster.place_on("b1")
    await cluster.user.delete(Pod, first.metadata.name, namespace="default")
    await cluster.settle()
    await cluster.run_pods()
    await cluster.look()
    written = {request.path.rpartition("/")[2] for request in cluster.writes()}
    others = {pod.metadata.name for pod in pods} - {pod.metadata.name for pod in behind}
    assert written & others == set()
    assert len(cluster.writes()) <= len(behind) + 1


async def test_an_hour_without_changes_is_an_hour_without_writes(cluster: PolicyCluster) -> None:
    """Whatever is requeued in between."""
    await balanced(cluster)
    cluster.product.requests.clear()
    for _ in range(12):
        await cluster.advance(300)
    assert [request for request in cluster.product.requests if request.method != "GET"] == []


async def test_a_policy_that_delivers_on_intent_writes_to_no_pod(cluster: PolicyCluster) -> None:
    """An hour of idling, and pods that come and go."""
    await cluster.deploy(6)
    await cluster.policy(strategies=BALANCE)
    await cluster.scale(9)
    for _ in range(12):
        await cluster.advance(300)
    assert cluster.writes() == []
    assert (await cluster.status()).status.ranked_pods == 9


async def test_events_within_a_batch_cause_one_reconcile(cluster: PolicyCluster) -> None:
    """Nine pods that start together are ranked together."""
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    looks: list[int] = []
    ranking = cluster.controller.continuous.assessor
    prepare = ranking.prepare

    def counted(group: Group, pods: Sequence[Pod]) -> Assess:
        looks.append(len(pods))
        return prepare(group, pods)

    ranking.prepare = counted  # type: ignore[method-assign]
    await cluster.deploy(9)
    await cluster.look()
    assert len(await cluster.costs()) == 9
    assert len(looks) < 9


async def test_writes_are_limited(cluster: PolicyCluster) -> None:
    """So many at once, then so many a second, for all groups together."""
    await cluster.stop_policies()
    cluster.settings = type(cluster.settings)(rate=1.0, burst=2)
    await cluster.start_policies()
    await balanced(cluster, 9)
    first = len(cluster.writes())
    assert first <= 7
    await cluster.advance(2.0)
    assert len(cluster.writes()) <= first + 3
    await cluster.advance(20)
    assert len(await cluster.costs()) == 9


async def test_a_changed_zone_of_a_node_changes_costs(cluster: PolicyCluster) -> None:
    """Zone b gets a second node with three pods: its first three cost what those of zone a cost, the others less."""
    await balanced(cluster, 9)
    await move_node(cluster)
    await cluster.look()
    await costs_follow_the_moved_node(cluster)


async def test_a_zone_that_changes_while_the_first_costs_are_written_changes_them(cluster: PolicyCluster) -> None:
    """Although the group is not reconciled yet."""
    await cluster.stop_policies()
    cluster.settings = type(cluster.settings)(rate=1.0, burst=2)
    await cluster.start_policies()
    await balanced(cluster, 9)
    assert 0 < len(await cluster.costs()) < 9
    await move_node(cluster)
    await cluster.advance(60)
    await costs_follow_the_moved_node(cluster)


async def move_node(cluster: PolicyCluster) -> None:
    """Label the node a2 as one of zone b."""
    await cluster.user.patch(Node, "a2", {"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}})


async def costs_follow_the_moved_node(cluster: PolicyCluster) -> None:
    """Each zone costs by itself: three pods in zone a, six in zone b."""
    by_node = {pod.metadata.name: pod.spec.node_name for pod in await cluster.pods()}
    costs = await cluster.costs()
    alone = sorted(cost for name, cost in costs.items() if by_node[name] == "a1")
    crowded = sorted(cost for name, cost in costs.items() if by_node[name] != "a1")
    assert (len(set(alone)), len(set(crowded))) == (3, 6)
    assert crowded[3:] == alone


async def test_a_foreign_cost_stays(cluster: PolicyCluster) -> None:
    """The other pods are ranked around it, and the policy reports it."""
    await cluster.deploy(6)
    name = (await cluster.pods())[0].metadata.name
    await cluster.patch(Pod, name, {"metadata": {"annotations": {DELETION_COST: "77"}}})
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    assert (await cluster.costs())[name] == 77
    assert POLICY_COST not in (await cluster.get(Pod, name)).metadata.annotations
    ready = await cluster.condition()
    assert ready is not None
    assert "1 pods keep costs of other programs" in ready.message
    await cluster.drop_policy()
    assert await cluster.costs() == {name: 77}


async def test_a_cost_that_another_program_changes_is_foreign(cluster: PolicyCluster) -> None:
    """Our annotation is removed, the foreign cost stays."""
    await balanced(cluster)
    name = (await cluster.pods())[0].metadata.name
    await cluster.patch(Pod, name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await cluster.look()
    found = (await cluster.get(Pod, name)).metadata.annotations
    assert (found.get(DELETION_COST), POLICY_COST in found) == ("5", False)


async def test_costs_are_reverted_with_the_policy(cluster: PolicyCluster) -> None:
    """No annotation of ours is left, and there is no finalizer that could hang."""
    await balanced(cluster)
    assert (await cluster.status()).metadata.finalizers == ()
    await cluster.drop_policy()
    assert [pod.metadata.annotations for pod in await cluster.pods()] == [{}] * 6


@pytest.mark.parametrize("killed", [False, True])
async def test_costs_are_reverted_after_a_policy_was_deleted_during_downtime(
    cluster: PolicyCluster, killed: bool
) -> None:
    """The policy was deleted while nothing ran; the next start finds the annotations."""
    await balanced(cluster)
    await cluster.stop_policies(killed=killed)
    await cluster.user.delete(Resource.of(type(await cluster.status())).raw, "web", namespace="default")
    await cluster.start_policies()
    assert await cluster.costs() == {}


async def test_a_restart_writes_nothing(cluster: PolicyCluster) -> None:
    """What stands is right: costs are not reverted and written again."""
    await balanced(cluster)
    before = await cluster.costs()
    await cluster.stop_policies(killed=True)
    await cluster.start_policies()
    assert cluster.writes() == []
    assert await cluster.costs() == before


@pytest.mark.parametrize("at", range(1, 7))
async def test_a_crash_at_any_write_is_mended(cluster: PolicyCluster, at: int) -> None:
    """Killed after so many costs, the next process writes the rest and no more."""
    await cluster.deploy(6)
    count = 0

    def crash(request: Request) -> None:
        nonlocal count
        if request.method == "PATCH" and "/pods/" in request.path:
            count += 1
            cluster.product.dead = cluster.product.dead or count == at

    cluster.product.after = crash
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    await cluster.stop_policies(killed=True)
    assert len(await cluster.costs()) == at
    await cluster.start_policies()
    assert sorted((await cluster.costs()).values()) == [-4, -3, -2, -2, -1, -1]
    assert len(cluster.writes()) == 6 - at


async def test_a_change_to_on_scale_intent_reverts_costs(cluster: PolicyCluster) -> None:
    """What stands all the time is Continuous's alone."""
    await balanced(cluster)
    await cluster.user.patch(
        Resource.of(type(await cluster.status())).raw,
        "web",
        {"spec": {"delivery": "OnScaleIntent"}},
        namespace="default",
    )
    await cluster.look()
    assert await cluster.costs() == {}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(Deployment, {"metadata": {"annotations": {OPT_OUT: "disabled"}}}, id="by annotation"),
        pytest.param(Deployment, {"metadata": {"labels": {OPT_OUT: "disabled"}}}, id="by label"),
    ],
)
async def test_an_opt_out_reverts_costs(cluster: PolicyCluster, kind: type[Any], patch: JSON) -> None:
    """And the policy reports that it does not apply to the workload any more."""
    await balanced(cluster)
    await cluster.patch(kind, "web", patch)
    await cluster.look()
    assert await cluster.costs() == {}
    ready = await cluster.condition()
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "Disabled")
    assert "opts out with trimtab.dev/scale-down: disabled" in ready.message


async def test_a_namespace_opts_out(cluster: PolicyCluster) -> None:
    """For all its workloads, at once and back."""
    await balanced(cluster)
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: "disabled"}}})
    await cluster.look()
    assert await cluster.costs() == {}
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: None}}})
    await cluster.look()
    assert len(await cluster.costs()) == 6


async def test_disabling_scale_downs_reverts_all_costs(cluster: PolicyCluster) -> None:
    """And on again."""
    await balanced(cluster)
    cluster.controller.configure(Defaults(enabled=False))
    await cluster.look()
    assert await cluster.costs() == {}
    cluster.controller.configure(Defaults())
    await cluster.look()
    assert len(await cluster.costs()) == 6


async def test_a_default_policy_from_the_configuration_applies_to_all_workloads(cluster: PolicyCluster) -> None:
    """Without any object of ours in the cluster."""
    await cluster.stop_policies()
    cluster.defaults = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(delivery="Continuous")),))
    await cluster.start_policies()
    await cluster.deploy(6)
    await cluster.look()
    assert len(await cluster.costs()) == 6
    mark = policy_cost_annotation((await cluster.pods())[0].metadata.annotations)
    assert mark is not None
    assert mark.policy == 'the default policy "all"'


async def test_costs_of_pods_that_their_controller_released_are_reverted(cluster: PolicyCluster) -> None:
    """A pod whose label was changed has no controller, and keeps no cost of ours."""
    await balanced(cluster)
    name = (await cluster.pods())[0].metadata.name
    await cluster.patch(Pod, name, {"metadata": {"labels": {"app": "debugged"}}})
    await cluster.run_pods()
    await cluster.look()
    loose = await cluster.get(Pod, name)
    assert loose.metadata.controller is None
    assert loose.metadata.annotations == {}
    assert len(await cluster.costs()) == 6


async def held(cluster: PolicyCluster) -> HoldOutcome:
    """What comes of a request to shrink from 3 to 2, with a default policy."""
    client = Client(cluster.product, clock=cluster.clock)
    holder = ScaleDownHolder(client, cluster.view, defaults=LEVEL_EVERYONE)
    uid = (await cluster.get(Deployment, "web")).metadata.uid
    request = asyncio.ensure_future(holder.hold(ScaleDownRequest("Deployment", "default", "web", uid, 3, 2)))
    while not request.done():
        await cluster.clock.advance(0.1)
    return request.result().outcome


async def test_pods_that_two_workloads_select_are_not_ranked(cluster: PolicyCluster) -> None:
    """Nothing is written for pods that two workloads select, and both are named."""
    await cluster.deploy(3)
    rival: JSON = {
        "metadata": {"name": "rival"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    await cluster.create(ReplicaSet, rival)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    assert await cluster.costs() == {}
    ready, owners = await cluster.condition(), await cluster.condition("OverlappingSelectors")
    assert ready is not None
    assert owners is not None
    assert (ready.status, ready.reason) == ("False", "OverlappingSelectors")
    assert "Deployment web and ReplicaSet rival select the same pods" in owners.message
    assert await held(cluster) is HoldOutcome.CONFLICT
    await cluster.user.delete(ReplicaSet, "rival", namespace="default")
    await cluster.look()
    assert len(await cluster.costs()) == 3
    await cluster.drop_policy()
    assert await held(cluster) is not HoldOutcome.NO_POLICY


async def test_costs_stay_in_the_bands_of_subsets(cluster: PolicyCluster) -> None:
    """The subset's level decides the band, the policy moves inside, and what stood before comes back."""
    await cluster.deploy(3)
    pods = [pod.key for pod in await cluster.pods()]
    bands = {
        pods[0]: Band(Level.GUARANTEED, 0, 2),
        pods[1]: Band(Level.GUARANTEED, 1, 2),
        pods[2]: Band(Level.REDUNDANT, 0, 2),
    }
    for key, band in bands.items():
        written = {DELETION_COST: str(band.centre), "trimtab.dev/subset-cost": str(band.centre)}
        await cluster.patch(Pod, key.partition("/")[2], {"metadata": {"annotations": written}})
    await cluster.stop_policies()

    async def bands_of(kind: str, namespace: str, name: str, *, replicas: int | None = None) -> dict[str, Band]:
        del kind, namespace, name, replicas
        return bands

    cluster.bands = bands_of
    await cluster.start_policies()
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    costs = {f"default/{name}": cost for name, cost in (await cluster.costs()).items()}
    assert all(costs[key] in band and costs[key] != band.centre for key, band in bands.items())
    await cluster.drop_policy()
    costs = {f"default/{name}": cost for name, cost in (await cluster.costs()).items()}
    assert costs == {key: band.centre for key, band in bands.items()}


async def test_a_failed_write_is_reported_and_retried(cluster: PolicyCluster) -> None:
    """The status has the error until it is mended."""

    def refuse(request: Request) -> StatusError | None:
        forbidden = request.method == "PATCH" and "/pods/" in request.path
        return status_error(403, "not allowed to patch pods") if forbidden else None

    cluster.product.refuse = refuse
    await balanced(cluster)
    found = await cluster.status()
    assert "not allowed to patch pods" in found.status.last_error
    ready = await cluster.condition()
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "WriteFailed")
    cluster.product.refuse = None
    await cluster.advance(60)
    await cluster.look()
    assert len(await cluster.costs()) == 6
    assert (await cluster.status()).status.last_error == ""


async def test_namespaces_of_another_trimtab_are_skipped(cluster: PolicyCluster) -> None:
    """Neither are costs written there nor reverted, and policies there are not reported on."""
    await balanced(cluster)
    before = await cluster.costs()
    await cluster.stop_policies()
    cluster.defaults = Defaults(only=frozenset({"elsewhere"}))
    await cluster.start_policies()
    await cluster.scale(8)
    await cluster.advance(400)
    assert [request for request in cluster.product.requests if request.method != "GET"] == []
    assert await cluster.costs() == before


async def test_a_cost_that_its_subset_has_moved_is_replaced(cluster: PolicyCluster) -> None:
    """Ahead of a scale-down a subset may move a kept cost into another band: one write finds it there."""
    await balanced(cluster, 3)
    name = (await cluster.pods())[0].metadata.name
    moved = {DELETION_COST: "2000000", "trimtab.dev/subset-cost": "2000000"}
    await cluster.patch(Pod, name, {"metadata": {"annotations": moved}})
    cluster.product.requests.clear()
    await cluster.look()
    found = await cluster.get(Pod, name)
    assert found.metadata.annotations[DELETION_COST] != "2000000"
    assert policy_cost_annotation(found.metadata.annotations) is not None
    assert len(cluster.writes()) == 1


@pytest.mark.parametrize(
    ("kind", "api_version", "selector"),
    [
        pytest.param(ReplicaSet, "apps/v1", {"matchLabels": {"app": "own"}}, id="a ReplicaSet of its own"),
        pytest.param(ReplicationController, "v1", {"app": "own"}, id="a ReplicationController"),
    ],
)
async def test_other_workloads_are_ranked_too(
    cluster: PolicyCluster, kind: type[Any], api_version: str, selector: JSON
) -> None:
    """Whatever owns pods and chooses by cost, down to two zones with one pod each."""
    spec = {"replicas": 4, "selector": selector, "template": template(app="own")}
    await cluster.create(kind, {"metadata": {"name": "own"}, "spec": spec})
    await cluster.run_pods()
    await cluster.policy(targetRef=target("own", kind.__name__, api_version), delivery="Continuous")
    assert len(await cluster.costs()) == 4
    await cluster.user.resize(kind, "own", 2, namespace="default")
    await cluster.settle()
    await cluster.run_pods()
    assert await cluster.zones() == {"a": 1, "b": 1}


async def test_a_rollout_moves_costs_to_the_new_pods(cluster: PolicyCluster) -> None:
    """Each ReplicaSet is a group of its own; in the end the old one has nothing, and the new one everything."""
    await balanced(cluster, 4)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    await cluster.patch(Deployment, "web", image)
    for _ in range(4):
        await cluster.run_pods()
        await cluster.look()
    assert len({pod.metadata.labels["pod-template-hash"] for pod in await cluster.pods()}) == 1
    assert max((await cluster.costs()).values()) == -1
    assert len(await cluster.costs()) == 4
    assert (await cluster.status()).status.ranked_pods == 4


async def test_one_policy_applies_to_a_whole_namespace(cluster: PolicyCluster) -> None:
    """And each workload is ranked by itself."""
    await cluster.deploy(3)
    await cluster.deploy(3, name="api", labels={"app": "api"})
    await cluster.policy(selector={}, strategies=[{"name": "Youngest"}], delivery="Continuous")
    assert sorted((await cluster.costs()).values()) == [-3, -3, -2, -2, -1, -1]


async def test_a_process_that_stops_keeps_nothing(cluster: PolicyCluster) -> None:
    """The next leader does, and reports how old its ranks are."""
    await cluster.deploy(2)
    await cluster.policy(strategies=[{"name": "Balance"}], delivery="Continuous")
    await cluster.clock.advance(7)
    assert len(cluster.controller.continuous.kept) == 1
    assert cluster.sample("oldest_ranks_seconds") >= 7
    await cluster.stop_policies()
    assert cluster.controller.continuous.kept == set()
    assert cluster.sample("oldest_ranks_seconds") == 0


STATED: dict[str, Any] = {"strategies": [{"name": "Stated"}], "delivery": "Continuous"}
PATIENT: dict[str, Any] = {**STATED, "whenUnranked": {"action": "Wait", "timeoutSeconds": 60}}


async def state(cluster: PolicyCluster, *costs: str | None) -> None:
    """Let each pod state its cost, or none."""
    for each, cost in zip(await cluster.pods(), costs, strict=True):
        await cluster.patch(Pod, each.metadata.name, {"metadata": {"annotations": {STATED_COST: cost}}})
    await cluster.look()


def fallbacks(cluster: PolicyCluster) -> float:
    """How often a group has fallen back to its controller's own order."""
    return cluster.sample("fallbacks_total", reason="unranked")


async def test_missing_ranks_are_waited_for_anew_after_they_were_complete(cluster: PolicyCluster) -> None:
    """Until then the costs that pods have stay; then all are reverted, and that is counted once."""
    await cluster.deploy(2)
    await cluster.policy(**PATIENT)
    await cluster.advance(40)
    await state(cluster, "1", "2")
    assert len(await cluster.costs()) == 2
    await state(cluster, "1", None)
    await cluster.advance(40)
    assert (fallbacks(cluster), len(await cluster.costs())) == (0, 2)
    await cluster.advance(30)
    assert (fallbacks(cluster), len(await cluster.costs())) == (1, 0)
    await cluster.advance(120)
    assert fallbacks(cluster) == 1
    await state(cluster, "1", "2")
    await state(cluster, "1", None)
    await cluster.advance(70)
    assert fallbacks(cluster) == 2


async def test_missing_ranks_are_waited_for_anew_by_another_policy(cluster: PolicyCluster) -> None:
    """The time that an earlier one has waited does not count."""
    await cluster.deploy(2)
    await cluster.policy(**PATIENT)
    await cluster.advance(40)
    await cluster.drop_policy()
    await cluster.policy(**PATIENT)
    await cluster.advance(40)
    assert fallbacks(cluster) == 0
    await cluster.advance(30)
    assert fallbacks(cluster) == 1


async def test_a_strategy_that_cannot_work_is_not_waited_for(cluster: PolicyCluster) -> None:
    """Nobody will recompute its ranks: the costs of the strategies that it replaces are reverted at once."""
    await balanced(cluster)
    spec = {"strategies": [{"name": "AntiAffinity"}], "whenUnranked": {"action": "Wait", "timeoutSeconds": 600}}
    await cluster.user.patch(POLICIES, "web", {"spec": spec}, namespace="default")
    await cluster.look()
    assert (fallbacks(cluster), await cluster.costs()) == (1, {})


async def test_a_workload_that_is_gone_is_forgotten(cluster: PolicyCluster) -> None:
    """Its results, its costs, and for how long it had no ranks."""
    await cluster.deploy(2)
    await cluster.policy(**STATED)
    await state(cluster, "1", "2")
    continuous = cluster.controller.continuous
    assert (len(continuous.kept), len(continuous.results)) == (1, 1)
    await cluster.user.delete(Deployment, "web", namespace="default", propagation="Background")
    await cluster.look()
    await cluster.run_pods()
    await cluster.look()
    assert (continuous.kept, continuous.results) == (set(), {})
    assert cluster.sample("oldest_ranks_seconds") == 0


class Stage:
    """A controller whose pods state their costs, no lab, and reconciles one at a time."""

    KINDS: ClassVar[dict[str, tuple[str, str]]] = {
        "ReplicaSet": ("/apis/apps/v1", "replicasets"),
        "CloneSet": ("/apis/apps.kruise.io/v1alpha1", "clonesets"),
    }

    def __init__(self, kind: str = "ReplicaSet", bands: Bands = no_bands) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.view = View(Client(self.server, clock=self.clock))
        self.metrics = Metrics()
        self.reconciled: list[GroupKey] = []
        self.key = GroupKey(kind, "default", "web")
        client = Client(self.server, clock=self.clock).using(retry=NO_RETRIES)
        self.continuous = Continuous(
            *(client, self.view, Groups(self.view, NO_DEFAULTS)),
            sources_for(client, self.view, lambda: NO_DEFAULTS),
            bands=bands,
            metrics=self.metrics,
            on_reconciled=self.reconciled.append,
        )
        self.resize(2)
        self.watching = asyncio.ensure_future(self.view.run())

    def resize(self, size: int, name: str = "web") -> None:
        """Store a controller with this size."""
        root, plural = self.KINDS[self.key.kind]
        spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template(app=name)}
        self.server.put(root, plural, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def pod(self, name: str, stated: str | None = None, owner: str = "web", **annotations: str) -> None:
        """Store a pod of a controller with what it states, and further annotations."""
        root, plural = self.KINDS[self.key.kind]
        reference = {"apiVersion": root.removeprefix("/apis/"), "kind": self.key.kind, "name": owner}
        tree = pod(name).labels(app=owner).ready().annotations(annotations).tree()
        if stated is not None:
            tree["metadata"]["annotations"][STATED_COST] = stated
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.server.objects(plural)}
        uid = uids.get(owner, "gone")
        tree["metadata"]["ownerReferences"] = [{**reference, "uid": uid, "controller": True}]
        self.server.put("/api/v1", "pods", tree)

    def policy(self, **spec: Any) -> None:
        """Store a policy, for the controller web by default; pods state their costs, by default."""
        root, _ = self.KINDS[self.key.kind]
        applies = {} if "selector" in spec else {"targetRef": target("web", self.key.kind, root.removeprefix("/apis/"))}
        whole = {**applies, **STATED, **spec}
        tree = {"metadata": {"name": "web", "namespace": "default"}, "spec": whole}
        self.server.put("/apis/trimtab.dev/v1alpha1", "scaledownpolicies", tree)

    async def reconcile(self, key: GroupKey | None = None) -> float | None:
        """Reconcile the controller as the caches show it; after how many seconds it is to be reconciled again."""
        await self.clock.advance(0.1)
        result = await self.continuous.reconcile(key or self.key)
        await self.clock.advance(0.1)
        return result.requeue_after

    def costs(self, annotation: str = DELETION_COST) -> dict[str, str]:
        """The costs of pods as they are stored."""
        pods = (tree["metadata"] for tree in self.server.objects("pods"))
        return {each["name"]: each["annotations"][annotation] for each in pods if annotation in each["annotations"]}

    @property
    def patches(self) -> int:
        """How often a pod was written to."""
        return sum(request.method == "PATCH" for request in self.server.requests)

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}", labels) or 0.0


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A ReplicaSet with two pods, one of which states no cost."""
    made = Stage()
    made.pod("a", "1")
    made.pod("b")
    yield made
    await cancel(made.watching)


def wait(seconds: int) -> JSON:
    """A rule that waits so long for missing ranks."""
    return {"action": "Wait", "timeoutSeconds": seconds}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param(None, None, id="no policy applies"),
        pytest.param({"mode": "Observe"}, None, id="the policy observes"),
        pytest.param({"strategies": BALANCE}, 300.0, id="all pods are ranked"),
        pytest.param({"whenUnranked": wait(60)}, 60.0, id="a rank is waited for"),
        pytest.param({"whenUnranked": wait(600)}, 300.0, id="a rank is waited for longer than ranks are valid"),
        pytest.param({"whenUnranked": {"action": "Fallback"}}, 300.0, id="a rank is not waited for"),
        pytest.param({"strategies": [{"name": "Idle"}], "whenUnranked": wait(60)}, 15.0, id="ranks are sampled"),
    ],
)
async def test_when_a_group_is_reconciled_again_without_an_event(
    stage: Stage, spec: JSON | None, seconds: float | None
) -> None:
    """As time alone may change ranks; a group without costs is not."""
    if spec is not None:
        stage.policy(**spec)
    assert await stage.reconcile() == seconds
    assert stage.reconciled == [stage.key]


async def test_the_time_that_is_left_to_wait_counts_from_the_first_missing_rank(stage: Stage) -> None:
    """The group is reconciled when it is over."""
    stage.policy(whenUnranked=wait(60))
    await stage.reconcile()
    await stage.clock.advance(40)
    assert await stage.reconcile() == pytest.approx(20, abs=0.5)


async def test_before_policies_have_synced_a_group_is_reconciled_again_soon(stage: Stage) -> None:
    """Nothing is written or reverted until then."""
    result = await stage.continuous.reconcile(stage.key)
    assert (result.requeue_after, stage.reconciled, stage.patches) == (1.0, [], 0)


async def test_the_costs_of_a_group_that_is_gone_are_reverted(stage: Stage) -> None:
    """Those of other groups stay. It is not reconciled again, and those who report on it are told."""
    stage.resize(1, "api")
    stage.pod("c", "3", owner="api")
    stage.policy(selector={}, strategies=BALANCE)
    gone = GroupKey("ReplicaSet", "default", "api")
    await stage.reconcile(gone)
    await stage.reconcile()
    assert (set(stage.costs()), stage.continuous.kept) == ({"a", "b", "c"}, {stage.key, gone})
    stage.server.drop("/apis/apps/v1", "replicasets", "default/api")
    stage.reconciled.clear()
    assert await stage.reconcile(gone) is None
    assert (set(stage.costs()), stage.reconciled) == ({"a", "b"}, [gone])
    assert (stage.continuous.kept, set(stage.continuous.results)) == ({stage.key}, {stage.key})
    assert stage.count("costs_reverted_total", reason="orphan") == 1


async def test_the_oldest_ranks_of_all_groups_are_reported(stage: Stage) -> None:
    """A group without costs has none."""
    stage.resize(1, "api")
    stage.pod("c", "3", owner="api")
    stage.policy(selector={}, strategies=BALANCE)
    assert stage.count("oldest_ranks_seconds") == 0
    await stage.reconcile()
    await stage.clock.advance(30)
    await stage.reconcile(GroupKey("ReplicaSet", "default", "api"))
    assert stage.count("oldest_ranks_seconds") == pytest.approx(30, abs=1)
    stage.policy(selector={}, mode="Observe")
    await stage.reconcile()
    assert stage.count("oldest_ranks_seconds") == pytest.approx(0, abs=1)
    stage.continuous.forget()
    await stage.clock.advance(30)
    assert stage.count("oldest_ranks_seconds") == 0


@pytest.mark.parametrize("carrier", ["Annotation", "AlphaAnnotation"])
async def test_a_group_that_has_its_costs_is_not_written_to(stage: Stage, carrier: str) -> None:
    """Each pod is written to once."""
    stage.policy(strategies=BALANCE, carrier=carrier)
    for _ in range(2):
        await stage.reconcile()
    assert stage.patches == 2


async def test_a_pod_without_a_rank_loses_its_cost_where_the_controller_waits(stage: Stage) -> None:
    """It sees by that which pods are ranked; those of the others stay."""
    stage.pod("b", "2")
    stage.policy(carrier="AlphaAnnotation")
    await stage.reconcile()
    written = stage.costs(ALPHA_COST)
    assert set(written) == {"a", "b"}
    (tree,) = [tree for tree in stage.server.objects("pods") if tree["metadata"]["name"] == "b"]
    del tree["metadata"]["annotations"][STATED_COST]
    stage.pod("b", **tree["metadata"]["annotations"])
    await stage.reconcile()
    assert stage.costs(ALPHA_COST) == {"a": written["a"]}


async def complete(stage: Stage, **spec: Any) -> None:
    """Let both pods have costs of the policy, before one of them states none any more."""
    stage.policy(**spec)
    stage.pod("b", "2")
    await stage.reconcile()
    stored = {tree["metadata"]["name"]: tree["metadata"]["annotations"] for tree in stage.server.objects("pods")}
    assert {DELETION_COST, POLICY_COST} <= stored["a"].keys() & stored["b"].keys()
    del stored["b"][STATED_COST]
    stage.pod("b", **stored["b"])


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        pytest.param("ReplicaSet", {"a", "b"}, id="the costs of all pods stay"),
        pytest.param("CloneSet", {"a"}, id="a CloneSet sees which pods have no rank"),
    ],
)
async def test_costs_while_a_rank_is_waited_for(kind: str, left: set[str]) -> None:
    """Until then the group has not fallen back."""
    stage = Stage(kind)
    stage.pod("a", "1")
    await complete(stage, whenUnranked=wait(60))
    await stage.reconcile()
    assert set(stage.costs()) == left
    assert (stage.continuous.results[stage.key].fallback, stage.count("fallbacks_total", reason="unranked")) == (
        False,
        0,
    )
    await cancel(stage.watching)


async def test_a_fallback_reverts_all_costs_and_is_counted_once(stage: Stage) -> None:
    """It lasts until every pod has a rank again."""
    await complete(stage, whenUnranked={"action": "Fallback"})
    for _ in range(2):
        await stage.reconcile()
        assert (stage.costs(), stage.continuous.results[stage.key].fallback) == ({}, True)
    assert stage.count("fallbacks_total", reason="unranked") == 1
    assert stage.count("costs_reverted_total", reason="unranked") == 2
    stage.pod("b", "2")
    await stage.reconcile()
    assert (set(stage.costs()), stage.continuous.results[stage.key].fallback) == ({"a", "b"}, False)


@pytest.mark.parametrize("stated", [pytest.param("2", id="complete"), pytest.param(None, id="while a rank is missing")])
async def test_a_cost_of_another_carrier_is_reverted(stage: Stage, stated: str | None) -> None:
    """Whether all pods have ranks or not: it was written before the policy's carrier changed."""
    stage.policy(carrier="AlphaAnnotation", whenUnranked=wait(60))
    await stage.reconcile()
    assert (stage.costs(ALPHA_COST), stage.costs()) == ({"a": "-1"}, {})
    stage.policy(carrier="Annotation", whenUnranked=wait(60))
    stage.pod("b", stated)
    await stage.reconcile()
    assert (stage.costs(ALPHA_COST), set(stage.costs())) == ({}, {"a", "b"} if stated else set())


@pytest.mark.parametrize(
    "written",
    [
        pytest.param({}, id="a cost of the policy"),
        pytest.param({POLICY_COST: "{"}, id="an annotation that cannot be read"),
    ],
)
async def test_annotations_are_reverted_where_one_object_has_all_costs(stage: Stage, written: dict[str, str]) -> None:
    """The policy's carrier was another one before, or somebody has damaged the annotation; and the object in turn."""
    stage.policy(carrier="Annotation")
    stage.pod("b", "2")
    await stage.reconcile()
    assert set(stage.costs(POLICY_COST)) == {"a", "b"}
    stage.pod("b", "2", **written)
    stage.policy(carrier="PodGroupCost")
    await stage.reconcile()
    assert (stage.costs(POLICY_COST), stage.costs()) == ({}, {})
    (objects,) = stage.server.objects("podgroupcosts")
    assert objects["spec"]["costs"] == {"a": -1, "b": -2}
    stage.policy(carrier="Annotation")
    await stage.reconcile()
    assert (set(stage.costs(POLICY_COST)), stage.server.objects("podgroupcosts")) == ({"a", "b"}, [])


async def test_a_write_that_fails_is_raised_and_recorded(stage: Stage) -> None:
    """So that the group is reconciled again, and the status says why."""
    stage.policy(strategies=BALANCE)
    await stage.clock.advance(0.1)
    stage.server.intercept = lambda request: failure(403, "Forbidden", "no") if request.method == "PATCH" else None
    with pytest.raises(RuntimeError, match="2 costs could not be written; default/a: "):
        await stage.continuous.reconcile(stage.key)
    assert stage.continuous.results[stage.key].error.startswith("default/a: ")
    assert (stage.continuous.kept, stage.reconciled) == ({stage.key}, [stage.key])
    stage.server.intercept = None
    await stage.reconcile()
    assert (stage.continuous.results[stage.key].error, set(stage.costs())) == ("", {"a", "b"})


async def test_a_group_without_a_policy_is_not_kept(stage: Stage) -> None:
    """Nor are the pods ranked; with one, costs of other writers are recorded."""
    stage.pod("b", "2", **{DELETION_COST: "7"})
    stage.policy()
    await stage.reconcile()
    assert (stage.continuous.kept, stage.continuous.results[stage.key].foreign) == ({stage.key}, ["default/b"])
    assert stage.costs() == {"a": "1", "b": "7"}
    stage.server.drop("/apis/trimtab.dev/v1alpha1", "scaledownpolicies", "default/web")
    await stage.reconcile()
    assert (stage.continuous.kept, stage.continuous.results[stage.key].foreign) == (set(), [])
    assert (stage.costs(), stage.count("costs_reverted_total", reason="policy")) == ({"b": "7"}, 1)


async def test_missing_ranks_are_waited_for_anew_by_another_workload_of_the_same_name(stage: Stage) -> None:
    """The time that an earlier one has waited does not count."""
    stage.policy(whenUnranked=wait(60))
    await stage.reconcile()
    await stage.clock.advance(40)
    stage.server.drop("/apis/apps/v1", "replicasets", "default/web")
    assert await stage.reconcile() is None
    stage.resize(2)
    stage.pod("c")
    assert await stage.reconcile() == 60


async def test_without_a_policy_no_pod_is_ranked_and_none_is_missing(stage: Stage) -> None:
    """Nor is anything wrong with the sources of values."""
    await stage.reconcile()
    group = Groups(stage.view, NO_DEFAULTS).get(stage.key)
    assert group is not None
    pods = list(stage.view.pods.store)
    assert await stage.continuous.assessor.assess(group, pods) == Assessment()
    assert stage.continuous.assessor.problem(group, pods) == ""


@pytest.mark.parametrize("carrier", ["Annotation", "PodGroupCost"])
async def test_many_pods_are_ranked_beside_the_event_loop(
    stage: Stage, carrier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were when the group was reconciled: an event that arrives meanwhile requeues it."""
    monkeypatch.setattr(assessor, "MOST_IN_LOOP", 1)
    executor = stage.continuous.assessor.executor = LateExecutor()
    stage.pod("b", "2")
    stage.policy(carrier=carrier)
    await stage.clock.advance(0.1)
    reconciling = asyncio.ensure_future(stage.continuous.reconcile(stage.key))
    await stage.clock.advance(0.1)
    assert not reconciling.done()
    stage.pod("c", "3")
    await stage.clock.advance(0.1)
    executor.compute()
    await stage.clock.advance(0.1)
    assert reconciling.done()
    written = stage.costs() or stage.server.objects("podgroupcosts")[0]["spec"]["costs"]
    assert sorted(written) == ["a", "b"]


@pytest.mark.parametrize("after", [{"delivery": "OnScaleIntent"}, {"mode": "Observe"}])
async def test_costs_of_a_policy_that_has_changed_meanwhile_are_not_written(
    stage: Stage, after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is reconciled again, by the policy as it is now."""
    monkeypatch.setattr(assessor, "MOST_IN_LOOP", 1)
    executor = stage.continuous.assessor.executor = LateExecutor()
    stage.pod("b", "2")
    stage.policy()
    await stage.clock.advance(0.1)
    reconciling = asyncio.ensure_future(stage.continuous.reconcile(stage.key))
    await stage.clock.advance(0.1)
    stage.policy(**after)
    await stage.clock.advance(0.1)
    executor.compute()
    await stage.clock.advance(0.1)
    assert reconciling.result().requeue_after == SETTINGS.batch
    assert (stage.costs(), stage.patches) == ({}, 0)
