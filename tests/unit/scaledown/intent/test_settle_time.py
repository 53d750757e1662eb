"""The settle time learns from misses, and forgets slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.scaledown.intent.settle_time import SettleTime


def test_misses_make_it_longer_up_to_a_limit() -> None:
    """Half as long again each time."""
    settling = SettleTime(0.3, 1.2)
    seen = []
    for _ in range(5):
        settling.record_miss()
        seen.append(round(settling.seconds, 4))
    assert seen == [0.45, 0.675, 1.0125, 1.2, 1.2]


def test_a_long_run_without_misses_makes_it_shorter_again() -> None:
    """Down to where it began, and no further."""
    settling = SettleTime(0.3, 1.2)
    settling.record_miss()
    for _ in range(19):
        settling.record_success()
    assert settling.seconds == pytest.approx(0.45)
    for _ in range(40):
        settling.record_success()
    assert settling.seconds == pytest.approx(0.3)


def test_twenty_scale_downs_without_a_miss_shorten_it_once() -> None:
    """Then the next twenty are counted."""
    settling = SettleTime(0.1, 1.2)
    for _ in range(3):
        settling.record_miss()
    seen = []
    for _ in range(40):
        settling.record_success()
        seen.append(round(settling.seconds, 4))
    assert seen == [0.3375] * 19 + [0.225] * 20 + [0.15]


def test_a_miss_ends_a_run_without_misses() -> None:
    """Nineteen before it and nineteen after it are not enough."""
    settling = SettleTime(0.3, 1.2)
    settling.record_miss()
    for _ in range(19):
        settling.record_success()
    settling.record_miss()
    for _ in range(19):
        settling.record_success()
    assert settling.seconds == pytest.approx(0.675)


@pytest.mark.parametrize(
    ("initial", "longest", "want"),
    [
        pytest.param(0.0, 1.2, 0.015, id="from nothing to something"),
        pytest.param(2.0, 1.2, 2.0, id="never shorter than it began"),
    ],
)
def test_after_a_miss(initial: float, longest: float, want: float) -> None:
    """It grows, within its limits."""
    settling = SettleTime(initial, longest)
    settling.record_miss()
    assert settling.seconds == pytest.approx(want)


@given(st.lists(st.booleans(), max_size=200))
def test_it_stays_within_its_bounds(story: list[bool]) -> None:
    """Whatever happens."""
    settling = SettleTime(0.3, 1.2)
    for missed in story:
        settling.record_miss() if missed else settling.record_success()
        assert 0.3 <= settling.seconds <= 1.2
