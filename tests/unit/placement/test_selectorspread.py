"""The old way of spreading, as a baseline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement import spread_twin as twin
from tests.unit.placement.samples import SampleCluster
from tests.unit.placement.spread_clusters import NAMES, incoming_pods, sample_clusters
from trimtab.api import codec
from trimtab.api.core import Service
from trimtab.api.nodes import DEPRECATED_REGION, DEPRECATED_ZONE, REGION, ZONE
from trimtab.api.pods import Pod
from trimtab.placement.framework import Cycle
from trimtab.placement.selectorspread import SelectorSpread
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import cluster, node, pod

SERVICE = codec.convert(
    {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}, Service
)
WEB = pod("p").labels(app="web").build()


def scores(incoming: Pod, view: Snapshot, feasible: list[str] | None = None) -> dict[str, tuple[int, int]] | None:
    """Raw and normalised scores of the feasible nodes: all by default."""
    rows = view.nodes.rows.index
    names = list(rows) if feasible is None else feasible
    mask = np.zeros(len(view.nodes), dtype=np.bool_)
    mask[[rows[name] for name in names]] = True
    found = SelectorSpread().score(Cycle(incoming, view), mask)
    return None if found is None else {n: (int(found.raw[rows[n]]), int(found.normalized[rows[n]])) for n in names}


def test_nodes_alone_where_there_are_no_zones() -> None:
    """Rule 2: in proportion between the emptiest and the fullest."""
    view = Snapshot()
    for name in "abc":
        view.put(node(name).build())
    view.put(SERVICE)
    for number, place in enumerate("aab"):
        view.put(pod(f"q{number}").labels(app="web").on(place).build())
    assert scores(WEB, view) == {"a": (2, 0), "b": (1, 50), "c": (0, 100)}


def test_zones_weigh_two_thirds() -> None:
    """Rules 3 and 4: an empty node in the fuller zone is worth less than a fuller node in the emptier one."""
    view = cluster("z1: a b", "z2: x").running("a", "a", "a", "x").snapshot()
    view.put(SERVICE)
    assert scores(WEB, view) == {"a": (3, 0), "b": (0, 33), "x": (1, 66)}


def test_only_feasible_nodes_make_up_a_zone() -> None:
    """Rule 3: pods on nodes that are out of the question do not count against their zone."""
    view = cluster("z1: a b", "z2: x").running("a", "a", "x").snapshot()
    view.put(SERVICE)
    assert scores(WEB, view, ["b", "x"]) == {"b": (0, 100), "x": (1, 0)}


def test_a_node_without_a_zone_is_scored_by_its_own_pods() -> None:
    """Rule 4: beside nodes that have zones."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    view.put(node("bare").build())
    view.put(SERVICE)
    assert scores(WEB, view) == {"a": (1, 0), "x": (0, 100), "bare": (0, 100)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param({ZONE: "z"}, {ZONE: "z"}, True, id="the same zone"),
        pytest.param({ZONE: "z", REGION: "r1"}, {ZONE: "z", REGION: "r2"}, False, id="zones of two regions"),
        pytest.param({ZONE: "z"}, {DEPRECATED_ZONE: "z"}, True, id="the deprecated label means the same"),
        pytest.param({ZONE: "y", DEPRECATED_ZONE: "z"}, {ZONE: "z"}, True, id="and comes first"),
        pytest.param({REGION: "r"}, {DEPRECATED_REGION: "r"}, True, id="a region alone is a zone"),
        pytest.param({ZONE: "z", REGION: ""}, {ZONE: "z"}, True, id="an empty label is none"),
    ],
)
def test_zone_identity(one: dict[str, str], other: dict[str, str], same: bool) -> None:
    """Rule 3: a pod in one node's zone counts against another node if that is in the same zone."""
    view = Snapshot()
    view.put(node("one").labels(one).build())
    view.put(node("other").labels(other).build())
    view.put(SERVICE)
    view.put(pod("q").labels(app="web").on("one").build())
    found = scores(WEB, view)
    assert found is not None
    assert (found["other"][1] == 33) is same


def test_a_pod_with_constraints_is_skipped() -> None:
    """It is scored by PodTopologySpread alone."""
    view = cluster("z1: a").snapshot()
    assert scores(pod("p").labels(app="web").spread("zone").build(), view) is None


def test_a_pod_without_service_and_controller_scores_all_nodes_equally() -> None:
    """Rule 1: it finds no pods of its group."""
    view = cluster("z1: a", "z2: x").running("a").snapshot()
    assert scores(WEB, view) == {"a": (0, 100), "x": (0, 100)}


@settings(deadline=None, max_examples=80)
@given(sample=sample_clusters(), incoming=incoming_pods(own=False), feasible=st.sets(st.sampled_from(NAMES)))
def test_scores_equal_the_twins(sample: SampleCluster, incoming: Pod, feasible: set[str]) -> None:
    """On any cluster."""
    chosen = sorted(feasible & {n.metadata.name for n in sample.nodes})
    if chosen:
        assert scores(incoming, sample.snapshot(), chosen) == twin.selector_spread(incoming, sample, chosen)
