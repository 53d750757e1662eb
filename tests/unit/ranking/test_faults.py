"""What keeps a policy from working: each fault with its field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ranking.groups import PAIRED
from trimtab.api import codec
from trimtab.api.scaledown import ScaleDownPolicy, ScaleDownPolicySpec
from trimtab.ranking.faults import faults, recomputation_faults, strategy_faults

CONTINUOUS = {"delivery": "Continuous", "carrier": "Annotation"}
ANTI_AFFINITY = {"strategies": [{"name": "AntiAffinity"}]}


def spec(**fields: Any) -> ScaleDownPolicySpec:
    """A spec, for a Deployment unless stated otherwise."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return codec.convert({"targetRef": target, **fields}, ScaleDownPolicySpec)


def paths(**fields: Any) -> list[str]:
    """The fields that are wrong in a policy."""
    return [error.path for error in faults(ScaleDownPolicy(spec=spec(**fields)))]


@pytest.mark.parametrize(
    ("fields", "kind", "is_fault"),
    [
        pytest.param({**CONTINUOUS, **ANTI_AFFINITY}, "Deployment", True, id="a built-in controller does not wait"),
        pytest.param({**CONTINUOUS, **ANTI_AFFINITY}, "", True, id="nor does any kind"),
        pytest.param({**CONTINUOUS, **ANTI_AFFINITY}, "CloneSet", False, id="a CloneSet does"),
        pytest.param(
            {**CONTINUOUS, **ANTI_AFFINITY, "carrier": "PodGroupCost"}, "Deployment", False, id="another carrier"
        ),
        pytest.param(
            {**CONTINUOUS, **ANTI_AFFINITY, "delivery": "OnScaleIntent"}, "Deployment", False, id="on a scale-down"
        ),
        pytest.param({**CONTINUOUS, "strategies": [{"name": "Balance"}]}, "Deployment", False, id="ranks that stay"),
    ],
)
def test_ranks_that_change_with_each_removal_need_a_controller_that_waits(
    fields: dict[str, Any], kind: str, is_fault: bool
) -> None:
    """The message names the strategy, and what to write instead."""
    found = list(recomputation_faults(spec(**fields), kind))
    assert [error.path for error in found] == (["spec.delivery"] if is_fault else [])
    assert all("AntiAffinity" in str(error) and (kind or "built-in kind") in str(error) for error in found)


def test_one_at_a_time_is_enough_to_need_a_controller_that_waits() -> None:
    """Although its ranks do not change."""
    policy = spec(**CONTINUOUS, strategies=[{"name": "Paired"}])
    (found,) = recomputation_faults(policy, "Deployment", PAIRED)
    assert "Paired" in str(found)


@pytest.mark.parametrize(
    ("milliseconds", "settle", "is_fault"),
    [
        pytest.param(0, 300, False, id="the budget of the configuration"),
        pytest.param(200, 0, True, id="what is reserved for the answer"),
        pytest.param(201, 0, False, id="a moment more"),
        pytest.param(500, 300, True, id="that and the settle time"),
        pytest.param(501, 300, False, id="a moment more than both"),
    ],
)
def test_a_budget_leaves_time_for_writing_costs(milliseconds: int, settle: int, is_fault: bool) -> None:
    """The message says how much it has to be."""
    policy = ScaleDownPolicy(spec=spec(budgetMilliseconds=milliseconds))
    found = list(faults(policy, settle_milliseconds=settle))
    assert [error.path for error in found] == (["spec.budgetMilliseconds"] if is_fault else [])
    assert all(f"write more than {settle + 200}, or 0" in str(error) for error in found)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["Probe"], [], id="one that asks"),
        pytest.param(["Probe", "Stated"], ["spec.strategies[1].name"], id="two that look at answers"),
        pytest.param(["Stated", "Balance", "Probe"], ["spec.strategies[2].name"], id="wherever they are"),
        pytest.param(["Stated", "Balance"], [], id="without a probe nothing is asked"),
        pytest.param(["Stated", "Stated"], [], id="however many read what pods state"),
    ],
)
def test_only_one_strategy_uses_what_pods_answer(names: list[str], want: list[str]) -> None:
    """A policy can configure only one kind of probe."""
    written = [{"name": name, "threshold": 5} for name in names]
    strategies = codec.convert({"strategies": written}, ScaleDownPolicySpec).strategies
    assert [error.path for error in strategy_faults(strategies)] == want


def test_a_policy_is_checked_as_a_whole() -> None:
    """Each fault is reported once, with its path."""
    assert paths() == []
    assert paths(strategies=[{"name": "Nonsense"}]) == ["spec.strategies[0].name"]
    assert paths(**CONTINUOUS, **ANTI_AFFINITY) == ["spec.delivery"]
    bad = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
    assert [path.partition("[")[0] for path in paths(targetRef=None, selector=bad)] == [
        "spec.selector.matchExpressions"
    ]
    assert paths(targetRef=None, selector={"matchLabels": {"app": "web"}}) == []
