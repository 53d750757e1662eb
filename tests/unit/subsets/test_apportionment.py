"""Percentages as numbers: Webster's method."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.subsets.topologies import subset
from trimtab.subsets.apportionment import apportion, floors, limits, webster

PERCENTAGES = st.lists(st.integers(0, 100), min_size=1, max_size=6)
SIZES = st.integers(0, 300)


@pytest.mark.parametrize(
    ("percentages", "replicas", "want"),
    [
        pytest.param([34, 33, 33], 3, (1, 1, 1), id="34/33/33 % of 3 is one each"),
        pytest.param([34, 33, 33], 100, (34, 33, 33), id="of 100 it is what is written"),
        pytest.param([30], 10, (3,), id="what is left over is a part of its own"),
        pytest.param([50], 1, (1,), id="of equal claims the subset's comes before what is left over"),
        pytest.param([49], 1, (0,), id="less than half of one pod is none"),
        pytest.param([50, 50], 3, (2, 1), id="of equal claims the earlier subset's comes first"),
        pytest.param([100], 7, (7,), id="100 % is all"),
        pytest.param([0, 100], 7, (0, 7), id="0 % is none"),
        pytest.param([60, 60], 10, (6, 6), id="more than 100 % together: each has its own"),
        pytest.param([100, 100], 1, (1, 1), id="twice all of one pod is one each"),
        pytest.param([30, 40], 0, (0, 0), id="of nothing it is nothing"),
        pytest.param([49], 1_000, (490,), id="a percentage of many is exact"),
        pytest.param([], 5, (), id="no percentages"),
    ],
)
def test_percentages_are_apportioned(percentages: list[int], replicas: int, want: tuple[int, ...]) -> None:
    """The pods of each percentage."""
    assert apportion(percentages, replicas) == want


def test_numbers_percentages_and_no_limit_mix() -> None:
    """Percentages are of the whole workload, whatever the numbers take."""
    subsets = [subset("a", 10), subset("b", "30%"), subset("c")]
    assert limits(subsets, 20) == (10, 6, None)


def in_turn(parts: list[int], places: int) -> list[int]:
    """The method by its definition: one seat after the other, to the largest claim."""
    given_out = [0] * len(parts)
    for _ in range(places if sum(parts) else 0):
        claims = [Fraction(part, 2 * count + 1) for part, count in zip(parts, given_out, strict=True)]
        given_out[claims.index(max(claims))] += 1
    return given_out


@settings(deadline=None)
@given(parts=PERCENTAGES, places=st.integers(0, 120))
def test_the_shortcut_equals_one_by_one(parts: list[int], places: int) -> None:
    """Most seats are assigned at once, with the same result."""
    assert webster(parts, places) == in_turn(parts, places)


@settings(deadline=None, max_examples=50)
@given(part=st.integers(1, 100), replicas=st.integers(0, 3_000))
def test_a_thousand_equal_parts_are_served_in_order(part: int, replicas: int) -> None:
    """As many as a UnitedTopology can have: none has two more than another, and earlier parts come first."""
    given_out = webster([part] * 1_000, replicas)
    assert sum(given_out) == replicas
    assert max(given_out) - min(given_out) <= 1
    assert given_out == sorted(given_out, reverse=True)


def test_results_are_cached() -> None:
    """A decision asks several times; with a thousand percentages, working it out takes a while."""
    percentages = list(range(1, 101)) * 10
    assert apportion(percentages, 1_234) is apportion(list(percentages), 1_234)


@given(percentages=PERCENTAGES, replicas=SIZES)
def test_no_part_shrinks_when_the_whole_grows(percentages: list[int], replicas: int) -> None:
    """One pod more never makes a part smaller."""
    smaller, larger = apportion(percentages, replicas), apportion(percentages, replicas + 1)
    assert all(one <= other for one, other in zip(smaller, larger, strict=True))


@given(cuts=st.lists(st.integers(0, 100), max_size=5), replicas=SIZES)
def test_parts_of_100_add_up(cuts: list[int], replicas: int) -> None:
    """Percentages that add up to 100 cover every pod."""
    percentages = [after - before for before, after in pairwise([0, *sorted(cuts), 100])]
    assert sum(apportion(percentages, replicas)) == replicas


def test_percentages_are_of_what_is_above_the_floors() -> None:
    """Two on own nodes in any case; of the other ten, 70 % on rented ones and 30 % on own ones."""
    subsets = [subset("own", "30%", minReplicas=2), subset("rented", "70%")]
    assert limits(subsets, 12) == (5, 7)
    assert limits(subsets, 2) == (2, 0)
    assert limits([subset("own", minReplicas=2), subset("rented", "70%")], 12) == (None, 7)


def test_earlier_floors_are_reached_first() -> None:
    """A workload that is smaller than its floors."""
    subsets = [subset("a"), subset("b", minReplicas=3), subset("c", 9, minReplicas=2)]
    assert [floors(subsets, size) for size in (0, 2, 4, 5, 50)] == [
        (0, 0, 0), (0, 2, 0), (0, 3, 1), (0, 3, 2), (0, 3, 2),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), min_size=1, max_size=5), SIZES)
def test_limits_with_floors_never_shrink_and_hold_the_floors(parts: list[tuple[int, int]], size: int) -> None:
    """Whatever the size."""
    subsets = [subset(f"s{at}", f"{share}%", minReplicas=least) for at, (least, share) in enumerate(parts)]
    before, after = limits(subsets, size), limits(subsets, size + 1)
    for least, fewer, more in zip(floors(subsets, size), before, after, strict=True):
        assert fewer is not None
        assert more is not None
        assert least <= fewer <= more


def test_most_seats_are_assigned_at_once() -> None:
    """One by one, these would take days."""
    assert webster([1, 2, 0], 3 * 10**12) == [10**12, 2 * 10**12, 0]


@pytest.mark.parametrize(
    ("parts", "seats", "want"),
    [
        pytest.param([46, 13, 10], 2, [2, 0, 0], id="both seats to one part"),
        pytest.param([8, 36, 4, 2], 9, [1, 7, 1, 0], id="several of the last seats to one part"),
        pytest.param([46, 1, 30, 2, 19], 22, [11, 0, 7, 0, 4], id="small parts get none"),
        pytest.param([1], 3, [3], id="the only part gets all"),
        pytest.param([7], 0, [0], id="there is none"),
        pytest.param([0, 0], 5, [0, 0], id="parts of nothing get none"),
    ],
)
def test_a_part_may_get_several_of_the_last_seats(parts: list[int], seats: int, want: list[int]) -> None:
    """Its next claim is its share divided by the next odd number."""
    assert webster(parts, seats) == want == in_turn(parts, seats)
