"""What became of a plan, case by case."""

from __future__ import annotations

import pytest

from trimtab.scaledown.metrics import MissCause
from trimtab.scaledown.results.evaluation import ControllerState, PlanState, count_misses, evaluate


@pytest.mark.parametrize(
    ("size", "controllers", "age", "verdict"),
    [
        pytest.param(None, [], 1, PlanState.NOT_APPLIED, id="the workload is gone"),
        pytest.param(30, [ControllerState(30, 20, 30, 30)], 1, PlanState.WAITING, id="the request is not stored yet"),
        pytest.param(30, [ControllerState(30, 20, 30, 30)], 11, PlanState.NOT_APPLIED, id="the request was refused"),
        pytest.param(30, [ControllerState(30, 20, 30, 30)], 10, PlanState.NOT_APPLIED, id="the patience is just over"),
        pytest.param(21, [ControllerState(30, 20, 20, 20)], 1, PlanState.WAITING, id="one more than was planned"),
        pytest.param(
            20, [ControllerState(30, 20, 30, 30)], 599.9, PlanState.IN_PROGRESS, id="the ReplicaSet may be resized yet"
        ),
        pytest.param(20, [ControllerState(30, 20, 30, 30)], 600, PlanState.DONE, id="ten minutes are just over"),
        pytest.param(20, [ControllerState(30, 20, 25, 25)], 10, PlanState.DONE, id="its patience is just over"),
        pytest.param(
            25, [ControllerState(30, 20, 25, 25)], 11, PlanState.NOT_APPLIED, id="its user has changed their mind"
        ),
        pytest.param(
            20, [ControllerState(30, 20, 30, 30)], 5, PlanState.IN_PROGRESS, id="the ReplicaSet is not resized yet"
        ),
        pytest.param(
            20, [ControllerState(30, 20, 30, 30)], 601, PlanState.DONE, id="the ReplicaSet will not be resized"
        ),
        pytest.param(
            20,
            [ControllerState(30, 20, 20, 23)],
            9999,
            PlanState.IN_PROGRESS,
            id="some pods have yet to go, however long",
        ),
        pytest.param(20, [ControllerState(30, 20, 20, 20)], 0, PlanState.DONE, id="all pods have gone"),
        pytest.param(
            20,
            [ControllerState(15, 12, 12, 12), ControllerState(15, 8, 8, 9)],
            5,
            PlanState.IN_PROGRESS,
            id="one of two has yet to shrink",
        ),
        pytest.param(
            10, [ControllerState(30, 20, 10, 14)], 5, PlanState.IN_PROGRESS, id="shrinking further than was planned"
        ),
        pytest.param(
            20, [ControllerState(30, 20, 25, 25)], 5, PlanState.IN_PROGRESS, id="the ReplicaSet is on its way"
        ),
        pytest.param(
            20, [ControllerState(30, 20, 25, 25)], 11, PlanState.DONE, id="the ReplicaSet grows, as in a rollout"
        ),
        pytest.param(
            10, [ControllerState(30, 20, 10, 10)], 5, PlanState.SUPERSEDED, id="another request was carried out"
        ),
        pytest.param(20, [ControllerState(30, 20, None, 0)], 5, PlanState.DONE, id="the ReplicaSet is gone"),
    ],
)
def test_the_state_of_a_plan_follows_from_the_cluster(
    size: int | None, controllers: list[ControllerState], age: float, verdict: PlanState
) -> None:
    """Whatever process looks, it comes to the same verdict."""
    assert evaluate(to=20, size=size, controllers=controllers, age=age) is verdict


@pytest.mark.parametrize(
    ("active", "ready", "whole", "drained", "want"),
    [
        pytest.param("cd", {}, True, "", {}, id="as planned"),
        pytest.param("ad", {}, True, "", {MissCause.LAG: 1}, id="the controller had not seen the costs"),
        pytest.param("ab", {}, True, "", {MissCause.LAG: 2}, id="nor those of two pods"),
        pytest.param(
            "ad", {"c": False}, True, "", {MissCause.EARLIER_CRITERION: 1}, id="a survivor had become unready"
        ),
        pytest.param("ad", {}, False, "", {MissCause.UNWRITTEN: 1}, id="not all costs were in place"),
        pytest.param("d", {}, True, "", {MissCause.DELETED: 1}, id="somebody else deleted a survivor"),
        pytest.param(
            "ad", {}, True, "c", {MissCause.DELETED: 1}, id="a survivor was drained, and a victim spared for it"
        ),
        pytest.param("ab", {}, True, "c", {MissCause.DELETED: 1, MissCause.LAG: 1}, id="one drained, the other chosen"),
        pytest.param("a", {}, True, "c", {MissCause.DELETED: 2}, id="one drained, and a victim spared for it alone"),
        pytest.param(
            "a", {}, True, "", {MissCause.DELETED: 1, MissCause.LAG: 1}, id="one chosen for the spared victim"
        ),
    ],
)
def test_a_miss_has_a_cause(
    active: str, ready: dict[str, bool], whole: bool, drained: str, want: dict[MissCause, int]
) -> None:
    """Pods a and b were to go, c and d to stay."""
    found = count_misses({"a", "b"}, {"c", "d"}, set(active), ready, is_complete=whole, deleted_elsewhere=set(drained))
    assert {cause: count for cause, count in found.items() if count} == want


def test_pods_of_an_older_revision_are_an_earlier_criterion() -> None:
    """That is no lag, and no reason to wait longer."""
    found = count_misses({"a"}, {"b"}, {"a"}, {}, is_complete=True, is_rolling=True)
    assert {cause: count for cause, count in found.items() if count} == {MissCause.EARLIER_CRITERION: 1}
