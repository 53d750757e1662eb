"""Costs while pods are starting: the result is level whether or not they become ready before the controller acts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make
from tests.unit.ranking.test_certainty import insertion_sort
from tests.unit.ranking.test_delivery import WINDOW, ZONES, planned, with_costs
from tests.unit.ranking.twins import ReplicaSetTwin
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking import Policy
from trimtab.ranking.costs import Side
from trimtab.ranking.delivery import Delivery, PodCost, deliver
from trimtab.ranking.hedges import Hedge, Unhedged

Crowd = Sequence[tuple[str, bool]]
"""Pods, by their nodes and whether they are ready."""


def built(crowd: Crowd, *, are_all_ready: bool = False) -> list[Pod]:
    """The pods; those that are starting were created two seconds ago."""
    ages = {True: timedelta(seconds=60), False: timedelta(seconds=2)}
    return [
        make(
            f"p{n}",
            uid=f"{n}",
            node=node,
            ready=are_all_ready or ready,
            since=NOW - ages[ready] / 2,
            created=NOW - ages[ready],
        )
        for n, (node, ready) in enumerate(crowd)
    ]


def delivered(pods: Sequence[Pod], count: int, policy: Policy | None = None) -> Delivery:
    """The costs to remove so many of these pods."""
    made, workload, view = planned(pods, count)
    costs = {pod.key: PodCost() for pod in pods}
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    return found


crowds = st.lists(st.tuples(st.sampled_from(sorted(ZONES)), st.booleans()), min_size=5, max_size=7)


@given(crowds, st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_the_result_is_level_whether_or_not_starting_pods_become_ready(crowd: Crowd, count: int) -> None:
    """As level as if that had been known before."""
    count = min(count, len(crowd) - 1)
    pods, ready = built(crowd), built(crowd, are_all_ready=True)
    costs = dict(delivered(pods, count).costs)
    for actual in (pods, ready):
        best = planned(actual, count)[0].levelings[0].skew_after
        assert skew(with_costs(actual, costs), count) <= best


def skew(pods: Sequence[Pod], count: int) -> int:
    """The larger skew that upstream's comparison leaves at the start and the end of the window."""
    found = []
    for moment in (NOW, NOW + timedelta(seconds=6)):
        left = Counter(ZONES[pod.spec.node_name] for pod in insertion_sort(ReplicaSetTwin(pods, moment), pods)[count:])
        found.append(max(left[zone] for zone in "abc") - min(left[zone] for zone in "abc"))
    return max(found)


def names(found: Delivery) -> list[str]:
    """The pods with costs, the lowest first."""
    return [key.removeprefix("default/") for key, _ in sorted(found.costs, key=lambda each: each[1])]


FULL: Crowd = [("a1", True), ("a2", True), ("b1", True), ("b2", True)]
"""Two ready pods in each of two zones."""


def test_where_all_starting_pods_go_the_other_victims_come_first() -> None:
    """Three of six: with the two that are starting goes one that is ready; if all are ready, one of each zone."""
    found = delivered(built([*FULL, ("c1", False), ("c1", False)]), 3)
    assert found.side is Side.VICTIMS
    assert names(found) == ["p0", "p4", "p2"]
    assert not found.is_exact, "which pods go depends on more than costs"
    assert found.unhedged is None


def test_where_a_starting_pod_stays_those_that_go_have_costs_too() -> None:
    """Two of nine, three of which are starting: two of these, or, if all are ready, pods of two zones."""
    crowd: Crowd = [*FULL, ("a1", True), ("b1", True), ("c1", False), ("c1", False), ("c1", False)]
    assert names(delivered(built(crowd), 2)) == ["p6", "p0", "p7"]


@pytest.mark.parametrize(
    ("starting", "count", "want"),
    [
        pytest.param(["", ""], 3, ["p0", "p4", "p2"], id="both go now: later they are as full a domain as others"),
        pytest.param(["c1", "c1", ""], 1, ["p4", "p6"], id="one goes now, before another that is starting"),
    ],
)
def test_pods_without_a_node_may_have_one_a_moment_later(starting: list[str], count: int, want: list[str]) -> None:
    """Then they are pods like others."""
    assert names(delivered(built([*FULL, *((node, False) for node in starting)]), count)) == want


def test_no_cost_is_added_where_no_pod_is_starting() -> None:
    assert len(delivered(built([("a1", True), ("a2", True), ("b1", True)]), 1).costs) == 1


def test_nothing_is_hedged_where_other_criteria_can_be_relied_on() -> None:
    """Those that are starting stay so: no pod but the victims has a cost."""
    pods = built([*FULL, ("c1", False), ("c1", False)])
    made, workload, view = planned(pods, 3)
    costs = {pod.key: PodCost() for pod in pods}
    policy = Policy.of([StrategySpec(name="Oldest")])
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, rely=True, now=NOW_NS)
    assert found is not None
    assert (names(found), found.hedges, found.unhedged) == (["p0"], frozenset(), None)


@pytest.mark.parametrize("chosen", [("AntiAffinity",), ("Oldest", "AntiAffinity")], ids=["all ranks", "some ranks"])
def test_ranks_that_hold_for_one_step_are_not_hedged(chosen: tuple[str, ...]) -> None:
    """They say nothing about what comes after the victims."""
    policy = Policy.of([StrategySpec(name=name, threshold=10) for name in chosen])
    found = delivered(built([*FULL, ("c1", False), ("c1", False)]), 2, policy)
    assert set(names(found)) == {"p4", "p5"}
    assert found.unhedged is Unhedged.RANKS_FOR_ONE_STEP
    assert delivered(built(FULL), 2, policy).unhedged is None, "no pod is starting"


def test_many_more_costs_are_not_worth_it() -> None:
    """Where survivors are few, only these have costs."""
    crowd: Crowd = [("a1", True), ("b1", True)] * 60 + [("c1", False)] * 2
    found = delivered(built(crowd), 118)
    assert found.side is Side.SURVIVORS
    assert len(found.costs) == 4
    assert found.unhedged is Unhedged.TOO_MANY_COSTS


def test_more_hedges_than_the_limit_are_not_written() -> None:
    """Fifty of sixty victims are starting and go in one case, other pods in the other: twice as many costs."""
    crowd: Crowd = [("a1", True), ("b1", True)] * 60 + [("c1", False)] * 60
    found = delivered(built(crowd), 50)
    assert len(found.costs) == 50
    assert found.unhedged is Unhedged.TOO_MANY_COSTS


def test_a_quarter_more_costs_are_worth_it() -> None:
    """Sixty starting pods go, or ten ready ones and fifty of those: however many that is."""
    crowd: Crowd = [("a1", True)] * 70 + [("c1", False)] * 110
    found = delivered(built(crowd), 60)
    assert (len(found.costs), len(found.hedges), found.unhedged) == (70, 20, None)


def test_as_many_costs_as_the_limit_are_worth_it() -> None:
    """Fifty, where thirty-nine on survivors would do if it were certain that no pod becomes ready."""
    crowd: Crowd = [("a1", True)] * 40 + [("b1", True)] * 39 + [("c1", False)] * 10
    found = delivered(built(crowd), 50)
    assert (found.side, len(found.costs), len(found.hedges), found.unhedged) == (Side.VICTIMS, 50, 10, None)


def test_costs_are_below_those_of_the_pods_that_stay_in_both_cases() -> None:
    """What an earlier plan wrote to pods that get costs now does not count: it is replaced."""
    pods = built([*FULL, ("c1", False), ("c1", False)])
    made, workload, view = planned(pods, 3)
    own = {"default/p0": -9, "default/p1": -5}
    costs = {pod.key: PodCost(own=own.get(pod.key)) for pod in pods}
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert found.costs == (("default/p0", -11), ("default/p4", -10), ("default/p2", -9))


def test_costs_of_other_writers_that_are_obeyed_count_if_all_pods_are_ready() -> None:
    """Two ready pods have high costs, and stay in both cases: one cost is enough, for the third that stays."""
    dear = {"default/p2": 7, "default/p3": 7}
    pods = with_costs(built([*FULL, ("c1", False), ("c1", False)]), dear)
    made, workload, view = planned(pods, 3)
    costs = {pod.key: PodCost(base=dear.get(pod.key, 0), is_writable=pod.key not in dear) for pod in pods}
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.side, names(found), found.unhedged) == (Side.SURVIVORS, ["p1"], None)


def test_a_low_cost_does_not_make_a_pod_a_starting_one() -> None:
    """It goes first now as well as later."""
    pods = with_costs(built(FULL), {"default/p0": -7})
    _, workload, view = planned(pods, 1)
    assert not Hedge(workload, view, None, 1, NOW_NS).has_starting_pods


def test_nothing_is_hedged_that_makes_the_planned_pods_uncertain() -> None:
    """A victim has a low cost of another writer, which is obeyed: the cost of a hedge might come before it."""
    pods = built([*FULL, ("c1", False), ("c1", False)])
    policy = Policy.of([StrategySpec(name="Oldest")])
    made, workload, view = planned(pods, 3)
    costs = {pod.key: PodCost() for pod in pods} | {"default/p0": PodCost(base=-5, is_writable=False)}
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.hedges, found.unhedged) == (frozenset(), Unhedged.NOT_CERTAIN)


def test_a_cost_of_another_writer_that_is_obeyed_is_left_alone() -> None:
    """A pod that is to go in both cases may have one."""
    pods = built([*FULL, ("c1", False), ("c1", False)])
    made, workload, view = planned(pods, 3)
    costs = {pod.key: PodCost(is_writable=pod.metadata.name != "p2") for pod in pods}
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert "default/p2" not in dict(found.costs)
