"""Waits between two writes of one status: bounds, growth and jitter, without a server or a clock."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.meta import ObjectMeta
from trimtab.api.unitedtopology import TargetReference, UnitedTopology, UnitedTopologySpec, UnitedTopologyStatus
from trimtab.unitedtopology.admission import pacing

PACES = st.floats(min_value=0.0, max_value=60.0)
SEEDS = st.integers(min_value=0, max_value=2**32)


def version(number: str, counted: str = "7") -> UnitedTopology:
    """A UnitedTopology with a resource version, and how far its pods were counted."""
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return UnitedTopology(
        metadata=ObjectMeta(name="web", resource_version=number, creation_timestamp=created),
        spec=UnitedTopologySpec(
            target_ref=TargetReference(api_version="apps/v1", kind="Deployment", name="web"), subsets=()
        ),
        status=UnitedTopologyStatus(counted_version=counted),
    )


def test_the_first_write_sets_the_pace() -> None:
    """Without an earlier write there is nothing to average with."""
    assert pacing.smooth(None, 0.5) == 0.5


@given(PACES, PACES)
def test_the_pace_moves_towards_each_write(pace: float, duration: float) -> None:
    """It stays between the old pace and the latest write, and is nearer to the old one."""
    after = pacing.smooth(pace, duration)
    low, high = sorted((pace, duration))
    assert low <= after <= high or after == pytest.approx(low) or after == pytest.approx(high)
    assert abs(after - pace) <= abs(duration - pace) / 2 + 1e-9


def test_one_slow_write_does_not_set_the_pace() -> None:
    """One that takes ten times as long counts for less than a third."""
    assert pacing.smooth(0.01, 0.1) == pytest.approx(0.037)


@given(PACES, st.integers(min_value=1, max_value=50), SEEDS)
def test_after_a_conflict_the_wait_is_random_and_bounded(pace: float, conflicts: int, seed: int) -> None:
    """At most two writes, at most the limit, and shorter by the square of the conflicts in a row."""
    wait = pacing.after_conflict(pace, conflicts, random.Random(seed))
    assert 0 <= wait <= min(2 * pace, pacing.LONGEST_AFTER_CONFLICT) / conflicts**2


def test_the_wait_shrinks_with_the_square_of_conflicts() -> None:
    """No faster: with dozens of processes, those that have lost often would all be back at once."""
    waits = [pacing.after_conflict(0.01, conflicts, random.Random(3)) for conflicts in (1, 2, 3)]
    assert waits == pytest.approx([waits[0], waits[0] / 4, waits[0] / 9])


def test_processes_that_lost_together_are_spread() -> None:
    """Their waits cover the whole interval, so that they do not conflict again."""
    rng = random.Random(1)
    waits = [pacing.after_conflict(0.05, 1, rng) for _ in range(1000)]
    assert min(waits) < 0.005
    assert max(waits) > 0.095


def test_the_longest_wait_after_a_conflict_is_shorter_than_a_slow_write() -> None:
    """However slow the server is, the waits cover the interval up to 150 ms and no more."""
    rng = random.Random(1)
    waits = [pacing.after_conflict(10.0, 1, rng) for _ in range(1000)]
    assert 0.145 < max(waits) <= 0.15


@given(PACES, SEEDS)
def test_after_a_write_the_wait_is_about_one_write(pace: float, seed: int) -> None:
    """With jitter, and bounded however slow the server is."""
    wait = pacing.after_write(pace, random.Random(seed))
    bounded = min(pace, pacing.LONGEST_TURN)
    assert 0.7 * bounded <= wait <= 1.3 * bounded


@given(PACES, SEEDS)
def test_the_turn_of_others_is_bounded(pace: float, seed: int) -> None:
    """A few writes long, with jitter, and never longer than the limit allows."""
    wait = pacing.turn_timeout(pace, random.Random(seed))
    bounded = min(8 * pace, pacing.LONGEST_TURN)
    assert 0.7 * bounded <= wait <= 1.3 * bounded


def test_each_failure_in_a_row_adds_to_the_wait_up_to_a_limit() -> None:
    """A server that fails is called less and less often, but does not stay forgotten."""
    waits = [pacing.after_failure(failures) for failures in range(1, 100)]
    assert waits[0] == pytest.approx(0.1)
    assert waits == sorted(waits)
    assert waits[pacing.MOST_FAILURES - 1 :] == [pytest.approx(2.0)] * (100 - pacing.MOST_FAILURES)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(version("1"), version("2"), True, id="a new version with the same count is a webhook's"),
        pytest.param(version("1"), version("2", counted="9"), False, id="a new count is the controller's"),
        pytest.param(version("1"), version("1"), False, id="the same version"),
        pytest.param(None, version("1"), False, id="not cached before"),
        pytest.param(version("1"), None, False, id="deleted since"),
    ],
)
def test_writes_of_other_webhooks_are_recognized(
    before: UnitedTopology | None, after: UnitedTopology | None, want: bool
) -> None:
    """Only webhooks take turns."""
    assert pacing.has_other_webhook_written(before, after) is want
