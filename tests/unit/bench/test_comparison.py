"""The harness's own version of upstream's comparison, against what upstream answered."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.promise.comparison import JSON, SECOND, age_scale, deletion_cost, goes_before, nanoseconds, read_pods

_VECTORS = Path(__file__).parents[2] / "vectors" / "active_pods_sort.jsonl"


def _cases() -> list[JSON]:
    """Recorded orders without contradictions, with the feature gates of today."""
    cases = [json.loads(line) for line in _VECTORS.read_text().splitlines()]
    return [case for case in cases if _is_comparable(case)]


def _is_comparable(case: JSON) -> bool:
    given, expected = case["input"], case["expected"]
    return (
        expected.get("strictWeakOrder", False)
        and given.get("now") is not None
        and all(given["featureGates"].values())
        and "groups" in expected
    )


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_pods_of_an_earlier_group_go_before_those_of_later_groups(case: JSON) -> None:
    given = case["input"]
    ranks = case["expected"]["ranks"]
    pods = read_pods(given["pods"], has_related=False)
    facts = {pod.name: replace(pod, related_on_node=ranks[pod.name]) for pod in pods}
    now = _now(given["now"])
    for earlier, later in itertools.pairwise(case["expected"]["groups"]):
        for one, other in itertools.product(earlier, later):
            assert goes_before(facts[one], facts[other], now)
            assert not goes_before(facts[other], facts[one], now)


def test_related_pods_on_a_node_are_counted_as_recorded() -> None:
    cases = [
        case for case in _cases() if case["input"]["relatedIncludesPods"] and not case["input"]["extraRelatedPods"]
    ]
    for case in cases:
        facts = read_pods(case["input"]["pods"], has_related=True)
        assert {pod.name: pod.related_on_node for pod in facts} == case["expected"]["ranks"]
    assert cases


def _now(text: str) -> int:
    """RFC 3339 with nanoseconds."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = nanoseconds(f"{whole}Z")
    assert seconds is not None
    return seconds + int(fraction.ljust(9, "0") or 0)


@pytest.mark.parametrize(
    ("age", "scale"), [(-5, -1), (0, -1), (1, 0), (2, 1), (3, 1), (4, 2), (2**33 - 1, 32), (2**33, 33)]
)
def test_age_scale_is_the_whole_binary_logarithm(age: int, scale: int) -> None:
    assert age_scale(7 * SECOND, 7 * SECOND + age) == scale


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        pytest.param("-2147483648", -(2**31), id="the smallest"),
        pytest.param("2147483648", 0, id="too large counts as none"),
        pytest.param("+10", 0, id="a plus sign counts as none"),
        pytest.param("008", 0, id="leading zeros count as none"),
        pytest.param("-05", -5, id="but not after a minus sign"),
        pytest.param("0", 0, id="zero"),
    ],
)
def test_costs_are_read_as_upstream_reads_them(text: str, cost: int) -> None:
    metadata: dict[str, Any] = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": text}}
    assert deletion_cost({"metadata": metadata}) == cost
