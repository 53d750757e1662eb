"""Pods in subsets: those of a lower tier go first, whatever the balance and the strategies say, and that is certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make, view_of
from tests.unit.ranking.test_delivery import NODES, WINDOW, ZONES, pods, with_costs
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking import Constraint, Plan, Policy, Workload, plan
from trimtab.ranking.costs import MOST_SUBSETS, Band, Level
from trimtab.ranking.delivery import Delivery, PodCost, deliver
from trimtab.ranking.plan import possible_victims
from trimtab.snapshot import Snapshot


def workload(snapshot: Snapshot, tiers: Mapping[str, int], kind: str = "ReplicaSet") -> Workload:
    """All pods, kept level over zones, in these tiers."""
    made = Workload.of_all(snapshot, constraints=(Constraint(ZONE),))
    return replace(made, kind="CloneSet" if kind == "CloneSet" else "ReplicaSet", tiers=tiers)


def planned(
    given_pods: Sequence[Pod], tiers: Mapping[str, int], keep: int, *names: str, kind: str = "ReplicaSet"
) -> tuple[Plan, Delivery | None]:
    """The plan for a target size, with these strategies, and its costs."""
    snapshot = view_of(given_pods, NODES)
    group = workload(snapshot, tiers, kind)
    policy = Policy.of([StrategySpec(name=name) for name in names])
    made = plan(group, snapshot, policy, replicas=keep, now=NOW_NS, window=WINDOW)
    costs = {pod.key: PodCost() for pod in given_pods}
    return made, deliver(made, group, snapshot, policy, costs=costs, window=WINDOW, now=NOW_NS)


@settings(deadline=None, max_examples=300)
@given(
    pods(),
    st.lists(st.integers(0, 2), min_size=7, max_size=7),
    st.integers(0, 7),
    st.sampled_from([(), ("Oldest",)]),
    st.sampled_from(["ReplicaSet", "CloneSet"]),
)
def test_the_result_keeps_tiers_whatever_the_controller_does(
    given_pods: list[Pod], numbers: list[int], keep: int, strategies: tuple[str, ...], kind: str
) -> None:
    """With the costs in place, every possible choice deletes the lowest tiers."""
    tiers = {pod.key: number for pod, number in zip(given_pods, numbers, strict=False)}
    keep = min(keep, len(given_pods))
    made, delivery = planned(given_pods, tiers, keep, *strategies, kind=kind)
    lowest = Counter(sorted(tiers.values())[: len(given_pods) - keep])
    assert Counter(tiers[key] for key in made.keys) == lowest
    assert delivery is not None
    costly = view_of(with_costs(given_pods, dict(delivery.costs)), NODES)
    found = possible_victims(workload(costly, tiers, kind), costly, len(given_pods) - keep, WINDOW)
    for outcome in found.outcomes:
        names = [costly.pods.rows.names[row] or "" for row in found.rows.tolist()]
        certain = [name for name, gone in zip(names, outcome.certain.tolist(), strict=True) if gone]
        chance = {tiers[name] for name, is_open in zip(names, outcome.open.tolist(), strict=True) if is_open}
        assert len(chance) <= 1
        assert Counter([*(tiers[name] for name in certain), *list(chance) * outcome.take]) == lowest


@settings(deadline=None, max_examples=200)
@given(pods(), st.integers(0, 7))
def test_one_tier_is_as_none(given_pods: list[Pod], keep: int) -> None:
    """A workload whose pods are all in one subset is planned as before."""
    keep = min(keep, len(given_pods))
    made, delivery = planned(given_pods, {pod.key: 7 for pod in given_pods}, keep)
    plain, costs = planned(given_pods, {}, keep)
    assert made.keys == plain.keys
    assert delivery is not None
    assert costs is not None
    assert delivery.costs == costs.costs


def aged(name: str, days: float, node: str = "a1") -> Pod:
    """A pod that was created, and became ready, so many days ago."""
    since = NOW - timedelta(days=days)
    return make(name, uid=name, node=node, since=since, created=since)


@pytest.mark.parametrize(
    ("given_pods", "tiers", "written"),
    [
        pytest.param(
            [aged("young", 1), aged("twin", 1, "a2"), aged("old", 9, "b1")],
            {"default/old": 1},
            [],
            id="one of two goes by chance, both of the lowest tier",
        ),
        pytest.param(
            [aged("young", 1), aged("twin", 1, "a2"), aged("old", 9, "b1")],
            {"default/twin": 1, "default/old": 1},
            ["default/young"],
            id="one of two goes by chance, of different tiers",
        ),
        pytest.param(
            [aged("young", 1), aged("old", 9), aged("other", 9)],
            {"default/young": 1, "default/other": 2},
            ["default/old"],
            id="a pod of another tier goes for certain, and a third tier loses none either way",
        ),
    ],
)
def test_costs_are_written_unless_the_controller_takes_as_many_of_each_tier(
    given_pods: list[Pod], tiers: dict[str, int], written: list[str]
) -> None:
    """One pod goes, and the zones are as level whichever it is."""
    _, delivery = planned(given_pods, tiers, len(given_pods) - 1)
    assert delivery is not None
    assert [key for key, _ in delivery.costs] == written


def test_a_level_result_is_given_up_for_the_subsets() -> None:
    """Zones would keep one pod each; the later subset is in one zone, and goes as a whole."""
    nodes = {"p0": "a1", "p1": "a2", "p2": "b1", "p3": "b2"}
    given_pods = [make(name, uid=name, node=node) for name, node in nodes.items()]
    made, _ = planned(given_pods, {"default/p0": 1, "default/p1": 1}, 2)
    assert set(made.keys) == {"default/p2", "default/p3"}
    assert {ZONES[name] for name in ("b1", "b2")} == {"b"}
    assert {victim.because for victim in made.victims} == {"its subset is emptied before others"}
    assert any("whose subsets are emptied first" in each.cause for each in made.obstacles)


@given(
    st.sampled_from(Level), st.sampled_from(Level), st.integers(0, MOST_SUBSETS - 1), st.integers(0, MOST_SUBSETS - 1)
)
def test_tiers_order_bands(one: Level, other: Level, first: int, second: int) -> None:
    """Redundant, BestEffort, Guaranteed; inside each, later subsets first; and tiers agree with costs."""
    order = list(Level)
    left, right = Band(one, first, MOST_SUBSETS), Band(other, second, MOST_SUBSETS)
    if one is other:
        assert (left.tier < right.tier) == (first > second)
    else:
        assert (left.tier < right.tier) == (order.index(one) < order.index(other))
    assert not (left.centre < right.centre and left.tier >= right.tier)
