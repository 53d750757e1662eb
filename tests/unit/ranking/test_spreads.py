"""Constraints resolved to columns: which pods count, in which domains, and how skewed they are."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.api import selectors
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.spreads import Spread, resolve
from trimtab.ranking.workloads import Workload
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, cluster, node, pod


def owned(name: str, at: str) -> PodBuilder:
    """A pod of the workload that runs on a node."""
    return pod(name).on(at).ready().labels(app="web").owned_by("web")


def resolved(snapshot: Snapshot, *constraints: Constraint) -> tuple[Spread, ...]:
    """The constraints of the workload `web`."""
    rows = [row for row, each in enumerate(snapshot.pods.objects) if each and each.metadata.controller]
    return resolve(constraints, snapshot, np.array(rows, dtype=np.int64))


def counted(spread: Spread) -> dict[str, int]:
    """The pods of each domain."""
    return dict(zip(spread.names, spread.counts.tolist(), strict=True))


def test_pods_of_others_count_where_a_selector_matches_them() -> None:
    """Active ones on nodes, in the same namespace; without a selector only the workload's own count."""
    made = cluster("a: a1", "b: b1", "c: c1").with_pods(owned("p1", "a1"), owned("p2", "b1"))
    for other in (
        pod("x1").on("a1").ready().labels(app="web"),
        pod("x2").on("a1").ready().labels(app="api"),
        pod("x3").on("b1").phase("Succeeded").labels(app="web"),
        pod("x4").labels(app="web"),
        pod("x5", namespace="other").on("b1").ready().labels(app="web"),
    ):
        made = made.with_pods(other)
    selector = selectors.parse("app=web")
    alone, together = resolved(made.snapshot(), Constraint(ZONE), Constraint(ZONE, selector=selector))
    assert counted(alone) == {"a": 1, "b": 1, "c": 0}
    assert counted(together) == {"a": 2, "b": 1, "c": 0}
    assert together.others.tolist() == [1, 0, 0]


def test_own_pods_that_the_selector_does_not_match_are_in_no_domain() -> None:
    """They are not part of the skew."""
    made = cluster("a: a1", "b: b1").with_pods(owned("p1", "a1"), owned("p2", "b1").labels(tier="back"))
    (found,) = resolved(made.snapshot(), Constraint(ZONE, selector=selectors.parse("!tier")))
    assert found.domains.tolist() == [0, -1]
    assert counted(found) == {"a": 1, "b": 0}


def test_domains_are_numbered_by_name_and_empty_ones_count() -> None:
    """However nodes were added; a pod without a node is in none."""
    made = cluster("c: c1", "a: a1", "b: b1").with_pods(owned("p1", "c1"), owned("p2", "a1"), pod("p3").owned_by("web"))
    (found,) = resolved(made.snapshot(), Constraint(ZONE))
    assert (found.names, found.domains.tolist()) == (("a", "b", "c"), [2, 0, -1])
    assert found.count(np.array([True, False, True])).tolist() == [0, 0, 1]
    left = found.without(np.array([True, False, False]))
    assert (left.names, left.domains.tolist()) == (found.names, [0, -1])


def test_a_hard_constraint_counts_nodes_with_all_keys_of_hard_ones() -> None:
    """A soft one counts every node that has its own key."""
    snapshot = cluster("a: a1", "b: b1").with_pods(owned("p1", "a1"), owned("p2", "b1")).snapshot()
    snapshot.put(node("c1", zone="c", rack="r1").build())
    snapshot.put(node("a1", zone="a", rack="r1").build())
    snapshot.put(node("n1", rack="r2").build())
    hard, rack, soft = resolved(
        snapshot, Constraint(ZONE, hard=True), Constraint("rack", hard=True), Constraint(ZONE, hard=False)
    )
    assert hard.names == ("a", "c")
    assert rack.names == ("r1",)
    assert soft.names == ("a", "b", "c")
    assert hard.domains.tolist() == [0, -1]
    beside_soft, _ = resolved(snapshot, Constraint(ZONE, hard=True), Constraint("rack"))
    assert beside_soft.names == ("a", "b", "c"), "the key of a soft one is not asked for"


def test_nodes_count_that_some_pod_of_the_workload_may_run_on() -> None:
    """By node selector and, where that is honoured, by taints; a policy that ignores them counts all."""
    made = cluster("a: a1", "b: b1", "c: c1")
    made.node("a1").labels(pool="x")
    made.node("b1").labels(pool="y").taint("spot")
    pods = [owned("p1", "a1").node_selector(pool="x"), owned("p2", "b1").node_selector(pool="y")]
    snapshot = made.with_pods(*pods).snapshot()
    honoured, taints, ignored = resolved(
        snapshot,
        Constraint(ZONE),
        Constraint(ZONE, honor_taints=True),
        Constraint(ZONE, honor_affinity=False),
    )
    assert honoured.names == ("a", "b")
    assert taints.names == ("a",)
    assert ignored.names == ("a", "b", "c")


def test_a_node_affinity_that_cannot_be_read_excludes_no_node() -> None:
    """The scheduler refuses such a pod; which nodes it would be on is not known."""
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["large"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    unreadable = owned("p1", "a1").affinity({"nodeAffinity": required})
    (found,) = resolved(cluster("a: a1", "b: b1").with_pods(unreadable).snapshot(), Constraint(ZONE))
    assert counted(found) == {"a": 1, "b": 0}


def test_a_domain_can_be_limited_to_some_values() -> None:
    """Values that no node has are passed over."""
    snapshot = cluster("a: a1", "b: b1", "c: c1").with_pods(owned("p1", "a1"), owned("p2", "c1")).snapshot()
    (found,) = resolved(snapshot, Constraint(ZONE, limited_values=("a", "b", "z")))
    assert counted(found) == {"a": 1, "b": 0}
    assert found.domains.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("least", "counts", "want"),
    [
        pytest.param(0, [3, 1, 2], 2, id="the lead of the fullest"),
        pytest.param(3, [3, 1, 2], 2, id="as many domains as are required"),
        pytest.param(4, [3, 1, 2], 3, id="fewer than required: the minimum is 0"),
        pytest.param(0, [], 0, id="no domains"),
        pytest.param(4, [0, 0, 0], 0, id="no pods"),
    ],
)
def test_the_skew_of_some_counts(least: int, counts: list[int], want: int) -> None:
    """By `minDomains`."""
    snapshot = cluster("a: a1", "b: b1", "c: c1").with_pods(owned("p1", "a1")).snapshot()
    (found,) = resolved(snapshot, Constraint(ZONE, min_domains=least))
    assert found.has_too_few_domains is (least == 4)
    assert found.skew(np.array(counts, dtype=np.int64)) == want


def test_an_empty_workload_has_the_domains_of_all_nodes() -> None:
    """Nothing restricts them, and nothing is counted."""
    snapshot = cluster("a: a1", "b: b1").snapshot()
    (found,) = resolve([Constraint(HOSTNAME)], snapshot, Workload.of_all(snapshot).rows)
    assert counted(found) == {"a1": 0, "b1": 0}
