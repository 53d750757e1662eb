"""Plans, ranks, explanations and placements of a cluster as values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.inspection.clusters import HARD, NOW, SOFT, ZONE, Builder, three_zones
from trimtab.api import codec
from trimtab.api.annotations import ALPHA_COST, DELETION_COST, OPT_OUT
from trimtab.api.configuration import read
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod, PodSchedulingGroup
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.inspection import manifests
from trimtab.inspection.cluster import Cluster, Gap
from trimtab.inspection.explanations import explain_pod
from trimtab.inspection.placements import place_manifest
from trimtab.inspection.plans import plan_workload
from trimtab.inspection.ranks import rank_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import find_pod, find_workload
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.plan import plan as make_plan
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.sequences import stock_order

ON = ["a1", "a1", "a2", "a2", "b1", "b2", "b1", "c1"]
ALONE = ["a1", "a2", "a3", "a4"]
SETTINGS = Settings()


def policy(name: str, **spec: Any) -> ScaleDownPolicy:
    """A policy of the namespace default."""
    return codec.convert(
        {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}, ScaleDownPolicy
    )


def web(**more: Any) -> Cluster:
    """Eight pods, most of them in one zone."""
    return three_zones().deployment("web", ON, **more).build()


@pytest.mark.parametrize(
    ("fields", "zone"),
    [
        pytest.param({}, "b", id="by their nodes alone"),
        pytest.param({"rankByDefaultConstraints": True}, "a", id="by default constraints"),
        pytest.param({"rankByDefaultConstraints": True, "rank": "proportional"}, "b", id="in proportion"),
    ],
)
def test_what_a_cloneset_loses_by_itself_depends_on_how_it_ranks(fields: dict[str, Any], zone: str) -> None:
    """Two pods share a node of zone b, and zone a has more pods."""
    cluster = Builder().nodes(a=ALONE, b=["b1"]).cloneset("web", [*ALONE, "b1", "b1"]).build()
    settings = Settings(read({"cloneSet": fields}))
    made = plan_workload(cluster, find_workload(cluster, "cloneset/web", "default"), 5, settings)
    (lost,) = made.controllers[0].always
    found = find_pod(cluster, lost, "default")
    assert found.spec.node_name.startswith(zone)


def test_a_plan_is_that_of_the_core() -> None:
    """The command shows what `ranking.plan` decides, and decides nothing itself."""
    cluster = web(constraints=[SOFT])
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 5, SETTINGS)
    owner = cluster.all(Pod)[0].metadata.controller
    assert owner is not None
    constraints = [Constraint(ZONE)]
    workload = RankedWorkload.owned_by(cluster.snapshot, owner.uid, related=[owner.uid], constraints=constraints)
    expected = make_plan(workload, cluster.snapshot, replicas=5, now=NOW)
    assert [f"default/{victim.pod}" for victim in made.victims] == list(expected.keys)
    found = made.controllers[0].constraints[0]
    assert (found.before, found.after) == ((4, 3, 1), expected.levelings[0].after)
    assert set(made.controllers[0].always) <= set(made.controllers[0].possible)


def test_nodes_that_hold_victims_alone_are_emptied() -> None:
    """Pods of other workloads keep a node; those of DaemonSets do not."""
    builder = three_zones().deployment("web", ["a1", "a2", "b1"])
    agent = codec.convert(
        {
            "metadata": {
                "name": "agent",
                "namespace": "kube-system",
                "uid": "agent",
                "ownerReferences": [{"kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}],
            },
            "spec": {"nodeName": "a1"},
            "status": {"phase": "Running"},
        },
        Pod,
    )
    cluster = builder.put(agent).replicaset("other", ["a2"]).build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 0, SETTINGS)
    assert made.nodes_emptied == ("a1", "b1")


def test_nodes_are_not_called_emptied_where_other_pods_are_unknown() -> None:
    """An account of one namespace does not see what else runs there."""
    gap = Gap(resource="pods", scope="other namespaces", reason="may not be listed", effect="")
    cluster = three_zones().deployment("web", ["a1", "b1"]).build(gaps=(gap,))
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 0, SETTINGS)
    assert made.nodes_emptied == ()
    assert made.gaps == (gap,)


@pytest.mark.parametrize("replicas", [8, 9, -1])
def test_a_target_that_is_no_scale_down_is_refused(replicas: int) -> None:
    """With what to write instead."""
    cluster = web()
    with pytest.raises(InvalidError, match="write"):
        plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), replicas, SETTINGS)


def test_what_stands_in_the_way_is_named() -> None:
    """Costs of other writers, an exempt namespace, a policy that observes."""
    costs = {number: {DELETION_COST: str(number)} for number in range(len(ON))}
    cluster = three_zones().deployment("web", ON, annotations=costs).build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 3, SETTINGS)
    assert any("cost of another writer" in obstacle for obstacle in made.obstacles)
    exempt = three_zones().namespace("shop", **{OPT_OUT: "disabled"}).deployment("web", ON, namespace="shop").build()
    made = plan_workload(exempt, find_workload(exempt, "deploy/web", "shop"), 3, SETTINGS)
    assert any("no policy applies (namespace shop opts out" in obstacle for obstacle in made.obstacles)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    observed = three_zones().deployment("web", ON).put(policy("web", targetRef=target, mode="Observe")).build()
    made = plan_workload(observed, find_workload(observed, "deploy/web", "default"), 3, SETTINGS)
    assert made.policy.name == "default/web"
    assert made.policy.reason == "its targetRef names the workload"
    assert "Trimtab would only report: the policy's mode is Observe" in made.obstacles


@pytest.mark.parametrize(("named", "owner"), [("deploy/web", "web-1"), ("rs/alone", "alone")])
def test_no_policy_applies_to_pods_of_a_scheduling_group(named: str, owner: str) -> None:
    """Although the template does not name it: admission may have put one pod into it."""
    builder = three_zones().deployment("web", ON).deployment("other", ON).replicaset("alone", ON)
    pods = builder.objects[Pod]
    at, found = next((at, pod) for at, pod in enumerate(pods) if pod.metadata.name.startswith(owner))
    grouped = msgspec.structs.replace(found.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g"))
    pods[at] = msgspec.structs.replace(found, spec=grouped)
    cluster = builder.build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/other", "default"), 3, SETTINGS)
    assert made.policy.name
    made = plan_workload(cluster, find_workload(cluster, named, "default"), 3, SETTINGS)
    assert not made.policy.name
    assert "scheduling group" in made.policy.reason


def test_a_configuration_is_obeyed() -> None:
    """Default policies, and the gates of the controllers."""
    tree = {"scaleDown": {"defaultPolicies": [{"name": "calm", "strategies": [{"name": "Youngest"}]}]}}
    cluster = web()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 3, Settings(read(tree)))
    assert (made.policy.name, made.policy.is_default, made.policy.strategies) == ("calm", True, ("Youngest",))
    assert all(victim.strategies[0].strategy == "Youngest" for victim in made.victims)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("web", "is not KIND/NAME", id="no kind"),
        pytest.param("sts/web", "removes its highest ordinal first", id="a StatefulSet"),
        pytest.param("jobs/web", "is none of deploy, rs, rc, cloneset and pod", id="an unknown kind"),
        pytest.param("deploy/wbe", "similar: web", id="a misspelt name"),
        pytest.param("pod/web-1-00", "is a pod, not a workload", id="a pod"),
        pytest.param("deploy/api", "add: -n shop", id="another namespace"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_what_to_type(text: str, message: str) -> None:
    """Nobody should have to read the manual for that."""
    cluster = three_zones().deployment("web", ON).deployment("api", ["a1"], namespace="shop").build()
    with pytest.raises(InvalidError, match=message):
        find_workload(cluster, text, "default")


@pytest.mark.parametrize("kind", ["deploy", "rs", "rc", "cloneset"])
def test_ranks_have_the_controllers_own_order_beside_trimtabs(kind: str) -> None:
    """For every kind; the positions are a permutation, and the controller's are those of the core."""
    builder = three_zones()
    make = {
        "deploy": builder.deployment,
        "rs": builder.replicaset,
        "rc": builder.replication_controller,
        "cloneset": builder.cloneset,
    }[kind]
    cluster = make("web", ON).build()
    ranks = rank_workload(cluster, find_workload(cluster, f"{kind}/web", "default"), SETTINGS)
    pods = ranks.controllers[0].pods
    assert [pod.position for pod in pods] == list(range(1, len(ON) + 1))
    assert sorted(pod.stock_position for pod in pods) == list(range(1, len(ON) + 1))
    owner = cluster.all(Pod)[0].metadata.controller
    assert owner is not None
    related = [owner.uid] if kind == "deploy" else []
    workload = RankedWorkload.owned_by(cluster.snapshot, owner.uid, related=related)
    if kind != "cloneset":
        stock = stock_order(workload, cluster.snapshot, NOW)
        by_position = sorted(pods, key=lambda pod: pod.stock_position)
        names = [cluster.snapshot.pods.rows.names[row] for row in stock.rows.tolist()]
        assert [f"default/{pod.pod}" for pod in by_position] == names
    assert all((pod.criteria.rank is not None) == (kind == "cloneset") for pod in pods)


def group_costs(name: str, costs: dict[str, int]) -> PodGroupCost:
    """A PodGroupCost of another component for the Deployment web."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    tree = {"metadata": {"name": name, "namespace": "default"}, "spec": {"owner": owner, "costs": costs}}
    return codec.convert(tree, PodGroupCost)


def ranked_first(cluster: Cluster, *names: str) -> PodGroupCost:
    """Ranks for all pods, by which these are deleted first."""
    costs = {pod.metadata.name: 0 for pod in cluster.all(Pod)}
    return group_costs("ranker", costs | dict.fromkeys(names, 10))


def test_ranks_of_another_component_replace_the_default_policy() -> None:
    """From a PodGroupCost, as Trimtab would deliver them; the policy says whose ranks they are."""
    cluster = web(constraints=[SOFT])
    chosen = [cluster.all(Pod)[5].metadata.name, cluster.all(Pod)[7].metadata.name]
    cluster = three_zones().deployment("web", ON, constraints=[SOFT]).put(ranked_first(cluster, *chosen)).build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 6, SETTINGS)
    assert sorted(victim.pod for victim in made.victims) == sorted(chosen)
    assert made.policy.ranked_by == "PodGroupCost ranker"
    assert "PodGroupCost ranker ranks the pods" in made.policy.sentence()
    ranks = rank_workload(cluster, find_workload(cluster, "deploy/web", "default"), SETTINGS)
    assert {pod.pod for pod in ranks.controllers[0].pods[:2]} == set(chosen)


def test_annotated_ranks_replace_the_default_policy_too() -> None:
    """Where every pod has one."""
    annotations = {at: {ALPHA_COST: "9" if at == 6 else "1"} for at in range(len(ON))}
    cluster = web(constraints=[SOFT], annotations=annotations)
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 7, SETTINGS)
    assert [victim.pod for victim in made.victims] == [cluster.all(Pod)[6].metadata.name]
    assert made.policy.ranked_by == f"the annotation {ALPHA_COST}"


def test_a_pod_without_a_rank_is_named() -> None:
    """The controller's own order decides then, and the plan says why."""
    cluster = web(constraints=[SOFT], annotations={0: {ALPHA_COST: "9"}})
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 7, SETTINGS)
    assert any("7 of 8 pods have no rank" in each for each in made.obstacles)


def test_several_podgroupcosts_count_as_none() -> None:
    """They are named, and the default policy decides."""
    costs = [group_costs("one", {}), group_costs("two", {})]
    cluster = three_zones().deployment("web", ON, constraints=[SOFT]).put(*costs).build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 5, SETTINGS)
    assert made.policy.ranked_by == ""
    assert any(each.startswith("PodGroupCosts one, two rank the same pods") for each in made.obstacles)


def test_a_policy_of_the_workload_wins_over_explicit_ranks() -> None:
    """Only a default is made to be overridden."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cluster = web(constraints=[SOFT], annotations={at: {ALPHA_COST: str(at)} for at in range(len(ON))})
    cluster.objects[ScaleDownPolicy] = [policy("web", targetRef=target)]  # type: ignore[index]
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 5, SETTINGS)
    assert made.policy.ranked_by == ""


def test_scheduled_is_scored_and_samples_are_said_to_be_missing() -> None:
    """Scores follow from the cluster; usage and answers are sampled by a running Trimtab alone."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for name, is_ranked in (("Scheduled", True), ("Idle", False), ("Probe", False)):
        args = {"port": 8080} if name == "Probe" else {}
        given = policy("web", targetRef=target, strategies=[{"name": name, "args": args}])
        cluster = three_zones().deployment("web", ON, constraints=[HARD]).put(given).build()
        made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 5, SETTINGS)
        assert made.policy.problem == ""
        assert any("only a running Trimtab has" in each for each in made.obstacles) is not is_ranked
        assert all(bool(victim.strategies) is is_ranked for victim in made.victims)
        assert made.controllers[0].constraints[0].after == (2, 2, 1)


def test_ranks_show_what_every_strategy_says() -> None:
    """Raw, capped at the threshold, and weighted; the total is their sum."""
    strategies = [{"name": "Balance", "weight": 3, "threshold": 2}, {"name": "Youngest", "weight": 2, "threshold": 5}]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cluster = three_zones().deployment("web", ON).put(policy("web", targetRef=target, strategies=strategies)).build()
    ranks = rank_workload(cluster, find_workload(cluster, "deploy/web", "default"), SETTINGS)
    for pod in ranks.controllers[0].pods:
        balance, youngest = pod.strategies
        assert (balance.strategy, balance.weight, youngest.weight) == ("Balance", 3, 2)
        assert balance.capped is not None
        assert balance.weighted == 3 * balance.capped
        assert abs(balance.capped) <= 2
        assert pod.total == pytest.approx((balance.weighted or 0) + (youngest.weighted or 0))


def test_a_pod_is_explained_with_its_neighbours_in_the_order() -> None:
    """And the constraint with where it comes from."""
    cluster = web(constraints=[HARD])
    first = rank_workload(cluster, find_workload(cluster, "deploy/web", "default"), SETTINGS).controllers[0].pods
    found = explain_pod(cluster, find_pod(cluster, first[1].pod, "default"), SETTINGS)
    assert found.order is not None
    assert (found.order.position, found.order.of) == (2, len(ON))
    assert (found.order.goes_after, found.order.goes_before) == (first[0].pod, first[2].pod)
    assert found.order.goes_before_because
    assert found.owners == ("ReplicaSet default/web-1", "Deployment default/web")
    constraint = found.constraints[0]
    assert (constraint.topology_key, constraint.hard) == (ZONE, True)
    assert constraint.source == "the template of ReplicaSet default/web-1"
    assert (constraint.fewest, constraint.most) == (1, 4)
    assert found.placement is not None
    assert any("topology spread" in group.reason for group in found.placement.others)


def test_a_pod_without_constraints_is_explained_by_the_defaults() -> None:
    """As the cluster's own scheduler spreads it."""
    cluster = web()
    found = explain_pod(cluster, find_pod(cluster, "pod/web-1-00", "default"), SETTINGS)
    assert {each.source for each in found.constraints} == {"the default constraints"}
    assert [each.topology_key for each in found.constraints] == [ZONE, "kubernetes.io/hostname"]


def test_a_pod_without_a_controller_is_explained_all_the_same() -> None:
    """No scale-down deletes it."""
    alone = codec.convert({"metadata": {"name": "alone", "namespace": "default", "uid": "u"}}, Pod)
    cluster = three_zones().put(alone).build()
    found = explain_pod(cluster, alone, SETTINGS)
    assert found.order is None
    assert "no controller manages it: no scale-down deletes it" in found.notes


def test_a_subset_is_named_with_its_level() -> None:
    """Three pods of four fit into the subset; the fourth is redundant."""
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "subsets": [{"name": "all", "maxReplicas": 3}],
    }
    topology = codec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, UnitedTopology)
    cluster = three_zones().deployment("web", ["a1", "a2", "b1", "c1"]).put(topology).build()
    found = [explain_pod(cluster, pod, SETTINGS).subset for pod in cluster.all(Pod)]
    assert {(each.topology, each.subset, each.limit) for each in found if each} == {("web", "all", 3)}
    assert sorted(each.level for each in found if each) == ["Guaranteed"] * 3 + ["Redundant"]


def test_a_plan_empties_the_last_subset_first() -> None:
    """Whatever the zones would say."""
    zone = {"key": ZONE, "operator": "In", "values": ["z1"]}
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "subsets": [{"name": "own", "nodeSelectorTerm": {"matchExpressions": [zone]}}, {"name": "rented"}],
    }
    topology = codec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, UnitedTopology)
    builder = three_zones().deployment("web", ["a1", "a2", "a1", "b1", "c1"])
    cluster = builder.put(topology).build()
    made = plan_workload(cluster, find_workload(cluster, "deploy/web", "default"), 3, SETTINGS)
    assert {victim.node for victim in made.victims} == {"b1", "c1"}


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: x, resources: {requests: {cpu: "7"}}}]
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule,
           labelSelector: {matchLabels: {app: web}}}
"""


def test_pods_are_placed_one_after_the_other() -> None:
    """Six fit, two in each zone; the seventh has no node, and every node its reason."""
    (manifest,) = manifests.parse(DEPLOYMENT, "web.yaml")
    cluster = three_zones().build()
    found = place_manifest(cluster, manifest, SETTINGS, count=7, namespace="default", seed=1)
    assert (found.placed, found.count) == (6, 7)
    assert set(found.by_node.values()) == {1}
    last = found.pods[-1]
    assert (last.outcome, last.node) == ("Unschedulable", "")
    assert sum(group.count for group in last.others) == 6
    assert {group.plugin for group in last.others} == {"NodeResourcesFit"}
    first = found.pods[0]
    assert sum(score.weighted for score in first.scores) == first.total


def test_pods_of_a_template_without_constraints_are_spread_by_the_defaults() -> None:
    """As the ReplicaSet that will own them makes kube-scheduler do."""
    text = DEPLOYMENT.partition("      topologySpreadConstraints")[0].replace('cpu: "7"', 'cpu: "1"')
    (manifest,) = manifests.parse(text, "web.yaml")
    found = place_manifest(three_zones().build(), manifest, SETTINGS, count=6, namespace="default", seed=1)
    assert set(found.by_node.values()) == {1}


def test_a_manifest_that_creates_no_pods_is_refused() -> None:
    """With its place in the file."""
    (manifest,) = manifests.parse("\n\nkind: ConfigMap\nmetadata: {name: settings}\n", "all.yaml")
    with pytest.raises(InvalidError, match=r"all.yaml:3: ConfigMap settings creates no pods"):
        place_manifest(three_zones().build(), manifest, SETTINGS, count=1, namespace="default", seed=1)
