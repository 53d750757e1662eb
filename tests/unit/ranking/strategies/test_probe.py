"""Probe: from what pods answered, which is handed in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ranking.groups import aged, ranks, strategy, unranked, view_of
from trimtab.api.errors import InvalidError
from trimtab.testing.builders import cluster

GROUP = cluster("z1: a").with_pods(*(aged(name, 1).on("a") for name in ("idle", "busy", "busier")))
ANSWERS = {"idle": 0.0, "busy": 60.0, "busier": 7200.0}


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, {"idle": 0, "busy": -60, "busier": -7200}, id="long work is spared"),
        pytest.param({"order": "HighestFirst"}, {"idle": 0, "busy": 60, "busier": 7200}, id="or goes first"),
    ],
)
def test_answers_rank(args: dict[str, Any], want: dict[str, float]) -> None:
    """The lower the answer, the sooner it goes, unless told otherwise."""
    assert ranks(strategy("Probe", **args), view_of(GROUP, stated=ANSWERS)) == want


def test_silence_leaves_a_pod_unranked() -> None:
    """Who says nothing may be the busiest of all."""
    assert unranked(ranks(strategy("Probe"), view_of(GROUP, stated={"idle": 0.0}))) == {"busy", "busier"}


def test_a_pod_without_a_node_goes_first() -> None:
    """It has nothing to lose, and nobody can ask it."""
    group = cluster("z1: a").with_pods(aged("waiting", 1), aged("idle", 1).on("a"))
    found = ranks(strategy("Probe"), view_of(group, stated={"idle": -5e11}))
    assert found["waiting"] > found["idle"]


@pytest.mark.parametrize("path", ["", "cost", "/a?b", "/a#b", "/a b", "/a\r\nX: y", "/../x", "//host/x", "/%2e", "/ä"])
def test_a_path_that_could_mean_something_else_is_refused(path: str) -> None:
    """Nothing but a path can be put there."""
    with pytest.raises(InvalidError, match=r"is not a plain path; write one such as /cost"):
        strategy("Probe", path=path)


@pytest.mark.parametrize("port", [0, 65536, "http"])
def test_a_port_that_cannot_be_is_refused(port: Any) -> None:
    """With what to write."""
    with pytest.raises(InvalidError, match=r"args\.port: .*write the port on which pods answer: from 1 to 65535"):
        strategy("Probe", port=port)


def test_answers_must_last_until_the_next_are_asked_for() -> None:
    """Otherwise the pods would be unranked in between."""
    with pytest.raises(InvalidError, match=r"args\.maxAgeSeconds: 30 is less than periodSeconds.*write at least 60"):
        strategy("Probe", periodSeconds=60, maxAgeSeconds=30)
    strategy("Probe", periodSeconds=60, maxAgeSeconds=60)
