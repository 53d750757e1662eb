"""What a ReplicaSet's controller may delete, against a brute force over moments, input orders and sort algorithms."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.crowds import NOW, NOW_NS, make, view_of
from tests.unit.ranking.twins import ReplicaSetTwin
from trimtab.api.pods import Pod
from trimtab.api.times import from_ns
from trimtab.ranking import certainty
from trimtab.ranking.certainty import PossibleVictims, Window, possible_victims
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.plan import possible_victims as possible_for_workload
from trimtab.ranking.rankers import SameNodeRanker
from trimtab.ranking.victims import Options, order_contenders
from trimtab.ranking.workloads import Workload, pod_keys
from trimtab.snapshot import Snapshot

SECOND = 10**9
AGES = (2, 3, 3.5, 4, 5, 8, 8.5, 60, 64, 70)
"""Seconds: several share a scale, and several cross into the next one within a few seconds."""


def ago(seconds: float) -> datetime:
    """So many seconds before now."""
    return NOW - timedelta(seconds=seconds)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    """Up to six pods whose ages and UIDs collide often."""
    size = draw(st.integers(2, 6))
    uids = draw(st.permutations("abcdef"))
    return [
        make(
            f"p{number}",
            uid=uids[number],
            node=draw(st.sampled_from(["n1", "n2"])),
            ready=draw(st.sampled_from([True, True, True, False])),
            since=NOW - timedelta(seconds=draw(st.sampled_from(AGES))),
            created=NOW - timedelta(seconds=draw(st.sampled_from(AGES))),
            restarts=draw(st.sampled_from([0, 0, 1])),
        )
        for number in range(size)
    ]


def contenders_of(given_pods: Sequence[Pod]) -> Contenders:
    """These pods in a snapshot."""
    view = Snapshot()
    for pod in given_pods:
        view.put(pod)
    return Contenders(view.pods, [view.pods.rows.index[pod.key] for pod in given_pods])


def names(found: PossibleVictims, given_pods: Sequence[Pod], rows: Sequence[int]) -> set[str]:
    """The names of rows."""
    by_row = dict(zip(found.rows.tolist(), given_pods, strict=True))
    return {by_row[row].metadata.name for row in rows}


def insertion_sort(twin: ReplicaSetTwin, given_pods: Sequence[Pod]) -> list[Pod]:
    """What Go's sort does to twelve elements and fewer."""
    order: list[Pod] = []
    for pod in given_pods:
        place = len(order)
        while place and twin.compare(pod, order[place - 1]) < 0:
            place -= 1
        order.insert(place, pod)
    return order


def quicksort(twin: ReplicaSetTwin, given_pods: Sequence[Pod]) -> list[Pod]:
    """What it does to more, with the first element as the pivot."""
    if len(given_pods) < 2:
        return list(given_pods)
    pivot, *others = given_pods
    smaller = [pod for pod in others if twin.compare(pod, pivot) < 0]
    larger = [pod for pod in others if twin.compare(pod, pivot) >= 0]
    return [*quicksort(twin, smaller), pivot, *quicksort(twin, larger)]


def merge_sort(twin: ReplicaSetTwin, given_pods: Sequence[Pod]) -> list[Pod]:
    """An algorithm that Go does not use: the rule does not depend on it."""
    return sorted(given_pods, key=functools.cmp_to_key(twin.compare))


def outcomes(given_pods: Sequence[Pod], count: int, window: Window, moments: Sequence[int]) -> Iterator[frozenset[str]]:
    """The sets that upstream's comparison deletes, over moments, input orders and algorithms."""
    rng = random.Random(1)
    orders = list(itertools.permutations(given_pods))
    for moment in moments:
        assert window.start <= moment <= window.end
        twin = ReplicaSetTwin(given_pods, from_ns(moment))
        for order in rng.sample(orders, min(40, len(orders))):
            for algorithm in (insertion_sort, quicksort, merge_sort):
                yield frozenset(pod.metadata.name for pod in algorithm(twin, order)[:count])


def test_deleting_every_pod_is_certain() -> None:
    """Whatever the order is."""
    given_pods = [make(f"p{number}", node="n") for number in range(3)]
    found = possible_victims(contenders_of(given_pods), [], 3, Window(NOW_NS, NOW_NS))
    assert found.is_unique
    assert len(found.always) == 3


@given(pods(), st.integers(0, 5), st.integers(0, 8))
@settings(max_examples=150, deadline=None)
def test_no_moment_order_or_algorithm_leads_to_another_set(given_pods: list[Pod], count: int, seconds: int) -> None:
    """Pods that are said to go always do, and no other pod goes than those that are said to be possible."""
    count = min(count, len(given_pods))
    window = Window(NOW_NS, NOW_NS + seconds * SECOND)
    found = possible_victims(contenders_of(given_pods), contenders_of(given_pods).rows, count, window)
    always = names(found, given_pods, found.always.tolist())
    possible = names(found, given_pods, found.possible.tolist())
    moments = [NOW_NS + half * SECOND // 2 for half in range(2 * seconds + 1)]
    for deleted in outcomes(given_pods, count, window, moments):
        assert always <= deleted <= possible


def test_a_moment_later_an_age_is_in_another_scale() -> None:
    """A pod of 4.2 s is older than one of 3.5 s; 0.9 s later both are of one scale, and UIDs decide."""
    given_pods = [
        make("older", uid="a", since=NOW - timedelta(seconds=4.3), created=NOW),
        make("younger", uid="b", since=NOW - timedelta(seconds=3.5), created=NOW),
    ]
    contenders = contenders_of(given_pods)
    now = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS))
    soon = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS + SECOND))
    assert names(now, given_pods, now.always.tolist()) == {"younger"}
    assert now.is_unique
    assert names(soon, given_pods, soon.always.tolist()) == set()
    assert names(soon, given_pods, soon.possible.tolist()) == {"older", "younger"}


def test_moments_that_change_nothing_are_one_case() -> None:
    """Ages cross into other scales, and the younger pod still is the first to go."""
    given_pods = [
        make(name, uid=name, since=NOW - timedelta(seconds=age), created=NOW - timedelta(seconds=age))
        for name, age in (("younger", 4), ("older", 60))
    ]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS + 6 * SECOND))
    assert len(found.outcomes) == 1
    assert names(found, given_pods, found.always.tolist()) == {"younger"}


def test_cases_come_in_the_order_of_the_moments() -> None:
    """Ready for 4, 5 and 8 seconds: scales begin at 4.29 and 8.59, and inside a scale the UID decides."""
    given_pods = [
        make(name, uid=uid, since=NOW - timedelta(seconds=age), created=NOW)
        for name, uid, age in (("x", "c", 4), ("y", "b", 5), ("z", "a", 8))
    ]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS + SECOND))
    assert ["xyz"[int(np.flatnonzero(each.certain)[0])] for each in found.outcomes] == ["x", "z", "y"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"uid": "b", "restarts": 1}, {"uid": "a"}, id="7 more restarts"),
        pytest.param(
            {"uid": "b", "restarts": 1, "created": ago(900)}, {"uid": "a", "created": ago(9)}, id="7 before 8"
        ),
        pytest.param({"uid": "b", "created": ago(9)}, {"uid": "a", "created": ago(900)}, id="8 a younger scale"),
        pytest.param({"uid": "a", "created": ago(900)}, {"uid": "b", "created": ago(800)}, id="8 one scale: the UID"),
        pytest.param(
            {"uid": "a", "since": ago(60)},
            {"uid": "b", "since": ago(50), "restarts": 1},
            id="6 one scale: the UID, before 7",
        ),
    ],
)
def test_inside_a_group_the_later_criteria_decide_for_certain(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Rule 2: pods that are equal up to the scale of their ready time."""
    common = {"since": ago(50), "created": ago(900)}
    given_pods = [make("first", **common | first), make("second", **common | second)]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS))
    assert names(found, given_pods, found.possible.tolist()) == {"first"}
    assert found.is_unique


def test_of_many_pods_the_first_ones_go_for_certain() -> None:
    """Those that have been ready for less time, wherever they are in the input."""
    ages = random.Random(1).sample(range(1, 1000), 150)
    given_pods = [make(f"p{age}", uid=str(age), since=ago(age), created=NOW) for age in ages]
    contenders = contenders_of(given_pods)
    window = Window(NOW_NS, NOW_NS)
    for count in range(1, 150):
        found = possible_victims(contenders, contenders.rows, count, window, Options(logarithmic=False))
        assert names(found, given_pods, found.possible.tolist()) == {f"p{age}" for age in sorted(ages)[:count]}
        assert found.is_unique


def test_a_clock_tolerance_widens_the_window_to_both_sides() -> None:
    """A controller whose clock is behind acts as if it were earlier."""
    window = Window.after(NOW_NS, seconds=2, tolerance=5)
    assert window == Window(NOW_NS - 5 * SECOND, NOW_NS + 7 * SECOND)


def test_inside_a_scale_a_comparison_that_is_not_transitive_makes_everything_possible() -> None:
    """Rule 2: x before z before y by UID, y before x by restarts."""
    late, early = NOW - timedelta(seconds=5), NOW - timedelta(seconds=6)
    given_pods = [
        make("x", uid="a", since=late, created=NOW),
        make("y", uid="c", since=late, created=NOW, restarts=1),
        make("z", uid="b", since=early, created=NOW),
    ]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS))
    assert names(found, given_pods, found.possible.tolist()) == {"x", "y", "z"}
    assert names(found, given_pods, found.always.tolist()) == set()


@pytest.mark.parametrize(
    ("uids", "restarts"),
    [
        pytest.param({"x": "a", "y": "c", "z": "b"}, 0, id="x and y tie, and z is between them by UID"),
        pytest.param({"x": "", "y": "", "z": ""}, 1, id="without UIDs, z ties with both, and y goes before x"),
    ],
)
def test_ties_that_are_not_transitive_make_everything_possible(uids: dict[str, str], restarts: int) -> None:
    """Two pods became ready at the same time, a third one at another time of the same scale."""
    ready = {"x": ago(5), "y": ago(5), "z": ago(6)}
    given_pods = [
        make(name, uid=uids[name], since=since, created=NOW, restarts=restarts if name == "y" else 0)
        for name, since in ready.items()
    ]
    contenders = contenders_of(given_pods)
    window = Window(NOW_NS, NOW_NS)
    found = possible_victims(contenders, contenders.rows, 1, window)
    assert len(set(outcomes(given_pods, 1, window, [NOW_NS]))) > 1
    assert names(found, given_pods, found.possible.tolist()) == {"x", "y", "z"}
    assert len(found.always) == 0


def test_no_pod_is_ruled_out_where_the_comparison_is_not_transitive() -> None:
    """Two pods come before y and one before x; and yet y goes first if it is sorted with x before the others."""
    ages = {"x": 5, "y": 5, "z": 6, "w": 7}
    uids = {"x": "a", "z": "b", "w": "c", "y": "d"}
    given_pods = [
        make(name, uid=uids[name], since=NOW - timedelta(seconds=age), created=NOW, restarts=int(name == "y"))
        for name, age in ages.items()
    ]
    contenders = contenders_of(given_pods)
    window = Window(NOW_NS, NOW_NS)
    found = possible_victims(contenders, contenders.rows, 1, window)
    assert frozenset("y") in set(outcomes(given_pods, 1, window, [NOW_NS]))
    assert names(found, given_pods, found.possible.tolist()) == set(ages)


@pytest.mark.parametrize("related", [True, False])
def test_without_related_pods_crowded_nodes_do_not_count(related: bool) -> None:
    """A ReplicaSet without an owner has no related pods: criterion 5 never applies to it."""
    old, young = NOW - timedelta(hours=3), NOW - timedelta(minutes=1)
    given_pods = [
        make("a1", uid="1", node="a", since=old, created=old),
        make("a2", uid="2", node="a", since=old, created=old),
        make("b1", uid="3", node="b", since=young, created=young),
    ]
    contenders = contenders_of(given_pods)
    rows = contenders.rows if related else contenders.rows[:0]
    found = possible_victims(contenders, rows, 1, Window(NOW_NS, NOW_NS))
    assert names(found, given_pods, found.possible.tolist()) == ({"a1", "a2"} if related else {"b1"})


def test_without_logarithmic_ages_only_equal_pods_are_left_to_chance() -> None:
    """The feature gate off: the younger goes first, at every moment."""
    ages = (4.3, 3.5, 3.5)
    given_pods = [
        make(f"p{n}", uid=f"{n}", since=NOW - timedelta(seconds=age), created=NOW) for n, age in enumerate(ages)
    ]
    contenders = contenders_of(given_pods)
    window = Window(NOW_NS, NOW_NS + 10 * SECOND)
    one = possible_victims(contenders, contenders.rows, 1, window, Options(logarithmic=False))
    two = possible_victims(contenders, contenders.rows, 2, window, Options(logarithmic=False))
    assert names(one, given_pods, one.possible.tolist()) == {"p1", "p2"}
    assert not one.is_unique
    assert two.is_unique


def test_a_clonesets_choice_depends_on_no_clock_but_on_ties() -> None:
    """OpenKruise compares ages as they are; pods that tie go in any order."""
    since = NOW - timedelta(seconds=5)
    given_pods = [make(name, uid=name, node="n", since=since, created=since) for name in "ab"]
    contenders = contenders_of(given_pods)
    order = order_contenders(contenders, np.zeros(2))
    found = certainty.only(contenders, order, 1)
    assert len(found.possible) == 2
    ranked = order_contenders(contenders, SameNodeRanker().ranks(contenders, Snapshot().nodes))
    assert certainty.only(contenders, ranked, 1).is_unique


def test_with_more_crossings_than_are_evaluated_nothing_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The effort is bounded, and the answer stays on the safe side."""
    monkeypatch.setattr(certainty, "MOST_MOMENTS", 1)
    given_pods = [make(f"p{n}", uid=f"{n}", since=NOW - timedelta(seconds=n + 2), created=NOW) for n in range(4)]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 2, Window(NOW_NS, NOW_NS + 10 * SECOND))
    assert len(found.always) == 0
    assert len(found.possible) == 4


@pytest.mark.parametrize(
    ("most", "possible"),
    [pytest.param(3, {"p0"}, id="as many as are compared"), pytest.param(2, {"p0", "p1", "p2"}, id="more than that")],
)
def test_pods_of_a_large_group_are_not_compared_one_by_one(
    most: int, possible: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three pods of one scale the UID decides; if that is too much to look at, any of them may go."""
    monkeypatch.setattr(certainty, "MOST_COMPARED", most)
    given_pods = [make(f"p{n}", uid=f"{n}", since=NOW - timedelta(seconds=n + 5), created=NOW) for n in range(3)]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS))
    assert names(found, given_pods, found.possible.tolist()) == possible
    assert found.is_unique == (len(possible) == 1)


def test_restarts_of_sidecars_count_in_some_versions_only() -> None:
    """Kubernetes 1.32 deletes the pod with restarted sidecars first, 1.31 the younger one: both are possible."""
    given_pods = [
        make("restarted", uid="a", ready=False, created=NOW - timedelta(hours=3), sidecar_restarts=2),
        make("younger", uid="b", ready=False, created=NOW - timedelta(minutes=1)),
    ]
    contenders = contenders_of(given_pods)
    found = possible_victims(contenders, contenders.rows, 1, Window(NOW_NS, NOW_NS))
    assert names(found, given_pods, found.possible.tolist()) == {"restarted", "younger"}
    assert not found.is_unique


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(0, {"default/young"}, id="now: it is of a younger scale"),
        pytest.param(0.2, {"default/young"}, id="before it is as old as the scale of the other"),
        pytest.param(0.4, {"default/young", "default/old"}, id="then both are of one scale, and the UID decides"),
    ],
)
def test_a_pod_that_grows_older_within_the_window_changes_what_is_certain(seconds: float, want: set[str]) -> None:
    """Ready for 4 and 8 seconds: scales begin at 4.29 and 8.59."""
    ages = {"young": ("b", 4), "old": ("a", 8)}
    pods = [
        make(name, uid=uid, node="n", since=NOW - timedelta(seconds=age), created=NOW - timedelta(days=1))
        for name, (uid, age) in ages.items()
    ]
    view = view_of(pods, {"n": {}})
    window = Window(NOW_NS, NOW_NS + round(seconds * 10**9))
    found = possible_for_workload(Workload.of_all(view), view, 1, window)
    assert set(pod_keys(view, found.possible)) == want


@pytest.mark.parametrize(
    ("count", "moments", "certain"), [(2, 1000, 2), (1, 0, 0)], ids=["all pods go", "too many moments to look at"]
)
def test_what_needs_no_comparison_is_one_outcome(
    count: int, moments: int, certain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pods, or any of them."""
    monkeypatch.setattr(certainty, "MOST_MOMENTS", moments)
    pods = [make(name, uid=name, node="n", since=NOW - timedelta(seconds=age)) for name, age in (("a", 4), ("b", 9))]
    view = view_of(pods, {"n": {}})
    found = possible_for_workload(Workload.of_all(view), view, count, Window(NOW_NS, NOW_NS + 10**9))
    assert len(found.outcomes) == 1
    assert (len(found.always), len(found.possible)) == (certain, 2)


def test_an_outcome_is_counted_by_domain() -> None:
    """What certainly goes from each, what may, and how many of those that may are in none."""
    certain = np.array([True, False, False, False, True])
    chance = np.array([False, True, True, True, False])
    domains = np.array([0, 0, 1, -1, -1], dtype=np.int64)
    found = certainty.DeletionOutcome(certain, chance, 2).counts(domains, np.array([2, 1], dtype=np.int64))
    assert (found.left.tolist(), found.open.tolist(), found.take, found.outside) == ([1, 1], [1, 1], 2, 1)


def test_the_skews_of_several_cases_are_the_smallest_and_the_largest_of_any() -> None:
    """Two of four pods go: one of each domain at one moment, both of one domain at another."""
    nobody, domains = np.zeros(4, np.bool_), np.array([0, 0, 1, 1], dtype=np.int64)
    cases = tuple(
        certainty.DeletionOutcome(np.array(gone), nobody, 0)
        for gone in ([True, False, True, False], [True, True, False, False])
    )
    found = PossibleVictims(np.arange(4), cases)
    assert found.skews(domains, np.array([2, 2], dtype=np.int64)) == (0, 2)
    assert not found.is_unique, "although no case leaves anything to chance"
