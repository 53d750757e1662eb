"""How level scale-downs ended, and the texts about it."""

from __future__ import annotations

import pytest

from trimtab.scaledown.results.levels import LevelCheck, LevelResult, counted, level_result


def check(possible: int, skew: int, most: int = 1) -> LevelCheck:
    """One constraint after a scale-down."""
    return LevelCheck("zone", most, possible, skew, (skew, 0))


@pytest.mark.parametrize(
    ("checks", "want"),
    [
        pytest.param([check(0, 0), check(1, 1)], LevelResult.LEVEL, id="level"),
        pytest.param([check(3, 3)], LevelResult.BEST, id="as level as possible"),
        pytest.param([check(3, 3, most=5)], LevelResult.LEVEL, id="within maxSkew"),
        pytest.param([check(2, 2, most=2)], LevelResult.LEVEL, id="just within maxSkew"),
        pytest.param([check(2, 2)], LevelResult.BEST, id="just beyond maxSkew"),
        pytest.param([check(1, 1, most=0)], LevelResult.LEVEL, id="a skew of 1 is level"),
        pytest.param([check(1, 1), check(2, 2)], LevelResult.BEST, id="one level, one not"),
        pytest.param([check(0, 0), check(1, 2)], LevelResult.MISSED, id="missed"),
        pytest.param([], LevelResult.LEVEL, id="no constraints"),
    ],
)
def test_the_result_of_a_scale_down(checks: list[LevelCheck], want: LevelResult) -> None:
    """Against what was possible."""
    assert level_result(checks) is want


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        pytest.param((3, 2, 1), "3/2/1", id="a few"),
        pytest.param((1, 2, 3, 4, 5, 6), "1/2/3/4/5/6", id="six"),
        pytest.param((1, 2, 3, 4, 5, 6, 7), "1 to 7 in each of 7 domains", id="seven"),
    ],
)
def test_many_domains_are_counted_together(counts: tuple[int, ...], want: str) -> None:
    """A sentence stays readable."""
    assert counted(counts) == want
