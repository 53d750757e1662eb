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


@given(open_counts())
def test_with_many_domains_the_worst_skew_is_never_underestimated(counts: OpenCounts) -> None:
    """Above the limit, candidates are compared instead of all pairs."""
    exact = counts.worst
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(skews, "_PAIRS", 1)
        assert counts.worst >= exact
        assert counts.worst == apart(counts), "and overestimated no more than by taking each domain by itself"
        assert tuple(counts.worst_counts().tolist()) in set(combinations(counts))


def apart(counts: OpenCounts) -> int:
    """The fullest that a domain can stay over the emptiest that another can get, each taken by itself."""
    every = list(combinations(counts))
    domains = range(len(counts.left))
    pairs = [
        max(left[high] for left in every) - min(left[low] for left in every)
        for high in domains
        for low in domains
        if high != low
    ]
    return max((0, *pairs))


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
