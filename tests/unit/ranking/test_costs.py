"""Costs: sign, size, ties, bands, and the smaller side."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.ranking.costs import (
    INT32_MAX,
    LIMIT,
    MOST_SUBSETS,
    Band,
    Carrier,
    Level,
    level_of,
    project,
    steady,
)

RANKS = st.lists(st.floats(allow_nan=False) | st.integers(0, 5).map(float), max_size=30)
CARRIERS = st.sampled_from(Carrier)
BANDS = st.integers(1, MOST_SUBSETS).flatmap(
    lambda subsets: st.builds(
        Band, st.sampled_from(Level), st.integers(0, subsets - 1) | st.just(0), subsets=st.just(subsets)
    )
)


def goes_before(one: int, other: int, carrier: Carrier) -> bool:
    """Whether a consumer of this carrier lets a pod of one cost go before a pod of another."""
    return one < other if carrier is Carrier.ANNOTATION else one > other


@pytest.mark.parametrize("carrier", Carrier)
def test_carriers_are_named_as_policies_name_them(carrier: Carrier) -> None:
    """A policy's carrier can be looked up as it is written."""
    assert Carrier(ScaleDownPolicySpec(carrier=carrier.value).carrier) is carrier


@pytest.mark.parametrize(
    ("carrier", "want"),
    [
        pytest.param(Carrier.ANNOTATION, [-2, 0, -1, -2], id="pod-deletion-cost: the lower goes first"),
        pytest.param(Carrier.ALPHA_ANNOTATION, [2, 0, 1, 2], id="the proposal's annotation: the higher"),
        pytest.param(Carrier.POD_GROUP_COST, [2, 0, 1, 2], id="PodGroupCost: the higher"),
    ],
)
def test_the_carrier_sets_the_sign(carrier: Carrier, want: list[int]) -> None:
    """The same ranks, and the same order of removal."""
    assert project([7.5, -1e300, 0, 7.5], carrier).tolist() == want


@pytest.mark.parametrize("write", [project, steady])
def test_no_rank_no_cost(write: type) -> None:
    """Somebody must have decided what happens to unranked pods before."""
    with pytest.raises(ValueError, match="a pod without a rank has no cost"):
        write([1.0, float("nan")], Carrier.ANNOTATION)


@given(ranks=RANKS, carrier=CARRIERS)
def test_the_order_is_kept(ranks: list[float], carrier: Carrier) -> None:
    """Whatever the ranks: int32, higher goes sooner, ties stay ties, and who goes last has no more than nothing."""
    costs = project(ranks, carrier).tolist()
    assert all(abs(cost) <= INT32_MAX for cost in costs)
    assert all(
        goes_before(costs[i], costs[j], carrier) == (ranks[i] > ranks[j])
        for i, j in itertools.product(range(len(ranks)), repeat=2)
    )
    assert not costs or costs[ranks.index(min(ranks))] == 0


@given(ranks=RANKS, carrier=CARRIERS, resolution=st.sampled_from([1, 1000]))
def test_steady_costs_never_turn_the_order(ranks: list[float], carrier: Carrier, resolution: int) -> None:
    """int32, and never the wrong way round; ranks that are close or enormous may tie."""
    costs = steady(ranks, carrier, resolution=resolution).tolist()
    assert all(abs(cost) <= INT32_MAX for cost in costs)
    assert not any(
        goes_before(costs[i], costs[j], carrier) and ranks[i] < ranks[j]
        for i, j in itertools.product(range(len(ranks)), repeat=2)
    )


@given(ranks=st.lists(st.integers(0, INT32_MAX), min_size=1, max_size=20), carrier=CARRIERS)
def test_steady_costs_depend_on_nobody_else(ranks: list[int], carrier: Carrier) -> None:
    """A whole rank is its cost, whoever else there is."""
    assert steady(ranks, carrier).tolist() == [carrier.sign * rank for rank in ranks]


@pytest.mark.parametrize(
    ("band", "centre"),
    [
        pytest.param(Band(), 0, id="best effort: nothing is written"),
        pytest.param(Band(Level.BEST_EFFORT, 2, 3), 0, id="best effort, whichever the subset"),
        pytest.param(Band(Level.GUARANTEED), 2_000_000, id="guaranteed: above zero"),
        pytest.param(Band(Level.GUARANTEED, 0, 3), 6_000_000, id="guaranteed, the first of three subsets"),
        pytest.param(Band(Level.GUARANTEED, 2, 3), 2_000_000, id="guaranteed, the last of three subsets"),
        pytest.param(Band(Level.REDUNDANT), -2_000_000, id="redundant: below zero"),
        pytest.param(Band(Level.REDUNDANT, 2, 3), -6_000_000, id="redundant, the last of three subsets"),
    ],
)
def test_the_middle_of_a_band(band: Band, centre: int) -> None:
    """What a pod costs that no policy ranks."""
    assert band.centre == centre == band.place(0)


@given(BANDS, st.integers())
def test_nothing_leaves_its_band(band: Band, offset: int) -> None:
    """However far a policy would move a cost, it stays in its band, in int32, and says its level."""
    cost = band.place(offset)
    assert cost in band
    assert abs(cost) <= INT32_MAX
    assert level_of(cost) is band.level


@given(st.integers(1, MOST_SUBSETS), st.data())
def test_levels_come_first_then_subsets(subsets: int, data: st.DataObject) -> None:
    """Redundant before best effort before guaranteed; in a level, later subsets before earlier ones."""
    levels, places = st.sampled_from(Level), st.integers(0, subsets - 1)
    one, other = (Band(data.draw(levels), data.draw(places), subsets) for _ in range(2))
    order = list(Level)
    assume(one.level is not other.level or (one.level is not Level.BEST_EFFORT and one.subset != other.subset))
    first, second = sorted((one, other), key=lambda band: (order.index(band.level), -band.subset))
    assert first.place(INT32_MAX) < second.place(-INT32_MAX)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(Level), st.integers(0, 2)), max_size=20),
    CARRIERS,
)
def test_ranks_move_inside_of_bands(pods: list[tuple[int, Level, int]], carrier: Carrier) -> None:
    """Bands first, then ranks: for every carrier, with the sign that it has."""
    bands = [Band(level, subset, 3) for _, level, subset in pods]
    costs = project([rank for rank, *_ in pods], carrier, bands).tolist()
    for (one, i), (other, j) in itertools.permutations(zip(pods, range(len(pods)), strict=True), 2):
        centres = bands[i].centre, bands[j].centre
        sooner = one[0] > other[0] if centres[0] == centres[1] else centres[0] < centres[1]
        assert goes_before(costs[i], costs[j], carrier) == sooner
    deletion_costs = [-carrier.sign * cost for cost in costs]
    assert all(cost in band for cost, band in zip(deletion_costs, bands, strict=True))


def test_more_ranks_than_a_band_has_room_for() -> None:
    """The last to go keep their order; the first share the band's edge, and nobody leaves the band."""
    ranks = np.arange(LIMIT + 3)
    costs = project(ranks, Carrier.ANNOTATION, [Band(Level.GUARANTEED)] * len(ranks))
    assert costs[0] == 2_000_000
    assert costs[[-1, -2, -3]].tolist() == [2_000_000 - LIMIT] * 3
    assert (np.diff(costs[:-2]) == -1).all()


@pytest.mark.parametrize(("subset", "subsets"), [(-1, 1), (1, 1), (0, 0), (0, MOST_SUBSETS + 1)])
def test_a_subset_that_has_no_band(subset: int, subsets: int) -> None:
    """It is refused rather than given the costs of another."""
    with pytest.raises(ValueError, match=f"subset {subset} of {subsets} has no band"):
        Band(Level.GUARANTEED, subset, subsets)


def test_minima_of_subsets_take_bands_of_their_own() -> None:
    """So that fewer subsets fit; the highest band is still inside int32."""
    highest = Band(Level.GUARANTEED, 0, MOST_SUBSETS - 2, floor=2)
    assert highest.place(LIMIT) <= INT32_MAX
    assert highest.centre > Band(Level.GUARANTEED, 0, MOST_SUBSETS - 2, floor=1).centre
    with pytest.raises(ValueError, match="has no band"):
        Band(Level.GUARANTEED, 0, MOST_SUBSETS - 1, floor=2)


def test_a_band_for_each_rank() -> None:
    """A list of another length is a mistake of the caller."""
    with pytest.raises(ValueError, match="1 bands for 2 ranks"):
        project([1, 2], Carrier.ANNOTATION, [Band()])


@pytest.mark.parametrize("cost", [1_000_000, -1_000_000, INT32_MAX, -INT32_MAX - 1])
def test_a_cost_between_bands_is_somebody_elses(cost: int) -> None:
    """Trimtab never writes it."""
    assert level_of(cost) is None
