"""Recorded orders and ranks of Kubernetes v1.36 and OpenKruise 1.9, and ours.

Where upstream's comparison has no consistent order, or its ranks depend on how an unstable sort broke a tie, the sample
says so and the order is not compared; everything else is.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trimtab.testing import conform
from trimtab.testing.conform import comparison

VECTORS = Path(__file__).parents[3] / "vectors"


def recorded(family: str) -> list[Any]:
    """The sample of a family, as parameters of a test."""
    text = (VECTORS / f"{family}.jsonl").read_text(encoding="utf-8")
    cases = [json.loads(line) for line in text.splitlines()]
    return [pytest.param(case, id=case["id"]) for case in cases]


ORDERS, RANKS = recorded("active_pods_sort"), recorded("kruise_rank")
POSSIBLE = recorded("possible_victims")


@pytest.mark.parametrize("case", ORDERS)
def test_the_order_of_a_replicasets_pods(case: dict[str, Any]) -> None:
    """Trimtab orders and deletes as Kubernetes did."""
    assert comparison.check(case["family"], case) == []


@pytest.mark.parametrize("case", RANKS)
def test_the_ranks_and_the_order_of_a_clonesets_pods(case: dict[str, Any]) -> None:
    """Trimtab ranks and orders as OpenKruise did."""
    assert comparison.check("kruise_rank", case) == []


@pytest.mark.parametrize("case", [case for case in RANKS if case.values[0]["expected"]["spread"]["deterministic"]])
def test_ranks_have_the_very_bits(case: dict[str, Any]) -> None:
    """Ranks are compared for equality, so a last bit can decide: they are the same to that bit."""
    ranks = conform.answer("kruise_rank", case)["spread"]["ranks"]
    assert {name: struct.pack(">d", rank).hex() for name, rank in ranks.items()} == case["expected"]["spread"][
        "rankBits"
    ]


def test_the_sample_of_orders_is_a_fair_one() -> None:
    """Both gates on and off, with and without a clock, numbers of victims, and comparisons that run in circles."""
    cases = [case.values[0] for case in ORDERS]
    gates = Counter(tuple(sorted(case["input"]["featureGates"].items())) for case in cases)
    assert len(gates) == 4
    assert min(gates.values()) >= 6
    assert any(case["input"]["now"] is None for case in cases)
    assert any(not case["expected"]["strictWeakOrder"] for case in cases)
    assert Counter(case["family"] for case in cases)["pods_to_delete"] >= 8


def test_all_go_where_all_must() -> None:
    """A number of victims as large as the number of pods takes every one."""
    pods = [{"metadata": {"name": name, "uid": name}} for name in "ab"]
    case = {"id": "all", "input": {"pods": pods, "diff": 2, "now": None, "relatedIncludesPods": True}}
    assert sorted(conform.answer("pods_to_delete", case)["deleted"]) == ["a", "b"]


@pytest.mark.parametrize("case", POSSIBLE)
def test_possible_victims_cover_every_recorded_run(case: dict[str, Any]) -> None:
    """What upstream's sort deleted, over shuffled inputs and moments, is among what Trimtab calls possible."""
    assert comparison.check("possible_victims", case) == []


def test_most_cases_with_one_recorded_skew_are_called_certain() -> None:
    """Calling nothing certain would never be wrong: at least four in five are."""
    single = [case.values[0] for case in POSSIBLE if len(case.values[0]["expected"]["zoneSkews"]) == 1]
    certain = [case for case in single if conform.answer("possible_victims", case)["certainSkew"] is not None]
    assert len(single) >= 10
    assert len(certain) >= 0.8 * len(single)


@pytest.mark.parametrize(
    ("field", "value"), [("always", ["p09"]), ("possible", []), ("certainSkew", 7)], ids=["always", "possible", "skew"]
)
def test_a_wrong_answer_about_possible_victims_is_found(field: str, value: Any) -> None:
    """The comparison can fail."""
    expected = {"always": ["p00"], "sometimes": ["p01"], "zoneSkews": [1]}
    right = {"always": ["p00"], "possible": ["p00", "p01"], "certainSkew": 1}
    assert comparison.differences("possible_victims", expected, right) == []
    assert comparison.differences("possible_victims", expected, {**right, field: value}) != []
