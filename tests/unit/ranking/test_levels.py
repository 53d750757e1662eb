"""The order of removal against a brute force over all sets of victims, which checks the formula in `levels` itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.ranking import levels
from trimtab.ranking.levels import removal
from trimtab.snapshot.columns import IntColumn

Objective = tuple[int, ...]


Case = tuple[list[int], list[list[int]], list[int], list[list[int]]]
"""Tiers, the domain of each pod under each key, places, and the pods of other workloads in each domain of each key."""


def objective(
    domains: Sequence[Sequence[int]], places: Sequence[int], victims: Sequence[int], others: Sequence[Sequence[int]]
) -> Objective:
    """The formula: the sum of squares of what stays in each domain, key by key, then the places of those who go."""
    gone = set(victims)
    stays = [pod for pod in range(len(places)) if pod not in gone]
    squares = []
    for key, fixed in zip(domains, others, strict=True):
        own = {domain: sum(key[pod] == domain for pod in stays) for domain in set(key)}
        counts = [count + (fixed[domain] if domain >= 0 else 0) for domain, count in own.items()]
        squares.append(sum(count**2 for count in counts))
    return (*squares, sum(places[pod] for pod in victims))


def allowed(tiers: Sequence[int], victims: Sequence[int]) -> bool:
    """Nobody goes while somebody of a lower tier stays."""
    stays = [tiers[pod] for pod in range(len(tiers)) if pod not in victims]
    return not victims or not stays or max(tiers[pod] for pod in victims) <= min(stays)


def best(case: Case, keys: int, count: int) -> Objective:
    """The smallest objective, on the first keys, of all sets of that size that respect the tiers."""
    tiers, domains, places, others = case
    sets = (victims for victims in combinations(range(len(tiers)), count) if allowed(tiers, victims))
    return min(objective(domains[:keys], places, victims, others[:keys]) for victims in sets)


def other_pods(keys: int) -> st.SearchStrategy[list[list[int]]]:
    """Pods of other workloads in up to five domains of each key."""
    return st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=keys, max_size=keys)


@st.composite
def hierarchies(draw: st.DrawFn) -> Case:
    """Pods on hosts inside racks inside zones, the keys listed in any order, some left out; −1 is no domain."""
    size = draw(st.integers(1, 8))
    rack_of = draw(st.lists(st.integers(0, 2), min_size=5, max_size=5))
    zone_of = draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3))
    hosts = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    racks = [rack_of[host] for host in hosts]
    zones = [zone_of[rack] for rack in racks]
    keys = draw(st.permutations([hosts, racks, zones]))[: draw(st.integers(0, 3))]
    tiers = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return tiers, keys, list(draw(st.permutations(range(size)))), draw(other_pods(len(keys)))


@st.composite
def crossings(draw: st.DrawFn) -> Case:
    """Pods whose keys have nothing to do with each other."""
    size = draw(st.integers(1, 7))
    column = st.lists(st.integers(0, 2), min_size=size, max_size=size)
    tiers = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    places = list(draw(st.permutations(range(size))))
    return tiers, [draw(column), draw(column)], places, draw(other_pods(2))


def columns(keys: Sequence[Sequence[int]]) -> list[IntColumn]:
    """Plain lists as columns."""
    return [np.array(key, dtype=np.int64) for key in keys]


@settings(max_examples=150, deadline=None)
@given(case=hierarchies())
def test_in_a_hierarchy_every_prefix_is_the_best_plan_for_its_size(
    case: Case,
) -> None:
    """No allowed set of victims of that size has a smaller objective, whatever the order of the keys."""
    tiers, keys, places, others = case
    found = removal(np.array(tiers), columns(keys), np.array(places), len(tiers), columns(others))
    assert found.hierarchical
    assert sorted(found.order.tolist()) == list(range(len(tiers)))
    for count in range(len(tiers) + 1):
        victims = found.order[:count].tolist()
        assert allowed(tiers, victims)
        assert objective(keys, places, victims, others) == best(case, len(keys), count)


@settings(max_examples=100, deadline=None)
@given(case=crossings())
def test_where_keys_cross_the_first_is_still_the_best_at_every_step(
    case: Case,
) -> None:
    """The first key is never traded for a later one."""
    tiers, keys, places, others = case
    found = removal(np.array(tiers), columns(keys), np.array(places), len(tiers), columns(others))
    for count in range(len(tiers) + 1):
        victims = found.order[:count].tolist()
        assert allowed(tiers, victims)
        assert objective(keys[:1], places, victims, others[:1])[0] == best(case, 1, count)[0]


@settings(max_examples=60, deadline=None)
@given(case=crossings(), count=st.integers(0, 6))
def test_what_goes_does_not_depend_on_how_many_are_wanted(case: Case, count: int) -> None:
    """Where keys cross, one more is chosen, to compare the wanted ones with; the others follow by tier and place."""
    tiers, keys, places, others = case
    count = min(count, len(tiers))
    whole = removal(np.array(tiers), columns(keys), np.array(places), len(tiers), columns(others))
    found = removal(np.array(tiers), columns(keys), np.array(places), count, columns(others))
    order = found.order.tolist()
    assert order[: count + 1] == whole.order[: count + 1].tolist()
    assert found.heights[:, order[: count + 1]].tolist() == whole.heights[:, order[: count + 1]].tolist()
    assert sorted(order) == list(range(len(tiers)))
    if not found.hierarchical:
        rest = order[count + 1 :]
        assert rest == sorted(rest, key=lambda pod: (tiers[pod], places[pod]))


@settings(max_examples=100, deadline=None)
@given(case=hierarchies())
def test_sorting_and_simulating_give_the_same(case: Case) -> None:
    """The sorted form is the simulation, without simulating."""
    tiers, keys, places, others = case
    by_sorting = removal(np.array(tiers), columns(keys), np.array(places), len(tiers), columns(others))
    codes = [np.unique(key, return_inverse=True)[1] for key in keys]
    fixed = [
        np.array([pods[d] if d >= 0 else 0 for d in np.unique(key)]) for key, pods in zip(keys, others, strict=True)
    ]
    simulated = levels._simulated(np.array(tiers), codes, np.array(places), len(tiers), fixed)  # noqa: SLF001 - its twin
    assert simulated.order.tolist() == by_sorting.order.tolist()
    assert simulated.heights.tolist() == by_sorting.heights.tolist()


ZONES, RACKS, HOSTS = [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0, 3, 1, 2, 2]


@pytest.mark.parametrize(
    ("keys", "hierarchical"),
    [
        pytest.param([RACKS, HOSTS], True, id="from the coarsest to the finest"),
        pytest.param([HOSTS, ZONES, RACKS], True, id="in any order"),
        pytest.param([RACKS, RACKS], True, id="keys with the same domains"),
        pytest.param([RACKS, [0, 1, 1, 0, 1]], False, id="two keys that cross"),
        pytest.param([HOSTS, [0, 1, 1, 0, 1]], False, id="a host in two domains"),
        pytest.param([], True, id="no keys"),
    ],
)
def test_keys_form_a_hierarchy_if_each_domain_is_inside_one_of_every_coarser_key(
    keys: list[list[int]], hierarchical: bool
) -> None:
    """In whatever order they are listed."""
    assert removal(np.zeros(5, dtype=np.int64), columns(keys), np.arange(5), 1).hierarchical is hierarchical


def test_between_domains_that_are_as_full_the_finer_key_that_is_listed_first_decides() -> None:
    """First from the rack of three. Then of two equal racks from the one whose pods share a host, and so on."""
    order = removal(np.zeros(5, dtype=np.int64), columns([ZONES, RACKS, HOSTS]), np.arange(5), 5).order
    assert order.tolist() == [0, 3, 1, 2, 4]


def test_the_smallest_sum_of_squares_has_the_smallest_skew() -> None:
    """Ten, ten and ten down to twenty end as seven, seven and six."""
    zones = np.repeat([0, 1, 2], 10)
    found = removal(np.zeros(30, dtype=np.int64), [zones], np.arange(30), 10)
    stays = np.bincount(zones) - np.bincount(zones[found.order[:10]])
    assert sorted(stays.tolist()) == [6, 7, 7]


def test_nobody_is_a_workload_too() -> None:
    """No pods, no order."""
    nobody = np.zeros(0, dtype=np.int64)
    assert removal(nobody, [nobody], nobody, 0).order.tolist() == []
