"""Adaptive: pods that wait too long, and subsets that were found full."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.subsets.topologies import NOON, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import AdaptiveStrategy, ScheduleStrategy, UnitedTopology
from trimtab.subsets.allocation import PodCreation, allocate
from trimtab.subsets.rescheduling import (
    FIRST_DURATION,
    LONGEST_DURATION,
    reschedule,
    unschedulable_since,
    with_shortage,
)
from trimtab.testing.builders import PodBuilder, pod

WAITING = pod("p").condition("PodScheduled", "False", since="2026-03-01T12:00:00Z", reason="Unschedulable")


@pytest.mark.parametrize(
    ("subject", "waits"),
    [
        pytest.param(WAITING, True, id="no node was found"),
        pytest.param(pod("p"), False, id="not scheduled yet"),
        pytest.param(
            pod("p").condition("PodScheduled", "False", reason="SchedulingGated"),
            False,
            id="it is held back on purpose",
        ),
        pytest.param(
            pod("p").condition("PodScheduled", "False", reason="Unschedulable").on("n"), False, id="it has a node"
        ),
        pytest.param(
            pod("p").condition("PodScheduled", "False", reason="Unschedulable").terminating(),
            False,
            id="it is terminating",
        ),
    ],
)
def test_unschedulable_since(subject: PodBuilder, waits: bool) -> None:
    """By the pod's condition PodScheduled."""
    assert unschedulable_since(subject.build()) == (NOON if waits else None)


OF = topology(subset("a", 2), subset("b", 1), subset("c"), adaptive=True)


def test_a_pod_is_rescheduled_to_the_next_subset() -> None:
    """One value: its deletion, its successor's subset, and a shortage of its own."""
    of = counted(OF, member("p", "a"))
    status = reschedule(of, member("p", "a"), now=at(5))
    assert status is not None
    a, b, c = status.subset_statuses
    assert (a.deleting, b.missing_reschedule, c.missing_reschedule) == ({"p": at(5)}, 1, 0)
    assert [(each.name, each.until, each.times) for each in status.shortages] == [("a", at(5) + FIRST_DURATION, 1)]


def test_the_next_subset_with_free_capacity_is_chosen() -> None:
    """Full ones are skipped, and after the last comes the first."""
    full = counted(OF, member("p", "a"), member("q", "b"))
    status = reschedule(full, member("p", "a"), now=NOON)
    assert status is not None
    assert status.subset_statuses[2].missing_reschedule == 1
    last = counted(OF, member("p", "c"))
    status = reschedule(last, member("p", "c"), now=NOON)
    assert status is not None
    assert status.subset_statuses[0].missing_reschedule == 1


def test_a_pod_without_another_subset_stays() -> None:
    """Waiting is better than being deleted for nothing."""
    alone = topology(subset("a"), adaptive=True)
    assert reschedule(counted(alone, member("p", "a")), member("p", "a"), now=NOON) is None
    assert reschedule(counted(OF), member("p", "gone"), now=NOON) is None


def test_a_shortage_holds_for_all_revisions() -> None:
    """A rollout does not try it again before its time; after that it does."""
    of = counted(OF, member("p", "a"))
    status = reschedule(of, member("p", "a"), now=NOON)
    assert status is not None
    rolled_out = counted(with_status(of, status), member("q", "c", revision="r2"), revision="r2", now=at(1))
    assert [(each.name, each.times) for each in rolled_out.status.shortages] == [("a", 1)]
    fresh = [PodCreation("of-x", "r3")]
    assert allocate(rolled_out, fresh, now=at(2)).choices == {"of-x": 1}
    assert allocate(rolled_out, fresh, now=NOON + FIRST_DURATION).choices == {"of-x": 0}


def test_a_repeated_shortage_lasts_longer() -> None:
    """Twice as long each time, up to a limit; further pods in the meantime do not count."""
    first = with_shortage((), "a", NOON)
    assert with_shortage(first, "a", at(1)) == first
    second = with_shortage(first, "a", first[0].until)
    assert second[0].until - first[0].until == 2 * FIRST_DURATION
    shortages = second
    for _ in range(20):
        before = shortages[0].until
        shortages = with_shortage(shortages, "a", before)
    assert shortages[0].until - before == LONGEST_DURATION


def patient(seconds: int) -> UnitedTopology:
    """Two subsets without limits, between which pods are moved after so many seconds."""
    of = topology(subset("a"), subset("b"))
    strategy = ScheduleStrategy(type="Adaptive", adaptive=AdaptiveStrategy(reschedule_critical_seconds=seconds))
    return UnitedTopology(metadata=of.metadata, spec=msgspec.structs.replace(of.spec, schedule_strategy=strategy))


@pytest.mark.parametrize("seconds", [30, 300, 1800])
def test_a_pod_that_no_node_can_take_is_rescheduled_less_and_less_often(seconds: int) -> None:
    """It would be deleted every few minutes for ever, were a subset forgotten before the pod has been back there."""
    of, at_subset, since = patient(seconds), "a", 0
    moves = []
    for now in range(0, 86_400, 10):
        here = member("p", at_subset)
        of = counted(of, here, now=at(now), replicas=1)
        status = reschedule(of, here, now=at(now)) if now - since >= seconds else None
        if status is not None:
            of, at_subset, since = with_status(of, status), "b" if at_subset == "a" else "a", now
            moves.append(now)
    assert 6 <= len([now for now in moves if now >= 43_200]) <= 2 * 12


def test_a_shortage_that_is_not_repeated_is_removed() -> None:
    """After as long again as it was skipped, plus the time for a pod to wait in each subset."""
    of = patient(30)
    of = with_status(of, msgspec.structs.replace(of.status, shortages=with_shortage((), "a", NOON)))
    end = 2 * FIRST_DURATION.total_seconds() + 2 * 30
    assert counted(of, now=at(end - 1)).status.shortages
    assert not counted(of, now=at(end)).status.shortages
