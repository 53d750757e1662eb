"""How level a layout is, and how level it could be."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from bench.promise.comparison import PodFacts
from bench.promise.levels import announced_layouts, best_layout, skew

_ZONES = {f"{zone}{number}": zone for zone in "abc" for number in range(3)}


def _pod(name: str, node: str, *, ready: bool = True) -> PodFacts:
    return PodFacts(
        name=name,
        uid=name,
        node=node,
        phase=2,
        ready=ready,
        cost=0,
        related_on_node=0,
        ready_at=0,
        restarts=0,
        sidecar_restarts=0,
        created_at=0,
    )


def test_best_layout_is_as_level_as_any_choice_that_deletes_pods_that_are_not_ready_first() -> None:
    rng = random.Random(1)
    for _ in range(300):
        pods = [_pod(f"p{n}", rng.choice(list(_ZONES)), ready=rng.random() < 0.7) for n in range(rng.randint(2, 8))]
        delete = rng.randrange(len(pods))
        best = best_layout(pods, delete, _ZONES)
        assert sum(best.values()) == len(pods) - delete
        assert skew(best) == min(_skews(pods, delete))


def _skews(pods: list[PodFacts], delete: int) -> list[int]:
    """The skews of all choices that costs allow."""
    unready = sum(not pod.ready for pod in pods)
    choices = itertools.combinations(pods, delete)
    allowed = [choice for choice in choices if sum(not pod.ready for pod in choice) == min(unready, delete)]
    return [_skew_without(pods, choice) for choice in allowed]


def _skew_without(pods: list[PodFacts], choice: tuple[PodFacts, ...]) -> int:
    left = Counter(_ZONES[pod.node] for pod in pods if pod not in choice)
    return max(left[zone] for zone in "abc") - min(left[zone] for zone in "abc")


def test_layouts_are_read_from_a_warning() -> None:
    warning = "kept 6/7/7; stock would leave 10/10/0; 2 of 3 costs were written; nodes 1/2"
    assert announced_layouts(warning, 3) == [(7, 7, 6), (10, 10, 0)]
