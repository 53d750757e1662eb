"""What became of a plan, case by case."""

from __future__ import annotations

import pytest

from trimtab.scaledown.metrics import Cause
from trimtab.scaledown.results.verdicts import Pods, Verdict, judge, misses


@pytest.mark.parametrize(
    ("wanted", "controllers", "age", "verdict"),
    [
        pytest.param(None, [], 1, Verdict.NOTHING, id="the workload is gone"),
        pytest.param(30, [Pods(30, 20, 30, 30)], 1, Verdict.WAITING, id="the request is not stored yet"),
        pytest.param(30, [Pods(30, 20, 30, 30)], 11, Verdict.NOTHING, id="the request was refused"),
        pytest.param(25, [Pods(30, 20, 25, 25)], 11, Verdict.NOTHING, id="its user has changed their mind"),
        pytest.param(20, [Pods(30, 20, 30, 30)], 5, Verdict.UNDER_WAY, id="the ReplicaSet is not resized yet"),
        pytest.param(20, [Pods(30, 20, 30, 30)], 601, Verdict.DONE, id="the ReplicaSet will not be resized"),
        pytest.param(20, [Pods(30, 20, 20, 23)], 9999, Verdict.UNDER_WAY, id="some pods have yet to go, however long"),
        pytest.param(20, [Pods(30, 20, 20, 20)], 0, Verdict.DONE, id="all pods have gone"),
        pytest.param(
            20, [Pods(15, 12, 12, 12), Pods(15, 8, 8, 9)], 5, Verdict.UNDER_WAY, id="one of two has yet to shrink"
        ),
        pytest.param(10, [Pods(30, 20, 10, 14)], 5, Verdict.UNDER_WAY, id="shrinking further than was planned"),
        pytest.param(20, [Pods(30, 20, 25, 25)], 5, Verdict.UNDER_WAY, id="the ReplicaSet is on its way"),
        pytest.param(20, [Pods(30, 20, 25, 25)], 11, Verdict.DONE, id="the ReplicaSet grows, as in a rollout"),
        pytest.param(20, [Pods(30, 20, None, 0)], 5, Verdict.DONE, id="the ReplicaSet is gone"),
    ],
)
def test_a_plan_is_judged_by_what_the_cluster_shows(
    wanted: int | None, controllers: list[Pods], age: float, verdict: Verdict
) -> None:
    """Whatever process looks, it comes to the same verdict."""
    assert judge(to=20, wanted=wanted, controllers=controllers, age=age) is verdict


@pytest.mark.parametrize(
    ("active", "ready", "whole", "drained", "want"),
    [
        pytest.param("cd", {}, True, "", {}, id="as planned"),
        pytest.param("ad", {}, True, "", {Cause.LAG: 1}, id="the controller had not seen the costs"),
        pytest.param("ad", {"c": False}, True, "", {Cause.STANDING: 1}, id="a survivor had become unready"),
        pytest.param("ad", {}, False, "", {Cause.UNWRITTEN: 1}, id="not all costs were in place"),
        pytest.param("d", {}, True, "", {Cause.DELETED: 1}, id="somebody else deleted a survivor"),
        pytest.param("ad", {}, True, "c", {Cause.DELETED: 1}, id="a survivor was drained, and a victim spared for it"),
        pytest.param("ab", {}, True, "c", {Cause.DELETED: 1, Cause.LAG: 1}, id="one drained, the other chosen"),
    ],
)
def test_a_miss_has_a_cause(
    active: str, ready: dict[str, bool], whole: bool, drained: str, want: dict[Cause, int]
) -> None:
    """Pods a and b were to go, c and d to stay."""
    found = misses({"a", "b"}, {"c", "d"}, set(active), ready, whole=whole, sent_away=set(drained))
    assert {cause: count for cause, count in found.items() if count} == want


def test_pods_of_an_older_revision_go_before_costs_are_looked_at() -> None:
    """That is no lag, and no reason to wait longer."""
    found = misses({"a"}, {"b"}, {"a"}, {}, whole=True, rolled=True)
    assert {cause: count for cause, count in found.items() if count} == {Cause.STANDING: 1}
