"""Go's natural logarithm, to the last bit."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.logarithms import go_log

# What Go printed where it does not agree with the C library.
RECORDED = {
    3: "3ff193ea7aad030a",
    14: "40051cca16d7bba8",
    48: "400ef8383c50bb74",
    74: "4011375cd6fcab1c",
    176: "4014ae935b3cb89e",
    196: "40151cca16d7bba8",
    220: "4015931319798d6e",
    299: "4016cd411481a020",
    657: "4019f3637078b16c",
}


def bits(number: float) -> str:
    """A float as it is stored."""
    return struct.pack(">d", number).hex()


@pytest.mark.parametrize(("number", "recorded"), RECORDED.items())
def test_the_bits_are_those_of_go(number: int, recorded: str) -> None:
    """Also where they are not those of Python."""
    assert bits(go_log(float(number))) == recorded
    assert bits(math.log(number)) != recorded


def test_up_to_the_size_of_a_cluster_few_numbers_differ() -> None:
    """Of the numbers up to 5,002, which is the weight of a cluster of 5,000 nodes, Go and Python disagree on 68."""
    assert sum(go_log(float(n)) != math.log(n) for n in range(2, 5003)) == 68


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_the_difference_is_in_the_last_places(number: float) -> None:
    """It is a logarithm, whatever its last bit."""
    assert go_log(number) == pytest.approx(math.log(number), rel=1e-15, abs=1e-15)
