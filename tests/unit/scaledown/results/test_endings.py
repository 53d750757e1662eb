"""Why a workload ended less level than was possible."""

from __future__ import annotations

import pytest

from trimtab.scaledown.metrics import HoldOutcome, MissCause
from trimtab.scaledown.results.endings import _cause
from trimtab.scaledown.results.open_plans import OpenPlan


def plan(
    *,
    is_complete: bool = True,
    is_rolling: bool = False,
    skipped: HoldOutcome | None = None,
    ready: dict[str, bool] | None = None,
) -> OpenPlan:
    """A plan that has ended."""
    made = OpenPlan("p", "u", 2, {}, {}, frozenset())
    made.is_complete, made.is_rolling, made.skipped, made.ready = is_complete, is_rolling, skipped, ready or {}
    return made


@pytest.mark.parametrize(
    ("ended", "misses", "want"),
    [
        pytest.param(plan(skipped=HoldOutcome.BUSY, is_rolling=True), {}, "busy", id="it was not delivered"),
        pytest.param(plan(is_rolling=True), {MissCause.LAG: 1}, "rollout", id="a rollout decides"),
        pytest.param(plan(), {MissCause.LAG: 0, MissCause.DELETED: 2}, "deleted", id="pods that others deleted"),
        pytest.param(plan(), {MissCause.LAG: 3}, "lag", id="costs that came too late"),
        pytest.param(plan(is_complete=False), {}, "unwritten", id="costs that were not written"),
        pytest.param(plan(ready={"a": True, "b": False}), {}, "earlier-criterion", id="one pod was not ready"),
        pytest.param(plan(ready={"a": True, "b": True}), {}, "unknown", id="all were ready"),
        pytest.param(plan(), {}, "unknown", id="nothing is known"),
    ],
)
def test_the_cause_is_the_first_that_applies(ended: OpenPlan, misses: dict[MissCause, int], want: str) -> None:
    """As a value of the metric and of the event."""
    assert _cause(ended, misses) == want
