"""The settle time learns from misses, and forgets slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.scaledown.intent.settle_time import Settling


def test_misses_make_it_longer_up_to_a_limit() -> None:
    """Half as long again each time."""
    settling = Settling(0.3, 1.2)
    seen = []
    for _ in range(5):
        settling.missed()
        seen.append(round(settling.seconds, 4))
    assert seen == [0.45, 0.675, 1.0125, 1.2, 1.2]


def test_a_long_calm_makes_it_shorter_again() -> None:
    """Down to where it began, and no further."""
    settling = Settling(0.3, 1.2)
    settling.missed()
    for _ in range(19):
        settling.followed()
    assert settling.seconds == pytest.approx(0.45)
    for _ in range(40):
        settling.followed()
    assert settling.seconds == pytest.approx(0.3)


@given(st.lists(st.booleans(), max_size=200))
def test_it_stays_within_its_bounds(story: list[bool]) -> None:
    """Whatever happens."""
    settling = Settling(0.3, 1.2)
    for missed in story:
        settling.missed() if missed else settling.followed()
        assert 0.3 <= settling.seconds <= 1.2
