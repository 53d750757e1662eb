"""Youngest and Oldest: by time of creation."""

from __future__ import annotations

import pytest

from tests.unit.ranking.groups import aged, ranks, strategy, view_of
from trimtab.testing.builders import cluster, pod

GROUP = cluster("z1: a").with_pods(
    aged("middle", 12), aged("old", 0), aged("young", 23), pod("future").created("2026-01-02T08:00:00Z"), pod("unborn")
)


def test_the_youngest_ranks_highest() -> None:
    """Ranks count from the oldest pod, so that a newcomer takes the next number."""
    want = {"old": 1, "middle": 2, "young": 3, "unborn": 4, "future": 5}
    assert ranks(strategy("Youngest"), view_of(GROUP)) == want


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, {"old": 24, "middle": 12, "young": 1, "future": 0, "unborn": 0}, id="in hours"),
        pytest.param(
            {"unitSeconds": 86400}, {"old": 1, "middle": 0.5, "young": 1 / 24, "future": 0, "unborn": 0}, id="in days"
        ),
    ],
)
def test_the_oldest_ranks_highest(args: dict[str, int], want: dict[str, float]) -> None:
    """Ranks are ages; a pod that is not there yet, or seems to come from the future, has none."""
    assert ranks(strategy("Oldest", **args), view_of(GROUP)) == pytest.approx(want)
