"""PodTopologySpread, by its rules (numbered at the head of the module), by records and by its slow twin."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement import spread_twin as twin
from tests.unit.placement.samples import SampleCluster
from tests.unit.placement.spread_clusters import NAMES, RACK, arguments, incoming_pods, sample_clusters
from tests.unit.placement.spread_twin import NEVER, NO, OK
from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import PodTopologySpreadArgs
from trimtab.placement.framework import CODE_NAMES, Cycle
from trimtab.placement.spread import LACKS_LABEL, SKEWED, PodTopologySpread
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import ClusterBuilder, PodBuilder, cluster, node, pod
from trimtab.testing.conform.comparison import check

Tree = dict[str, Any]

VECTORS = Path(__file__).parents[2] / "vectors" / "topology_spread.jsonl"
RECORDED: list[Tree] = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]

each_case = pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in RECORDED])


def verdicts(incoming: Pod, view: Snapshot, args: PodTopologySpreadArgs | None = None) -> dict[str, str] | None:
    """The filter's codes by node."""
    refusals = PodTopologySpread(args).filter(Cycle(incoming, view))
    if refusals is None:
        return None
    rows = view.nodes.rows.index
    return {name: CODE_NAMES[refusals.codes[row]] for name, row in rows.items() if view.nodes.known[row]}


def scores(
    incoming: Pod, view: Snapshot, feasible: list[str] | None = None, args: PodTopologySpreadArgs | None = None
) -> dict[str, tuple[int, int]] | None:
    """The plugin's raw and normalised scores of the feasible nodes: all by default."""
    rows = view.nodes.rows.index
    names = [name for name in rows if view.nodes.known[rows[name]]] if feasible is None else feasible
    mask = np.zeros(len(view.nodes), dtype=np.bool_)
    mask[[rows[name] for name in names]] = True
    given = PodTopologySpread(args).score(Cycle(incoming, view), mask)
    return None if given is None else {n: (int(given.raw[rows[n]]), int(given.normalized[rows[n]])) for n in names}


def web(name: str = "incoming") -> PodBuilder:
    """A pod labelled as those that `running` makes."""
    return pod(name).labels(app="web")


@pytest.mark.parametrize(
    ("incoming", "sample", "want"),
    [
        pytest.param(
            web().spread("zone"),
            cluster("z1: a b", "z2: x y").running("a"),
            {"a": NO, "b": NO, "x": OK, "y": OK},
            id="4: a fuller zone is refused",
        ),
        pytest.param(
            web().spread("zone", max_skew=2),
            cluster("z1: a b", "z2: x y").running("a"),
            {"a": OK, "b": OK, "x": OK, "y": OK},
            id="4: a larger maxSkew allows a larger skew",
        ),
        pytest.param(
            web().spread("zone", selector={"app": "db"}),
            cluster("z1: a", "z2: x").running("a", app="db"),
            {"a": OK, "x": OK},
            id="4: a pod that does not match itself adds nothing",
        ),
        pytest.param(
            web().spread("host"),
            cluster("z1: a b", "z2: x y").running("a", "x", "y"),
            {"a": NO, "b": OK, "x": NO, "y": NO},
            id="4: hosts are domains like any other",
        ),
        pytest.param(
            web().spread("zone"),
            cluster("z1: a", "z2: x").with_pods(web("p").on("a").terminating(), web("q").on("a").phase("Failed")),
            {"a": OK, "x": OK},
            id="1: terminating and finished pods do not count",
        ),
        pytest.param(
            web().spread("zone"),
            cluster("z1: a", "z2: x").with_pods(pod("p", namespace="other").labels(app="web").on("a")),
            {"a": OK, "x": OK},
            id="1: pods of another namespace do not count",
        ),
        pytest.param(
            web().spread("zone", labelSelector=None),
            cluster("z1: a", "z2: x").running("a", "a"),
            {"a": OK, "x": OK},
            id="1: no selector matches nothing",
        ),
        pytest.param(
            web().spread("zone", labelSelector={}),
            cluster("z1: a", "z2: x").running("a", "a", "a"),
            {"a": OK, "x": OK},
            id="1: an empty selector counts no pods",
        ),
        pytest.param(
            web().labels(version="2").spread("zone", labelSelector={}, matchLabelKeys=["version", "absent"]),
            cluster("z1: a", "z2: x").running("a", app="web", version="2"),
            {"a": NO, "x": OK},
            id="1: matchLabelKeys narrow a selector, an empty one too",
        ),
        pytest.param(
            web().spread("zone", minDomains=3, max_skew=1),
            cluster("z1: a", "z2: x").running("a", "x"),
            {"a": NO, "x": NO},
            id="3: with too few domains the minimum is 0",
        ),
        pytest.param(
            web().spread("zone").node_selector({HOSTNAME: "a"}),
            cluster("z1: a", "z2: x").running("a"),
            {"a": OK, "x": OK},
            id="2: zones that the pod's node affinity excludes are not compared",
        ),
        pytest.param(
            web().spread("zone", nodeAffinityPolicy="Ignore").node_selector({HOSTNAME: "a"}),
            cluster("z1: a", "z2: x").running("a"),
            {"a": NO, "x": OK},
            id="2: unless the policy ignores it",
        ),
    ],
)
def test_hard_constraints(incoming: PodBuilder, sample: ClusterBuilder, want: dict[str, str]) -> None:
    """The codes of a hard constraint by node."""
    assert verdicts(incoming.build(), sample.snapshot()) == want


def tainted() -> ClusterBuilder:
    """Two zones, one of them tainted and empty."""
    sample = cluster("z1: a", "z2: x").running("a")
    sample.node("x").taint("dedicated")
    return sample


@pytest.mark.parametrize(
    ("incoming", "want"),
    [
        pytest.param(web().spread("zone"), {"a": NO, "x": OK}, id="taints are ignored by default"),
        pytest.param(
            web().spread("zone", nodeTaintsPolicy="Honor"),
            {"a": OK, "x": OK},
            id="a zone that is closed to the pod is not compared",
        ),
        pytest.param(
            web().spread("zone", nodeTaintsPolicy="Honor").tolerates("dedicated"),
            {"a": NO, "x": OK},
            id="a zone whose taint is tolerated is",
        ),
    ],
)
def test_taints_policy(incoming: PodBuilder, want: dict[str, str]) -> None:
    """Rule 2: whether tainted nodes count is the constraint's choice."""
    assert verdicts(incoming.build(), tainted().snapshot()) == want


def test_a_node_without_a_key_is_unresolvable_and_does_not_count() -> None:
    """Rules 2 and 5: lacking one hard key, a node is out, and its pods count for no constraint."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    view.put(node("bare", zone="z2").build())
    view.put(web("p").on("bare").build())
    view.put(node("racked", zone="z2").labels({RACK: "r1"}).build())
    view.put(node("other", zone="z1").labels({RACK: "r2"}).build())
    incoming = web().spread("zone").spread(RACK).build()
    assert verdicts(incoming, view) == {"a": NEVER, "x": NEVER, "bare": NEVER, "racked": OK, "other": OK}


def test_the_first_constraint_that_fails_decides() -> None:
    """Rule 5: an earlier skew decides, although a later key is missing."""
    view = cluster("z1: a", "z2: x").snapshot()
    view.put(node("racked", zone="z1").labels({RACK: "r1"}).build())
    view.put(node("empty", zone="z2").labels({RACK: "r1"}).build())
    view.put(web("p").on("racked").build())
    zone_first = web().spread("zone").spread(RACK, max_skew=5).build()
    rack_first = web().spread(RACK, max_skew=5).spread("zone").build()
    assert verdicts(zone_first, view) == {"a": NO, "x": NEVER, "racked": NO, "empty": OK}
    assert verdicts(rack_first, view) == {"a": NEVER, "x": NEVER, "racked": NO, "empty": OK}


def test_reasons_are_those_of_kubernetes() -> None:
    """Each node that is refused has one of the two reasons."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    view.put(node("bare").build())
    refusals = PodTopologySpread().filter(Cycle(web().spread("zone").build(), view))
    assert refusals is not None
    rows = view.nodes.rows.index
    said = {reason: [name for name, row in rows.items() if mask[row]] for mask, reason in refusals.reasons}
    assert said == {SKEWED: ["a"], LACKS_LABEL: ["bare"]}


def test_soft_constraints_prefer_the_emptier_domain() -> None:
    """Rules 7 to 9: zones of 2 and 1 pods, weighted by ln(2 + 2)."""
    view = cluster("z1: a b", "z2: x").running("a", "b", "x").snapshot()
    incoming = web().spread("zone", hard=False).build()
    assert scores(incoming, view) == {"a": (3, 33), "b": (3, 33), "x": (1, 100)}


def test_the_number_of_domains_is_that_of_the_feasible_nodes() -> None:
    """Rule 7: a zone without a feasible node does not make the others weigh more."""
    view = cluster("z1: a", "z2: x", "z3: y").running(*["a"] * 10).snapshot()
    incoming = web().spread("zone", hard=False).build()
    assert scores(incoming, view, ["a"]) == {"a": (11, 100)}
    assert scores(incoming, view, ["a", "x"]) == {"a": (14, 0), "x": (0, 100)}


def test_hostnames_are_not_compared_when_scoring() -> None:
    """Rule 8: nodes that claim the same hostname are scored by their own pods, though the filter adds them up."""
    view = Snapshot()
    for name in ("a", "b"):
        view.put(node(name).labels({HOSTNAME: "same"}).build())
    view.put(web("p").on("a").build())
    view.put(node("c").build())
    assert scores(web().spread("host", hard=False).build(), view) == {"a": (2, 0), "b": (0, 100), "c": (0, 100)}
    assert verdicts(web().spread("host").build(), view) == {"a": NO, "b": NO, "c": OK}


def test_a_larger_skew_reduces_differences() -> None:
    """Rule 7: what is added to all brings them closer together."""
    view = cluster("z1: a", "z2: x").running("a", "a").snapshot()
    assert scores(web().spread("zone", hard=False).build(), view) == {"a": (3, 0), "x": (0, 100)}
    assert scores(web().spread("zone", hard=False, max_skew=5).build(), view) == {"a": (7, 57), "x": (4, 100)}


def test_a_node_without_a_soft_key_scores_zero() -> None:
    """Rule 6: it is not preferred, and does not move the others."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    view.put(node("bare").build())
    assert scores(web().spread("zone", hard=False).build(), view) == {"a": (1, 0), "x": (0, 100), "bare": (0, 0)}


def test_no_node_with_the_key_at_all() -> None:
    """Rule 6: then no node is preferred."""
    view = cluster("z1: a").snapshot()
    assert scores(web().spread(RACK, hard=False).build(), view) == {"a": (0, 0)}


def test_an_empty_cluster_scores_all_nodes_equally() -> None:
    """Rule 9: without any matching pod, all get 100."""
    view = cluster("z1: a", "z2: x").snapshot()
    assert scores(web().spread("zone", hard=False).build(), view) == {"a": (0, 100), "x": (0, 100)}


def test_a_pod_without_constraints_is_skipped() -> None:
    """Hard constraints alone are not scored, and soft ones alone do not filter."""
    view = cluster("z1: a").snapshot()
    assert scores(web().spread("zone").build(), view) is None
    assert verdicts(web().spread("zone", hard=False).build(), view) is None
    assert (scores(web().build(), view), verdicts(web().build(), view)) == (None, None)


def test_an_invalid_selector_is_an_error_with_its_path() -> None:
    """The error has the path in the pod."""
    bad = {"matchExpressions": [{"key": "app", "operator": "Near"}]}
    incoming = web().spread("zone").spread("host", labelSelector=bad).build()
    with pytest.raises(InvalidError) as caught:
        verdicts(incoming, cluster("z1: a").snapshot())
    assert caught.value.path == "spec.topologySpreadConstraints[1].labelSelector.matchExpressions[0].operator"


def test_counts_include_assumed_pods() -> None:
    """A pod that is assumed to run counts at once, and no longer afterwards."""
    view = cluster("z1: a", "z2: x").snapshot()
    incoming = web().spread("zone").build()
    with view.with_assumed(placed=[(web("assumed").build(), "a")]):
        assert verdicts(incoming, view) == {"a": NO, "x": OK}
    assert verdicts(incoming, view) == {"a": OK, "x": OK}


def test_domains_follow_the_nodes() -> None:
    """A zone that a node brings, or takes away, counts from then on."""
    view = cluster("z1: a").running("a").snapshot()
    incoming, plugin = web().spread("zone").build(), PodTopologySpread()
    for changed, want in ((node("x", zone="z2"), [1, 0]), (node("x", zone="z1"), [0, 0]), (node("x"), [0, 2])):
        view.put(changed.build())
        refusals = plugin.filter(Cycle(incoming, view))
        assert refusals is not None
        assert refusals.codes.tolist() == want


@each_case
def test_the_plugin_agrees_with_kubernetes(case: Tree) -> None:
    """Every code and every score of the recorded cases."""
    assert check("topology_spread", case) == []


@each_case
def test_the_twin_agrees_with_kubernetes(case: Tree) -> None:
    """The slow twin is right too, so that it may be trusted elsewhere."""
    question, expected = case["input"], case["expected"]
    sample = twin.sample_cluster_of(question)
    args = codec.convert(question["args"], PodTopologySpreadArgs)
    incoming = codec.convert(question["pod"], Pod)
    everybody = {n.metadata.name: OK for n in sample.nodes}
    assert (twin.filtered(incoming, sample, args) or everybody) == expected["filter"]
    if expected["preScore"] == "NotRun":
        return
    given = twin.scored(incoming, sample, args, question["scoredNodes"]) or {}
    assert given == {name: (s["raw"], s["normalized"]) for name, s in expected["scores"].items()}


def test_the_recorded_cases_cover_all_results() -> None:
    """Every tag and every verdict is among them."""
    tags = Counter(tag for case in RECORDED for tag in case["tags"])
    assert tags.keys() == {
        "podConstraints",
        "SystemDefaults",
        "ListDefaults",
        "nilSelector",
        "emptySelector",
        "matchLabelKeys",
        "minDomains",
        "emptyZoneValue",
        "podsOutsideSnapshot",
    }
    assert min(tags.values()) >= 5
    assert {code for case in RECORDED for code in case["expected"]["filter"].values()} == {OK, NO, NEVER}
    assert {case["expected"]["preScore"] for case in RECORDED} == {"Success", "Skip", "NotRun"}


@settings(deadline=None, max_examples=80)
@given(sample=sample_clusters(), incoming=incoming_pods(own=True), feasible=st.sets(st.sampled_from(NAMES)))
def test_a_pods_own_constraints_equal_the_twin(sample: SampleCluster, incoming: Pod, feasible: set[str]) -> None:
    """On any cluster, plugin and twin agree on every verdict and every score."""
    check_against_twin(sample, incoming, feasible, PodTopologySpreadArgs())


@settings(deadline=None, max_examples=80)
@given(
    sample=sample_clusters(),
    incoming=incoming_pods(own=False),
    feasible=st.sets(st.sampled_from(NAMES)),
    args=arguments,
)
def test_default_constraints_equal_the_twin(
    sample: SampleCluster, incoming: Pod, feasible: set[str], args: PodTopologySpreadArgs
) -> None:
    """On any cluster and with any configuration, plugin and twin agree."""
    check_against_twin(sample, incoming, feasible, args)


def check_against_twin(sample: SampleCluster, incoming: Pod, feasible: set[str], args: PodTopologySpreadArgs) -> None:
    """Compare plugin and twin."""
    view = sample.snapshot()
    assert verdicts(incoming, view, args) == twin.filtered(incoming, sample, args)
    chosen = sorted(feasible & {n.metadata.name for n in sample.nodes})
    if chosen:
        assert scores(incoming, view, chosen, args) == twin.scored(incoming, sample, args, chosen)
