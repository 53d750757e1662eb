"""The brute force over moments and input orders, against sets that upstream's own sort chose."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bench.promise.comparison import JSON, SECOND, PodFacts, read_pods
from bench.promise.outcomes import moments, possible_outcomes, victim_sets

_VECTORS = Path(__file__).with_name("possible_victims.jsonl")
_ZONE = "topology.kubernetes.io/zone"
_CASES = [json.loads(line) for line in _VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["id"])
def test_recorded_sets_are_reproduced(case: JSON) -> None:
    """Every set that was seen is called possible, and the outcomes leave exactly the recorded skews."""
    given, expected = case["input"], case["expected"]
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][_ZONE] for node in given["nodes"]}
    pods = read_pods(given["pods"], has_related=given["related"])
    outcomes = possible_outcomes(pods, given["delete"], zones, (given["from"], given["to"]))
    assert outcomes.sets == {frozenset(names) for names in expected["sets"]}
    assert outcomes.skews == set(expected["zoneSkews"])


def _pod(name: str, ready_at: int, *, uid: str = "", created_at: int = 0) -> PodFacts:
    return PodFacts(
        name=name,
        uid=uid or name,
        node=f"node-{name}",
        phase=2,
        ready=True,
        cost=0,
        related_on_node=0,
        ready_at=ready_at,
        restarts=0,
        sidecar_restarts=0,
        created_at=created_at,
    )


def test_a_moment_is_tried_after_every_age_that_reaches_a_power_of_two() -> None:
    pods = [_pod("a", 0, created_at=0)]
    assert moments(pods, 3, 20) == [3, 4, 8, 16]


def test_the_result_depends_on_the_moment() -> None:
    """Ages of 7 and 8 s are in one bucket, where the smaller UID goes first; a second later the older pod left it."""
    pods = [_pod("a", 0), _pod("b", SECOND)]
    early, late = 8 * SECOND, 9 * SECOND
    rng = random.Random(0)
    assert victim_sets(pods, 1, early, rng) == {frozenset({"a"})}
    assert victim_sets(pods, 1, late, rng) == {frozenset({"b"})}


def test_the_result_depends_on_the_order_of_the_input() -> None:
    """Equal ready times fall through to the creation time: b before c by age, c before a and a before b by UID."""
    pods = [
        _pod("a", SECOND, uid="2"),
        _pod("b", 2 * SECOND, uid="3"),
        _pod("c", 2 * SECOND, uid="1", created_at=-100 * SECOND),
    ]
    sets = victim_sets(pods, 1, 8 * SECOND, random.Random(0))
    assert sets == {frozenset({name}) for name in "abc"}


def test_deleting_everything_leaves_no_choice() -> None:
    pods = [_pod("a", 0), _pod("b", SECOND)]
    assert victim_sets(pods, 2, 9 * SECOND, random.Random(0)) == {frozenset({"a", "b"})}
