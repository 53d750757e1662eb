"""How well the pods of a group are placed, by the profile of their own scheduler; and plans that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ranking.groups import NOW
from trimtab.api import codec
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import Service
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.scaledown import StrategySpec
from trimtab.api.schedulerconfig import V1
from trimtab.placement.profiles import DEFAULT_SCHEDULER, Profile, default_profile
from trimtab.ranking.plan import Plan, Policy, Workload, plan
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.sources.scores import NodeScores, in_classes
from trimtab.scheduler import configuration
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import ClusterBuilder, PodBuilder, cluster, pod

KNOWN: Mapping[str, Profile] = {DEFAULT_SCHEDULER: default_profile()}
OWNED = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
LEVEL_BY_RACK = {
    "apiVersion": V1,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "racked",
            "pluginConfig": [
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                }
            ],
        }
    ],
}


def web(name: str, node: str) -> PodBuilder:
    """A running pod of the ReplicaSet web."""
    made = pod(name).labels(app="web").owned_by("web").on(node).requests(cpu="100m")
    return made.phase("Running").ready(since="2026-01-01T00:00:00Z")


def snapshot_of(made: ClusterBuilder, *groups: Any) -> Snapshot:
    """A snapshot with these workloads and services."""
    snapshot = made.snapshot()
    for each in groups or (codec.convert(OWNED, ReplicaSet),):
        snapshot.put(each)
    return snapshot


def scored(snapshot: Snapshot, profiles: Mapping[str, Profile] = KNOWN) -> dict[str, float]:
    """The scores of all pods by name."""
    rows = np.array(list(snapshot.pods.rows.index.values()), dtype=np.int64)
    found = NodeScores(profiles.get)(snapshot, rows)
    names = [(snapshot.pods.rows.names[row] or "").partition("/")[2] for row in rows.tolist()]
    return dict(zip(names, found.tolist(), strict=True))


def planned(snapshot: Snapshot, to: int, *keys: str, profiles: Mapping[str, Profile] = KNOWN) -> Plan:
    """The plan by `Scheduled` for all pods."""
    policy = replace(Policy.of([StrategySpec(name="Scheduled")]), scores=NodeScores(profiles.get))
    constraints = [Constraint(key) for key in keys or (ZONE, HOSTNAME)]
    return plan(Workload.of_all(snapshot, constraints=constraints), snapshot, policy, replicas=to, now=NOW)


def four_and_two() -> Snapshot:
    """Four pods in one zone and two in another, of which the fuller one has the larger nodes."""
    made = cluster("z1: a b", "z2: x")
    for name in ("a", "b"):
        made.node(name).allocatable(cpu="64", memory="64Gi", pods="110")
    made.node("x").allocatable(cpu="1", memory="1Gi", pods="110")
    pods = [web(f"p{at}", node) for at, node in enumerate(["a", "a", "b", "b", "x", "x"])]
    return snapshot_of(made.with_pods(*pods))


def test_every_size_on_the_way_down_is_level() -> None:
    """The experiment: 4/2 to 2 leaves 1/1, although the nodes of the emptier zone score less."""
    snapshot = four_and_two()
    found = {to: planned(snapshot, to).levelings[0].after for to in range(5, -1, -1)}
    assert found[4] == (2, 2)
    assert found[2] == (1, 1)
    assert all(max(after) - min(after) <= 1 for to, after in found.items() if to <= 4)


def test_planning_leaves_the_snapshot_as_it_was() -> None:
    """Removals are assumed, and reverted."""
    snapshot = four_and_two()
    before = scored(snapshot)
    planned(snapshot, 1)
    assert scored(snapshot) == before


def test_inside_a_domain_the_worst_node_goes_first() -> None:
    """With the zones level, the nodes' scores decide."""
    made = cluster("z1: a b", "z2: x y")
    made.node("b").taint("maintenance", effect="PreferNoSchedule")
    pods = [web("on-a", "a"), web("on-b", "b"), web("on-x", "x"), web("on-y", "y")]
    assert planned(snapshot_of(made.with_pods(*pods)), 3).keys == ("default/on-b",)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda node: node.cordoned(), id="cordoned"),
        pytest.param(lambda node: node.taint("k"), id="tainted"),
    ],
)
def test_a_node_that_would_refuse_the_pod_scores_zero(change: Callable[[Any], Any]) -> None:
    """Of pods in equally full domains, its pods are deleted first."""
    made = cluster("z1: a b")
    change(made.node("a"))
    found = scored(snapshot_of(made.with_pods(web("p", "a"), web("q", "b"))))
    assert found["p"] == 0.0
    assert found["q"] > 0.0


@pytest.mark.parametrize(
    "full",
    [
        pytest.param(lambda each: each.requests(cpu="4"), id="by its own request"),
        pytest.param(lambda each: each.host_port(8080), id="by its own port"),
        pytest.param(lambda each: each.avoids("host", selector={"app": "web"}), id="by its own anti-affinity"),
    ],
)
def test_a_node_that_its_own_pod_fills_does_not_count_as_refusing(full: Callable[[PodBuilder], PodBuilder]) -> None:
    """It takes the place of which it is to be judged."""
    made = cluster("z1: a b")
    for name in ("a", "b"):
        made.node(name).allocatable(cpu="4", memory="8Gi", pods="110")
    found = scored(snapshot_of(made.with_pods(full(web("p", "a")), full(web("q", "b")))))
    assert found["p"] == found["q"] > 0.0


@pytest.mark.parametrize(
    "a_pod",
    [
        pytest.param(pod("p"), id="one without a node"),
        pytest.param(pod("p").on("gone"), id="one whose node is gone"),
        pytest.param(
            pod("p").on("a").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            id="one that needs what we do not judge",
        ),
        pytest.param(pod("p").on("a").spec(schedulerName="another"), id="one of a scheduler that is not known"),
    ],
)
def test_a_pod_that_cannot_be_evaluated_has_no_score(a_pod: PodBuilder) -> None:
    """So it is unranked."""
    assert np.isnan(scored(snapshot_of(cluster("z1: a b").with_pods(a_pod)))["p"])


def test_why_a_pod_has_no_score_is_said() -> None:
    """For the policy's condition."""
    found = NodeScores(KNOWN.get)
    assert found.problem([web("p", "a").build()]) == ""
    unknown = web("p", "a").spec(schedulerName="another").build()
    wanted = 'default/p is placed by the scheduler "another", of which the configuration has no profile'
    assert found.problem([unknown]) == wanted
    stored = web("p", "a").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]).build()
    assert found.problem([stored]).startswith("default/p cannot be scored: spec.volumes[0].persistentVolumeClaim")


def racks(scheduler: str) -> Snapshot:
    """Three pods in one rack of two, one in the other; by zones they are level."""
    made = cluster("z1: a b", "z2: x y")
    for name, rack in {"a": "r1", "b": "r1", "x": "r1", "y": "r2"}.items():
        made.node(name).labels(rack=rack)
    return snapshot_of(made.with_pods(*(web(f"on-{name}", name).spec(schedulerName=scheduler) for name in "abxy")))


def test_pods_are_scored_by_the_profile_of_their_own_scheduler() -> None:
    """An operator's default constraints count for pods of the scheduler that has them, and for no others."""
    profiles = {**KNOWN, **configuration.read(LEVEL_BY_RACK).profiles}
    assert planned(racks("racked"), 2, "rack", profiles=profiles).levelings[0].after == (1, 1)
    by_zone = scored(racks(""), profiles)
    assert by_zone["on-y"] == by_zone["on-x"]
    by_rack = scored(racks("racked"), profiles)
    assert by_rack["on-y"] > by_rack["on-x"]


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        pytest.param(
            "ReplicaSet",
            codec.convert({"metadata": OWNED["metadata"], "spec": {"selector": {"app": "web"}}}, Service),
            id="a Service",
        ),
        pytest.param("StatefulSet", codec.convert(OWNED, StatefulSet), id="a StatefulSet"),
    ],
)
def test_selectors_are_deduced_from_services_and_stateful_sets(kind: str, group: Any) -> None:
    """Without any, the default constraints count no pods, and the zones are equal."""
    made = cluster("z1: a", "z2: x").with_pods(
        *(pod(name).labels(app="web").owned_by("web", kind=kind).on(node) for name, node in [("p", "a"), ("q", "a")]),
        pod("r").labels(app="web").owned_by("web", kind=kind).on("x"),
    )
    plain = made.snapshot()
    assert scored(plain)["p"] == scored(plain)["r"]
    found = scored(snapshot_of(made, group))
    assert found["p"] == found["q"] < found["r"]


def test_a_profile_without_the_plugin_enforces_no_constraint() -> None:
    """Then the scores alone decide."""
    tree = {
        "apiVersion": V1,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": DEFAULT_SCHEDULER,
                "plugins": {"multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}},
            }
        ],
    }
    found = scored(four_and_two(), configuration.read(tree).profiles)
    assert found["p4"] < found["p0"]


def test_a_constraint_that_does_not_count_the_pod_itself_is_left_out() -> None:
    """No removal changes it: followed, it would empty the zone that the other workload fills."""
    made = cluster("z1: a b", "z2: x y")
    pods = [
        web(name, node).spread("zone", selector={"app": "other"}) for name, node in zip("pqrs", "abxy", strict=True)
    ]
    others = [pod(f"other-{at}").labels(app="other").on("a") for at in range(3)]
    snapshot = snapshot_of(made.with_pods(*pods, *others))
    rows = np.array([snapshot.pods.rows.index[f"default/{name}"] for name in "pqrs"], dtype=np.int64)
    found = NodeScores(KNOWN.get)(snapshot, rows)
    assert found[1] == found[2] == found[3]


@pytest.mark.parametrize(
    ("constraints", "first"),
    [
        pytest.param([("hostname", True), ("zone", False)], "a", id="a hard constraint before a soft one"),
        pytest.param([("hostname", False), ("zone", True)], "b", id="the other one hard"),
        pytest.param([("hostname", False), ("zone", False)], "b", id="zones before nodes, both soft"),
        pytest.param([("hostname", True), ("zone", True)], "b", id="zones before nodes, both hard"),
    ],
)
def test_the_most_important_constraint_decides(constraints: list[tuple[str, bool]], first: str) -> None:
    """Node a has the most pods, and the zone of b has: which of them loses one depends on the constraints."""
    made = cluster("z1: a", "z2: b c d")
    pods = [web(f"p{at}", node) for at, node in enumerate("aaabbcd")]
    for key, hard in constraints:
        pods = [each.spread(key, hard=hard) for each in pods]
    snapshot = snapshot_of(made.with_pods(*pods))
    (victim,) = planned(snapshot, 6).victims
    found = snapshot.pod(victim.key)
    assert found is not None
    assert found.spec.node_name == first


def test_a_cluster_without_nodes_has_no_scores() -> None:
    """Pods wait for their first node."""
    assert np.isnan(scored(snapshot_of(cluster().with_pods(pod("p"))))["p"])


def test_classes_come_before_scores_and_stay_within_the_scale() -> None:
    """The fullest class lowest, whatever its nodes score; one class alone keeps its scores."""
    crowding = [np.array([4, 4, 2, 2]), np.array([2, 1, 1, 1])]
    found = in_classes(crowding, np.array([100.0, 100.0, 0.0, 100.0])).tolist()
    assert found == sorted(found)
    assert len(set(found)) == 4
    assert 0.0 <= found[0] < found[-1] == 100.0
    assert in_classes([np.array([3, 3])], np.array([12.5, 100.0])).tolist() == [12.5, 100.0]


ZONES = {"z1": ["a", "b"], "z2": ["c", "d"], "z3": ["e"]}
NODES = [name for names in ZONES.values() for name in names]


@given(
    places=st.lists(st.sampled_from(NODES), min_size=2, max_size=14),
    tainted=st.sets(st.sampled_from(NODES)),
    sizes=st.lists(st.sampled_from(["2", "8", "64"]), min_size=5, max_size=5),
    constraint=st.sampled_from(["hard", "soft", "default"]),
    data=st.data(),
)
def test_no_result_is_less_level_than_stock_may_leave_it(
    places: list[str], tainted: set[str], sizes: list[str], constraint: str, data: st.DataObject
) -> None:
    """On the constraints that the profile enforces, whatever the nodes score and whatever stock does. A more level zone
    may cost the level of nodes."""
    made = cluster(*(f"{zone}: {' '.join(names)}" for zone, names in ZONES.items()))
    for name, cpu in zip(NODES, sizes, strict=True):
        made.node(name).allocatable(cpu=cpu, memory="64Gi", pods="110")
    for name in tainted:
        made.node(name).taint("maintenance", effect="PreferNoSchedule")
    pods = [web(f"p{at}", node) for at, node in enumerate(places)]
    if constraint != "default":
        pods = [each.spread("zone", hard=constraint == "hard") for each in pods]
    snapshot = snapshot_of(made.with_pods(*pods))
    to = data.draw(st.integers(1, len(places) - 1), label="to")
    found = planned(snapshot, to)
    zones, nodes = found.levelings
    assert zones.skew_after <= zones.stock_skews[0]
    if constraint == "default" and zones.skew_after == zones.stock_skews[1]:
        assert nodes.skew_after <= nodes.stock_skews[1]
