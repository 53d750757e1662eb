"""The fewest costs that make a plan certain, against a brute force over moments and input orders."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make, view_of
from tests.unit.ranking.test_certainty import insertion_sort, quicksort
from tests.unit.ranking.twins import ReplicaSetTwin
from trimtab.api.annotations import DELETION_COST
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.api.times import from_ns
from trimtab.ranking import Constraint, Plan, Policy, Workload, plan
from trimtab.ranking.certainty import Window
from trimtab.ranking.costs import INT32_MAX, Side
from trimtab.ranking.delivery import Delivery, PodCost, deliver, expectations, is_settled
from trimtab.snapshot import Snapshot

SECOND = 10**9
ZONES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}
NODES = {name: {ZONE: zone} for name, zone in ZONES.items()}
WINDOW = Window(NOW_NS, NOW_NS + 6 * SECOND)
AGES = (2, 3, 3.5, 4, 5, 8, 8.5, 60, 64, 7200)


@st.composite
def pods(draw: st.DrawFn, *, foreign: bool = False) -> list[Pod]:
    """Up to seven ready pods over three zones, whose ages collide often."""
    size = draw(st.integers(2, 7))
    uids = draw(st.permutations("abcdefg"))
    costs = st.sampled_from([None, "-2147483648", "-2147483647", "-5", "0", "3", "2147483647"])
    return [
        make(
            f"p{number}",
            uid=uids[number],
            node=draw(st.sampled_from(sorted(ZONES))),
            since=NOW - timedelta(seconds=draw(st.sampled_from(AGES))),
            created=NOW - timedelta(seconds=draw(st.sampled_from(AGES))),
            cost=draw(costs) if foreign else None,
        )
        for number in range(size)
    ]


def costs_of(given_pods: Sequence[Pod], *, writable: bool) -> dict[str, PodCost]:
    """The costs of other writers, which may be replaced or not."""
    found = {pod.key: pod.metadata.annotations.get(DELETION_COST) for pod in given_pods}
    return {
        key: PodCost() if text is None else PodCost(base=int(text), is_writable=writable) for key, text in found.items()
    }


def with_costs(given_pods: Sequence[Pod], costs: Mapping[str, int]) -> list[Pod]:
    """The pods after the costs were written."""
    changed = []
    for pod in given_pods:
        if pod.key in costs:
            annotations = {**pod.metadata.annotations, DELETION_COST: str(costs[pod.key])}
            metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
            changed.append(msgspec.structs.replace(pod, metadata=metadata))
        else:
            changed.append(pod)
    return changed


def skews(given_pods: Sequence[Pod], count: int) -> set[int]:
    """The skews that upstream's comparison leaves over moments, input orders and algorithms."""
    rng = random.Random(2)
    orders = list(itertools.permutations(given_pods))
    found = set()
    for half in range(13):
        twin = ReplicaSetTwin(given_pods, from_ns(NOW_NS + half * SECOND // 2))
        for order in rng.sample(orders, min(12, len(orders))):
            for algorithm in (insertion_sort, quicksort):
                left = Counter(ZONES[pod.spec.node_name] for pod in algorithm(twin, order)[count:])
                counts = [left[zone] for zone in "abc"]
                found.add(max(counts) - min(counts))
    return found


def planned(given_pods: Sequence[Pod], count: int, **more: str) -> tuple[Plan, Workload, Snapshot]:
    """The plan to remove so many of these pods."""
    view = view_of(given_pods, NODES)
    everyone = Workload.of_all(view, constraints=[Constraint(ZONE)])
    workload = Workload(everyone.rows, everyone.related, everyone.constraints, **more)  # type: ignore[arg-type]
    return plan(workload, view, replicas=len(given_pods) - count, now=NOW_NS, window=WINDOW), workload, view


@given(pods(), st.integers(1, 6), st.booleans())
@settings(max_examples=120, deadline=None)
def test_with_its_costs_every_outcome_is_as_level_as_the_plan(given_pods: list[Pod], count: int, rely: bool) -> None:
    """Whenever the controller acts in the window, and however it lists and sorts the pods."""
    count = min(count, len(given_pods) - 1)
    made, workload, view = planned(given_pods, count)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=rely, now=NOW_NS)
    assert found is not None
    assert len(found.costs) <= max(count, len(given_pods) - count)
    assert max(skews(with_costs(given_pods, dict(found.costs)), count)) <= made.levelings[0].skew_after


@given(pods(foreign=True), st.integers(1, 6))
@settings(max_examples=120, deadline=None)
def test_costs_of_other_writers_as_a_tie_break_do_not_prevent_a_level_result(given_pods: list[Pod], count: int) -> None:
    """Down to the smallest int32, below which nothing can be written."""
    count = min(count, len(given_pods) - 1)
    made, workload, view = planned(given_pods, count, foreign_costs="TieBreak")
    costs = costs_of(given_pods, writable=True)
    found = deliver(made, workload, view, costs=costs, window=WINDOW, now=NOW_NS)
    assert found is not None
    assert all(-(2**31) <= cost <= INT32_MAX for _, cost in found.costs)
    assert max(skews(with_costs(given_pods, dict(found.costs)), count)) <= made.levelings[0].skew_after


@given(pods(foreign=True), st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_obeyed_costs_of_other_writers_are_never_replaced(given_pods: list[Pod], count: int) -> None:
    """And where a delivery is found all the same, it holds."""
    count = min(count, len(given_pods) - 1)
    made, workload, view = planned(given_pods, count)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, workload, view, costs=costs, window=WINDOW, now=NOW_NS)
    if found is None:
        return
    assert not {key for key, _ in found.costs} & {key for key, cost in costs.items() if not cost.is_writable}
    assert max(skews(with_costs(given_pods, dict(found.costs)), count)) <= made.levelings[0].skew_after


def story() -> list[Pod]:
    """Ten old pods in zones a and b each, ten young ones in c."""
    old, young = NOW - timedelta(days=9), NOW - timedelta(days=1)
    return [
        make(f"{zone}{n}", uid=f"{zone}{n}", node=f"{zone}1", since=since, created=since)
        for zone, since in (("a", old), ("b", old), ("c", young))
        for n in range(10)
    ]


def delivered(given_pods: Sequence[Pod], count: int, *, rely: bool = True) -> Delivery:
    """The delivery for a Deployment's pods on nodes of their own."""
    made, workload, view = planned(given_pods, count)
    alone = Workload(workload.rows, workload.rows[:0], workload.constraints)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, alone, view, costs=costs, window=WINDOW, rely=rely, now=NOW_NS)
    assert found is not None
    return found


def delivered_alone(groups: Sequence[tuple[str, int, int]], replicas: int) -> Delivery:
    """The delivery for pods without related ones: groups of them by zone, number and age in days."""
    given_pods = [
        make(f"{zone}{days}-{n}", uid=f"{zone}{days}-{n}", node=f"{zone}1", since=since, created=since)
        for zone, size, days in groups
        for since in (NOW - timedelta(days=days),)
        for n in range(size)
    ]
    view = view_of(given_pods, NODES)
    everyone = Workload.of_all(view, constraints=[Constraint(ZONE)])
    alone = Workload(everyone.rows, everyone.rows[:0], everyone.constraints)
    made = plan(alone, view, replicas=replicas, now=NOW_NS, window=WINDOW)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, alone, view, costs=costs, window=WINDOW, now=NOW_NS)
    assert found is not None
    return found


def by_zone(found: Delivery) -> Counter[str]:
    """How many pods of each zone get a cost."""
    return Counter(key.removeprefix("default/")[0] for key, _ in found.costs)


def test_only_the_pods_about_which_the_controller_must_change_its_mind_are_written() -> None:
    """10/10/10 to 7/7/6: six victims of the old zones; that four of the young ones go is certain, whichever."""
    found = delivered(story(), 10)
    assert found.side is Side.VICTIMS
    assert Counter(key.partition("/")[2][0] for key, _ in found.costs) == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("sizes", "replicas", "written"),
    [
        pytest.param((5, 5, 4), 9, {"a": 2, "b": 2}, id="four of five victims"),
        pytest.param((6, 5, 4), 9, {"a": 3, "b": 2, "c": 1}, id="not five of six: all are as good"),
        pytest.param((5, 4, 3), 5, {"a": 3, "b": 2}, id="five of seven, as many as there are survivors"),
    ],
)
def test_of_the_victims_some_are_written_where_that_saves_a_fifth(
    sizes: tuple[int, int, int], replicas: int, written: dict[str, int]
) -> None:
    """Two zones have old pods, the third has young ones: that some of these go is certain, whichever."""
    zones = zip("abc", sizes, (9, 9, 1), strict=True)
    found = delivered_alone([(zone, size, days) for zone, size, days in zones], replicas)
    assert (found.side, by_zone(found)) == (Side.VICTIMS, written)


def test_of_the_survivors_some_are_written_where_that_takes_fewest_costs() -> None:
    """Those of the young pods that are to stay; the oldest of the other zones stay anyway."""
    found = delivered_alone([("a", 3, 99), ("a", 7, 9), ("b", 3, 99), ("b", 7, 9), ("c", 10, 1)], 9)
    assert (found.side, by_zone(found)) == (Side.SURVIVORS, {"c": 3})


def test_survivors_have_costs_in_the_order_of_the_policy() -> None:
    """The oldest go first, and of the two that stay the older one would go next."""
    given_pods = [
        make(f"p{n}", uid=f"{n}", node="a1", since=NOW - timedelta(days=n), created=NOW - timedelta(days=n))
        for n in range(1, 11)
    ]
    view = view_of(given_pods, NODES)
    workload = Workload.of_all(view, constraints=[Constraint(ZONE)])
    policy = Policy.of([StrategySpec(name="Oldest")])
    made = plan(workload, view, policy, replicas=2, now=NOW_NS, window=WINDOW)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.side, found.costs) == (Side.SURVIVORS, (("default/p1", 2), ("default/p2", 1)))


def test_without_reliance_on_other_criteria_all_victims_are_written() -> None:
    """First one first, from minus the number of all pods on."""
    found = delivered(story(), 10, rely=False)
    assert [cost for _, cost in found.costs] == list(range(-30, -20))


def test_of_many_victims_the_survivors_are_written() -> None:
    """The last survivor first: wherever writing stops, the best ones have their costs."""
    found = delivered(story(), 26, rely=False)
    assert found.side is Side.SURVIVORS
    assert [cost for _, cost in found.costs] == [4, 3, 2, 1]


def test_costs_that_already_have_their_effect_are_not_written_again() -> None:
    """As after an earlier plan for the same size."""
    given_pods = story()
    found = delivered(given_pods, 10, rely=False)
    made, workload, view = planned(given_pods, 10)
    costs = {pod.key: PodCost(own=dict(found.costs).get(pod.key)) for pod in given_pods}
    again = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert again == Delivery(Side.VICTIMS, (), is_exact=True)


def test_nothing_is_written_where_the_worst_outcome_is_as_level() -> None:
    """Pods of clearly different ages, the youngest of each zone go."""
    given_pods = [
        make(f"{zone}{n}", uid=f"{zone}{n}", node=f"{zone}1", since=since, created=since)
        for zone in "abc"
        for n, since in enumerate((NOW - timedelta(days=9), NOW - timedelta(seconds=100)))
    ]
    assert delivered(given_pods, 3).costs == ()
    assert len(delivered(given_pods, 3, rely=False).costs) == 3


def test_with_strategies_the_very_pods_must_be_certain() -> None:
    """A result that is as level is not enough: the policy asked for these pods."""
    given_pods = story()
    view = view_of(given_pods, NODES)
    workload = Workload.of_all(view, constraints=[Constraint(ZONE)])
    policy = Policy.of([StrategySpec(name="Oldest")])
    made = plan(workload, view, policy, replicas=25, now=NOW_NS, window=WINDOW)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, now=NOW_NS)
    assert found is not None
    assert {key for key, _ in found.costs} == set(made.keys)


@pytest.mark.parametrize(
    ("policy", "constraints", "victim"),
    [
        pytest.param(Policy.of([StrategySpec(name="Oldest")]), [Constraint(ZONE)], "default/old", id="strategies"),
        pytest.param(None, [], "default/young", id="no constraints"),
    ],
)
def test_the_very_pods_must_be_certain_where_not_only_the_balance_counts(
    policy: Policy | None, constraints: list[Constraint], victim: str
) -> None:
    """Two pods of a zone: which of them goes changes no balance. The younger goes now, either in a second."""
    given_pods = [
        make(name, uid=uid, node="a1", since=NOW - timedelta(seconds=age), created=NOW - timedelta(seconds=age))
        for name, uid, age in (("old", "a", 5), ("young", "b", 4))
    ]
    view = view_of(given_pods, NODES)
    workload = Workload.of_all(view, constraints=constraints)
    made = plan(workload, view, policy, replicas=1, now=NOW_NS, window=WINDOW)
    costs = costs_of(given_pods, writable=False)
    found = deliver(made, workload, view, policy, costs=costs, window=WINDOW, now=NOW_NS)
    assert found is not None
    assert [key for key, _ in found.costs] == [victim]


def test_a_partial_delivery_is_announced_with_its_worst_result() -> None:
    """Three of six costs written: what the controller may then leave is known before it acts."""
    given_pods = story()
    made, workload, view = planned(given_pods, 10)
    alone = Workload(workload.rows, workload.rows[:0], workload.constraints)
    found = delivered(given_pods, 10)
    whole = expectations(alone, view, 10, dict(found.costs), WINDOW)
    part = expectations(alone, view, 10, dict(found.costs[:3]), WINDOW)
    assert (whole[0].topology_key, whole[0].skew) == (ZONE, made.levelings[0].skew_after)
    assert part[0].skew == 6
    assert sum(part[0].worst) == 20


@pytest.mark.parametrize(
    ("unready", "count", "want"), [(0, 5, True), (1, 5, False), (0, 501, False)], ids=["settled", "unready", "bursts"]
)
def test_pods_are_settled_if_all_are_ready_and_one_sync_is_enough(unready: int, count: int, want: bool) -> None:
    """Otherwise other criteria than costs may change before the controller has acted."""
    given_pods = [*story(), *(make(f"u{n}", uid=f"u{n}", node="a1", ready=False) for n in range(unready))]
    _, workload, view = planned(given_pods, 5)
    assert is_settled(workload, view, count) is want


@pytest.mark.parametrize(
    ("count", "side", "written"),
    [
        pytest.param(9, Side.SURVIVORS, 1, id="one survivor may have the highest cost"),
        pytest.param(8, Side.VICTIMS, 8, id="two would need one above it: the victims are written, although more"),
    ],
)
def test_costs_never_leave_int32(count: int, side: Side, written: int) -> None:
    """Of ten pods with the highest cost but one."""
    given_pods = [
        make(f"p{n}", uid=f"{n}", node="a1", since=NOW - timedelta(days=1), cost=str(INT32_MAX - 1)) for n in range(10)
    ]
    made, workload, view = planned(given_pods, count, foreign_costs="TieBreak")
    costs = costs_of(given_pods, writable=True)
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.side, len(found.costs)) == (side, written)
    assert all(abs(cost) <= INT32_MAX for _, cost in found.costs)


@given(pods(), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_nothing_is_relied_on_that_is_less_level_on_any_constraint(given_pods: list[Pod], count: int) -> None:
    """Zones and nodes: as level on one of them is not enough."""
    count = min(count, len(given_pods) - 1)
    view = view_of(given_pods, {name: {**labels, HOSTNAME: name} for name, labels in NODES.items()})
    workload = Workload.of_all(view, constraints=[Constraint(ZONE), Constraint(HOSTNAME)])
    made = plan(workload, view, replicas=len(given_pods) - count, now=NOW_NS, window=WINDOW)
    found = deliver(
        made, workload, view, costs=costs_of(given_pods, writable=False), window=WINDOW, rely=True, now=NOW_NS
    )
    assert found is not None
    worst = [each.skew for each in expectations(workload, view, count, dict(found.costs), WINDOW)]
    assert all(skew <= each.skew_after for skew, each in zip(worst, made.levelings, strict=True))
    assert found.costs or made.is_matched_by_stock


def test_where_costs_reach_both_ends_of_int32_those_around_zero_are_enough() -> None:
    """Nothing is below the lowest cost nor above the highest: the victim gets one below zero, the other one above."""
    since = NOW - timedelta(days=1)
    where = {"x1": ("a1", INT32_MAX), "x2": ("a1", INT32_MAX), "y1": ("b1", -(2**31))}
    given_pods = [
        make(name, uid=name, node=at, since=since, created=since, cost=str(cost)) for name, (at, cost) in where.items()
    ]
    made, workload, view = planned(given_pods, 1, foreign_costs="TieBreak")
    (victim,) = made.keys
    assert victim in ("default/x1", "default/x2")
    costs = costs_of(given_pods, writable=True)
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert dict(found.costs) == {victim: -3, "default/y1": 1}


def test_around_zero_only_pods_on_the_wrong_side_are_written() -> None:
    """A victim that is below zero keeps its cost, and a survivor at zero, but no victim at zero."""
    since = NOW - timedelta(days=1)
    where = {"a1": (INT32_MAX, INT32_MAX, 0, -7), "b1": (-(2**31),), "c1": (0,)}
    given_pods = [
        make(f"{node}-{n}", uid=f"{node}-{n}", node=node, since=since, created=since, cost=str(cost))
        for node, costs in where.items()
        for n, cost in enumerate(costs)
    ]
    made, workload, view = planned(given_pods, 3, foreign_costs="TieBreak")
    assert made.keys[:2] == ("default/a1-3", "default/a1-2")
    known = costs_of(given_pods, writable=True)
    found = deliver(made, workload, view, costs=known, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert dict(found.costs) == {"default/a1-2": -6, made.keys[2]: -5, "default/b1-0": 1}


@pytest.mark.parametrize(
    ("victims", "survivors", "side"),
    [
        pytest.param(4, 3, Side.VICTIMS, id="victims, although one more"),
        pytest.param(5, 3, Side.SURVIVORS, id="survivors, where that saves two"),
    ],
)
def test_victims_are_preferred_where_that_takes_few_more_costs(victims: int, survivors: int, side: Side) -> None:
    """Costs on survivors leave the victims tied."""
    since = NOW - timedelta(days=1)
    given_pods = [make(f"p{n}", uid=f"{n}", node="a1", since=since, created=since) for n in range(victims + survivors)]
    assert delivered(given_pods, victims, rely=False).side is side


def three() -> tuple[Plan, Workload, Snapshot, str, str]:
    """Two pods in zone a and one in b, of which one goes: the plan, the victim, and the other one of its zone."""
    since = NOW - timedelta(days=1)
    where = {"x1": "a1", "x2": "a1", "y1": "b1"}
    given_pods = [make(name, uid=name, node=at, since=since, created=since) for name, at in where.items()]
    made, workload, view = planned(given_pods, 1)
    (victim,) = made.keys
    (other,) = {"default/x1", "default/x2"} - {victim}
    return made, workload, view, victim, other


@pytest.mark.parametrize(
    ("victim", "other", "third", "want"),
    [
        pytest.param(PodCost(own=-1), PodCost(), PodCost(), {}, id="its cost puts it first already"),
        pytest.param(PodCost(own=0), PodCost(), PodCost(), {"victim": -3}, id="an equal cost does not"),
        pytest.param(PodCost(), PodCost(own=-5), PodCost(), {"victim": -8}, id="below what an earlier plan wrote"),
        pytest.param(PodCost(), PodCost(own=4), PodCost(), {"victim": -3}, id="below zero in any case"),
        pytest.param(PodCost(own=-3), PodCost(own=-5), PodCost(), {"victim": -8}, id="its own is not low enough"),
        pytest.param(
            PodCost(base=10**6, banded=True),
            PodCost(base=10**6, banded=True),
            PodCost(base=10**6, banded=True),
            {"victim": 10**6 - 3},
            id="inside its band",
        ),
        pytest.param(
            PodCost(base=10**6, banded=True),
            PodCost(base=10**6, own=10**6 - 2, banded=True),
            PodCost(base=10**6, banded=True),
            {"victim": 10**6 - 5},
            id="inside its band, below what an earlier plan wrote",
        ),
    ],
)
def test_the_cost_of_a_victim_is_below_those_of_all_survivors(
    victim: PodCost, other: PodCost, third: PodCost, want: dict[str, int]
) -> None:
    """By as many steps as there are pods, so that further victims fit in between."""
    made, workload, view, name, beside = three()
    costs = {name: victim, beside: other, "default/y1": third}
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.side, found.is_exact) == (Side.VICTIMS, True)
    assert {"victim" if key == name else key: cost for key, cost in found.costs} == want


@pytest.mark.parametrize(("own", "want"), [(None, [2, 1]), (7, [9, 8]), (-4, [2, 1])])
def test_the_costs_of_survivors_are_above_those_of_all_victims(own: int | None, want: list[int]) -> None:
    """And above zero; the last survivor is written first."""
    since = NOW - timedelta(days=1)
    given_pods = [make(f"p{n}", uid=str(n), node="a1", since=since, created=since) for n in range(10)]
    made, workload, view = planned(given_pods, 8)
    costs = {pod.key: PodCost(own=own if pod.key == made.keys[0] else None) for pod in given_pods}
    found = deliver(made, workload, view, costs=costs, window=WINDOW, rely=False, now=NOW_NS)
    assert found is not None
    assert (found.side, [cost for _, cost in found.costs]) == (Side.SURVIVORS, want)


def test_costs_that_may_not_be_written_are_obeyed() -> None:
    """Where they put all of the fuller zone last, nothing can be delivered; where one goes first, nothing need be."""
    made, workload, view, name, beside = three()
    last = {name: PodCost(base=5, is_writable=False), beside: PodCost(base=5, is_writable=False)}
    last["default/y1"] = PodCost()
    assert deliver(made, workload, view, costs=last, window=WINDOW, rely=False, now=NOW_NS) is None
    first = {key: PodCost(base=5 if key == name else 9, is_writable=False) for key in last}
    found = deliver(made, workload, view, costs=first, window=WINDOW, rely=False, now=NOW_NS)
    assert found == Delivery(Side.VICTIMS, (), is_exact=True)


def test_a_window_is_as_wide_as_clocks_may_differ() -> None:
    """On both sides of the time in which the controller acts."""
    assert Window.after(NOW_NS, seconds=10, tolerance=5) == Window(NOW_NS - 5 * SECOND, NOW_NS + 15 * SECOND)


@pytest.mark.parametrize(
    ("unready", "count", "want"), [(0, 500, True), (30, 5, False)], ids=["one burst", "none ready"]
)
def test_one_burst_of_ready_pods_is_settled(unready: int, count: int, want: bool) -> None:
    """Five hundred deletions are one sync."""
    given_pods = [make(f"u{n}", uid=f"u{n}", node="a1", ready=not unready) for n in range(30)]
    _, workload, view = planned(given_pods, 5)
    assert is_settled(workload, view, count) is want
