"""What policies say of themselves: conditions, counts, the last plan, the last error; and what waiting means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lab.workloads.clusters import JSON
from tests.unit.scaledown.worlds import PolicyWorld, deployment, target, template
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request
from trimtab.scaledown.policy.effective import Defaults
from trimtab.scaledown.policy.findings import WITH_POD_COST
from trimtab_lab.apiserver.wire.statuses import refusal

BALANCE = [{"name": "Balance"}]
PROBE = [{"name": "Probe", "args": {"periodSeconds": 10, "maxAgeSeconds": 60}}]
POLICIES = Resource.of(ScaleDownPolicy).raw


async def ready(world: PolicyWorld, name: str = "web") -> tuple[str, str, str]:
    """Status, reason and message of the condition Ready."""
    found = await world.condition("Ready", name)
    assert found is not None
    return found.status, found.reason, found.message


async def test_a_policy_that_works_says_for_whom(world: PolicyWorld) -> None:
    """With the generation that it speaks of, and how many pods it ranks."""
    await world.deploy(6)
    await world.policy(strategies=BALANCE)
    found = (await world.status()).status
    assert (found.observed_generation, found.ranked_pods, found.unranked_pods) == (1, 6, 0)
    assert await ready(world) == (
        "True",
        "OnScaleIntent",
        "speaks for Deployment web: 6 pods are ranked, costs are written when a scale-down is asked for",
    )
    assert [each.type for each in found.conditions] == ["Ready"]


async def test_a_status_follows_the_generation(world: PolicyWorld) -> None:
    """Also where nothing else changes; and the time of the transition stays."""
    await world.deploy(3)
    await world.policy(strategies=BALANCE)
    since = (await world.condition("Ready")).last_transition_time  # type: ignore[union-attr]
    await world.user.patch(POLICIES, "web", {"spec": {"whenUnranked": {"timeoutSeconds": 5}}}, namespace="default")
    await world.look()
    found = (await world.status()).status
    assert found.observed_generation == 2
    assert found.conditions[0].last_transition_time == since


async def test_a_status_that_says_the_same_is_not_written(world: PolicyWorld) -> None:
    """Neither when time passes nor when it is looked at again."""
    await world.deploy(3)
    await world.policy(strategies=BALANCE)
    version = (await world.status()).metadata.resource_version
    await world.advance(1200)
    assert (await world.status()).metadata.resource_version == version


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        pytest.param({"strategies": [{"name": "Balanse"}]}, "Invalid", "known are", id="an unknown strategy"),
        pytest.param(
            {"strategies": [{"name": "Balance", "threshold": 3}, {"name": "Taints"}]},
            "Invalid",
            "spec.strategies[1].threshold: is required",
            id="several strategies without thresholds",
        ),
        pytest.param({"targetRef": None}, "Invalid", "write a targetRef or a selector", id="no target"),
        pytest.param(
            {"targetRef": target("web", "StatefulSet")}, "Invalid", "its highest ordinal first", id="a StatefulSet"
        ),
        pytest.param(
            {"targetRef": target("web", "Job", "batch/v1")}, "Invalid", "does not choose its victims", id="a Job"
        ),
        pytest.param({"targetRef": target("wbe")}, "NoWorkload", "there is no Deployment wbe", id="no such target"),
        pytest.param(
            {"selector": {"matchLabels": {"app": "wbe"}}},
            "NoWorkload",
            "matches the pods of no workload",
            id="a selector that matches nothing",
        ),
    ],
)
async def test_a_policy_that_cannot_work_says_what_to_do(
    world: PolicyWorld, spec: JSON, reason: str, words: str
) -> None:
    """Whatever let it into the cluster."""
    await world.deploy(3)
    await world.policy(**{"delivery": "Continuous", **{name: value for name, value in spec.items() if value}})
    if spec.get("targetRef", "") is None:
        await world.user.patch(POLICIES, "web", {"spec": {"targetRef": None}}, namespace="default")
        await world.look()
    status, found, message = await ready(world)
    assert (status, found) == ("False", reason)
    assert words in message
    assert await world.costs() == {}


@pytest.mark.parametrize("weight", [0, -1, 1001])
async def test_a_weight_that_cannot_be_is_refused_by_the_server(world: PolicyWorld, weight: int) -> None:
    """The schema says so."""
    with pytest.raises(Exception, match="weight"):
        await world.policy(strategies=[{"name": "Balance", "weight": weight}])


async def test_a_workload_that_comes_later_is_spoken_for(world: PolicyWorld) -> None:
    """Nobody has to touch the policy."""
    await world.policy(strategies=BALANCE, delivery="Continuous")
    assert (await ready(world))[1] == "NoWorkload"
    await world.deploy(3)
    await world.look()
    assert (await ready(world))[1] == "Ranking"
    assert len(await world.costs()) == 3


async def test_overlapping_policies_both_say_so(world: PolicyWorld) -> None:
    """The more specific one speaks, the other gives way; and each names the other."""
    await world.deploy(3)
    await world.policy("by-label", selector={"matchLabels": {"app": "web"}}, strategies=[{"name": "Youngest"}])
    await world.policy("by-name", strategies=BALANCE)
    winner = await world.condition("Overlapping", "by-name")
    loser = await world.condition("Overlapping", "by-label")
    assert winner is not None
    assert loser is not None
    assert winner.message == "speaks for Deployment web before default/by-label"
    assert loser.message == "gives way to ScaleDownPolicy default/by-name for Deployment web"
    assert (await ready(world, "by-name"))[0] == "True"
    assert (await ready(world, "by-label"))[:2] == ("False", "GivesWay")
    await world.drop_policy("by-name")
    assert await world.condition("Overlapping", "by-label") is None
    assert (await ready(world, "by-label"))[0] == "True"


async def test_a_policy_for_a_deployments_replicaset_says_what_it_can_do(world: PolicyWorld) -> None:
    """Costs can be kept on its pods, and then both policies say so; but a scale-down is asked of the Deployment."""
    await world.deploy(6)
    (found,) = (await world.user.list(ReplicaSet, namespace="default")).items
    name = found.metadata.name
    await world.policy("part", targetRef=target(name, "ReplicaSet"))
    await world.policy()
    status, reason, message = await ready(world, "part")
    assert (status, reason) == ("False", "OfDeployment")
    assert message == (
        f"ReplicaSet {name} is resized by its Deployment web, and a scale-down is asked of that; "
        "name the Deployment in spec.targetRef, or write delivery: Continuous"
    )
    overlaps = {each: await world.condition("Overlapping", each) for each in ("part", "web")}
    assert {each: known and known.message for each, known in overlaps.items()} == {
        "part": f"speaks for ReplicaSet {name} before default/web",
        "web": f"gives way to ScaleDownPolicy default/part for ReplicaSet {name}",
    }
    await world.user.patch(POLICIES, "part", {"spec": {"delivery": "Continuous"}}, namespace="default")
    await world.look()
    assert (await ready(world, "part"))[0] == "True"
    assert len(await world.costs()) == 6


async def test_a_workload_that_an_operator_owns_is_a_workload_like_any_other(world: PolicyWorld) -> None:
    """A selector finds it, its scale-downs are told, and whoever claims the same pods is found."""
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "1-2-3", "controller": True}
    await world.deploy(6, ownerReferences=[owner])
    await world.policy(selector={"matchLabels": {"app": "web"}}, strategies=BALANCE, delivery="Continuous")
    status, _, message = await ready(world)
    assert status == "True"
    assert message.startswith("speaks for Deployment web: 6 pods are ranked")
    await world.scale(4)
    await world.look()
    plan = (await world.status()).status.last_plan
    assert plan is not None
    assert (plan.from_, plan.to) == (6, 4)
    await world.create(Deployment, deployment("other", 1, labels={"app": "web"}))
    await world.look()
    assert (await ready(world))[:2] == ("False", "TwoOwners")


async def test_a_policy_may_speak_for_some_and_give_way_for_others(world: PolicyWorld) -> None:
    """It is ready, and says where it is not heard."""
    await world.deploy(2)
    await world.deploy(2, name="api", labels={"app": "api"})
    await world.policy("everyone", selector={}, strategies=BALANCE)
    await world.policy("web", strategies=BALANCE)
    status, _, message = await ready(world, "everyone")
    assert status == "True"
    assert message.startswith("speaks for Deployment api: 2 pods")
    found = await world.condition("Overlapping", "everyone")
    assert found is not None
    assert found.reason == "GivesWay"


@pytest.mark.parametrize("carrier", ["PodGroupCost", "AlphaAnnotation"])
async def test_a_carrier_that_nobody_reads_is_told(world: PolicyWorld, carrier: str) -> None:
    """A Deployment's controller looks at pod-deletion-cost and at nothing else."""
    await world.deploy(3)
    await world.policy(strategies=BALANCE, carrier=carrier)
    found = await world.condition("CarrierNotConsumed")
    assert found is not None
    assert found.status == "True"
    assert "nothing reads this carrier for Deployment web; write carrier: Annotation" in found.message
    assert (await ready(world))[:2] == ("False", "CarrierNotConsumed")


@pytest.mark.parametrize("gate", [False, True])
async def test_clonesets_read_the_other_carriers_behind_a_gate(world: PolicyWorld, gate: bool) -> None:
    """With the gate nothing is amiss."""
    await world.stop_policies()
    world.readers = WITH_POD_COST if gate else world.readers
    await world.start_policies()
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "c"}}, "template": template(app="c")}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    await world.user.create(
        Resource.of(CloneSet).raw, {**kind, "metadata": {"name": "c"}, "spec": spec}, namespace="default"
    )
    await world.policy(targetRef=target("c", "CloneSet", kind["apiVersion"]), carrier="PodGroupCost")
    assert (await world.condition("CarrierNotConsumed") is None) is gate


async def test_a_selector_that_matches_a_statefulsets_pods_says_why_not(world: PolicyWorld) -> None:
    """Its pods are seen, and nobody can speak for them."""
    spec = {"selector": {"matchLabels": {"app": "db"}}, "template": template(app="db"), "serviceName": "db"}
    made = await world.create(StatefulSet, {"metadata": {"name": "db"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": made.metadata.uid, "controller": True}
    body = {**template(app="db"), "metadata": {"name": "db-0", "labels": {"app": "db"}, "ownerReferences": [owner]}}
    await world.user.create(Resource.of(Pod).raw, body, namespace="default")
    await world.policy("db", selector={"matchLabels": {"app": "db"}}, delivery="Continuous")
    status, reason, message = await ready(world, "db")
    assert (status, reason) == ("False", "NotSupported")
    assert message.startswith("StatefulSet db is not supported: a StatefulSet removes its highest ordinal first")


async def test_the_last_plan_is_told(world: PolicyWorld) -> None:
    """From, to, victims, skew before, after, and what stock would have left."""
    await world.deploy(9)
    await world.policy(strategies=BALANCE, delivery="Continuous")
    before = {pod.metadata.name for pod in await world.pods()}
    await world.scale(4)
    await world.look()
    plan = (await world.status()).status.last_plan
    assert plan is not None
    assert (plan.from_, plan.to) == (9, 4)
    assert set(plan.victims) == before - {pod.metadata.name for pod in await world.pods()}
    zone = next(each for each in plan.skews if each.topology_key == "topology.kubernetes.io/zone")
    assert (zone.before, zone.after) == (3, 0)


async def test_a_plan_that_could_not_be_carried_out_is_the_last_error(world: PolicyWorld) -> None:
    """Until there is one that could."""
    await world.deploy(9)
    await world.policy()
    for error in ("0 of 3 costs were written", ""):
        plan = {"status": {"lastPlan": {"from": 9, "to": 6, "error": error}}}
        await world.user.patch(ScaleDownPolicy, "web", plan, namespace="default", subresource="status")
        await world.look()
        assert (await world.status()).status.last_error == error


async def test_the_plan_of_a_policy_that_was_made_anew_is_dropped(world: PolicyWorld) -> None:
    """It is not its successor's, and is not offered to it for ever."""
    told: list[Request] = []

    def refuse(request: Request) -> Exception | None:
        if request.method != "PATCH" or b"lastPlan" not in (request.body or b""):
            return None
        told.append(request)
        return refusal(503, "come back later") if away else None

    away = True
    await world.deploy(9)
    await world.policy(strategies=BALANCE, delivery="Continuous")
    world.product.refuse = refuse
    await world.scale(4)
    await world.drop_policy()
    await world.policy(strategies=BALANCE, delivery="Continuous")
    assert told
    away = False
    await world.advance(60)
    told.clear()
    await world.advance(600)
    assert told == []
    assert (await world.status()).status.last_plan is None


# Ranks that are missing.


async def probed(world: PolicyWorld, replicas: int = 3, **spec: Any) -> list[Pod]:
    """A Deployment whose pods answer what they cost: 0, 60, 120 and so on; looked at."""
    await world.deploy(replicas)
    pods = sorted(await world.pods(), key=lambda pod: pod.metadata.name)
    for at, pod in enumerate(pods):
        address = f"10.1.0.{at + 1}"
        world.answers[address] = str(60 * at).encode()
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        await world.user.patch(Pod, pod.metadata.name, status, namespace="default", subresource="status")
    await world.policy(**{"strategies": PROBE, "delivery": "Continuous", **spec})
    await world.advance(20)
    await world.look()
    return pods


async def test_long_running_work_is_spared(world: PolicyWorld) -> None:
    """The proposal's first story: who has worked longest goes last."""
    pods = await probed(world, 4)
    assert await world.costs() == {pod.metadata.name: 60 * at for at, pod in enumerate(pods)}
    await world.scale(2)
    assert {pod.metadata.name for pod in await world.pods()} == {pod.metadata.name for pod in pods[2:]}


async def test_costs_follow_what_pods_answer(world: PolicyWorld) -> None:
    """Only the pod whose answer changed is written to."""
    pods = await probed(world)
    world.product.requests.clear()
    world.answers["10.1.0.1"] = b"999"
    await world.advance(40)
    assert (await world.costs())[pods[0].metadata.name] == 999
    assert len(world.writes()) == 1


async def test_a_status_follows_what_is_sampled_whatever_the_delivery(world: PolicyWorld) -> None:
    """It is first told before anybody has been asked; who has a rank since, or none any more, is told soon."""
    await probed(world, delivery="OnScaleIntent")
    assert await ready(world) == (
        "True",
        "OnScaleIntent",
        "speaks for Deployment web: 3 pods are ranked, costs are written when a scale-down is asked for",
    )
    world.answers.clear()
    await world.advance(90)
    assert (await ready(world))[1] == "Unranked"
    assert (await world.status()).status.unranked_pods == 3


async def test_a_process_that_leads_no_more_tells_of_nothing(world: PolicyWorld) -> None:
    """Ages would grow without end, and pods be counted twice, although another process looks after them."""
    await probed(world)
    names = ("pods", "oldest_ranks_seconds", "oldest_sample_seconds")
    labels: dict[str, dict[str, str]] = {"pods": {"rank": "known"}, "oldest_sample_seconds": {"source": "answers"}}

    def told() -> list[float | None]:
        found = world.metrics.registry.get_sample_value
        return [found(f"trimtab_scaledown_{name}", labels.get(name, {})) for name in names]

    await world.advance(1)
    assert all(told())
    await world.stop_policies()
    await world.advance(1000)
    assert told() == [0.0, 0.0, 0.0]


async def test_nobody_is_asked_while_the_switch_is_off(world: PolicyWorld) -> None:
    """What a policy would want to know is of no use to anybody then."""
    await probed(world)
    world.defaults = Defaults(enabled=False)
    world.controller.configure(world.defaults)
    await world.advance(10)
    assert await world.costs() == {}
    world.answers.clear()  # nobody is there any more, which whoever asks would notice
    await world.advance(120)
    assert world.sources.answers.refusals == {}


async def test_while_it_waits_what_stands_stays(world: PolicyWorld) -> None:
    """Then the costs are taken back, and the workload's controller chooses by itself; until ranks return."""
    await probed(world, whenUnranked={"action": "Wait", "timeoutSeconds": 100})
    del world.answers["10.1.0.2"]
    await world.advance(80)
    await world.look()
    status, reason, message = await ready(world)
    assert (status, reason) == ("False", "Unranked")
    assert "1 of 3 pods have no rank" in message
    assert "was asked and gave no answer: nobody is there" in message
    assert "a scale-down waits for them, up to 100 s" in message
    assert len(await world.costs()) == 3
    assert (world.sample("pods", rank="known"), world.sample("pods", rank="missing")) == (2, 1)
    assert world.sample("oldest_sample_seconds", source="answers") > 60
    await world.advance(120)
    await world.look()
    assert await world.costs() == {}
    assert world.sample("fallbacks_total", reason="unranked") == 1
    assert "chooses by itself" in (await ready(world))[2]
    world.answers["10.1.0.2"] = b"60"
    await world.advance(40)
    await world.look()
    assert len(await world.costs()) == 3
    assert (await ready(world))[0] == "True"


async def test_a_fallback_waits_for_nobody(world: PolicyWorld) -> None:
    """The costs go as soon as one rank is missing."""
    await probed(world, whenUnranked={"action": "Fallback"})
    assert len(await world.costs()) == 3
    del world.answers["10.1.0.2"]
    await world.advance(90)
    await world.look()
    assert await world.costs() == {}


async def test_controllers_that_wait_see_who_has_no_rank(world: PolicyWorld) -> None:
    """A PodGroupCost names the ranked pods alone, whatever the policy says of waiting."""
    await probed(world, carrier="AlphaAnnotation", whenUnranked={"action": "Wait"})
    assert len(await world.costs("scheduling.alpha.kubernetes.io/cost")) == 3
    del world.answers["10.1.0.2"]
    await world.advance(90)
    await world.look()
    assert len(await world.costs("scheduling.alpha.kubernetes.io/cost")) == 2


async def test_a_strategy_that_cannot_work_says_why(world: PolicyWorld) -> None:
    """Idle without a metrics server: what to install, and what happens meanwhile."""
    world.product.refuse = lambda request: refusal(404, "no such path") if "metrics" in request.path else None
    await world.deploy(3)
    await world.policy(strategies=[{"name": "Idle"}], delivery="Continuous")
    await world.advance(60)
    status, reason, message = await ready(world)
    assert (status, reason) == ("False", "Unranked")
    assert "metrics.k8s.io is not served by this cluster; install a metrics server" in message
    found = (await world.status()).status
    assert (found.ranked_pods, found.unranked_pods) == (0, 3)
    assert "install a metrics server" in found.last_error


# The proposal's other stories.


async def test_pods_on_nodes_that_would_rather_have_none_go_first(world: PolicyWorld) -> None:
    """The proposal's second story, as taints come and go."""
    await world.deploy(6)
    await world.policy(strategies=[{"name": "PreferNoSchedule"}], delivery="Continuous")
    taints = [{"key": "retire", "effect": "PreferNoSchedule"}]
    await world.user.patch(Resource.of(Node).raw, "a2", {"spec": {"taints": taints}})
    await world.look()
    await world.scale(4)
    assert {pod.spec.node_name for pod in await world.pods()} == {"a1", "b1"}


async def test_three_replicas_on_two_zones_stay_on_two_zones(world: PolicyWorld) -> None:
    """The proposal's third story: two in one zone, one in the other, scaled down to two."""
    for _ in range(3):
        await world.deploy(3)
        await world.policy(delivery="Continuous")
        assert await world.zones() == {"a": 2, "b": 1}
        await world.scale(2)
        assert await world.zones() == {"a": 1, "b": 1}
        await world.drop_policy()
        await world.user.delete(Deployment, "web", namespace="default", propagation="Background")
        await world.settle()
        await world.run_pods()
