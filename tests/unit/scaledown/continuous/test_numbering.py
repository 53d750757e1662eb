"""Costs from ranks, with as few changed as can be."""

from __future__ import annotations

import itertools

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
