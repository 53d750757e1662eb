"""Placing pods: the whole way from filters to a choice and a sentence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement import spread_twin as twin
from tests.unit.placement.samples import SampleCluster
from tests.unit.placement.spread_clusters import incoming_pods, sample_clusters
from tests.unit.placement.spread_twin import OK
from trimtab.api import codec, schedulerconfig, selectors
from trimtab.api.apps import ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement.decisions import NOT_SUPPORTED, Decision, Outcome, Placement
from trimtab.placement.engine import place, place_many
from trimtab.placement.framework import SUCCESS, Cycle
from trimtab.placement.profiles import Profile, default_profile, profiles
from trimtab.placement.spread import SKEWED
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import ClusterBuilder, PodBuilder, cluster, node, pod

PROFILE = default_profile()
TAINTED = "node(s) had untolerated taint(s)"
CORDONED = "node(s) were unschedulable"
ELSEWHERE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


class Last:
    """Breaks every tie in favour of the last, and counts its calls."""

    def __init__(self) -> None:
        self.asked = 0

    def randrange(self, stop: int, /) -> int:
        """The last."""
        self.asked += 1
        return stop - 1


def decide(incoming: PodBuilder, view: Snapshot, profile: Profile = PROFILE) -> Decision:
    """Place a pod, ties going to the last."""
    return place(incoming.build(), view, profile, Last())


def web(name: str = "incoming") -> PodBuilder:
    """A pod labelled as those that `running` makes."""
    return pod(name).labels(app="web")


def named(*names: str) -> dict[str, Any]:
    """Node affinity to nodes of these names, one term for each."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return required(*terms)


def required(*terms: Any) -> dict[str, Any]:
    """Required node affinity with these terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_the_best_node_is_chosen() -> None:
    """The emptier zone, by a soft constraint that outweighs the rest."""
    view = cluster("z1: a b", "z2: x").running("a", "b").snapshot()
    decision = decide(web().spread("zone", hard=False), view)
    assert (decision.outcome, decision.node, decision.placed) == (Outcome.PLACED, "x", True)
    assert decision.message == "Successfully assigned default/incoming to x"


def mixed() -> ClusterBuilder:
    """Twelve nodes in two zones; one cordoned, one tainted."""
    sample = cluster("z1: a b c d e f", "z2: u v w x y z").running("a")
    sample.node("b").cordoned()
    sample.node("c").taint("dedicated")
    return sample


@pytest.mark.parametrize(
    ("incoming", "view", "want"),
    [
        pytest.param(
            web().requests(cpu="100"),
            mixed(),
            f"0/12 nodes are available: 1 {TAINTED}, 1 {CORDONED}, 10 Insufficient cpu.",
            id="counts are sorted as text, as kube-scheduler does",
        ),
        pytest.param(
            web().spread("zone", minDomains=3).requests(cpu="100"),
            cluster("z1: a b", "z2: x").running("a"),
            "0/3 nodes are available: 3 Insufficient cpu.",
            id="the first plugin that refuses a node is the one that is heard",
        ),
        pytest.param(
            web().spread("zone", minDomains=3),
            cluster("z1: a b", "z2: x").running("a", "x"),
            f"0/3 nodes are available: 3 {SKEWED}.",
            id="spread constraints",
        ),
        pytest.param(
            web().spread("example.com/rack"),
            cluster("z1: a b"),
            f"0/2 nodes are available: 2 {SKEWED} (missing required label).",
            id="a label that no node has",
        ),
        pytest.param(
            web().requests(cpu="100", memory="1Ti"),
            cluster("z1: a b"),
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
            id="all reasons of one plugin are kept",
        ),
        pytest.param(
            web().affinity(named("a", "gone")).requests(cpu="100"),
            cluster("z1: a b c"),
            f"0/3 nodes are available: 1 Insufficient cpu, 2 {ELSEWHERE}.",
            id="nodes that the pod does not name are not tried",
        ),
        pytest.param(
            web().affinity(named("gone")),
            cluster("z1: a b"),
            f"0/2 nodes are available: 2 {ELSEWHERE}.",
            id="a node that is named and does not exist",
        ),
        pytest.param(
            web().affinity(
                required(
                    {
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["a"]},
                            {"key": "metadata.name", "operator": "In", "values": ["b"]},
                        ]
                    }
                )
            ),
            mixed(),
            "0/12 nodes are available: pod affinity terms conflict.",
            id="a pod that contradicts itself",
        ),
    ],
)
def test_message_of_an_unschedulable_pod(incoming: PodBuilder, view: ClusterBuilder, want: str) -> None:
    """One sentence, worded as kube-scheduler words it."""
    decision = decide(incoming, view.snapshot())
    assert (decision.outcome, decision.node) == (Outcome.UNSCHEDULABLE, None)
    assert decision.message == want
    assert decision.brief() == Placement(
        "default/incoming", Outcome.UNSCHEDULABLE, None, decision.message, decision.reasons()
    )


def test_message_without_nodes() -> None:
    """Pods may name nodes that are not there; those are not counted."""
    view = Snapshot()
    view.put(web("p").on("gone").build())
    assert decide(web(), view).message == "no nodes available to schedule pods"


def test_a_verdict_for_every_node() -> None:
    """The first plugin in the profile's order that refuses a node, with its code and reasons."""
    decision = decide(web().spread("zone"), mixed().snapshot())
    verdicts = decision.verdicts()
    assert len(verdicts) == 12
    assert (verdicts["a"].plugin, verdicts["a"].code_name) == ("PodTopologySpread", "Unschedulable")
    assert verdicts["a"].reasons == (SKEWED,)
    assert (verdicts["b"].plugin, verdicts["b"].reasons) == ("NodeUnschedulable", (CORDONED,))
    assert (verdicts["c"].plugin, verdicts["c"].code_name) == ("TaintToleration", "UnschedulableAndUnresolvable")
    assert verdicts["u"].ok
    assert decision.verdict("b") == verdicts["b"]
    with pytest.raises(LookupError, match="'nowhere' was not evaluated"):
        decision.verdict("nowhere")


def test_totals_are_the_weighted_sums_of_the_plugins_scores() -> None:
    """And the choice has the highest."""
    view = cluster("z1: a b", "z2: x").running("a", "b").snapshot()
    decision = decide(web().spread("zone", hard=False), view)
    assert set(decision.score("x")) == {"TaintToleration", "NodeResourcesFit", "PodTopologySpread", "ImageLocality"}
    for name, total in decision.totals().items():
        assert total == sum(given.weighted for given in decision.score(name).values())
    assert decision.score("x")["PodTopologySpread"].weighted == 200
    assert max(decision.totals(), key=decision.totals().__getitem__) == decision.node


def test_refused_nodes_have_no_score() -> None:
    """Only feasible nodes are compared."""
    decision = decide(web().spread("zone"), mixed().snapshot())
    assert decision.score("a") == {}
    assert set(decision.totals()) == {"u", "v", "w", "x", "y", "z"}


def test_ties_are_broken_by_the_random_source() -> None:
    """Every best node can be chosen, and none other; the same source chooses the same."""
    view = cluster("z1: a b", "z2: x y").running("a", "b").snapshot()
    incoming = web().spread("zone", hard=False).build()
    chosen = [place(incoming, view, PROFILE, random.Random(seed)).node for seed in range(20)]
    assert set(chosen) == {"x", "y"}
    assert chosen == [place(incoming, view, PROFILE, random.Random(seed)).node for seed in range(20)]


def test_the_random_source_is_used_only_for_ties() -> None:
    """So that a decision does not depend on the number of earlier ties."""
    chance = Last()
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    place(web().spread("zone", hard=False).build(), view, PROFILE, chance)
    assert chance.asked == 0


def test_a_single_feasible_node_is_taken_without_scoring() -> None:
    """There is nothing to compare it with."""
    decision = decide(web().spread("zone"), cluster("z1: a", "z2: x").running("a").snapshot())
    assert (decision.node, decision.scores, decision.totals()) == ("x", {}, {})


@pytest.mark.parametrize(
    ("nominated", "want"),
    [
        pytest.param("a", "a", id="a node that will do is taken, though others are better"),
        pytest.param("full", "x", id="one that will not is not"),
        pytest.param("gone", "x", id="nor one that does not exist"),
    ],
)
def test_nominated_nodes(nominated: str, want: str) -> None:
    """Preemption made room there for this very pod."""
    sample = cluster("z1: a full", "z2: x").running("a", "a")
    sample.node("full").allocatable(pods="0")
    made = web().spread("zone", hard=False)
    tree = made.tree() | {"status": {"phase": "Pending", "nominatedNodeName": nominated}}
    assert place(codec.convert(tree, Pod), sample.snapshot(), PROFILE, Last()).node == want


@pytest.mark.parametrize(
    ("incoming", "field"),
    [
        pytest.param(
            web().spec(
                volumes=[{"name": "c", "configMap": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
            ),
            "spec.volumes[1].persistentVolumeClaim",
            id="a volume claim",
        ),
        pytest.param(
            web().spec(volumes=[{"name": "d", "ephemeral": {}}]), "spec.volumes[0].ephemeral", id="an ephemeral volume"
        ),
        pytest.param(
            web().spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
            "spec.resourceClaims",
            id="a resource claim",
        ),
        pytest.param(
            web().spec(schedulingGroup={"podGroupName": "gang"}), "spec.schedulingGroup", id="a group of pods"
        ),
    ],
)
def test_pods_with_unsupported_features_are_not_placed(incoming: PodBuilder, field: str) -> None:
    """Such a pod gets no node, and the message names the field."""
    decision = decide(incoming, cluster("z1: a").snapshot())
    assert (decision.outcome, decision.node) == (Outcome.UNSUPPORTED, None)
    assert decision.message.startswith(f"{NOT_SUPPORTED}: {field}")


def test_volumes_that_every_node_can_mount_are_supported() -> None:
    """Most pods mount a secret or a projected token."""
    volumes = [{"name": "token", "projected": {"sources": []}}, {"name": "scratch", "emptyDir": {}}]
    assert decide(web().spec(volumes=volumes), cluster("z1: a").snapshot()).node == "a"


def test_gated_pods_are_not_placed() -> None:
    """They are not placed before their gates are removed."""
    decision = decide(web().spec(schedulingGates=[{"name": "one"}, {"name": "two"}]), cluster("z1: a").snapshot())
    assert (decision.outcome, decision.node) == (Outcome.GATED, None)
    assert decision.message == "waiting for scheduling gates: [one two]"


def test_a_decision_does_not_change_with_the_cluster() -> None:
    """Later events leave it as it was."""
    view = cluster("z1: a b", "z2: x y").running("a").snapshot()
    decision = decide(web().spread("zone").spread("host", hard=False), view)
    before = (decision.message, decision.verdicts(), decision.totals(), [decision.score(n) for n in ("x", "y")])
    for name in ("a", "x"):
        view.put(node(name, zone="z9").cordoned().build())
    view.put(web("q").on("y").build())
    view.drop(type(node("b").build()), "", "b")
    view.put(node("new", zone="z1").build())
    after = (decision.message, decision.verdicts(), decision.totals(), [decision.score(n) for n in ("x", "y")])
    assert before == after


def test_place_many_counts_the_earlier_pods() -> None:
    """Four pods over two zones, one after the other, and the sixth finds no zone that may take it."""
    view = cluster("z1: a", "z2: x").snapshot()
    view.put(node("x", zone="z2").allocatable(pods="2").build())
    pods = [web(f"p{number}").spread("zone").build() for number in range(6)]
    placements = place_many(pods, view, PROFILE, Last())
    assert sorted(str(p.node) for p in placements[:4]) == ["a", "a", "x", "x"]
    assert (placements[4].node, placements[5].node) == ("a", None)
    assert placements[5].message == f"0/2 nodes are available: 1 Too many pods, 1 {SKEWED}."


def test_pods_of_one_template_need_no_names() -> None:
    """Each counts, whether it has a name of its own or not."""
    view = cluster("z1: a", "z2: x").snapshot()
    nameless = codec.convert({**web().spread("zone").tree(), "metadata": {"labels": {"app": "web"}}}, Pod)
    for template in (nameless, web("same").spread("zone").build()):
        placements = place_many([template] * 5, view, PROFILE, Last())
        assert sorted(str(p.node) for p in placements[:4]) == ["a", "a", "x", "x"]


def test_place_many_passes_each_decision_to_see() -> None:
    """The complete decisions are passed to `see`, and the short ones returned."""
    seen: list[Decision] = []
    view = cluster("z1: a", "z2: x").snapshot()
    placements = place_many([web("p").build(), web("q").build()], view, PROFILE, Last(), see=seen.append)
    assert [decision.brief() for decision in seen] == placements
    assert all(decision.totals() for decision in seen)


def state(view: Snapshot) -> tuple[Any, ...]:
    """Everything that placing pods reads."""
    nodes = view.nodes
    matching = view.matching("default", selectors.from_labels({"app": "web"}))
    return (
        nodes.requested.tolist(),
        nodes.assumed.tolist(),
        nodes.pods.tolist(),
        sorted(view.pods.rows.index),
        matching.tolist(),
        {name: dict(rows) for name, rows in view.ports.items()},
    )


def test_place_many_restores_the_snapshot() -> None:
    """Also where a pod was in it before, pending; and where placing one fails half-way."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    view.put(web("pending").spread("zone").build())
    decide(web().spread("zone"), view)
    before = state(view)
    pods = [web("pending").spread("zone").host_port(80).build(), web("other").spread("zone").build()]
    place_many(pods, view, PROFILE, Last())
    assert state(view) == before
    bad = web("bad").spread("zone", labelSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]}).build()
    with pytest.raises(InvalidError, match="operator"):
        place_many([*pods, bad], view, PROFILE, Last())
    assert state(view) == before


@settings(deadline=None, max_examples=60)
@given(sample=sample_clusters(), incoming=incoming_pods(own=True))
def test_a_placement_never_breaks_a_hard_constraint(sample: SampleCluster, incoming: Pod) -> None:
    """Whatever the cluster: the twin, counting pod by pod, agrees that the node will do."""
    decision = place(incoming, roomy(sample), PROFILE, random.Random(0))
    verdicts = twin.filtered(incoming, sample, PodTopologySpreadArgs())
    if decision.node is not None and verdicts is not None:
        assert verdicts[decision.node] == OK


def roomy(sample: SampleCluster) -> Snapshot:
    """A snapshot of a cluster whose nodes have room."""
    view = sample.snapshot()
    for each in sample.nodes:
        tree = codec.to_tree(each) | {"status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}}
        view.put(codec.convert(tree, type(each)))
    return view


@settings(deadline=None, max_examples=40)
@given(
    zones=st.integers(1, 4),
    nodes=st.integers(1, 3),
    pods=st.integers(1, 16),
    skew=st.integers(1, 3),
    seed=st.integers(),
)
def test_identical_pods_on_an_even_cluster_stay_level(zones: int, nodes: int, pods: int, skew: int, seed: int) -> None:
    """At every step, no zone has more than `maxSkew` pods more than another."""
    lines = [f"z{zone}: " + " ".join(f"n{zone}-{number}" for number in range(nodes)) for zone in range(zones)]
    view = cluster(*lines).snapshot()
    template = web().spread("zone", max_skew=skew).build()
    counts = [0] * zones
    for placement in place_many([template] * pods, view, PROFILE, random.Random(seed)):
        assert placement.node is not None
        counts[int(placement.node[1])] += 1
        assert max(counts) - min(counts) <= skew


@settings(deadline=None, max_examples=60)
@given(sample=sample_clusters(), incoming=st.one_of(incoming_pods(own=True), incoming_pods(own=False)))
def test_a_decision_combines_the_results_of_its_plugins(sample: SampleCluster, incoming: Pod) -> None:
    """Verdicts are those of the first plugin that refuses, totals the weighted sums, and the choice a best one."""
    view = roomy(sample)
    decision = place(incoming, view, PROFILE, random.Random(0))
    rows = view.nodes.rows.index
    cycle = Cycle(incoming, view)
    said = [(plugin.name, plugin.filter(cycle)) for plugin in PROFILE.filters]
    for each in sample.nodes:
        name = each.metadata.name
        refused = [(who, int(r.codes[rows[name]])) for who, r in said if r is not None and r.codes[rows[name]]]
        verdict = decision.verdict(name)
        assert (verdict.plugin, verdict.code) == (refused[0] if refused else ("", SUCCESS))
    totals = decision.totals()
    if totals:
        for plugin, weight in PROFILE.scores:
            given_scores = plugin.score(cycle, decision.feasible)
            for name in totals:
                totals[name] -= 0 if given_scores is None else weight * int(given_scores.normalized[rows[name]])
        assert set(totals.values()) == {0}
        assert decision.totals()[str(decision.node)] == max(decision.totals().values())


# --- the default-spreading proposal's integration cases ---------------------------------------------------------------

PHYSICAL_HOST, RACK = "example.com/topology/physical_host", "example.com/topology/rack"
DEMO = codec.convert(
    {"metadata": {"name": "demo", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "demo"}}}},
    ReplicaSet,
)


def demo_pods(count: int) -> list[Pod]:
    """Pods of a replica set that states no constraints."""
    return [pod(f"demo-{number}").labels(app="demo").owned_by("demo").build() for number in range(count)]


def spread_over(view: Snapshot, placements: list[Placement], key: str) -> list[int]:
    """How many pods each value of a label got, sorted."""
    counts: dict[str, int] = {}
    for name, row in view.nodes.rows.index.items():
        found = view.nodes.objects[row]
        assert found is not None
        value = found.metadata.labels[key]
        counts[value] = counts.get(value, 0) + sum(placement.node == name for placement in placements)
    return sorted(counts.values())


@pytest.mark.parametrize("defaulting", ["System", "Proposal"])
def test_default_rules(defaulting: str) -> None:
    """A replica set without constraints is spread over zones and nodes; its pods are not modified."""
    view = cluster("z1: a b c d", "z2: s t u v", "z3: w x y z").snapshot()
    view.put(DEMO)
    pods = demo_pods(12)
    profile = default_profile(codec.convert({"defaultingType": defaulting}, PodTopologySpreadArgs))
    placements = place_many(pods, view, profile, random.Random(3))
    assert spread_over(view, placements, ZONE) == [4, 4, 4]
    assert spread_over(view, placements, HOSTNAME) == [1] * 12
    assert all(not each.spec.topology_spread_constraints for each in pods)


def test_custom_rules_on_physical_hosts_and_racks() -> None:
    """An operator's rules in the proposal's own form: racks are a hard limit, physical hosts a preference."""
    configuration = schedulerconfig.read(
        {
            "apiVersion": "componentconfig/v1alpha1",
            "defaultTopologySpreadConstraints": [
                {"maxSkew": 5, "topologyKey": PHYSICAL_HOST, "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 15, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"},
            ],
        }
    )
    (profile,) = profiles(configuration).values()
    view = Snapshot()
    view.put(DEMO)
    for number in range(6):  # two racks of two and four nodes, two nodes to a physical host
        labels = {PHYSICAL_HOST: f"host-{number // 2}", RACK: "small" if number < 2 else "large"}
        view.put(node(f"n{number}").labels(labels).allocatable(pods="3" if number < 2 else "110").build())
    placements = place_many(demo_pods(30), view, profile, random.Random(5))
    assert all(placement.placed for placement in placements[:27])
    assert spread_over(view, placements, RACK) == [6, 21]
    small, *large = sorted(spread_over(view, placements, PHYSICAL_HOST))
    assert (small, sum(large)) == (6, 21)
    assert max(large) - min(large) <= 1
    assert placements[27].message == f"0/6 nodes are available: 2 Too many pods, 4 {SKEWED}."
    assert np.count_nonzero(view.nodes.pods) == 0
