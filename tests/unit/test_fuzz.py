"""The fuzz targets, for a moment; `make fuzz` runs them for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_gets_another_answer_than_a_clear_error(name: str) -> None:
    """Whatever it is."""
    target = TARGETS[name]
    run = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])(
        given(target.inputs)(target.check)
    )
    run()


def test_a_run_ends_with_the_first_finding_and_shows_the_smallest_input() -> None:
    """So that the summary of `make fuzz` has it; without a finding it ends with the time."""

    def check(value: int) -> None:
        if value > 1000:
            raise KeyError(value)

    found = fuzz(Target(st.integers(0, 10**6), check), 60, 1)
    assert "KeyError: 1001" in found.finding
    assert (found.rounds, found.tried > 1) == (1, True)
    assert fuzz(Target(st.integers(0, 10), check), 0.01, 1).finding == ""
