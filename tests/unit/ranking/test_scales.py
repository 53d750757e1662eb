"""Ages on a logarithmic scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.ranking.scales import Base, binary_scale, scales, starts

MICROSECOND = 1_000
MILLISECOND = 1_000 * MICROSECOND
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND

# How many nanoseconds before a power of two Go 1.26 (amd64) rounds the logarithm up to the power; 0 for all others.
EARLY = {49: 1, 50: 2, 51: 5, 52: 11, 53: 22, 54: 45, 55: 90, 56: 180, 57: 360, 58: 720, 59: 1440, 60: 2880, 61: 5760}
EARLY |= {62: 11520, 63: 23040}


def scale(age: int, base: Base = 2) -> int:
    """The scale of one age."""
    return int(scales(np.array([-age], dtype=np.int64), 0, base)[0])


@pytest.mark.parametrize(
    ("age", "want"),
    [
        pytest.param(5, 0, id="5ns"),
        pytest.param(23, 1, id="23ns"),
        pytest.param(71, 1, id="71ns"),
        pytest.param(MILLISECOND, 6, id="1ms"),
        pytest.param(8 * MILLISECOND, 6, id="8ms"),
        pytest.param(50 * MILLISECOND, 7, id="50ms"),
        pytest.param(2 * MINUTE, 11, id="2m"),
        pytest.param(11 * MINUTE, 11, id="11m"),
    ],
)
def test_the_proposals_table_of_durations(age: int, want: int) -> None:
    """To base 10, durations have the scales that the proposal lists."""
    assert scale(age, 10) == want


@pytest.mark.parametrize("base", [2, "e", 10])
def test_what_has_no_age_is_younger_than_everything(base: Base) -> None:
    """An age of nothing, or of a time to come, has the scale -1, and a nanosecond has 0."""
    assert [scale(age, base) for age in (-(2**62), -1, 0, 1)] == [-1, -1, -1, 0]


@pytest.mark.parametrize("power", range(1, 64))
def test_a_binary_scale_starts_where_gos_does(power: int) -> None:
    """Each scale starts at its power of two, or as many nanoseconds before it as floats make it."""
    start = 2**power - EARLY.get(power, 0)
    assert int(starts(2)[power]) == start
    assert (scale(start - 1), scale(start)) == (power - 1, power)


@given(
    st.integers(1, 2**63 - 1) | st.builds(lambda power, off: 2**power + off, st.integers(16, 62), st.integers(-50, 50))
)
def test_every_binary_scale_is_the_floating_point_logarithm(age: int) -> None:
    """The table of starts says of every age what the formula says, and that is the logarithm to within a rounding."""
    assert scale(age) == binary_scale(age)
    assert scale(age) in (math.floor(math.log2(age)), age.bit_length() - 1, age.bit_length())
    assert age >= 2 ** scale(age) * (1 - 1e-14)


@given(st.integers(1, 2**62), st.sampled_from(["e", 10]))
def test_other_scales_are_exact(age: int, base: Base) -> None:
    """To base e and 10 the scale is the greatest power at or below the age, without rounding."""
    found = scale(age, base)
    if base == 10:
        assert 10**found <= age < 10 ** (found + 1)
    else:
        assert math.exp(found) <= age * (1 + 1e-12)
        assert age * (1 - 1e-12) <= math.exp(found + 1)


def test_natural_scales_start_at_the_next_whole_nanosecond() -> None:
    """The powers of e, rounded up: 1, 3, 8, 21, …; the largest has all its digits."""
    assert starts("e")[:5].tolist() == [1, 3, 8, 21, 55]
    assert starts("e")[43] == 4727839468229346562


@pytest.mark.parametrize(("base", "count"), [(2, 64), ("e", 44), (10, 19)])
def test_a_scale_starts_within_every_age_that_can_be_stored(base: Base, count: int) -> None:
    """One scale for each power up to 2**63 - 1 nanoseconds, and none that starts beyond or twice."""
    found = starts(base).tolist()
    assert (len(found), found[0]) == (count, 1)
    assert found == sorted(set(found))
    assert found[-1] <= 2**63 - 1 < found[-1] * (10 if base == 10 else 3)


@pytest.mark.parametrize(("base", "widest"), [(2, 2.0), ("e", math.nextafter(math.e, 3)), (10, 10.0)])
def test_ages_of_one_scale_are_less_than_the_base_apart(base: Base, widest: float) -> None:
    """The oldest age of a scale is less than the base times its youngest (rounding up to whole nanoseconds aside)."""
    for youngest, beyond in zip(starts(base)[:-1].tolist(), starts(base)[1:].tolist(), strict=True):
        assert beyond - 1 < widest * youngest
