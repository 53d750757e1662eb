"""Figures are judged by their ratio to a calibration, or by their value where that is what was promised."""

from __future__ import annotations

import pytest

from bench.figures import Figure, Limit


@pytest.mark.parametrize(
    ("limit", "is_within"),
    [
        pytest.param(None, True, id="no limit"),
        pytest.param(Limit(2), True, id="the ratio is the maximum"),
        pytest.param(Limit(1.99), False, id="the ratio is above the maximum"),
        pytest.param(Limit(2, is_minimum=True), True, id="the ratio is the minimum"),
        pytest.param(Limit(2.01, is_minimum=True), False, id="the ratio is below the minimum"),
        pytest.param(Limit(10, is_of_value=True), True, id="the value is the maximum"),
        pytest.param(Limit(9, is_of_value=True), False, id="the value is above the maximum, its ratio is not"),
        pytest.param(Limit(11, is_of_value=True, is_minimum=True), False, id="the value is below the minimum"),
    ],
)
def test_a_figure_is_within_its_limit(limit: Limit | None, *, is_within: bool) -> None:
    assert Figure(10, "ms", 5, limit).is_within_limit is is_within


def test_a_limit_says_what_it_limits() -> None:
    assert str(Limit(1 / 3, "three times as fast")) == "≤ 0.3333 (three times as fast)"
    assert str(Limit(300, is_minimum=True, is_of_value=True)) == "value ≥ 300"
