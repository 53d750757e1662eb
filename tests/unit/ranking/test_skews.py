"""Bounds on skews, against a brute force over all combinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.ranking import skews
from trimtab.ranking.skews import OpenCounts


@st.composite
def open_counts(draw: st.DrawFn) -> OpenCounts:
    """A few domains, of whose pods some are left to chance."""
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
    outside = draw(st.integers(0, 2))
    chance = np.array([row[1] for row in rows], dtype=np.int64)
    left = chance + np.array([row[0] for row in rows], dtype=np.int64)
    return OpenCounts(left, chance, draw(st.integers(0, int(chance.sum()) + outside)), outside)


def combinations(counts: OpenCounts) -> Iterator[tuple[int, ...]]:
    """What every combination leaves in each domain."""
    for taken in itertools.product(*(range(size + 1) for size in counts.open.tolist())):
        if 0 <= counts.take - sum(taken) <= counts.outside:
            yield tuple(left - lost for left, lost in zip(counts.left.tolist(), taken, strict=True))


@given(open_counts())
def test_bounds_are_those_of_all_combinations(counts: OpenCounts) -> None:
    """Neither bound is too wide or too narrow."""
    every = {max(left) - min(left) for left in combinations(counts)}
    assert (counts.best, counts.worst) == (min(every), max(every))


@given(open_counts())
def test_the_worst_counts_are_a_combination_with_the_worst_skew(counts: OpenCounts) -> None:
    """What is shown to users can really happen."""
    shown = tuple(counts.worst_counts().tolist())
    assert shown in set(combinations(counts))
    assert max(shown) - min(shown) == counts.worst


@pytest.mark.parametrize(
    ("other", "worst", "shown"),
    [
        pytest.param(3, 3, (0, 3), id="it is emptied"),
        pytest.param(1, 3, (4, 1), id="it stays full"),
    ],
)
def test_one_domain_can_stay_the_fullest_or_get_the_emptiest(other: int, worst: int, shown: tuple[int, int]) -> None:
    """All of its four pods may go, or as many pods in no domain; the other domain keeps its pods."""
    left, chance = np.array([4, other], dtype=np.int64), np.array([4, 0], dtype=np.int64)
    found = OpenCounts(left, chance, take=4, outside=4)
    assert (found.worst, tuple(found.worst_counts().tolist())) == (worst, shown)


def test_of_equally_bad_combinations_the_first_domains_are_shown() -> None:
    """The fullest and the emptiest domain are the first of several that can be so, whatever their number."""
    every = np.ones(100, dtype=np.int64)
    shown = OpenCounts(3 * every, every, 1).worst_counts()
    assert shown.tolist() == [3, 2] + [3] * 98


@given(open_counts())
def test_counts_are_certain_if_every_combination_leaves_them(counts: OpenCounts) -> None:
    """Where nothing is left to chance, or all of it is in one domain."""
    found = counts.certain_counts
    is_in_one = counts.outside == 0 and int((counts.open > 0).sum()) == 1
    assert (found is not None) is (counts.take == 0 or is_in_one)
    if found is not None:
        assert set(combinations(counts)) == {found}


def test_with_very_many_pods_outside_the_smallest_skew_is_not_computed() -> None:
    """It counts as 0, which it may be."""
    counts = np.array([9, 0], dtype=np.int64)
    nothing = np.zeros(2, dtype=np.int64)
    assert OpenCounts(counts, nothing, 1, skews._MOST_OUTSIDE).best == 9  # noqa: SLF001 - the limit itself
    assert OpenCounts(counts, nothing, 1, skews._MOST_OUTSIDE + 1).best == 0  # noqa: SLF001 - as above
