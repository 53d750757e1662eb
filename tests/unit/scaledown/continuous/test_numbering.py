"""Costs from ranks, with as few changed as can be."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.ranking.costs import LIMIT, Band, Carrier, Level, level_of
from trimtab.scaledown.continuous.numbering import number

ANY_RANK = st.one_of(
    st.integers(-50, 50).map(float),
    st.floats(-1e15, 1e15, allow_nan=False),
    st.floats(0, 3),
)
RANKS = st.lists(ANY_RANK, min_size=1, max_size=30)
HELD = st.one_of(st.none(), st.integers(-40, 40), st.integers(-LIMIT - 5, LIMIT + 5))


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[float], list[int | None]]:
    """Ranks, and what the pods have already."""
    ranks = draw(RANKS)
    return ranks, draw(st.lists(HELD, min_size=len(ranks), max_size=len(ranks)))


def same_order(ranks: list[float], numbers: list[int]) -> bool:
    """Whether numbers rise with ranks, and tie where they tie."""
    pairs = sorted(zip(ranks, numbers, strict=True))
    return all((a < c) == (b < d) and (a == c) == (b == d) for (a, b), (c, d) in itertools.pairwise(pairs))


@settings(deadline=None)
@given(groups())
def test_numbers_have_the_order_of_ranks(group: tuple[list[float], list[int | None]]) -> None:
    """Whatever was there before: the order, the ties and the bounds hold."""
    ranks, held = group
    found = number(ranks, held)
    assert same_order(ranks, found)
    assert max(map(abs, found)) <= LIMIT


@settings(deadline=None)
@given(groups())
def test_numbering_twice_changes_nothing(group: tuple[list[float], list[int | None]]) -> None:
    """Numbering twice changes nothing."""
    ranks, held = group
    found = number(ranks, held)
    assert number(ranks, found) == found


@settings(deadline=None)
@given(groups(), st.data())
def test_a_deleted_pod_changes_no_number(group: tuple[list[float], list[int | None]], data: st.DataObject) -> None:
    """The order of the others is what it was."""
    ranks, held = group
    found = number(ranks, held)
    gone = data.draw(st.integers(0, len(ranks) - 1))
    left_ranks, left = [*ranks[:gone], *ranks[gone + 1 :]], [*found[:gone], *found[gone + 1 :]]
    assert number(left_ranks, left) == left


@settings(deadline=None)
@given(groups(), ANY_RANK)
def test_a_new_pod_with_a_known_rank_changes_no_number(
    group: tuple[list[float], list[int | None]], rank: float
) -> None:
    """It gets what the others of that rank have; with the highest rank of all it goes on top."""
    ranks, held = group
    found = number(ranks, held)
    assert number([*ranks, ranks[0]], [*found, None])[:-1] == found
    highest = max(ranks)
    if rank > highest and max(found) < LIMIT:
        assert number([*ranks, rank], [*found, None])[:-1] == found


FAR_APART = st.one_of(st.none(), st.integers(-9, 9).map(lambda number: 1000 * number))


def most_kept(ranks: list[float], held: list[int | None]) -> int:
    """How many pods can keep their numbers, by trying every set of ranks: one number for each, rising with them."""
    levels = sorted(set(ranks))
    tallies = {
        level: Counter(number for rank, number in zip(ranks, held, strict=True) if rank == level and number is not None)
        for level in levels
    }
    most = 0
    for chosen in itertools.product(*([None, *tallies[level]] for level in levels)):
        numbers = [number for number in chosen if number is not None]
        if all(a < b for a, b in itertools.pairwise(numbers)):
            kept = (tallies[level][number] for level, number in zip(levels, chosen, strict=True) if number is not None)
            most = max(most, sum(kept))
    return most


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), FAR_APART), min_size=1, max_size=9).map(
        lambda pairs: ([rank for rank, _ in pairs], [number for _, number in pairs])
    )
)
def test_as_few_numbers_change_as_possible(group: tuple[list[float], list[int | None]]) -> None:
    """Where there is room between them, as many stay as are in the right order among themselves, by brute force.

    Of each rank those count that have the number of most of its pods.
    """
    ranks, held = group
    counted = _by_plurality(ranks, held)
    kept = sum(
        before == after for before, after in zip(counted, number(ranks, held), strict=True) if before is not None
    )
    assert kept == most_kept(ranks, counted)


def _by_plurality(ranks: list[float], held: list[int | None]) -> list[int | None]:
    """The numbers without those that are not the one that most pods of their rank have."""
    chosen: dict[float, int] = {}
    for level in set(ranks):
        tally = Counter(each for rank, each in zip(ranks, held, strict=True) if rank == level and each is not None)
        if tally:
            chosen[level] = min(tally, key=lambda each: (-tally[each], each))
    return [each if chosen.get(rank) == each else None for rank, each in zip(ranks, held, strict=True)]


@pytest.mark.parametrize(
    ("ranks", "held", "wanted"),
    [
        pytest.param([1, 2, 3], [None] * 3, [1, 2, 3], id="whole ranks are written as they are"),
        pytest.param([1, 1, 2], [None] * 3, [1, 1, 2], id="ties tie"),
        pytest.param([0.2, 0.4, 9], [None] * 3, [0, 16, 32], id="fractions are spread, with room between them"),
        pytest.param([0.2, 0.3, 0.4], [0, None, 16], [0, 8, 16], id="a newcomer in between finds room"),
        pytest.param([1, 2, 3], [1, 7, 9], [1, 7, 9], id="another size in the right order stays"),
        pytest.param([1, 2, 3], [5, 4, 6], [1, 4, 6], id="of two in the wrong order one moves"),
        pytest.param([0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1], id="where a tie breaks, the fewer move"),
        pytest.param([0, 1, 1, 1], [0, 0, 0, 0], [-1, 0, 0, 0], id="whichever they are"),
        pytest.param([0, 1], [0, 0], [0, 1], id="of as many, those whose ranks they are not"),
        pytest.param([1.1, 1.2, 1.3], [4, None, 5], [0, 16, 32], id="without room all are numbered anew"),
        pytest.param([2, 2, 2, 3], [2, 2, 3, 3], [2, 2, 2, 3], id="the odd one out follows the others"),
        pytest.param([1e15, 1, 2], [None, 1, 2], [3, 1, 2], id="who must go first goes on top"),
        pytest.param([-1e15, 1, 2], [None, 1, 2], [0, 1, 2], id="and who must go last at the bottom"),
        pytest.param([], [], [], id="nobody"),
        pytest.param([1.1, 1.2, 1.3], [4, None, 6], [4, 5, 6], id="room for exactly one"),
        pytest.param([1.1, 1.2, 1.25, 1.3], [4, None, None, 7], [4, 5, 6, 7], id="room for exactly two"),
        pytest.param([1.1, 1.2, 1.25, 1.3], [4, None, None, 6], [0, 16, 32, 48], id="room for one, and two come"),
        pytest.param([0.1, 0.2, 0.3, 0.4], [0, None, None, 100], [0, 25, 75, 100], id="newcomers are spread evenly"),
        pytest.param([1.1, 1.2, 1.3], [None, None, 10], [8, 9, 10], id="right below the others"),
        pytest.param([1.1, 1.2, 1.3], [10, None, None], [10, 11, 12], id="right above the others"),
        pytest.param([3, 4, 5], [None, 7, None], [3, 7, 8], id="a rank fits below, and not above"),
        pytest.param([3, 4, 9], [None, 7, None], [3, 7, 9], id="ranks fit on both sides"),
        pytest.param([0, 4, 5], [0, None, 5], [0, 4, 5], id="a rank fits right below the next number"),
        pytest.param([0, 1, 5], [0, None, 5], [0, 1, 5], id="and right above the one before"),
        pytest.param([7, 8, 9], [None, 7, None], [6, 7, 9], id="a rank that another one has does not fit"),
        pytest.param([7, 8, 9], [7, 9, None], [7, 9, 10], id="nor does one that is not above"),
        pytest.param([1.1, 1.2], [LIMIT, None], [0, 16], id="no room above the highest"),
        pytest.param([1.1, 1.2], [None, -LIMIT], [0, 16], id="no room below the lowest"),
        pytest.param([1.1, 1.2], [LIMIT - 1, None], [LIMIT - 1, LIMIT], id="room for one above"),
        pytest.param([1.1, 1.2], [None, 1 - LIMIT], [-LIMIT, 1 - LIMIT], id="room for one below"),
        pytest.param([1, 2], [-LIMIT, LIMIT], [-LIMIT, LIMIT], id="the highest and the lowest number are kept"),
        pytest.param([1.1, 1.2], [LIMIT + 1, None], [0, 16], id="a number out of range is none"),
        pytest.param([1.1, 1.2], [-LIMIT - 1, 1], [0, 1], id="nor is one on the other side"),
        pytest.param([0, LIMIT], [None, None], [0, LIMIT], id="the largest rank that is a number"),
        pytest.param([-LIMIT, 0], [None, None], [-LIMIT, 0], id="the smallest one"),
        pytest.param([0, LIMIT + 1], [None, None], [0, 16], id="a rank that is too large"),
        pytest.param([-LIMIT - 1, 0], [None, None], [0, 16], id="one that is too small"),
        pytest.param([0.6, 1.6], [None, None], [1, 2], id="ranks are rounded where they stay different"),
        pytest.param([2, 2, 2, 2], [5, 5, 4, 4], [4, 4, 4, 4], id="of as many, the smaller number"),
        pytest.param([2, 2, 2], [7, 4, 7], [7, 7, 7], id="the number that most pods of a rank have"),
        pytest.param([1, 2, 3, 4], [9, 1, 2, 9], [0, 1, 2, 9], id="the longer run is kept"),
        pytest.param([1, 2, 2, 2, 3], [5, 1, 1, 1, 6], [0, 1, 1, 1, 6], id="the run with more pods is kept"),
        pytest.param([5, 6, 7], [7, 7, 7], [5, 6, 7], id="of equal runs the one that has its ranks"),
    ],
)
def test_numbers_by_example(ranks: list[float], held: list[int | None], wanted: list[int]) -> None:
    """As few as possible change."""
    assert number(ranks, held) == wanted


def test_growing_ages_change_no_number() -> None:
    """Oldest ranks by age in hours: an hour later, and a newcomer later, one number is new."""
    ages = [30.5, 12.25, 3.0]
    found = number(ages, [None] * 3)
    later = [age + 1.7 for age in ages]
    assert number(later, found) == found
    assert number([*later, 0.0], [*found, None])[:3] == found


def test_an_unknown_rank_is_refused() -> None:
    """The caller waits, or falls back."""
    with pytest.raises(ValueError, match="wait for its rank"):
        number([1.0, float("nan")], [None, None])


@settings(deadline=None)
@given(
    groups(),
    st.sampled_from(Carrier),
    st.sampled_from(Level),
    st.integers(1, 1000).flatmap(lambda subsets: st.tuples(st.integers(0, subsets - 1), st.just(subsets))),
)
def test_costs_stay_in_their_band_and_turn_with_the_carrier(
    group: tuple[list[float], list[int | None]], carrier: Carrier, level: Level, where: tuple[int, int]
) -> None:
    """int32, the subset's level, ties and sign, for every carrier."""
    ranks, held = group
    band = Band(level, *where)
    costs = [band.place(-each) for each in number(ranks, held)]
    assert {level_of(cost) for cost in costs} == {level}
    written = [-carrier.sign * cost for cost in costs]
    assert all(abs(cost) < 2**31 for cost in written)
    assert same_order([carrier.sign * rank for rank in ranks], written)


@settings(deadline=None)
@given(st.integers(1, 40).flatmap(lambda size: st.permutations(range(size))))
def test_of_many_numbers_the_longest_rising_run_is_kept(order: list[int]) -> None:
    """Ranks are all different, numbers are far apart; the run is found by the usual method, step by step."""
    held = [1000 * each for each in order]
    longest: list[int] = []
    for at, each in enumerate(held):
        longest.append(1 + max((longest[before] for before in range(at) if held[before] < each), default=0))
    found = number([rank + 0.5 for rank in range(len(order))], list(held))
    assert sum(before == after for before, after in zip(held, found, strict=True)) == max(longest)
