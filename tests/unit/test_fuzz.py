"""The fuzz targets, for a moment; `python -m tests.fuzz TARGET` runs one for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_gets_another_answer_than_a_clear_error(name: str) -> None:
    """Whatever it is."""
    target = TARGETS[name]
    run = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])(
        given(target.inputs)(target.check)
    )
    run()
