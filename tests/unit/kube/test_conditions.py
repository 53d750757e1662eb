"""Conditions of a status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trimtab.api.apps import DeploymentCondition
from trimtab.api.meta import Condition
from trimtab.kube import conditions

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


def made(status: str, reason: str, at: datetime = LATER, message: str = "new") -> Condition:
    """A condition of type Ready."""
    return Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=at)


OLD = made("True", "Fine", EARLIER, "old")
OTHER = Condition(type="Other", status="True")


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(made("True", "Fine"), OLD, id="what was said before stays, message and time"),
        pytest.param(
            made("True", "Better"),
            made("True", "Better", EARLIER),
            id="another reason keeps the time of the transition",
        ),
        pytest.param(made("False", "Broken"), made("False", "Broken"), id="another status is a transition"),
    ],
)
def test_a_condition_is_set(new: Condition, want: Condition) -> None:
    """An unchanged condition stays, and so do the others."""
    found = conditions.put((OLD, OTHER), new)
    assert conditions.find(found, "Ready") == want
    assert conditions.find(found, "Other") == OTHER
    assert len(found) == 2


def test_a_condition_is_dropped() -> None:
    """Dropping what is not there changes nothing."""
    assert conditions.drop((OLD, OTHER), "Ready") == (OTHER,)
    assert conditions.drop((OTHER,), "Ready") == (OTHER,)


def test_conditions_are_written_with_every_field() -> None:
    """Names and times are as an API server takes them, and what is empty is left out."""
    condition = DeploymentCondition(
        type="Progressing", status="True", reason="Why", last_transition_time=EARLIER, last_update_time=LATER
    )
    assert conditions.trees((condition,)) == [
        {
            "type": "Progressing",
            "status": "True",
            "reason": "Why",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "lastUpdateTime": "2026-01-02T00:00:00Z",
        }
    ]


def test_a_moment_has_whole_seconds() -> None:
    """Objects carry no fractions, and what is compared with them must not either."""
    assert conditions.moment(1_767_225_600_999_999_999) == EARLIER
