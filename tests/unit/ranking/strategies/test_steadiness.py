"""Strategies that declare no recomputation: whoever comes or goes does not move the others.

What is promised, and to which strategies:

1. All of them: a pod that comes (and so is the youngest) moves nobody.
2. All of them: when the pod that ranks highest goes, nobody else moves.
3. Those that look at each pod by itself: whoever goes, nobody else moves.

`Balance` and `Youngest` count older pods, so that 3 does not hold for them (see `balance`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.groups import aged, view_of
from trimtab.api.annotations import STATED_COST
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking.combination import combine
from trimtab.ranking.strategies import STRATEGIES
from trimtab.ranking.strategies.signals import signal_of
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import PodBuilder, cluster

STEADY = [name for name, factory in STRATEGIES.items() if not factory({}).recompute]
POINTWISE = [name for name in STEADY if name not in ("Balance", "Youngest")]
NODES = ["a", "b", "x", "tainted", "marked", ""]

GROUPS = st.lists(
    st.tuples(st.sampled_from(NODES), st.integers(0, 22), st.integers(-5, 30), st.floats(0, 2)), min_size=2, max_size=12
)
THRESHOLDS = st.integers(1, 8)


def made(name: str, where: str, hour: int, cost: int) -> PodBuilder:
    """A pod, assigned or not, that states a cost."""
    built = aged(name, hour).annotations({STATED_COST: str(cost)})
    return built.on(where) if where else built


def group_of(pods: list[tuple[str, int, int, float]]) -> tuple[Snapshot, dict[str, float]]:
    """A cluster with these pods, and a value for each to be handed in."""
    zones = cluster("z1: a b", "z2: x", "z3: tainted marked")
    zones.node("tainted").taint("k").taint("l", effect="NoExecute")
    zones.node("marked").taint("k", effect="PreferNoSchedule")
    named = {f"p{number}": pod for number, pod in enumerate(pods)}
    zones.with_pods(*(made(name, where, hour, cost) for name, (where, hour, cost, _) in named.items()))
    return zones.snapshot(), {name: value for name, (*_, value) in named.items()}


def capped(name: str, threshold: int, snapshot: Snapshot, values: dict[str, float]) -> dict[str, float]:
    """The capped rank of each pod by one strategy."""
    scores = {pod: 50 * value for pod, value in values.items()}
    view = view_of(snapshot, usage=values, scores=scores, stated=values if name == "Probe" else {})
    signal = signal_of(STRATEGIES[name]({}))
    if signal is not None:
        view = replace(view, signals={signal: {f"default/{pod}": value for pod, value in values.items()}})
    combined = combine([StrategySpec(name=name, threshold=threshold)], view)
    return dict(zip(combined.members, combined.opinions[0].capped.tolist(), strict=True))


def without(found: dict[str, float], gone: str) -> dict[str, float]:
    """The ranks of all others."""
    return {key: rank for key, rank in found.items() if key != gone}


@pytest.mark.parametrize("name", STEADY)
@settings(deadline=None, max_examples=25)
@given(pods=GROUPS, threshold=THRESHOLDS, where=st.sampled_from(NODES))
def test_a_pod_that_comes_moves_nobody(name: str, pods: list[Any], threshold: int, where: str) -> None:
    """1. A new pod is younger than all who are there."""
    snapshot, values = group_of(pods)
    before = capped(name, threshold, snapshot, values)
    snapshot.put(made("newcomer", where, 23, 3).build())
    after = capped(name, threshold, snapshot, values | {"newcomer": 0.5})
    assert without(after, "default/newcomer") == before


@pytest.mark.parametrize("name", STEADY)
@settings(deadline=None, max_examples=25)
@given(pods=GROUPS, threshold=THRESHOLDS)
def test_when_the_first_in_turn_goes_nobody_moves(name: str, pods: list[Any], threshold: int) -> None:
    """2. So one set of ranks serves a whole scale-down."""
    snapshot, values = group_of(pods)
    uncapped = capped(name, 1_000_000, snapshot, values)
    gone = max(uncapped, key=lambda key: uncapped[key])
    before = capped(name, threshold, snapshot, values)
    snapshot.drop(Pod, *gone.split("/"))
    assert capped(name, threshold, snapshot, values) == without(before, gone)


@pytest.mark.parametrize("name", POINTWISE)
@settings(deadline=None, max_examples=25)
@given(pods=GROUPS, threshold=THRESHOLDS, at=st.integers(0, 11))
def test_whoever_goes_moves_nobody(name: str, pods: list[Any], threshold: int, at: int) -> None:
    """3. A rank that depends on the pod alone stays what it is."""
    snapshot, values = group_of(pods)
    before = capped(name, threshold, snapshot, values)
    gone = f"default/p{at % len(pods)}"
    snapshot.drop(Pod, *gone.split("/"))
    assert capped(name, threshold, snapshot, values) == without(before, gone)
