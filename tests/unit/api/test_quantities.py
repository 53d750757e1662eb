"""Quantities mean what the reference reads in them, also where that surprises."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trimtab.api import quantities
from trimtab.api.errors import InvalidError
from trimtab.api.quantities import Quantity

_SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+6"]


def _texts(max_digits: int = 24) -> st.SearchStrategy[str]:
    digits = st.text("0123456789", max_size=max_digits)
    fraction = st.one_of(st.just(""), digits.map(lambda text: f".{text}"))
    parts = (st.sampled_from(["", "-", "+"]), st.sampled_from("0123456789"), digits, fraction)
    return st.tuples(*parts, st.sampled_from(_SUFFIXES)).map("".join)


def _exact(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


@pytest.mark.parametrize(
    ("text", "value", "millis"),
    [
        pytest.param("1", 1, 1000, id="a plain number counts itself"),
        pytest.param("250m", 1, 250, id="a fraction takes up a whole"),
        pytest.param("1500m", 2, 1500, id="one and a half takes up two"),
        pytest.param("1n", 1, 1, id="the smallest amount takes up one of everything"),
        pytest.param("0.0000000001", 1, 1, id="less than a nano is still something"),
        pytest.param("1.5Gi", 1610612736, 1610612736000, id="binary units are powers of 1024"),
        pytest.param("1k", 1000, 1000000, id="decimal units are powers of 1000"),
        pytest.param("12e6", 12000000, 12000000000, id="an exponent is a unit"),
        pytest.param("1E3", 1000, 1000000, id="E with digits is an exponent"),
        pytest.param("2E", 2 * 10**18, 0, id="E without digits is exa"),
        pytest.param("-500m", -1, -500, id="a negative amount is rounded away from zero"),
        pytest.param("+5.", 5, 5000, id="a plus sign and a bare point are allowed"),
        pytest.param(".5", 1, 500, id="the leading zero may be missing"),
        pytest.param(2, 2, 2000, id="a whole JSON number is a quantity"),
        pytest.param(0.5, 1, 500, id="a fractional JSON number is a quantity"),
        pytest.param(1e-7, 1, 1, id="a JSON number that Python writes with an exponent is a quantity"),
    ],
)
def test_counts(text: str | int | float, value: int, millis: int) -> None:
    """A quantity is counted in ones and in thousandths, rounded so that it is covered."""
    assert (quantities.parse(text).value(), quantities.parse(text).milli_value()) == (value, millis)
    assert (quantities.whole(text), quantities.millis(text)) == (value, millis)


@pytest.mark.parametrize(
    ("text", "value", "millis"),
    [
        pytest.param("10E", 0, 0, id="a narrow number beyond int64 is zero"),
        pytest.param("999999999999999999", 10**18 - 1, 3875820019684211736, id="one multiplication wraps around"),
        pytest.param("9223372036854775808", -(2**63), 0, id="a wide number wraps around"),
        pytest.param("8Ei", 2**63 - 1, -1000, id="a binary number is capped, its thousandths wrap around"),
        pytest.param("-8Ei", 1 - 2**63, 1000, id="a negative binary number is capped as well"),
        pytest.param("-1.5Gi", -1610612736, -1610612736000, id="a whole negative wide number is exact"),
        pytest.param("-0.1Gi", -107374181, -107374182400, id="a negative wide fraction loses one"),
        pytest.param("-1.0000000001", 0, -999, id="a negative wide fraction can come to nothing"),
        pytest.param("1e4294967296", 1, 1000, id="an exponent is taken modulo 2**32"),
        pytest.param("1e2000000000", 0, 0, id="a vast exponent costs no time"),
        pytest.param("1e-2000000000", 1, 1, id="a vast negative exponent costs no time"),
    ],
)
def test_counts_as_the_reference_does_at_the_limits(text: str, value: int, millis: int) -> None:
    """Beyond the range of int64 the reference's own results stand, whatever one thinks of them."""
    assert (quantities.parse(text).value(), quantities.parse(text).milli_value()) == (value, millis)


@pytest.mark.parametrize("text", ["m", "Ti", "-", "+", ".", "-.", ".Gi", "e3", "e-9", "0", "-0", "000", "0Ei"])
def test_a_missing_number_is_zero(text: str) -> None:
    """A unit or a sign on its own is read as nothing."""
    quantity = quantities.parse(text)
    assert (quantity.value(), quantity.milli_value(), quantity.sign, quantity.canonical) == (0, 0, 0, "0")


@pytest.mark.parametrize(
    ("text", "canonical", "notation"),
    [
        pytest.param("0.1", "100m", "DecimalSI", id="a fraction becomes a smaller unit"),
        pytest.param("2000m", "2", "DecimalSI", id="a unit grows while nothing is lost"),
        pytest.param("1000000", "1M", "DecimalSI", id="zeros become a unit"),
        pytest.param("1.5e3", "1500", "DecimalExponent", id="an exponent is a multiple of three"),
        pytest.param("7e-2", "70e-3", "DecimalExponent", id="a negative exponent is a multiple of three"),
        pytest.param("1.5Gi", "1536Mi", "BinarySI", id="a binary fraction becomes a smaller unit"),
        pytest.param("2048Ki", "2Mi", "BinarySI", id="a binary unit grows"),
        pytest.param("0.5Ki", "512", "BinarySI", id="a small binary number is written in decimal"),
        pytest.param("0.0001Ki", "102400u", "DecimalSI", id="less than one is no longer binary"),
        pytest.param("0.1Gi", "107374182400m", "BinarySI", id="a broken binary number is written in decimal"),
        pytest.param("5.", "5.", "DecimalSI", id="text that looks canonical is kept"),
        pytest.param("1689.786015G", "1689.786015G", "DecimalSI", id="a fraction of three or six digits is kept"),
        pytest.param("1E-3", "1E-3", "DecimalExponent", id="the letter of the exponent is kept"),
        pytest.param("0Mi", "0", "BinarySI", id="zero remembers its notation"),
        pytest.param("1000E", "1", "DecimalSI", id="there is no suffix above exa"),
        pytest.param("99999999999999999999Ei", "9223372036854775807", "BinarySI", id="the cap shows"),
    ],
)
def test_canonical_text(text: str, canonical: str, notation: str) -> None:
    """The canonical text is the one that the API server would write."""
    quantity = quantities.parse(text)
    assert (quantity.canonical, str(quantity), quantity.format) == (canonical, canonical, notation)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", '"" is not a quantity', id="nothing"),
        pytest.param(" 1", '" 1" is not a quantity', id="a space before"),
        pytest.param("1 Gi", "is not a quantity", id="a space between"),
        pytest.param("1.2.3", "is not a quantity", id="two points"),
        pytest.param("\u0661", "is not a quantity", id="digits of another script"),
        pytest.param("1\n", "is not a quantity", id="a line break after"),
        pytest.param(float("nan"), '"nan" is not a quantity', id="not a number"),
        pytest.param(float("inf"), '"inf" is not a quantity', id="infinity"),
        pytest.param("1K", 'the unknown unit "K"; write one of n u m k', id="a capital K"),
        pytest.param("1GB", "is not a quantity", id="bytes spelled out"),
        pytest.param("1e", 'the unknown unit "e"', id="an exponent without digits"),
        pytest.param("1-3", 'the unknown unit "-3"', id="an exponent without its letter"),
        pytest.param("1e9223372036854775808", "unknown unit", id="an exponent beyond int64"),
        pytest.param("Ei", '"Ei" has no digits', id="a unit too large to be held narrow, without digits"),
        pytest.param("e-10", "has no digits", id="an exponent too small to be held narrow, without digits"),
        pytest.param("1" * 2001, "at most 2000 digits", id="a number of endless digits"),
        pytest.param(10**2100, "at most 2000 digits", id="a JSON number of endless digits"),
        pytest.param("1234567890123456789e2001", "at most 2000 digits", id="a wide number with a vast exponent"),
        pytest.param(True, "True is not a quantity", id="a boolean"),
        pytest.param(None, "None is not a quantity", id="null"),
    ],
)
def test_refuses(text: Any, reason: str) -> None:
    """What is not a quantity is refused with a reason that quotes it."""
    with pytest.raises(InvalidError) as caught:
        quantities.parse(text)
    assert caught.value.path == ""
    assert reason in caught.value.reason


def test_a_boolean_is_refused_although_it_equals_one() -> None:
    """The memory of earlier answers does not confuse `true` with 1."""
    assert quantities.millis(1) == 1000
    with pytest.raises(InvalidError):
        quantities.millis(True)


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        pytest.param("1", "500m", "1500m", "500m", id="units are aligned"),
        pytest.param("1Gi", "512Mi", "1536Mi", "512Mi", id="binary stays binary"),
        pytest.param("1Ki", "1k", "2024", "24", id="the left notation stands"),
        pytest.param("0", "1Gi", "1Gi", "-1Gi", id="zero takes the other notation"),
        pytest.param("5.", "0", "5", "5", id="a sum forgets how it was written"),
        pytest.param("9E", "1n", "9000000000000000000000000001n", "8999999999999999999999999999n", id="a sum is exact"),
    ],
)
def test_arithmetic(left: str, right: str, total: str, difference: str) -> None:
    """Sums and differences are exact and written in the left notation."""
    one, other = quantities.parse(left), quantities.parse(right)
    assert ((one + other).canonical, (one - other).canonical) == (total, difference)


def test_a_sum_of_too_many_digits_is_refused() -> None:
    """Adding one to a number with a vast exponent would write out all its zeros."""
    with pytest.raises(InvalidError, match="too far apart"):
        quantities.parse("1e2000000000") + quantities.parse("1")


def test_equality_ignores_the_notation() -> None:
    """Two spellings of one number are equal and have one hash."""
    spellings = ["1024", "1Ki", "1.024k", "1024000m", "1024e0", "1024.0000000000000000000"]
    assert len({quantities.parse(text) for text in spellings}) == 1
    assert quantities.parse("1") != "1"


def test_huge_numbers_are_compared_without_expansion() -> None:
    """The order of vast exponents follows from the exponents."""
    assert quantities.parse("-1e2000000000") < quantities.parse("1n") < quantities.parse("1e2000000000")


@given(_texts())
def test_the_canonical_text_reads_as_the_same_number(text: str) -> None:
    """Reading the canonical text gives the number back, up to the largest suffix that exists."""
    quantity = quantities.parse(text)
    assume(abs(_exact(quantity)) < 10**21 or quantity.format == "DecimalExponent")
    assert quantities.parse(quantity.canonical) == quantity


@given(_texts(), _texts())
def test_order_is_that_of_the_numbers(left: str, right: str) -> None:
    """Quantities compare and hash as the exact fractions they stand for."""
    one, other = quantities.parse(left), quantities.parse(right)
    assert (one < other, one == other, one >= other) == (
        _exact(one) < _exact(other),
        _exact(one) == _exact(other),
        _exact(one) >= _exact(other),
    )
    assert one != other or hash(one) == hash(other)


@given(_texts(), _texts())
def test_arithmetic_is_that_of_the_numbers(left: str, right: str) -> None:
    """Sums and differences are those of the exact fractions."""
    one, other = quantities.parse(left), quantities.parse(right)
    assert _exact(one + other) == _exact(one) + _exact(other)
    assert _exact(one - other) == _exact(one) - _exact(other)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["m", "", "u", "n"]))
def test_an_ordinary_number_is_rounded_away_from_zero(number: int, suffix: str) -> None:
    """Within int64 the counts are the exact number, rounded away from zero."""
    quantity = quantities.parse(f"{number}{suffix}")
    for count, unit in [(quantity.value(), 1), (quantity.milli_value(), 1000)]:
        amount = abs(_exact(quantity)) * unit
        assert abs(count) == -(-amount.numerator // amount.denominator)
        assert count * quantity.sign >= 0


@given(st.text("0123456789.+-eEinumkKMGTP x", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text ends in any error but the one that this package raises."""
    try:
        quantity = quantities.parse(text)
    except InvalidError:
        return
    assert quantity.canonical
    assert -(2**63) <= quantity.value() < 2**63
    assert -(2**63) <= quantity.milli_value() < 2**63
