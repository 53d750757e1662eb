"""Numbers as stories state them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.errors import InvalidError
from trimtab_lab.scenarios import ranges
from trimtab_lab.scenarios.ranges import Range


@pytest.mark.parametrize(
    ("written", "inside", "outside"),
    [
        pytest.param(10, [10], [9, 11], id="a number"),
        pytest.param("10", [10], [9, 11], id="a number in quotes"),
        pytest.param("<= 1", [0, 1], [2], id="at most"),
        pytest.param("<2", [0, 1], [2], id="less than"),
        pytest.param(">= 3", [3, 1000], [2], id="at least"),
        pytest.param("> 3", [4], [3], id="more than"),
        pytest.param("== 3", [3], [2, 4], id="equals"),
        pytest.param("2..10", [2, 10], [1, 11], id="between"),
    ],
)
def test_a_range_holds_what_it_says(written: Any, inside: list[int], outside: list[int]) -> None:
    """Both ends are included."""
    read = ranges.read(written, "x")
    assert all(number in read for number in inside)
    assert not any(number in read for number in outside)


@pytest.mark.parametrize(
    "written", [-1, True, None, "about 3", "3..", "<= -1", 1.5, "10..2", "< 0"], ids=lambda value: repr(value)
)
def test_what_is_no_range_is_refused_by_name(written: Any) -> None:
    """The error names the field."""
    with pytest.raises(InvalidError) as error:
        ranges.read(written, "steps[0].expect.pods")
    assert error.value.path == "steps[0].expect.pods"


@given(low=st.integers(0, 50), more=st.none() | st.integers(0, 50))
def test_a_range_prints_as_it_is_written(low: int, more: int | None) -> None:
    """What is printed reads back as the same range."""
    made = Range(low, None if more is None else low + more)
    assert ranges.read(str(made), "x") == made
