"""The pods of a workload, and those that count beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import ZONE
from trimtab.api.times import parse_ns
from trimtab.ranking.contenders import ALL, Criterion
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.workloads import Policy, Workload, pod_keys
from trimtab.testing.builders import cluster, pod, uid_for

SECOND = 10**9


def test_a_pod_that_is_gone_is_neither_a_pod_nor_a_relative() -> None:
    """The others stay, in their order."""
    pods = [pod(name).on("n").owned_by("web") for name in ("a", "b")]
    snapshot = cluster("z: n").with_pods(*pods, pod("c").on("n").owned_by("old")).snapshot()
    (new,) = {each.metadata.controller.uid for each in map(snapshot.pod, ("default/a", "default/b")) if each}  # type: ignore[union-attr]
    old = snapshot.pod("default/c")
    assert old is not None
    assert old.metadata.controller is not None
    workload = Workload.owned_by(snapshot, new, related=(new, old.metadata.controller.uid))
    assert pod_keys(snapshot, workload.related) == ("default/a", "default/b", "default/c")
    left = workload.without(int(workload.rows[0]))
    assert pod_keys(snapshot, left.rows) == ("default/b",)
    assert pod_keys(snapshot, left.related) == ("default/b", "default/c")


def test_related_pods_are_those_of_the_siblings_alone() -> None:
    """Each once, its own only where it is one of them."""
    made = cluster("z: n").with_pods(pod("a").on("n").owned_by("web"), pod("b").on("n").owned_by("old"))
    snapshot = made.snapshot()
    web, old = uid_for("ReplicaSet/web"), uid_for("ReplicaSet/old")
    for related, want in (((), ()), ((old,), ("default/b",)), ((old, web, old), ("default/b", "default/a"))):
        assert pod_keys(snapshot, Workload.owned_by(snapshot, web, related=related).related) == want


def test_pods_of_a_cloneset_become_available_some_time_after_they_are_ready() -> None:
    """After the start of a window, up to its end; one that was never ready does not."""
    at = "2026-01-01T00:00:{:02}Z"
    seconds = (5, 7, 7, 9)
    ready = [pod(f"p{n}").on("n").created(at.format(0)).ready(at.format(each)) for n, each in enumerate(seconds)]
    others = [pod("unready").on("n").not_ready(at.format(6)), pod("unknown").on("n").condition("Ready", "True")]
    snapshot = cluster("z: n").with_pods(*ready, *others).snapshot()
    clones = replace(Workload.of_all(snapshot), kind="CloneSet", min_ready=10 * SECOND)
    start = parse_ns(at.format(0))
    contenders = clones.contenders(snapshot)

    def changes(begin: int, end: int, workload: Workload = clones) -> list[int]:
        found = workload.availability_changes(contenders, start + begin * SECOND, start + end * SECOND)
        return [(moment - start) // SECOND for moment in found]

    assert changes(0, 60) == [15, 17, 19]
    assert changes(15, 17) == [17]
    assert changes(14, 16) == [15]
    assert changes(0, 60, replace(clones, min_ready=0)) == []


@pytest.mark.parametrize(
    ("min_ready", "moment", "want"),
    [
        pytest.param(10, 20, [True, True, False, False, False], id="ready for ten seconds"),
        pytest.param(10, 19, [True, False, False, False, False], id="a second earlier"),
        pytest.param(0, 20, None, id="at once: as readiness says"),
        pytest.param(10, None, None, id="without a time"),
    ],
)
def test_pods_of_a_cloneset_are_available_if_they_have_been_ready_for_long_enough(
    min_ready: int, moment: int | None, want: list[bool] | None
) -> None:
    """Neither those that are not ready, nor those of which it is not known since when they are."""
    at = "2026-01-01T00:00:{:02}Z"
    ready = [pod(f"p{n}").on("n").ready(at.format(each)) for n, each in enumerate((0, 10, 11))]
    others = [pod("unready").on("n").not_ready(at.format(0)), pod("unknown").on("n").condition("Ready", "True")]
    snapshot = cluster("z: n").with_pods(*ready, *others).snapshot()
    clones = replace(Workload.of_all(snapshot), kind="CloneSet", min_ready=min_ready * SECOND)
    when = None if moment is None else parse_ns(at.format(moment))
    levels = clones.cloneset_order(clones.contenders(snapshot), snapshot, when).levels
    found = [level.keys(ALL).tolist() for level in levels if level.criterion is Criterion.AVAILABLE]
    assert found == ([] if want is None else [want])


def test_a_cloneset_ranks_by_its_constraints_unless_its_controller_has_others() -> None:
    """Two pods of a zone on nodes of their own: by the zone one of them goes first, by nodes none does."""
    snapshot = cluster("a: a1 a2", "b: b1").running("a1", "a2", "b1").snapshot()
    by_zone = replace(Workload.of_all(snapshot, constraints=[Constraint(ZONE)]), kind="CloneSet")
    by_node = replace(by_zone, ranked_by=())
    ranks = [
        sorted(set(clones.cloneset_order(clones.contenders(snapshot), snapshot, None).ranks.tolist()))
        for clones in (by_zone, by_node)
    ]
    assert [len(each) for each in ranks] == [2, 1]


def test_a_pod_without_a_tier_is_in_the_lowest() -> None:
    """So is every pod of a workload without subsets."""
    snapshot = cluster("z: n").running("n", "n").snapshot()
    workload = Workload.of_all(snapshot)
    assert workload.tier_column(snapshot).tolist() == [0, 0]
    assert replace(workload, tiers={"default/pod-01": 3}).tier_column(snapshot).tolist() == [0, 3]


def test_strategies_need_the_time() -> None:
    """Ages are part of what they may rank by."""
    snapshot = cluster("z: n").running("n").snapshot()
    with pytest.raises(InvalidError, match="is needed to rank pods by strategies"):
        Policy.of(()).rank(snapshot, Workload.of_all(snapshot).rows, None)
