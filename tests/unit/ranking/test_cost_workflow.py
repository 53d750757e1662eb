"""The cost proposal's workflow example, step by step, and its test plan as far as pure functions go.

Twelve pods on three zones of two nodes each: P1 to P4 in AZ1, P5 to P8 in AZ2, P9 to P12 in AZ3, created in the order
of their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ranking.groups import aged, view_of
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking.combination import Combined, combine
from trimtab.ranking.costs import Carrier, project
from trimtab.snapshot import Snapshot
from trimtab.testing.builders import cluster

BALANCE = [StrategySpec(name="Balance")]
ZONES = {"AZ1": ("a1", "a2"), "AZ2": ("b1", "b2"), "AZ3": ("c1", "c2")}
ZONE_OF = {node: zone for zone, nodes in ZONES.items() for node in nodes}


def twelve() -> Snapshot:
    """The example's cluster."""
    nodes = [nodes[number % 2] for nodes in ZONES.values() for number in range(4)]
    pods = [aged(f"P{number}", 1, minute=number).on(node) for number, node in enumerate(nodes, start=1)]
    return cluster(*(f"{zone}: {' '.join(nodes)}" for zone, nodes in ZONES.items())).with_pods(*pods).snapshot()


def ranks(snapshot: Snapshot, policy: Iterable[StrategySpec] = BALANCE) -> dict[str, float]:
    """The ranks of all pods by name."""
    combined = combine(list(policy), view_of(snapshot))
    return {key.partition("/")[2]: rank for key, rank in zip(combined.members, combined.total.tolist(), strict=True)}


def candidates(found: dict[str, float], carrier: Carrier = Carrier.ANNOTATION) -> set[str]:
    """Those of whom a controller that reads this carrier takes one next."""
    costs = dict(zip(found, project(list(found.values()), carrier).tolist(), strict=True))
    first = min(costs.values()) if carrier is Carrier.ANNOTATION else max(costs.values())
    return {name for name, cost in costs.items() if cost == first}


def skew(snapshot: Snapshot) -> int:
    """By how many pods the fullest zone exceeds the emptiest."""
    pods = [pod for pod in snapshot.pods.objects if pod is not None]
    sizes = Counter(ZONE_OF[pod.spec.node_name] for pod in pods)
    return max(sizes.values(), default=0) - min(sizes[zone] for zone in ZONES)


@pytest.mark.parametrize("carrier", Carrier)
def test_the_workflow_example(carrier: Carrier) -> None:
    """Ranks 1 to 4 in each zone; P8 goes, the ranks stand, P4 or P12 goes next; the skew never exceeds 1."""
    snapshot = twelve()
    first = ranks(snapshot)
    assert first == {f"P{number}": (number - 1) % 4 + 1 for number in range(1, 13)}
    assert candidates(first, carrier) == {"P4", "P8", "P12"}
    assert skew(snapshot) == 0

    snapshot.drop(Pod, "default", "P8")
    assert skew(snapshot) == 1
    second = ranks(snapshot)
    assert second == {name: rank for name, rank in first.items() if name != "P8"}, "nothing had to be recomputed"
    assert candidates(second, carrier) == {"P4", "P12"}

    snapshot.drop(Pod, "default", "P4")
    assert skew(snapshot) == 1
    assert candidates(ranks(snapshot), carrier) == {"P12"}


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_the_zones_stay_level_down_to_nothing(random: Any) -> None:
    """Whichever of the candidates a controller takes, on ranks computed once, at every step."""
    snapshot = twelve()
    once = ranks(snapshot)
    while once:
        gone = random.choice(sorted(candidates(once)))
        del once[gone]
        snapshot.drop(Pod, "default", gone)
        assert skew(snapshot) <= 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=12), st.sampled_from(Carrier))
def test_scaling_down_respects_the_ranking(stated: list[int], carrier: Carrier) -> None:
    """Test plan, first item: pods go in the order of their ranks, to the last one, whatever the ranks are."""
    values = {f"P{number}": value for number, value in enumerate(stated, start=1)}
    view = view_of(twelve(), stated=values)
    policy = [StrategySpec(name="Stated", args={"order": "HighestFirst"})]
    costs = project(combine(policy, view).total, carrier)
    taken = np.argsort(costs if carrier is Carrier.ANNOTATION else -costs, kind="stable")
    sequence = [stated[at] for at in taken.tolist()]
    assert sequence == sorted(stated, reverse=True)


def crowded() -> Snapshot:
    """Five pods that refuse one another: two share a1, two share b1, one is alone."""
    where = {"P1": "a1", "P2": "a1", "P3": "b1", "P4": "b1", "P5": "c1"}
    pods = [aged(name, 1).on(node).avoids("host") for name, node in where.items()]
    return cluster("AZ1: a1", "AZ2: b1", "AZ3: c1").with_pods(*pods).snapshot()


def names(combined: Combined, wanted: int) -> list[str]:
    """Who goes, of so many that are wanted, as far as these ranks allow."""
    order = np.argsort(project(combined.total, Carrier.ANNOTATION), kind="stable")
    keys = list(combined.members)
    return [keys[at].partition("/")[2] for at in order[: combined.allowance(wanted)].tolist()]


def test_where_ranks_must_be_recomputed_one_goes_at_a_time() -> None:
    """Test plan, third item: not two at once, and none before the ranks have been recomputed."""
    snapshot = crowded()
    policy = [StrategySpec(name="AntiAffinity")]
    combined = combine(policy, view_of(snapshot))
    assert names(combined, wanted=2) == ["P1"], "asked for two, one goes"

    snapshot.drop(Pod, "default", "P1")
    assert not combined.holds_for(view_of(snapshot)), "the old ranks would take P2 next"

    again = combine(policy, view_of(snapshot))
    assert again.holds_for(view_of(snapshot))
    assert names(again, wanted=1) == ["P3"]
    assert ranks(snapshot, policy) == {"P2": 0, "P3": 2, "P4": 2, "P5": 0}


def test_where_ranks_stand_any_number_goes() -> None:
    """Ranks that need no recomputation serve a scale-down of any size, and the next one as well."""
    snapshot = twelve()
    combined = combine(BALANCE, view_of(snapshot))
    assert set(names(combined, wanted=3)) == {"P4", "P8", "P12"}
    snapshot.drop(Pod, "default", "P8")
    assert combined.holds_for(view_of(snapshot))
