"""PreferNoSchedule: pods on nodes that would rather have none."""

from __future__ import annotations

from tests.unit.ranking.groups import aged, ranks, strategy, view_of
from trimtab.testing.builders import cluster


def test_pods_on_such_nodes_go_first() -> None:
    """The node's taint counts, whether or not the pod tolerates it; other effects and no node count nothing."""
    group = cluster("z1: marked tainted plain").with_pods(
        aged("there", 1).on("marked"),
        aged("tolerating", 1).on("marked").tolerates(),
        aged("tainted", 1).on("tainted"),
        aged("plain", 1).on("plain"),
        aged("lost", 1).on("ghost"),
        aged("pending", 1),
    )
    group.node("marked").taint("spot", effect="PreferNoSchedule").taint("other")
    group.node("tainted").taint("spot", effect="NoExecute")
    want = {"there": 1, "tolerating": 1, "tainted": 0, "plain": 0, "lost": 0, "pending": 0}
    assert ranks(strategy("PreferNoSchedule"), view_of(group)) == want
