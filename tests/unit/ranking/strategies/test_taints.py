"""Taints: how many of its node's taints a pod does not tolerate."""

from __future__ import annotations

import pytest

from tests.unit.ranking.groups import ranks, strategy, view_of
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod


def rank_on(where: NodeBuilder, who: PodBuilder, **args: list[str]) -> float:
    """The rank of a pod on a node."""
    snapshot = Snapshot()
    snapshot.put(where.build())
    snapshot.put(who.build())
    return ranks(strategy("Taints", **args), view_of(snapshot))["p"]


@pytest.mark.parametrize(
    ("where", "who", "want"),
    [
        pytest.param(node("a"), pod("p").on("a"), 0, id="no taints"),
        pytest.param(node("a").taint("k"), pod("p").on("a"), 1, id="one taint"),
        pytest.param(
            node("a").taint("k").taint("l", effect="NoExecute").taint("m"),
            pod("p").on("a").tolerates("k"),
            2,
            id="those tolerated do not count",
        ),
        pytest.param(node("a").taint("k"), pod("p").on("a").tolerates(), 0, id="who tolerates everything"),
        pytest.param(
            node("a").taint("k", effect="PreferNoSchedule"), pod("p").on("a"), 0, id="a mere wish does not count"
        ),
        pytest.param(
            node("a").taint("k", value="4"),
            pod("p").on("a").spec(tolerations=[{"key": "k", "operator": "Lt", "value": "5"}]),
            0,
            id="a toleration that compares numbers",
        ),
        pytest.param(node("a").taint("k"), pod("p"), 0, id="a pod without a node"),
        pytest.param(node("a").taint("k"), pod("p").on("ghost"), 0, id="a node that has not been seen"),
    ],
)
def test_untolerated_taints_are_counted(where: NodeBuilder, who: PodBuilder, want: float) -> None:
    """The rank is the number of taints that keep pods off the node and that this pod does not tolerate."""
    assert rank_on(where, who) == want


@pytest.mark.parametrize(
    ("effects", "want"),
    [
        pytest.param(["NoExecute"], 1, id="one effect"),
        pytest.param(["NoSchedule", "NoExecute", "PreferNoSchedule"], 3, id="all effects"),
    ],
)
def test_a_policy_says_which_effects_count(effects: list[str], want: float) -> None:
    """Taints of other effects are passed over."""
    where = node("a").taint("k").taint("k", effect="NoExecute").taint("k", effect="PreferNoSchedule")
    assert rank_on(where, pod("p").on("a"), effects=effects) == want


def test_pods_of_one_node_are_told_apart_by_their_tolerations() -> None:
    """What was worked out for one pod is used again only for pods with the same tolerations."""
    snapshot = Snapshot()
    snapshot.put(node("a").taint("k").taint("l").build())
    snapshot.put(node("b").taint("k").build())
    for made in (pod("p").on("a"), pod("q").on("a").tolerates("k"), pod("r").on("b"), pod("s").on("b").tolerates("k")):
        snapshot.put(made.build())
    assert ranks(strategy("Taints"), view_of(snapshot)) == {"p": 2, "q": 1, "r": 1, "s": 0}
