"""The ranks of a group, the costs that follow from them, and how long missing ranks are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.ranking.groups import PAIRED
from trimtab.api.annotations import fingerprint
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec, WhenUnranked
from trimtab.kube.clocks import SECOND
from trimtab.ranking.costs import Band, Carrier, Level
from trimtab.ranking.strategies import Ranks, View
from trimtab.scaledown.continuous.assessment import (
    Assessment,
    Patience,
    assess,
    assess_explicit,
    costs,
    drifts,
    is_sampled,
    patience,
    pod_costs,
)
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch
from trimtab.scaledown.sources import Values
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import cluster, pod


def named(*names: str) -> list[Pod]:
    """Pods of these names."""
    return [pod(name).build() for name in names]


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(Assessment({"default/a": 1.0}), True, id="all ranked"),
        pytest.param(Assessment({}, {"default/a": ("Idle",)}), False, id="one is not"),
        pytest.param(Assessment(fault="no"), False, id="a strategy failed"),
    ],
)
def test_an_assessment_is_complete_if_every_pod_has_a_rank(found: Assessment, want: bool) -> None:
    """And nothing failed."""
    assert found.is_complete is want


def test_strategies_rank_the_pods_that_the_snapshot_has() -> None:
    """One that the snapshot has not seen yet is left out."""
    made = cluster("a: a1", "b: b1").running("a1", "a1", "b1")
    view = made.snapshot()
    pods = [*made.pods(), *named("unseen")]
    found = assess(pods, (StrategySpec(name="Balance"),), Values(), view, 0)
    assert set(found.ranks) == {each.key for each in made.pods()}
    assert found.is_complete
    ranks = found.ranks
    assert ranks["default/pod-00"] != ranks["default/pod-01"]


def test_ranks_of_which_only_the_first_holds_are_recomputed() -> None:
    """Although a removal does not change them: a CloneSet must see that they are of the pods that are left."""
    made = cluster("a: a1").running("a1", "a1")
    found = assess(made.pods(), (StrategySpec(name="Paired"),), Values(), made.snapshot(), 0, PAIRED)
    assert found.is_complete
    assert found.recompute


class Measured:
    """Ranks pods by a value that is no whole number."""

    recompute = False
    one_at_a_time = False

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The same for all."""
        return np.full(len(view.pods(rows)), 2.7)


@pytest.mark.parametrize(
    ("name", "want"),
    [pytest.param("Idle", 3.0, id="sampled"), pytest.param("Other", 2.7, id="by the snapshot alone")],
)
def test_ranks_by_samples_are_rounded(name: str, want: float) -> None:
    """No two samples are the same, and each cost that changes is a write."""
    made = cluster("a: a1").running("a1")
    registry: dict[str, Any] = {name: lambda _: Measured()}
    found = assess(made.pods(), (StrategySpec(name=name),), Values(), made.snapshot(), 0, registry)
    assert found.ranks == {"default/pod-00": want}


def test_a_strategy_that_fails_is_a_fault() -> None:
    """Reported in its own words."""
    found = assess([], (StrategySpec(name="Nonsense"),), Values(), cluster("a: a1").snapshot(), 0)
    assert "Nonsense" in found.fault
    assert found.ranks == {}


@pytest.mark.parametrize(
    ("names", "sampled", "drifting"),
    [
        pytest.param(("Balance",), False, False, id="by the snapshot alone"),
        pytest.param(("Balance", "Idle"), True, True, id="by usage"),
        pytest.param(("Probe",), True, True, id="by an answer"),
        pytest.param(("Scheduled", "Balance"), False, True, id="by a scheduler's score"),
        pytest.param((), False, False, id="none"),
    ],
)
def test_ranks_by_samples_change_by_themselves(names: tuple[str, ...], sampled: bool, drifting: bool) -> None:
    """They are rounded, and computed again after a while."""
    strategies = [StrategySpec(name=name) for name in names]
    assert (is_sampled(strategies), drifts(strategies)) == (sampled, drifting)


def test_explicit_ranks_leave_out_pods_that_have_none() -> None:
    """And ranks of pods that are not of the group."""
    found = assess_explicit(named("a", "b"), {"default/a": 3.0, "default/x": 1.0})
    assert (found.ranks, found.unranked) == ({"default/a": 3.0}, {"default/b": ("Explicit",)})


def test_costs_are_those_of_the_ranked_pods_in_their_bands() -> None:
    """Higher ranks go first: the lower cost, or the higher, as the carrier counts."""
    pods, found = named("a", "b", "c"), Assessment({"default/a": 1.0, "default/b": 2.0})
    assert costs(pods, found, Carrier.ANNOTATION, None) == {"default/a": -1, "default/b": -2}
    assert costs(pods, found, Carrier.ALPHA_ANNOTATION, None) == {"default/a": 1, "default/b": 2}
    band = Band(Level.GUARANTEED, 0, 2)
    banded = costs(pods, found, Carrier.ANNOTATION, {"default/a": band})
    assert banded == {"default/a": band.centre - 1, "default/b": -2}


def test_present_costs_are_kept_where_they_are_in_order() -> None:
    """Those of the policy, on the pods or in the object; what another writer set is not one of them."""
    found = Assessment({"default/a": 1.0, "default/b": 2.0})
    present = {"a": 5, "b": 9}
    kept = {"default/a": 5, "default/b": 9}
    assert costs(named("a", "b"), found, Carrier.POD_GROUP_COST, None, present) == kept
    assert costs(named("a", "b"), found, Carrier.POD_GROUP_COST, None) == {"default/a": 1, "default/b": 2}
    written = []
    for each, cost in zip(named("a", "b"), (-5, -9), strict=True):
        patch = apply_policy_patch(PolicyCost(each, "p", Carrier.ANNOTATION, cost))
        assert patch is not None
        written.append(pod(each.metadata.name).annotations(patch["metadata"]["annotations"]).build())
    assert costs(written, found, Carrier.ANNOTATION, None) == {"default/a": -5, "default/b": -9}
    foreign = [pod("a").cost(-5).build(), pod("b").cost(-9).build()]
    assert costs(foreign, found, Carrier.ANNOTATION, None) == {"default/a": -1, "default/b": -2}


def test_best_effort_subsets_are_not_mixed() -> None:
    """A later one goes before an earlier one whatever the ranks; within one the ranks decide; others keep theirs."""
    pods = named("first", "second", "third", "fourth")
    ranks = {"default/first": 9.0, "default/second": 1.0, "default/third": 2.0, "default/fourth": 2.0}
    bands = {
        "default/first": Band(Level.BEST_EFFORT, 0, 2),
        "default/second": Band(Level.BEST_EFFORT, 1, 2),
        "default/third": Band(Level.BEST_EFFORT, 1, 2),
        "default/fourth": Band(Level.BEST_EFFORT, 1, 2),
    }
    found = costs(pods, Assessment(ranks), Carrier.ALPHA_ANNOTATION, bands)
    assert found["default/first"] < found["default/second"] < found["default/third"] == found["default/fourth"]
    alike = {key: Band(Level.GUARANTEED, 0, 2) for key in ranks}
    same = costs(pods, Assessment(ranks), Carrier.ANNOTATION, alike)
    assert [alike[key].centre - cost for key, cost in same.items()] == [9, 1, 2, 2]


def test_pod_costs_have_a_fingerprint_where_ranks_must_be_recomputed() -> None:
    """Of the pods that were ranked together."""
    wanted = {"default/a": 3, "default/b": 4}
    plain = pod_costs(named("a", "b", "c"), wanted, "shop/web", Carrier.ANNOTATION, recompute=False)
    assert [(each.pod.key, each.policy, each.cost, each.among) for each in plain] == [
        ("default/a", "shop/web", 3, None),
        ("default/b", "shop/web", 4, None),
    ]
    among = {each.among for each in pod_costs(named("a", "b", "c"), wanted, "p", Carrier.ANNOTATION, recompute=True)}
    assert among == {fingerprint(["a", "b"])}


@pytest.mark.parametrize(
    ("action", "elapsed", "want"),
    [
        pytest.param("Fallback", 0.0, Patience(waits=False), id="no wait at all"),
        pytest.param("Wait", 0.0, Patience(waits=True, seconds=30.0), id="from the beginning"),
        pytest.param("Wait", 29.5, Patience(waits=True, seconds=0.5), id="half a second is left"),
        pytest.param("Wait", 30.0, Patience(waits=False), id="just over"),
        pytest.param("Wait", 99.0, Patience(waits=False), id="long over"),
    ],
)
def test_missing_ranks_are_waited_for_as_long_as_the_policy_says(action: str, elapsed: float, want: Patience) -> None:
    """Counted from when they were first missing."""
    rule = WhenUnranked(action=action, timeout_seconds=30)  # type: ignore[arg-type]
    assert patience(rule, 5 * SECOND, 5 * SECOND + round(elapsed * SECOND)) == want


def test_a_rank_that_is_no_number_is_refused_in_subsets_too() -> None:
    """An order with a gap in it is none."""
    bands = {f"default/{name}": Band(Level.BEST_EFFORT, at, 2) for at, name in enumerate("ab")}
    ranks = {"default/a": float("nan"), "default/b": 1.0}
    with pytest.raises(ValueError, match="wait for its rank"):
        costs(named("a", "b"), Assessment(ranks), Carrier.ANNOTATION, bands)
