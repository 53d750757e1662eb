"""Counts stand for themselves, percentages for a share that is rounded exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api import percent
from trimtab.api.errors import InvalidError
from trimtab.api.percent import IntOrPercent


@pytest.mark.parametrize(
    ("value", "total", "down", "up"),
    [
        pytest.param(3, 10, 3, 3, id="a number is itself"),
        pytest.param(-1, 10, -1, -1, id="a negative number is itself"),
        pytest.param(20, 10, 20, 20, id="a number may exceed the total"),
        pytest.param("25%", 10, 2, 3, id="a share between two counts is rounded as asked"),
        pytest.param("50%", 10, 5, 5, id="an exact share is not rounded"),
        pytest.param("100%", 7, 7, 7, id="all is all"),
        pytest.param("250%", 3, 7, 8, id="a share may exceed the total"),
        pytest.param("0%", 7, 0, 0, id="nothing is nothing"),
        pytest.param("1%", 0, 0, 0, id="a share of nothing is nothing"),
        pytest.param("-10%", 15, -2, -1, id="up is towards more also below zero"),
        pytest.param("+10%", 15, 1, 2, id="a plus sign is allowed"),
        pytest.param("010%", 15, 1, 2, id="a leading zero means nothing"),
    ],
)
def test_scaled(value: int | str, total: int, down: int, up: int) -> None:
    """The same value comes to these counts, rounded down and up."""
    assert percent.scaled(value, total, round_up=False) == down
    assert percent.scaled(value, total, round_up=True) == up


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("30", '"30" is not a percentage; write 30 or "30%"', id="a number in quotes"),
        pytest.param("", '"" is not a percentage; write 3 or "30%"', id="nothing"),
        pytest.param("%", '"%" is not a percentage', id="a sign without a number"),
        pytest.param("10%%", "is not a percentage", id="two signs"),
        pytest.param("10.5%", "is not a percentage", id="a fraction"),
        pytest.param(" 10%", "is not a percentage", id="a space before"),
        pytest.param("10 %", "is not a percentage", id="a space between"),
        pytest.param("1_0%", "is not a percentage", id="digits in groups"),
        pytest.param("\u0661%", "is not a percentage", id="digits of another script"),
        pytest.param("9223372036854775808%", "is not a percentage", id="more than int64 holds"),
        pytest.param("9" * 5000 + "%", "is not a percentage", id="endless digits"),
        pytest.param(2**31, "2147483648 does not fit into 32 bits", id="more than int32 holds"),
        pytest.param(True, "True is neither", id="a boolean"),
        pytest.param(0.5, "0.5 is neither", id="a broken number"),
        pytest.param(None, "None is neither", id="null"),
    ],
)
def test_refuses(value: Any, reason: str) -> None:
    """What is neither a number nor a percentage is refused with what to write instead."""
    with pytest.raises(InvalidError) as caught:
        percent.scaled(value, 10, round_up=True)
    assert caught.value.path == ""
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("value", "parsed", "text"),
    [
        pytest.param(3, IntOrPercent(3, is_percent=False), "3", id="a count"),
        pytest.param("+30%", IntOrPercent(30, is_percent=True), "30%", id="a percentage"),
    ],
)
def test_parse(value: int | str, parsed: IntOrPercent, text: str) -> None:
    """A parsed value says which of the two it is, and writes itself plainly."""
    assert percent.parse(value) == parsed
    assert str(percent.parse(value)) == text


@given(st.integers(-(2**40), 2**40), st.integers(0, 2**40))
def test_a_share_is_exact(number: int, total: int) -> None:
    """A percentage is rounded as the exact fraction is, however large."""
    share = Fraction(number * total, 100)
    assert percent.scaled(f"{number}%", total, round_up=True) == math.ceil(share)
    assert percent.scaled(f"{number}%", total, round_up=False) == math.floor(share)
