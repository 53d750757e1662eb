"""Columns packed into integers sort as the columns do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.ranking.keys import (
    Packed,
    break_ties,
    descending,
    newest_first,
    numbered,
    packed,
    stable_order,
    ties,
    whole_seconds,
)

SECOND = 10**9

small = st.integers(-2, 2)
times = st.integers(-3, 3).map(lambda seconds: seconds * SECOND) | st.integers(0, 100_000).map(lambda s: s * SECOND)
huge = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1])
costs = st.sampled_from([-(2**31), -7, 0, 7, 2**31 - 1])


@st.composite
def tables(draw: st.DrawFn) -> list[npt.NDArray[np.int64]]:
    """A few columns of one length, some of wide ranges."""
    size = draw(st.integers(0, 12))
    kinds = draw(st.lists(st.sampled_from([small, times, huge, costs]), min_size=1, max_size=5))
    return [np.array(draw(st.lists(kind, min_size=size, max_size=size)), dtype=np.int64) for kind in kinds]


@given(tables())
@settings(deadline=None)
def test_a_packed_key_sorts_as_its_columns_do(columns: list[npt.NDArray[np.int64]]) -> None:
    """First column first, stable, whatever the ranges; and equal rows have equal keys."""
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    places, keys = stable_order(packed(columns))
    assert places.tolist() == sorted(range(len(rows)), key=rows.__getitem__)
    ordered = [rows[place] for place in places.tolist()]
    assert [a == b for a, b in pairwise(keys.tolist())] == [a == b for a, b in pairwise(ordered)]


@given(tables())
@settings(deadline=None)
def test_a_packed_key_is_within_its_width(columns: list[npt.NDArray[np.int64]]) -> None:
    """From 0 on: what is put above or below it does not change its order."""
    key = packed(columns)
    assert all(0 <= each < 2**key.width for each in key.keys.tolist())


def test_packing_leaves_its_columns_alone() -> None:
    """The columns are the caller's; only the key is used up."""
    columns = [np.array([3, 1, 2]), np.array([False, True, True]), np.array([5 * SECOND, 0, 2**40])]
    before = [column.copy() for column in columns]
    stable_order(packed(columns))
    assert all((now == then).all() for now, then in zip(columns, before, strict=True))


def test_constant_columns_take_no_bits() -> None:
    """What is the same for all decides nothing."""
    assert packed([np.full(4, 17), np.array([0, 1, 1, 0])]).width == 1


def test_whole_seconds_shed_their_nanoseconds() -> None:
    """Times of three days take 18 bits; with a single odd nanosecond among them they take 48."""
    days = np.array([0, 3 * 86_400 * SECOND, 7 * SECOND])
    assert packed([days]).width == 18
    assert packed([days + np.array([0, 0, 1])]).width == 48
    assert whole_seconds(days).tolist() == [0, 3 * 86_400, 7]


def test_seconds_that_do_not_fit_stay_nanoseconds() -> None:
    """Times 136 years apart keep their distance."""
    far = np.array([0, 2**32 * SECOND])
    assert whole_seconds(far).tolist() == far.tolist()
    assert whole_seconds(far[:0]).tolist() == []


def test_a_key_that_is_too_wide_is_numbered_anew() -> None:
    """`within` keeps the order and the ties."""
    key = Packed(np.array([2**50, 7, 2**50, 0]), 51)
    assert key.within(60) is key
    narrow = key.within(40)
    assert (narrow.keys.tolist(), narrow.width) == ([2, 1, 2, 0], 2)


@pytest.mark.parametrize(
    ("moments", "want"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([10, 30, 20], [1, 2, 0], id="the later first"),
        pytest.param([0, 30, 0], [0, 2, 1], id="unknown before all others"),
        pytest.param([-5, 0, -9], [1, 0, 2], id="unknown before times of long ago"),
    ],
)
def test_newest_first(moments: list[int], want: list[int]) -> None:
    """Later times sort first; 0 stands for a time that is not known."""
    keys = newest_first(np.array(moments, dtype=np.int64), 0)
    assert keys.argsort(kind="stable").tolist() == want


def test_descending_numbers() -> None:
    """The greatest gets the smallest key, equals get equal keys."""
    assert descending(np.array([1.5, 3.0, -2.0, 1.5])).tolist() == [1, 0, 2, 1]


def test_ties_and_runs() -> None:
    """Runs of equal neighbours are found; those that stand alone are left out."""
    found = ties(np.array([1, 1, 2, 3, 3, 3]))
    assert found.places.tolist() == [0, 1, 3, 4, 5]
    assert numbered(np.array([4, 4, 9])).tolist() == [0, 0, 1]
    assert not ties(np.array([1, 2, 3]))
    assert not ties(np.array([], dtype=np.int64))


def test_ties_are_broken_only_as_far_as_needed() -> None:
    """Finer keys are asked for those that are still tied, and for nobody else."""
    asked: list[list[int]] = []

    def finer(keys: dict[int, int]) -> Any:
        def key(members: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
            asked.append(members.tolist())
            return np.array([keys[member] for member in members.tolist()])

        return key

    order = np.array([4, 0, 1, 2, 3])
    levels = [finer({0: 2, 1: 1, 2: 1}), finer({1: 5, 2: 4}), finer({})]
    break_ties(order, ties(np.array([0, 7, 7, 7, 9])), levels)
    assert order.tolist() == [4, 2, 1, 0, 3]
    assert asked == [[0, 1, 2], [1, 2]]


def test_runs_are_numbered_one_after_the_other() -> None:
    """Keys of a later run are compared with each other, and not with the first."""
    assert numbered(np.array([3, 3, 5, 5, 5, 9])).tolist() == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("keys", "finer", "want"),
    [
        pytest.param(
            [5, 5, 5, 5], ([1, 0, 1, 0], [1, 1, 0, 0]), [3, 1, 2, 0], id="two pairs of one run are still tied"
        ),
        pytest.param([5, 5, 7, 7], ([0, 0, 0, 0], [1, 0, 1, 0]), [1, 0, 3, 2], id="two runs are still tied"),
    ],
)
def test_what_is_still_tied_is_ordered_by_the_next_key(
    keys: list[int], finer: tuple[list[int], list[int]], want: list[int]
) -> None:
    """Wherever in the list it is."""
    order = np.arange(4)
    break_ties(order, ties(np.array(keys)), [np.array(each).__getitem__ for each in finer])
    assert order.tolist() == want
