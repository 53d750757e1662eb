"""Balance: the place of a pod among those of its domain."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.ranking.groups import NOW, aged, ranks, strategy, view_of
from trimtab.api.nodes import DEPRECATED_ZONE
from trimtab.api.pods import Pod
from trimtab.ranking.strategies import View
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import ClusterBuilder, cluster, node, pod


@pytest.mark.parametrize(
    ("group", "args", "want"),
    [
        pytest.param(
            cluster("z1: a b", "z2: x").with_pods(
                aged("old", 1).on("a"), aged("young", 3).on("b"), aged("middle", 2).on("a"), aged("alone", 4).on("x")
            ),
            {},
            {"old": 1, "middle": 2, "young": 3, "alone": 1},
            id="in each zone the oldest is the first",
        ),
        pytest.param(
            cluster("z1: a b").with_pods(aged("p", 1).on("a"), aged("q", 2).on("b"), aged("r", 3).on("a")),
            {"topologyKey": "kubernetes.io/hostname"},
            {"p": 1, "q": 1, "r": 2},
            id="another key has other domains",
        ),
        pytest.param(
            cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("q", 1).on("ghost"), aged("r", 2), aged("s", 3)),
            {},
            {"p": 1, "q": 1, "r": 2, "s": 3},
            id="pods in no domain are ranked among themselves",
        ),
        pytest.param(
            cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("q", 2), aged("r", 3).on("a")),
            {},
            {"p": 1, "q": 1, "r": 2},
            id="a pod without a node is in no domain",
        ),
        pytest.param(
            cluster("z1: a").with_pods(
                aged("b", 1).uid("2").on("a"), aged("a", 1).uid("3").on("a"), aged("c", 1).uid("1").on("a")
            ),
            {},
            {"c": 1, "b": 2, "a": 3},
            id="pods of the same second are ordered by UID",
        ),
        pytest.param(
            cluster("z1: a").with_pods(pod("unborn").on("a"), aged("old", 1).on("a")),
            {},
            {"old": 1, "unborn": 2},
            id="a pod without a time of creation is the youngest",
        ),
    ],
)
def test_place_in_the_domain(group: ClusterBuilder, args: dict[str, str], want: dict[str, float]) -> None:
    """A pod's rank is its place among the pods of its domain, in the order of creation."""
    assert ranks(strategy("Balance", **args), view_of(group)) == want


def test_the_deprecated_zone_label_stands_in() -> None:
    """A node that has only the old label of its zone is in that zone."""
    snapshot = Snapshot()
    snapshot.put(node("new", zone="z1").build())
    snapshot.put(node("old").labels({DEPRECATED_ZONE: "z1"}).build())
    for name, where, hour in (("p", "new", 1), ("q", "old", 2)):
        snapshot.put(aged(name, hour).on(where).build())
    assert ranks(strategy("Balance"), view_of(snapshot)) == {"p": 1, "q": 2}


def test_some_of_a_group() -> None:
    """Whoever asks for some pods only gets the ranks that these have in the whole group."""
    view = view_of(cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("q", 2).on("a")), "p", "q")
    assert strategy("Balance").rank(view.rows[1:], view).tolist() == [2.0]


def test_a_pod_outside_of_the_group_has_no_rank() -> None:
    """A place in a domain means nothing to a pod that is not of the group."""
    group = cluster("z1: a").with_pods(aged("p", 1).on("a"), aged("stranger", 2).on("a")).snapshot()
    view, everyone = view_of(group, "p"), view_of(group)
    assert np.isnan(strategy("Balance").rank(everyone.rows, view)).tolist() == [False, True]


def test_an_empty_group() -> None:
    """Nobody to rank is no fault, and neither is a cluster without nodes."""
    nobody = View(Snapshot(), np.zeros(0, dtype=np.int64), NOW)
    assert strategy("Balance").rank(nobody.rows, nobody).tolist() == []


def test_a_pod_that_goes_out_of_turn_moves_the_younger_ones_of_its_domain() -> None:
    """They move down by one and keep their order; other domains do not move."""
    snapshot = (
        cluster("z1: a", "z2: x")
        .with_pods(*(aged(f"a{hour}", hour).on("a") for hour in range(1, 5)), aged("x1", 1).on("x"))
        .snapshot()
    )
    snapshot.drop(Pod, "default", "a2")
    assert ranks(strategy("Balance"), view_of(snapshot)) == {"a1": 1, "a3": 2, "a4": 3, "x1": 1}
