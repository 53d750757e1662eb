"""What policies say of themselves: conditions, counts, the last plan, the last error; and what waiting means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.scaledown.executors import LateExecutor
from tests.unit.scaledown.policy_cluster import PolicyCluster, target, template
from trimtab.api.annotations import OPT_OUT
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.resources import Resource
from trimtab.kube.transport import Request
from trimtab.scaledown.policy import continuous_plans
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.policy.findings import WITH_POD_COST
from trimtab.scaledown.policy.groups import GroupKey, Groups
from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.testing.labs import JSON, deployment

BALANCE = [{"name": "Balance"}]
PROBE = [{"name": "Probe", "args": {"periodSeconds": 10, "maxAgeSeconds": 60}}]
POLICIES = Resource.of(ScaleDownPolicy).raw


async def ready(cluster: PolicyCluster, name: str = "web") -> tuple[str, str, str]:
    """Status, reason and message of the condition Ready."""
    found = await cluster.condition("Ready", name)
    assert found is not None
    return found.status, found.reason, found.message


async def test_a_policy_that_works_reports_its_workloads(cluster: PolicyCluster) -> None:
    """With the observed generation, and how many pods it ranks."""
    await cluster.deploy(6)
    await cluster.policy(strategies=BALANCE)
    found = (await cluster.status()).status
    assert (found.observed_generation, found.ranked_pods, found.unranked_pods) == (1, 6, 0)
    assert await ready(cluster) == (
        "True",
        "OnScaleIntent",
        "applies to Deployment web: 6 pods are ranked, costs are written on each scale-down",
    )
    assert [each.type for each in found.conditions] == ["Ready"]


async def test_a_status_follows_the_generation(cluster: PolicyCluster) -> None:
    """Also where nothing else changes; and the time of the transition stays."""
    await cluster.deploy(3)
    await cluster.policy(strategies=BALANCE)
    since = (await cluster.condition("Ready")).last_transition_time  # type: ignore[union-attr]
    await cluster.user.patch(POLICIES, "web", {"spec": {"whenUnranked": {"timeoutSeconds": 5}}}, namespace="default")
    await cluster.look()
    found = (await cluster.status()).status
    assert found.observed_generation == 2
    assert found.conditions[0].last_transition_time == since


async def test_an_unchanged_status_is_not_written(cluster: PolicyCluster) -> None:
    """Neither when time passes nor when it is requeued."""
    await cluster.deploy(3)
    await cluster.policy(strategies=BALANCE)
    version = (await cluster.status()).metadata.resource_version
    await cluster.advance(1200)
    assert (await cluster.status()).metadata.resource_version == version


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
        pytest.param(
            {"targetRef": target("wbe")}, "WorkloadNotFound", "there is no Deployment wbe", id="no such target"
        ),
        pytest.param(
            {"selector": {"matchLabels": {"app": "wbe"}}},
            "WorkloadNotFound",
            "matches the pods of no workload",
            id="a selector that matches nothing",
        ),
    ],
)
async def test_a_policy_that_cannot_work_reports_what_to_do(
    cluster: PolicyCluster, spec: JSON, reason: str, words: str
) -> None:
    """Whatever let it into the cluster."""
    await cluster.deploy(3)
    await cluster.policy(**{"delivery": "Continuous", **{name: value for name, value in spec.items() if value}})
    if spec.get("targetRef", "") is None:
        await cluster.user.patch(POLICIES, "web", {"spec": {"targetRef": None}}, namespace="default")
        await cluster.look()
    status, found, message = await ready(cluster)
    assert (status, found) == ("False", reason)
    assert words in message
    assert await cluster.costs() == {}


@pytest.mark.parametrize(
    ("delivery", "reason"), [pytest.param("OnScaleIntent", "Invalid"), pytest.param("Continuous", "Ranking")]
)
async def test_a_budget_without_time_for_writing_costs_is_reported(
    cluster: PolicyCluster, delivery: str, reason: str
) -> None:
    """By the settle time of the configuration, which the schema does not know; costs that are kept are in place."""
    cluster.controller.configure(Defaults(settle_milliseconds=300))
    await cluster.deploy(3)
    await cluster.policy(delivery=delivery, budgetMilliseconds=500)
    _, found, message = await ready(cluster)
    assert found == reason
    assert ("spec.budgetMilliseconds: 500 leaves no time" in message) == (reason == "Invalid")


@pytest.mark.parametrize("weight", [0, -1, 1001])
async def test_a_weight_that_cannot_be_is_refused_by_the_server(cluster: PolicyCluster, weight: int) -> None:
    """By the schema."""
    with pytest.raises(Exception, match="weight"):
        await cluster.policy(strategies=[{"name": "Balance", "weight": weight}])


async def test_a_policy_applies_to_a_workload_that_is_created_later(cluster: PolicyCluster) -> None:
    """Without a change to the policy."""
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    assert (await ready(cluster))[1] == "WorkloadNotFound"
    await cluster.deploy(3)
    await cluster.look()
    assert (await ready(cluster))[1] == "Ranking"
    assert len(await cluster.costs()) == 3


async def test_overlapping_policies_both_report_it(cluster: PolicyCluster) -> None:
    """The more specific one applies, the other is overridden; and each names the other."""
    await cluster.deploy(3)
    await cluster.policy("by-label", selector={"matchLabels": {"app": "web"}}, strategies=[{"name": "Youngest"}])
    await cluster.policy("by-name", strategies=BALANCE)
    winner = await cluster.condition("Overlapping", "by-name")
    loser = await cluster.condition("Overlapping", "by-label")
    assert winner is not None
    assert loser is not None
    assert winner.message == "overrides default/by-label for Deployment web"
    assert loser.message == "is overridden by ScaleDownPolicy default/by-name for Deployment web"
    assert (await ready(cluster, "by-name"))[0] == "True"
    assert (await ready(cluster, "by-label"))[:2] == ("False", "Overridden")
    await cluster.drop_policy("by-name")
    assert await cluster.condition("Overlapping", "by-label") is None
    assert (await ready(cluster, "by-label"))[0] == "True"


async def test_a_policy_for_a_deployments_replicaset_reports_what_to_do(cluster: PolicyCluster) -> None:
    """Costs can be kept current on its pods; but only requests to the Deployment are held."""
    await cluster.deploy(6)
    (found,) = (await cluster.user.list(ReplicaSet, namespace="default")).items
    name = found.metadata.name
    await cluster.policy("part", targetRef=target(name, "ReplicaSet"))
    await cluster.policy()
    status, reason, message = await ready(cluster, "part")
    assert (status, reason) == ("False", "ManagedByDeployment")
    assert message == (
        f"ReplicaSet {name} is resized by its Deployment web; only requests to the Deployment are held; "
        "name the Deployment in spec.targetRef, or use delivery: Continuous"
    )
    overlaps = {each: await cluster.condition("Overlapping", each) for each in ("part", "web")}
    assert {each: known and known.message for each, known in overlaps.items()} == {
        "part": f"overrides default/web for ReplicaSet {name}",
        "web": f"is overridden by ScaleDownPolicy default/part for ReplicaSet {name}",
    }
    await cluster.user.patch(POLICIES, "part", {"spec": {"delivery": "Continuous"}}, namespace="default")
    await cluster.look()
    assert (await ready(cluster, "part"))[0] == "True"
    assert len(await cluster.costs()) == 6


async def test_a_workload_that_an_operator_owns_is_treated_like_any_other(cluster: PolicyCluster) -> None:
    """A selector finds it, its scale-downs are reported, and conflicting workloads are found."""
    owner = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "1-2-3", "controller": True}
    await cluster.deploy(6, metadata={"ownerReferences": [owner]})
    await cluster.policy(selector={"matchLabels": {"app": "web"}}, strategies=BALANCE, delivery="Continuous")
    status, _, message = await ready(cluster)
    assert status == "True"
    assert message.startswith("applies to Deployment web: 6 pods are ranked")
    await cluster.scale(4)
    await cluster.look()
    plan = (await cluster.status()).status.last_plan
    assert plan is not None
    assert (plan.from_, plan.to) == (6, 4)
    await cluster.create(Deployment, deployment("other", 1, labels={"app": "web"}))
    await cluster.look()
    assert (await ready(cluster))[:2] == ("False", "OverlappingSelectors")
    await cluster.user.patch(Deployment, "other", {"metadata": {"ownerReferences": [owner]}}, namespace="default")
    await cluster.user.patch(POLICIES, "web", {"spec": {"whenUnranked": {"timeoutSeconds": 5}}}, namespace="default")
    await cluster.look()
    assert (await ready(cluster))[0] == "True", "two workloads of one owner do not conflict"


async def test_a_policy_may_apply_to_some_workloads_and_be_overridden_for_others(cluster: PolicyCluster) -> None:
    """It is ready, and reports where it is overridden."""
    await cluster.deploy(2)
    await cluster.deploy(2, name="api", labels={"app": "api"})
    await cluster.policy("everyone", selector={}, strategies=BALANCE)
    await cluster.policy("web", strategies=BALANCE)
    status, _, message = await ready(cluster, "everyone")
    assert status == "True"
    assert message.startswith("applies to Deployment api: 2 pods")
    found = await cluster.condition("Overlapping", "everyone")
    assert found is not None
    assert found.reason == "Overridden"


@pytest.mark.parametrize("carrier", ["PodGroupCost", "AlphaAnnotation"])
async def test_a_carrier_that_no_controller_reads_is_reported(cluster: PolicyCluster, carrier: str) -> None:
    """A Deployment's controller reads pod-deletion-cost and nothing else."""
    await cluster.deploy(3)
    await cluster.policy(strategies=BALANCE, carrier=carrier)
    found = await cluster.condition("CarrierNotConsumed")
    assert found is not None
    assert found.status == "True"
    assert "no controller reads this carrier for Deployment web; use carrier: Annotation" in found.message
    assert (await ready(cluster))[:2] == ("False", "CarrierNotConsumed")


@pytest.mark.parametrize("gate", [False, True])
async def test_clonesets_read_the_other_carriers_behind_a_gate(cluster: PolicyCluster, gate: bool) -> None:
    """With the gate there is no condition."""
    await cluster.stop_policies()
    cluster.readers = WITH_POD_COST if gate else cluster.readers
    await cluster.start_policies()
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "c"}}, "template": template(app="c")}
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    await cluster.user.create(
        Resource.of(CloneSet).raw, {**kind, "metadata": {"name": "c"}, "spec": spec}, namespace="default"
    )
    await cluster.policy(targetRef=target("c", "CloneSet", kind["apiVersion"]), carrier="PodGroupCost")
    assert (await cluster.condition("CarrierNotConsumed") is None) is gate


async def test_a_selector_that_matches_a_statefulsets_pods_reports_not_supported(cluster: PolicyCluster) -> None:
    """Its pods are seen, and no policy can apply to them."""
    spec = {"selector": {"matchLabels": {"app": "db"}}, "template": template(app="db"), "serviceName": "db"}
    made = await cluster.create(StatefulSet, {"metadata": {"name": "db"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": made.metadata.uid, "controller": True}
    body = {**template(app="db"), "metadata": {"name": "db-0", "labels": {"app": "db"}, "ownerReferences": [owner]}}
    await cluster.user.create(Resource.of(Pod).raw, body, namespace="default")
    await cluster.policy("db", selector={"matchLabels": {"app": "db"}}, delivery="Continuous")
    status, reason, message = await ready(cluster, "db")
    assert (status, reason) == ("False", "NotSupported")
    assert message.startswith("StatefulSet db is not supported: a StatefulSet removes its highest ordinal first")


async def test_the_last_plan_is_reported(cluster: PolicyCluster) -> None:
    """From, to, victims, skew before, after, and what stock would have left."""
    await cluster.deploy(9)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    before = {pod.metadata.name for pod in await cluster.pods()}
    await cluster.scale(4)
    await cluster.look()
    plan = (await cluster.status()).status.last_plan
    assert plan is not None
    assert (plan.from_, plan.to) == (9, 4)
    assert set(plan.victims) == before - {pod.metadata.name for pod in await cluster.pods()}
    zone = next(each for each in plan.skews if each.topology_key == "topology.kubernetes.io/zone")
    assert (zone.before, zone.after) == (3, 0)


@pytest.mark.parametrize(
    ("most", "longest", "problem"),
    [
        pytest.param(8, 5.0, "", id="reported"),
        pytest.param(0, 5.0, "busy", id="of too many, not reported"),
        pytest.param(8, 1e-6, "large", id="that would take too long, not reported"),
    ],
)
async def test_the_plan_of_a_large_workload_is_made_beside_the_event_loop(
    cluster: PolicyCluster, most: int, longest: float, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the pods that it had when it shrank, although they have been deleted by then."""
    monkeypatch.setattr(continuous_plans, "_IN_LOOP_SECONDS", 0.0)
    monkeypatch.setattr(continuous_plans, "_MOST_COMPUTING", most)
    monkeypatch.setattr(continuous_plans, "_LONGEST_SECONDS", longest)
    executor = cluster.controller.continuous_plans.executor = LateExecutor()
    await cluster.deploy(9)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    before = {pod.metadata.name for pod in await cluster.pods()}
    await cluster.scale(4)
    await cluster.look()
    assert (await cluster.status()).status.last_plan is None
    executor.compute()
    await cluster.look()
    plan = (await cluster.status()).status.last_plan
    assert (plan is None) == bool(problem)
    for reason in ("busy", "large"):
        assert cluster.sample("unreported_plans_total", reason=reason) == (reason == problem)
    if plan is not None:
        assert set(plan.victims) == before - {pod.metadata.name for pod in await cluster.pods()}


async def test_a_plan_that_is_being_made_is_not_reported_by_a_former_leader(
    cluster: PolicyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one reports what it sees."""
    monkeypatch.setattr(continuous_plans, "_IN_LOOP_SECONDS", 0.0)
    executor = cluster.controller.continuous_plans.executor = LateExecutor()
    await cluster.deploy(9)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    await cluster.scale(4)
    await cluster.stop_policies()
    executor.compute()
    await cluster.start_policies()
    assert (await cluster.status()).status.last_plan is None


async def test_a_plan_whose_costs_were_not_written_is_the_last_error(cluster: PolicyCluster) -> None:
    """Until there is one that could."""
    await cluster.deploy(9)
    await cluster.policy()
    for error in ("0 of 3 costs were written", ""):
        plan = {"status": {"lastPlan": {"from": 9, "to": 6, "error": error}}}
        await cluster.user.patch(ScaleDownPolicy, "web", plan, namespace="default", subresource="status")
        await cluster.look()
        assert (await cluster.status()).status.last_error == error


async def test_the_plan_of_a_recreated_policy_is_dropped(cluster: PolicyCluster) -> None:
    """It is not its successor's, and is not offered to it for ever."""
    told: list[Request] = []

    def refuse(request: Request) -> Exception | None:
        if request.method != "PATCH" or b"lastPlan" not in (request.body or b""):
            return None
        told.append(request)
        return status_error(503, "come back later") if away else None

    away = True
    await cluster.deploy(9)
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    cluster.product.refuse = refuse
    await cluster.scale(4)
    await cluster.drop_policy()
    await cluster.policy(strategies=BALANCE, delivery="Continuous")
    assert told
    away = False
    await cluster.advance(60)
    told.clear()
    await cluster.advance(600)
    assert told == []
    assert (await cluster.status()).status.last_plan is None


# Ranks that are missing.


async def probed(cluster: PolicyCluster, replicas: int = 3, **spec: Any) -> list[Pod]:
    """A Deployment whose pods answer what they cost: 0, 60, 120 and so on; reconciled."""
    await cluster.deploy(replicas)
    pods = sorted(await cluster.pods(), key=lambda pod: pod.metadata.name)
    for at, pod in enumerate(pods):
        address = f"10.1.0.{at + 1}"
        cluster.answers[address] = str(60 * at).encode()
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        await cluster.user.patch(Pod, pod.metadata.name, status, namespace="default", subresource="status")
    await cluster.policy(**{"strategies": PROBE, "delivery": "Continuous", **spec})
    await cluster.advance(20)
    await cluster.look()
    return pods


async def test_long_running_work_is_spared(cluster: PolicyCluster) -> None:
    """The proposal's first story: the pod that has worked longest is deleted last."""
    pods = await probed(cluster, 4)
    assert await cluster.costs() == {pod.metadata.name: 60 * at for at, pod in enumerate(pods)}
    await cluster.scale(2)
    assert {pod.metadata.name for pod in await cluster.pods()} == {pod.metadata.name for pod in pods[2:]}


async def test_costs_follow_what_pods_answer(cluster: PolicyCluster) -> None:
    """Only the pod whose answer changed is written to."""
    pods = await probed(cluster)
    cluster.product.requests.clear()
    cluster.answers["10.1.0.1"] = b"999"
    await cluster.advance(40)
    assert (await cluster.costs())[pods[0].metadata.name] == 999
    assert len(cluster.writes()) == 1


async def test_a_status_follows_what_is_sampled_whatever_the_delivery(cluster: PolicyCluster) -> None:
    """It is first written before any pod was probed; changes of ranks are reported soon."""
    await probed(cluster, delivery="OnScaleIntent")
    assert await ready(cluster) == (
        "True",
        "OnScaleIntent",
        "applies to Deployment web: 3 pods are ranked, costs are written on each scale-down",
    )
    cluster.answers.clear()
    await cluster.advance(90)
    assert (await ready(cluster))[1] == "Unranked"
    assert (await cluster.status()).status.unranked_pods == 3


async def test_a_former_leader_reports_no_metrics(cluster: PolicyCluster) -> None:
    """Ages would grow without end, and pods be counted twice, although another process looks after them."""
    await probed(cluster)
    names = ("pods", "oldest_ranks_seconds", "oldest_sample_seconds")
    labels: dict[str, dict[str, str]] = {"pods": {"rank": "known"}, "oldest_sample_seconds": {"source": "answers"}}

    def told() -> list[float | None]:
        found = cluster.metrics.registry.get_sample_value
        return [found(f"trimtab_scaledown_{name}", labels.get(name, {})) for name in names]

    await cluster.advance(1)
    assert all(told())
    await cluster.stop_policies()
    await cluster.advance(1000)
    assert told() == [0.0, 0.0, 0.0]


async def test_no_pod_is_probed_while_scale_downs_are_disabled(cluster: PolicyCluster) -> None:
    """The values are not needed then."""
    await probed(cluster)
    cluster.defaults = Defaults(enabled=False)
    cluster.controller.configure(cluster.defaults)
    await cluster.advance(10)
    assert await cluster.costs() == {}
    cluster.answers.clear()  # a probe would fail from now on
    await cluster.advance(120)
    assert cluster.sources.answers.refusals == {}


async def test_costs_stay_while_a_policy_waits_for_ranks(cluster: PolicyCluster) -> None:
    """Then the costs are reverted, and the workload's controller chooses by itself; until ranks return."""
    await probed(cluster, whenUnranked={"action": "Wait", "timeoutSeconds": 100})
    del cluster.answers["10.1.0.2"]
    await cluster.advance(80)
    await cluster.look()
    status, reason, message = await ready(cluster)
    assert (status, reason) == ("False", "Unranked")
    assert "1 of 3 pods have no rank" in message
    assert "was probed and gave no answer: nobody is there" in message
    assert "a scale-down waits for them, up to 100 s" in message
    assert len(await cluster.costs()) == 3
    assert (cluster.sample("pods", rank="known"), cluster.sample("pods", rank="missing")) == (2, 1)
    assert cluster.sample("oldest_sample_seconds", source="answers") > 60
    await cluster.advance(120)
    await cluster.look()
    assert await cluster.costs() == {}
    assert cluster.sample("fallbacks_total", reason="unranked") == 1
    assert "the controller's own order decides" in (await ready(cluster))[2]
    cluster.answers["10.1.0.2"] = b"60"
    await cluster.advance(40)
    await cluster.look()
    assert len(await cluster.costs()) == 3
    assert (await ready(cluster))[0] == "True"


async def test_a_fallback_does_not_wait(cluster: PolicyCluster) -> None:
    """The costs go as soon as one rank is missing."""
    await probed(cluster, whenUnranked={"action": "Fallback"})
    assert len(await cluster.costs()) == 3
    del cluster.answers["10.1.0.2"]
    await cluster.advance(90)
    await cluster.look()
    assert await cluster.costs() == {}


async def test_a_pod_group_cost_lists_ranked_pods_only(cluster: PolicyCluster) -> None:
    """A PodGroupCost names the ranked pods alone, whatever `whenUnranked` is."""
    await probed(cluster, carrier="AlphaAnnotation", whenUnranked={"action": "Wait"})
    assert len(await cluster.costs("scheduling.alpha.kubernetes.io/cost")) == 3
    del cluster.answers["10.1.0.2"]
    await cluster.advance(90)
    await cluster.look()
    assert len(await cluster.costs("scheduling.alpha.kubernetes.io/cost")) == 2


async def test_a_strategy_that_cannot_work_reports_why(cluster: PolicyCluster) -> None:
    """Idle without a metrics server: what to install, and what happens meanwhile."""
    cluster.product.refuse = lambda request: status_error(404, "no such path") if "metrics" in request.path else None
    await cluster.deploy(3)
    await cluster.policy(strategies=[{"name": "Idle"}], delivery="Continuous")
    await cluster.advance(60)
    status, reason, message = await ready(cluster)
    assert (status, reason) == ("False", "Unranked")
    assert "metrics.k8s.io is not served by this cluster; install a metrics server" in message
    found = (await cluster.status()).status
    assert (found.ranked_pods, found.unranked_pods) == (0, 3)
    assert "install a metrics server" in found.last_error


# The proposal's other stories.


async def test_pods_on_prefer_no_schedule_nodes_are_deleted_first(cluster: PolicyCluster) -> None:
    """The proposal's second story, as taints come and go."""
    await cluster.deploy(6)
    await cluster.policy(strategies=[{"name": "PreferNoSchedule"}], delivery="Continuous")
    taints = [{"key": "retire", "effect": "PreferNoSchedule"}]
    await cluster.user.patch(Resource.of(Node).raw, "a2", {"spec": {"taints": taints}})
    await cluster.look()
    await cluster.scale(4)
    assert {pod.spec.node_name for pod in await cluster.pods()} == {"a1", "b1"}


async def test_three_replicas_on_two_zones_stay_on_two_zones(cluster: PolicyCluster) -> None:
    """The proposal's third story: two in one zone, one in the other, scaled down to two."""
    for _ in range(3):
        await cluster.deploy(3)
        await cluster.policy(delivery="Continuous")
        assert await cluster.zones() == {"a": 2, "b": 1}
        await cluster.scale(2)
        assert await cluster.zones() == {"a": 1, "b": 1}
        await cluster.drop_policy()
        await cluster.user.delete(Deployment, "web", namespace="default", propagation="Background")
        await cluster.settle()
        await cluster.run_pods()


async def test_a_stored_policy_whose_ranks_none_recomputes_writes_nothing(cluster: PolicyCluster) -> None:
    """Admission refuses it; one that was stored before Trimtab was installed says the same, and does no harm."""
    await cluster.deploy(4)
    await cluster.policy(strategies=[{"name": "AntiAffinity"}], delivery="Continuous")
    status, reason, message = await ready(cluster)
    assert (status, reason) == ("False", "Invalid")
    assert message.startswith("spec.delivery: Continuous with the carrier Annotation cannot be used with AntiAffinity")
    assert await cluster.costs() == {}
    await cluster.user.patch(POLICIES, "web", {"spec": {"delivery": "OnScaleIntent"}}, namespace="default")
    await cluster.look()
    assert (await ready(cluster))[0] == "True"


async def test_a_namespace_label_that_means_nothing_is_reported_once(
    cluster: PolicyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """By an event on the namespace, again for another value; a known value, or none, is not reported."""
    about, reason = "Namespace default", "UnknownLabelValue"

    async def label(value: str | None) -> None:
        await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {OPT_OUT: value}}})
        await cluster.look()

    await cluster.deploy(2)
    await cluster.deploy(2, "api")
    for value in (None, "Observe", "enforce", "disabled"):
        await label(value)
    assert cluster.events == []
    await label("enforced")
    message = (
        'the label trimtab.dev/scale-down has the value "enforced", which means nothing: write one of disabled, '
        "enforce, observe"
    )
    assert cluster.events == [(about, reason, message)]
    assert f"namespace default: {message}" in caplog.text
    await cluster.scale(3)
    await cluster.look()
    assert len(cluster.events) == 1
    await label("on")
    assert [each[:2] for each in cluster.events] == [(about, reason)] * 2
    await label(None)
    await label("on")
    assert len(cluster.events) == 3


async def test_workloads_are_compared_with_others_when_they_change_and_not_while_they_are_listed(
    cluster: PolicyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each requeues its own groups while they are listed: to compare all with all is quadratic."""
    compared: list[str] = []

    def in_conflict_with(_: Groups, workload: Any) -> list[GroupKey]:
        compared.append(workload.metadata.name)
        return []

    await cluster.deploy(3)
    await cluster.stop_policies()
    monkeypatch.setattr(Groups, "in_conflict_with", in_conflict_with)
    await cluster.start_policies()
    assert compared == []
    await cluster.user.patch(Deployment, "web", {"metadata": {"labels": {"tier": "front"}}}, namespace="default")
    await cluster.look()
    assert "web" in compared


async def test_rules_of_a_workload_that_are_too_many_are_reported_once(cluster: PolicyCluster) -> None:
    """Of the workload that users scale, until they change; again for other rules, and for a new workload."""
    spread = [
        {"topologyKey": f"example.com/k{number}", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
        for number in range(18)
    ]
    constraints = (
        "spec.template.spec.topologySpreadConstraints: has {}, of which 16 are kept to on a scale-down, hard ones first"
    )
    labels = (
        "spec.selector, spec.template.metadata.labels: have more than 100 labels, expressions or values, so it is not "
        "known whether other workloads select the same pods"
    )

    async def state(count: int) -> None:
        patch = {"spec": {"template": {"spec": {"topologySpreadConstraints": spread[:count]}}}}
        await cluster.user.patch(Deployment, "web", patch, namespace="default")
        await cluster.look()

    await cluster.deploy(2)
    await state(16)
    assert cluster.ignored == []
    await state(17)
    await cluster.scale(3)
    await cluster.look()
    assert cluster.ignored == [("web", constraints.format(17))]
    await state(18)
    await state(2)
    await state(18)
    assert cluster.ignored[1:] == [("web", constraints.format(18))] * 2
    cluster.ignored.clear()
    many = {f"l{number}": "" for number in range(101)}
    await cluster.user.create(Resource.of(Deployment).raw, deployment("wide", 1, labels=many), namespace="default")
    await cluster.look()
    assert cluster.ignored == [("wide", labels)]
