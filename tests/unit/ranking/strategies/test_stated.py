"""Stated: costs that applications state themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ranking.groups import aged, ranks, strategy, unranked, view_of
from trimtab.api.annotations import ALPHA_COST, DELETION_COST, STATED_COST
from trimtab.api.errors import InvalidError
from trimtab.ranking.strategies.stated import number
from trimtab.testing.builders import cluster

JOB = "example.com/job-seconds"
GROUP = cluster("z1: a").with_pods(
    aged("idle", 1).annotations({STATED_COST: "0", JOB: "1"}),
    aged("busy", 1).annotations({STATED_COST: "3600", JOB: "0.5"}),
    aged("eager", 1).annotations({STATED_COST: "-7", JOB: "20"}),
)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param({}, {"idle": 0, "busy": -3600, "eager": 7}, id="the cheapest goes first"),
        pytest.param({"annotation": JOB}, {"idle": -1, "busy": -0.5, "eager": -20}, id="another annotation"),
        pytest.param({"order": "HighestFirst"}, {"idle": 0, "busy": 3600, "eager": -7}, id="the highest goes first"),
    ],
)
def test_stated_costs_rank(args: dict[str, Any], want: dict[str, float]) -> None:
    """A pod that says it is dear stays longer."""
    assert ranks(strategy("Stated", **args), view_of(GROUP)) == want


def test_what_a_pod_answers_counts_before_its_annotation() -> None:
    """An annotation was written some time ago; an answer is of now."""
    found = ranks(strategy("Stated"), view_of(GROUP, stated={"busy": 5}))
    assert found == {"idle": 0, "busy": -5, "eager": 7}


@pytest.mark.parametrize("text", ["", "x", "1e3", "0x10", "nan", "inf", "1,5", " 1", "1.", ".5", "--1", "٣", "9" * 400])
def test_what_is_no_number_leaves_a_pod_unranked(text: str) -> None:
    """Even where a default is set: the pod did state something, and nobody knows what."""
    group = cluster("z1: a").with_pods(aged("p", 1).annotations({STATED_COST: text}), aged("q", 1))
    assert unranked(ranks(strategy("Stated"), view_of(group))) == {"p", "q"}
    assert unranked(ranks(strategy("Stated", default=0), view_of(group))) == {"p"}


def test_a_default_is_what_silence_costs() -> None:
    """With a default, a pod that states nothing is ranked by it."""
    group = cluster("z1: a").with_pods(aged("p", 1).annotations({STATED_COST: "4"}), aged("q", 1))
    assert ranks(strategy("Stated", default=10), view_of(group)) == {"p": -4, "q": -10}


@given(st.text())
def test_any_text_is_a_finite_number_or_none(text: str) -> None:
    """An application can write anything."""
    assert math.isnan(number(text)) or math.isfinite(number(text))


@pytest.mark.parametrize("annotation", [DELETION_COST, ALPHA_COST])
def test_costs_that_trimtab_writes_are_not_read(annotation: str) -> None:
    """A cost made from the last cost would run away."""
    with pytest.raises(InvalidError, match=r"^args\.annotation: .* is where Trimtab writes; write another"):
        strategy("Stated", annotation=annotation)


@pytest.mark.parametrize("annotation", ["", "a cost", "example.com/", "/cost"])
def test_what_no_annotation_can_be_called_is_refused(annotation: str) -> None:
    """No pod could state its cost there."""
    with pytest.raises(InvalidError) as caught:
        strategy("Stated", annotation=annotation)
    assert caught.value.path == "args.annotation"
