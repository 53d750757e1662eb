"""Costs kept current, with as few writes as can be."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.lab.workloads.clusters import JSON
from tests.unit.scaledown.worlds import PolicyWorld, target, template
from trimtab.api.annotations import DELETION_COST, OPT_OUT, POLICY_COST
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request
from trimtab.ranking.costs import Band, Level
from trimtab.scaledown.continuous.assessment import Assessment
from trimtab.scaledown.continuous.carriers import mark_of
from trimtab.scaledown.intent import gate
from trimtab.scaledown.metrics import Outcome
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import DefaultPolicy, Defaults
from trimtab.scaledown.policy.groups import Group
from trimtab_lab.apiserver.wire.statuses import Refusal, refusal

BALANCE = [{"name": "Balance"}]


async def balanced(world: PolicyWorld, replicas: int = 6, **spec: Any) -> None:
    """A Deployment whose costs are kept current."""
    await world.deploy(replicas)
    await world.policy(**{"strategies": BALANCE, "delivery": "Continuous", **spec})


async def test_costs_follow_the_policy(world: PolicyWorld) -> None:
    """The youngest of the fullest zone costs least: 4 pods in zone a, 2 in zone b."""
    await balanced(world)
    assert sorted((await world.costs()).values()) == [-4, -3, -2, -2, -1, -1]


async def test_costs_stay_while_it_is_not_known_which_policies_there_are(world: PolicyWorld) -> None:
    """A new leader whose list of policies is late takes nothing back, and writes nothing."""
    await balanced(world)
    before = await world.costs()
    await world.stop_policies()

    def refuse(request: Request) -> Exception | None:
        return refusal(500, "etcd is away") if "/scaledownpolicies" in request.path else None

    await world.start_policies(refuse=refuse)
    await world.look()
    assert not world.view.synced
    assert [problem for problem in world.view.problems if "etcd is away" in problem]
    assert world.writes() == []
    world.product.refuse = None
    await world.advance(60)
    await world.look()
    assert world.view.problems == []
    assert world.writes() == []
    assert await world.costs() == before


async def test_costs_of_clonesets_stay_while_it_is_not_known_which_there_are(world: PolicyWorld) -> None:
    """Pods whose owner has not been seen yet are not taken for strays."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "own"}}, "template": template(app="own")}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    await world.create(CloneSet, {**kind, "metadata": {"name": "own"}, "spec": spec})
    uid = (await world.get(CloneSet, "own")).metadata.uid
    owner = {**kind, "name": "own", "uid": uid, "controller": True}
    for name in ("own-1", "own-2"):
        metadata = {"name": name, "labels": {"app": "own"}, "ownerReferences": [owner]}
        body = {"metadata": metadata, "spec": template()["spec"]}
        await world.user.create(Resource.of(Pod).raw, body, namespace="default")
    await world.run_pods()
    await world.policy(targetRef=target("own", "CloneSet", "apps.kruise.io/v1alpha1"), delivery="Continuous")
    before = await world.costs()
    assert len(before) == 2
    await world.stop_policies()
    await world.start_policies(
        refuse=lambda request: refusal(500, "etcd is away") if "/clonesets" in request.path else None
    )
    await world.look()
    assert world.writes() == []
    assert await world.costs() == before


async def test_without_the_kind_there_are_no_policies(world: PolicyWorld) -> None:
    """The API server says so: what costs still stand are taken back."""
    await balanced(world)
    await world.stop_policies()
    await world.start_policies(
        refuse=lambda request: refusal(404, "not found") if "/scaledownpolicies" in request.path else None
    )
    await world.look()
    assert world.view.synced
    assert world.view.problems == []
    assert await world.costs() == {}


async def test_how_long_ago_costs_were_worked_out_is_told(world: PolicyWorld) -> None:
    """At most as long as the next look is away; nothing, where none are kept."""
    await balanced(world)
    await world.advance(250)
    assert 200 < world.sample("oldest_ranks_seconds") < 300
    await world.advance(100)
    assert world.sample("oldest_ranks_seconds") < 100
    await world.drop_policy()
    assert world.sample("oldest_ranks_seconds") == 0


async def test_a_scale_down_leaves_the_zones_level(world: PolicyWorld) -> None:
    """By what the ReplicaSet controller makes of the costs, one at a time and several at once."""
    await balanced(world, 9)
    for size, wanted in ((8, {"a": 5, "b": 3}), (6, {"a": 3, "b": 3}), (3, {"a": 1, "b": 2}), (2, {"a": 1, "b": 1})):
        await world.scale(size)
        found = await world.zones()
        assert (sum(found.values()), max(found.values()) - min(found.values())) == (
            size,
            max(wanted.values()) - min(wanted.values()),
        )


async def test_a_policy_without_strategies_keeps_zones_level(world: PolicyWorld) -> None:
    """At every size."""
    await world.deploy(9)
    await world.policy(delivery="Continuous")
    for size in (6, 4, 2):
        await world.scale(size)
        assert await world.zones() == {"a": size // 2, "b": size // 2}


async def test_a_pod_that_comes_is_the_only_one_written_to(world: PolicyWorld) -> None:
    """Strategies that need no recomputation move nobody else: one pod more, one write."""
    await balanced(world, 8)
    before = await world.costs()
    world.product.requests.clear()
    await world.scale(9)
    await world.look()
    assert len(world.writes()) == 1
    after = await world.costs()
    assert {name: after[name] for name in before} == before


async def test_pods_that_go_in_turn_cause_no_write(world: PolicyWorld) -> None:
    """Whoever stays keeps the cost that he has."""
    await balanced(world, 9)
    world.product.requests.clear()
    await world.scale(5)
    await world.look()
    assert world.writes() == []


async def test_a_pod_that_goes_out_of_turn_moves_only_those_behind_it(world: PolicyWorld) -> None:
    """And its successor gets a cost: nobody of the other zone is written to."""
    await balanced(world, 9)
    pods = sorted(await world.pods(), key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.uid))
    first = next(pod for pod in pods if pod.spec.node_name == "b1")
    behind = [pod for pod in pods if pod.spec.node_name == "b1" and pod is not first]
    world.product.requests.clear()
    world.place_on("b1")
    await world.user.delete(Pod, first.metadata.name, namespace="default")
    await world.settle()
    await world.run_pods()
    await world.look()
    written = {request.path.rpartition("/")[2] for request in world.writes()}
    others = {pod.metadata.name for pod in pods} - {pod.metadata.name for pod in behind}
    assert written & others == set()
    assert len(world.writes()) <= len(behind) + 1


async def test_an_hour_without_changes_is_an_hour_without_writes(world: PolicyWorld) -> None:
    """Whatever is looked at again in between."""
    await balanced(world)
    world.product.requests.clear()
    for _ in range(12):
        await world.advance(300)
    assert [request for request in world.product.requests if request.method != "GET"] == []


async def test_a_policy_that_delivers_on_intent_writes_to_no_pod(world: PolicyWorld) -> None:
    """An hour of idling, and pods that come and go."""
    await world.deploy(6)
    await world.policy(strategies=BALANCE)
    await world.scale(9)
    for _ in range(12):
        await world.advance(300)
    assert world.writes() == []
    assert (await world.status()).status.ranked_pods == 9


async def test_events_of_a_moment_are_one_look(world: PolicyWorld) -> None:
    """Nine pods that start together are ranked together."""
    await world.policy(strategies=BALANCE, delivery="Continuous")
    looks: list[int] = []
    assess = world.controller.continuous.assess

    def counted(group: Group, pods: Sequence[Pod]) -> Assessment:
        looks.append(len(pods))
        return assess(group, pods)

    world.controller.continuous.assess = counted  # type: ignore[method-assign]
    await world.deploy(9)
    await world.look()
    assert len(await world.costs()) == 9
    assert len(looks) < 9


async def test_writes_are_limited(world: PolicyWorld) -> None:
    """So many at once, then so many a second, for all groups together."""
    await world.stop_policies()
    world.settings = type(world.settings)(rate=1.0, burst=2)
    await world.start_policies()
    await balanced(world, 9)
    first = len(world.writes())
    assert first <= 7
    await world.advance(2.0)
    assert len(world.writes()) <= first + 3
    await world.advance(20)
    assert len(await world.costs()) == 9


async def test_nodes_that_move_to_another_zone_move_costs(world: PolicyWorld) -> None:
    """Zone b gets a second node with three pods: its first three cost what those of zone a cost, the others less."""
    await balanced(world, 9)
    await world.user.patch(Node, "a2", {"metadata": {"labels": {"topology.kubernetes.io/zone": "b"}}})
    await world.look()
    by_node = {pod.metadata.name: pod.spec.node_name for pod in await world.pods()}
    costs = await world.costs()
    alone = sorted(cost for name, cost in costs.items() if by_node[name] == "a1")
    crowded = sorted(cost for name, cost in costs.items() if by_node[name] != "a1")
    assert (len(set(alone)), len(set(crowded))) == (3, 6)
    assert crowded[3:] == alone


async def test_a_cost_that_a_person_set_stays(world: PolicyWorld) -> None:
    """It is theirs, before and after; the others are ranked around it, and the policy says so."""
    await world.deploy(6)
    name = (await world.pods())[0].metadata.name
    await world.patch(Pod, name, {"metadata": {"annotations": {DELETION_COST: "77"}}})
    await world.policy(strategies=BALANCE, delivery="Continuous")
    assert (await world.costs())[name] == 77
    assert POLICY_COST not in (await world.get(Pod, name)).metadata.annotations
    ready = await world.condition()
    assert ready is not None
    assert "1 pods keep costs that others have set" in ready.message
    await world.drop_policy()
    assert await world.costs() == {name: 77}


async def test_whoever_changes_a_cost_of_ours_makes_it_theirs(world: PolicyWorld) -> None:
    """Our mark goes, their cost stays."""
    await balanced(world)
    name = (await world.pods())[0].metadata.name
    await world.patch(Pod, name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await world.look()
    found = (await world.get(Pod, name)).metadata.annotations
    assert (found.get(DELETION_COST), POLICY_COST in found) == ("5", False)


async def test_what_was_written_goes_with_the_policy(world: PolicyWorld) -> None:
    """No annotation of ours is left, and there is no finalizer that could hang."""
    await balanced(world)
    assert (await world.status()).metadata.finalizers == ()
    await world.drop_policy()
    assert [pod.metadata.annotations for pod in await world.pods()] == [{}] * 6


@pytest.mark.parametrize("killed", [False, True])
async def test_what_was_written_goes_although_nobody_was_there(world: PolicyWorld, killed: bool) -> None:
    """The policy was deleted while nothing ran; the next start finds the marks."""
    await balanced(world)
    await world.stop_policies(killed=killed)
    await world.user.delete(Resource.of(type(await world.status())).raw, "web", namespace="default")
    await world.start_policies()
    assert await world.costs() == {}


async def test_a_restart_writes_nothing(world: PolicyWorld) -> None:
    """What stands is right: costs are not taken back and written again."""
    await balanced(world)
    before = await world.costs()
    await world.stop_policies(killed=True)
    await world.start_policies()
    assert world.writes() == []
    assert await world.costs() == before


@pytest.mark.parametrize("at", range(1, 7))
async def test_a_crash_at_any_write_is_mended(world: PolicyWorld, at: int) -> None:
    """Killed after so many costs, the next process writes the rest and no more."""
    await world.deploy(6)
    count = 0

    def crash(request: Request) -> None:
        nonlocal count
        if request.method == "PATCH" and "/pods/" in request.path:
            count += 1
            world.product.dead = world.product.dead or count == at

    world.product.after = crash
    await world.policy(strategies=BALANCE, delivery="Continuous")
    await world.stop_policies(killed=True)
    assert len(await world.costs()) == at
    await world.start_policies()
    assert sorted((await world.costs()).values()) == [-4, -3, -2, -2, -1, -1]
    assert len(world.writes()) == 6 - at


async def test_a_change_to_on_intent_takes_costs_back(world: PolicyWorld) -> None:
    """What stands all the time is Continuous's alone."""
    await balanced(world)
    await world.user.patch(
        Resource.of(type(await world.status())).raw, "web", {"spec": {"delivery": "OnScaleIntent"}}, namespace="default"
    )
    await world.look()
    assert await world.costs() == {}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(Deployment, {"metadata": {"annotations": {OPT_OUT: "disabled"}}}, id="by annotation"),
        pytest.param(Deployment, {"metadata": {"labels": {OPT_OUT: "disabled"}}}, id="by label"),
    ],
)
async def test_an_opt_out_takes_costs_back(world: PolicyWorld, kind: type[Any], patch: JSON) -> None:
    """And the policy says that nobody speaks for the workload any more."""
    await balanced(world)
    await world.patch(kind, "web", patch)
    await world.look()
    assert await world.costs() == {}
    ready = await world.condition()
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "SwitchedOff")
    assert "opts out with trimtab.dev/scale-down: disabled" in ready.message


async def test_a_namespace_opts_out(world: PolicyWorld) -> None:
    """For all its workloads, at once and back."""
    await balanced(world)
    await world.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: "disabled"}}})
    await world.look()
    assert await world.costs() == {}
    await world.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: None}}})
    await world.look()
    assert len(await world.costs()) == 6


async def test_the_switch_turns_everything_off_at_once(world: PolicyWorld) -> None:
    """And on again."""
    await balanced(world)
    world.controller.configure(Defaults(enabled=False))
    await world.look()
    assert await world.costs() == {}
    world.controller.configure(Defaults())
    await world.look()
    assert len(await world.costs()) == 6


async def test_a_default_policy_from_the_configuration_ranks_everybody(world: PolicyWorld) -> None:
    """Without any object of ours in the cluster."""
    await world.stop_policies()
    world.defaults = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(delivery="Continuous")),))
    await world.start_policies()
    await world.deploy(6)
    await world.look()
    assert len(await world.costs()) == 6
    mark = mark_of((await world.pods())[0])
    assert mark is not None
    assert mark.policy == 'the default policy "all"'


async def test_pods_that_their_controller_lets_go_are_put_back(world: PolicyWorld) -> None:
    """A pod whose label was changed belongs to nobody, and keeps nothing of ours."""
    await balanced(world)
    name = (await world.pods())[0].metadata.name
    await world.patch(Pod, name, {"metadata": {"labels": {"app": "debugged"}}})
    await world.run_pods()
    await world.look()
    loose = await world.get(Pod, name)
    assert loose.metadata.controller is None
    assert loose.metadata.annotations == {}
    assert len(await world.costs()) == 6


@dataclass(frozen=True)
class Wanted:
    """Somebody wants the Deployment web to shrink."""

    before: int
    after: int
    kind: str = "Deployment"
    namespace: str = "default"
    name: str = "web"
    uid: str = ""
    """The workload's."""


async def held(world: PolicyWorld) -> Outcome:
    """What comes of a request to shrink from 3 to 2, where everybody is to be kept level."""
    client = Client(world.product, clock=world.clock)
    holding = gate.Intents(client, world.view, defaults=effective.LEVEL_EVERYONE)
    uid = (await world.get(Deployment, "web")).metadata.uid
    request = asyncio.ensure_future(holding.hold(Wanted(3, 2, uid=uid)))
    while not request.done():
        await world.clock.advance(0.1)
    return request.result().outcome


async def test_two_owners_are_left_alone(world: PolicyWorld) -> None:
    """Nothing is written for pods that two workloads claim, and both are named."""
    await world.deploy(3)
    rival: JSON = {
        "metadata": {"name": "rival"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    await world.create(ReplicaSet, rival)
    await world.policy(strategies=BALANCE, delivery="Continuous")
    assert await world.costs() == {}
    ready, owners = await world.condition(), await world.condition("TwoOwners")
    assert ready is not None
    assert owners is not None
    assert (ready.status, ready.reason) == ("False", "TwoOwners")
    assert "Deployment web and ReplicaSet rival claim the same pods" in owners.message
    assert await held(world) is Outcome.CONTESTED
    await world.user.delete(ReplicaSet, "rival", namespace="default")
    await world.look()
    assert len(await world.costs()) == 3
    await world.drop_policy()
    assert await held(world) is not Outcome.UNGOVERNED


async def test_costs_stay_in_the_bands_of_subsets(world: PolicyWorld) -> None:
    """The subset's level decides the band, the policy moves inside, and what stood before comes back."""
    await world.deploy(3)
    pods = [pod.key for pod in await world.pods()]
    bands = {
        pods[0]: Band(Level.GUARANTEED, 0, 2),
        pods[1]: Band(Level.GUARANTEED, 1, 2),
        pods[2]: Band(Level.REDUNDANT, 0, 2),
    }
    for key, band in bands.items():
        written = {DELETION_COST: str(band.centre), "trimtab.dev/subset-cost": str(band.centre)}
        await world.patch(Pod, key.partition("/")[2], {"metadata": {"annotations": written}})
    await world.stop_policies()
    world.bands = lambda *_, **__: bands
    await world.start_policies()
    await world.policy(strategies=BALANCE, delivery="Continuous")
    costs = {f"default/{name}": cost for name, cost in (await world.costs()).items()}
    assert all(costs[key] in band and costs[key] != band.centre for key, band in bands.items())
    await world.drop_policy()
    costs = {f"default/{name}": cost for name, cost in (await world.costs()).items()}
    assert costs == {key: band.centre for key, band in bands.items()}


async def test_a_write_that_fails_is_told_and_tried_again(world: PolicyWorld) -> None:
    """The status has the error until it is mended."""

    def refuse(request: Request) -> Refusal | None:
        forbidden = request.method == "PATCH" and "/pods/" in request.path
        return refusal(403, "not allowed to patch pods") if forbidden else None

    world.product.refuse = refuse
    await balanced(world)
    found = await world.status()
    assert "not allowed to patch pods" in found.status.last_error
    ready = await world.condition()
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "WriteFailed")
    world.product.refuse = None
    await world.advance(60)
    await world.look()
    assert len(await world.costs()) == 6
    assert (await world.status()).status.last_error == ""


async def test_namespaces_that_another_trimtab_looks_after_are_not_touched(world: PolicyWorld) -> None:
    """Neither are costs written there nor taken back, and policies there are not reported on."""
    await balanced(world)
    before = await world.costs()
    await world.stop_policies()
    world.defaults = Defaults(only=frozenset({"elsewhere"}))
    await world.start_policies()
    await world.scale(8)
    await world.advance(400)
    assert [request for request in world.product.requests if request.method != "GET"] == []
    assert await world.costs() == before


async def test_a_cost_that_its_subset_has_moved_is_taken_over(world: PolicyWorld) -> None:
    """Ahead of a scale-down a subset may move a kept cost into another band: one write finds it there."""
    await balanced(world, 3)
    name = (await world.pods())[0].metadata.name
    moved = {DELETION_COST: "2000000", "trimtab.dev/subset-cost": "2000000"}
    await world.patch(Pod, name, {"metadata": {"annotations": moved}})
    world.product.requests.clear()
    await world.look()
    found = await world.get(Pod, name)
    assert found.metadata.annotations[DELETION_COST] != "2000000"
    assert mark_of(found) is not None
    assert len(world.writes()) == 1


@pytest.mark.parametrize(
    ("kind", "api_version", "selector"),
    [
        pytest.param(ReplicaSet, "apps/v1", {"matchLabels": {"app": "own"}}, id="a ReplicaSet of its own"),
        pytest.param(ReplicationController, "v1", {"app": "own"}, id="a ReplicationController"),
    ],
)
async def test_other_workloads_are_ranked_too(
    world: PolicyWorld, kind: type[Any], api_version: str, selector: JSON
) -> None:
    """Whatever owns pods and chooses by cost, down to two zones with one pod each."""
    spec = {"replicas": 4, "selector": selector, "template": template(app="own")}
    await world.create(kind, {"metadata": {"name": "own"}, "spec": spec})
    await world.run_pods()
    await world.policy(targetRef=target("own", kind.__name__, api_version), delivery="Continuous")
    assert len(await world.costs()) == 4
    await world.user.resize(kind, "own", 2, namespace="default")
    await world.settle()
    await world.run_pods()
    assert await world.zones() == {"a": 1, "b": 1}


async def test_a_rollout_moves_costs_to_the_new_pods(world: PolicyWorld) -> None:
    """Each ReplicaSet is a group of its own; in the end the old one has nothing, and the new one everything."""
    await balanced(world, 4)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    await world.patch(Deployment, "web", image)
    for _ in range(4):
        await world.run_pods()
        await world.look()
    assert len({pod.metadata.labels["pod-template-hash"] for pod in await world.pods()}) == 1
    assert max((await world.costs()).values()) == -1
    assert len(await world.costs()) == 4
    assert (await world.status()).status.ranked_pods == 4


async def test_one_policy_speaks_for_a_whole_namespace(world: PolicyWorld) -> None:
    """And each workload is ranked by itself."""
    await world.deploy(3)
    await world.deploy(3, name="api", labels={"app": "api"})
    await world.policy(selector={}, strategies=[{"name": "Youngest"}], delivery="Continuous")
    assert sorted((await world.costs()).values()) == [-3, -3, -2, -2, -1, -1]
