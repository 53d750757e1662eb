"""Idle: from usage that is handed in."""

from __future__ import annotations

import math

import pytest

from tests.unit.ranking.groups import aged, ranks, strategy, unranked, view_of
from trimtab.testing.builders import cluster

GROUP = cluster("z1: a").with_pods(*(aged(name, 1).on("a") for name in "pqr"))


@pytest.mark.parametrize(
    ("args", "usage", "want"),
    [
        pytest.param({}, {"p": 0.0, "q": 0.25, "r": 1.0}, {"p": 100, "q": 75, "r": 0}, id="the idler, the sooner"),
        pytest.param({}, {"p": 3.0, "q": 1.0, "r": 9e9}, {"p": 0, "q": 0, "r": 0}, id="busy is busy"),
        pytest.param({"busyAt": 8}, {"p": 2, "q": 6, "r": 8}, {"p": 75, "q": 25, "r": 0}, id="in another unit"),
    ],
)
def test_the_most_idle_ranks_highest(args: dict[str, float], usage: dict[str, float], want: dict[str, float]) -> None:
    """The rank is what is missing to busy, in percent."""
    assert ranks(strategy("Idle", **args), view_of(GROUP, usage=usage)) == pytest.approx(want)


@pytest.mark.parametrize("usage", [math.nan, math.inf, -1.0])
def test_what_is_no_measurement_leaves_a_pod_unranked(usage: float) -> None:
    """Neither a missing value nor an impossible one means idle."""
    assert unranked(ranks(strategy("Idle"), view_of(GROUP, usage={"p": 0.5, "q": usage}))) == {"q", "r"}


def test_a_pod_without_a_node_is_idle() -> None:
    """Nobody can measure a pod that does not run; a scale-down need not wait for that."""
    assert ranks(strategy("Idle"), view_of(cluster("z1: a").with_pods(aged("p", 1)))) == {"p": 100}
