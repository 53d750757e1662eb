"""Creation in batches that double, until one fails."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from trimtab.kube.errors import ApiError, Forbidden
from trimtab.kube.slow_start import batches, create_in_batches


@given(st.integers(0, 5000))
@settings(deadline=None)
def test_batches_double(count: int) -> None:
    """All are made in the end, each full batch twice the one before, only the last may be smaller."""
    sizes = list(batches(count))
    assert sum(sizes) == count
    assert sizes[:-1] == [2**n for n in range(len(sizes) - 1)]
    assert not sizes or 1 <= sizes[-1] <= 2 ** (len(sizes) - 1)


@pytest.mark.parametrize(
    ("refused", "tried", "missing"),
    [
        pytest.param(set[int](), 10, 0, id="all are created"),
        pytest.param({0}, 1, 10, id="the first fails: no other is tried"),
        pytest.param({3}, 7, 4, id="one of the third batch fails: that batch is completed"),
        pytest.param({3, 5}, 7, 5, id="two of a batch fail"),
        pytest.param({9}, 10, 1, id="one of the last, smaller batch fails"),
    ],
)
async def test_a_failed_batch_is_the_last(refused: set[int], tried: int, missing: int) -> None:
    """The first error is returned, and everything that does not exist is counted once."""
    called = list[int]()
    counted = list[int]()

    async def create(number: int) -> ApiError | None:
        called.append(number)
        return Forbidden(f"quota at {number}") if number in refused else None

    error = await create_in_batches(range(10), create, counted.append)
    assert called == list(range(tried))
    assert sum(counted) == missing
    assert (error is None) == (not refused)
    assert error is None or error.message == f"quota at {min(refused)}"
