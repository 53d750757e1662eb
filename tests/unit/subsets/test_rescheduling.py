"""Adaptive: pods that wait too long, and subsets that were found full."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.subsets.topologies import NOON, at, counted, member, subset, topology, with_status
from trimtab.api.unitedtopology import (
    AdaptiveStrategy,
    ReturnStrategy,
    ScheduleStrategy,
    Shortage,
    UnitedTopology,
)
from trimtab.subsets.allocation import PodCreation, allocate
from trimtab.subsets.rescheduling import (
    FIRST_DURATION,
    LONGEST_DURATION,
    reschedule,
    unexpired,
    unschedulable_since,
    with_shortage,
)
from trimtab.testing.builders import PodBuilder, pod


def waiting(status: str = "False", reason: str = "Unschedulable") -> PodBuilder:
    """A pod whose scheduling has had this result since noon."""
    return pod("p").condition("PodScheduled", status, since="2026-03-01T12:00:00Z", reason=reason)


@pytest.mark.parametrize(
    ("subject", "waits"),
    [
        pytest.param(waiting(), True, id="no node was found"),
        pytest.param(pod("p"), False, id="not scheduled yet"),
        pytest.param(waiting(reason="SchedulingGated"), False, id="it is held back on purpose"),
        pytest.param(waiting(status="True"), False, id="a node was found"),
        pytest.param(waiting().on("n"), False, id="it has a node"),
        pytest.param(waiting().terminating(), False, id="it is terminating"),
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


# The bounds of shortages and capacity, to the second and to the pod.


@pytest.mark.parametrize(
    ("times", "want"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (20, 60)],
    ids=lambda number: str(number),
)
def test_a_subset_is_full_for_twice_as_long_each_time(times: int, want: int) -> None:
    """From a minute to an hour."""
    (found,) = with_shortage([Shortage(name="a", until=NOON, times=times - 1)] if times > 1 else [], "a", NOON)
    assert (found.until - NOON, found.times) == (timedelta(minutes=want), max(times, 1))


def test_a_subset_that_is_recorded_as_full_is_not_recorded_again_before_that_is_over() -> None:
    """At the very second it is; others stay as they are."""
    known = (Shortage(name="a", until=at(10), times=2), Shortage(name="b", until=at(99), times=1))
    assert with_shortage(known, "a", at(9)) == known
    other, again = with_shortage(known, "a", at(10))
    assert (other, again.name, again.times) == (known[1], "a", 3)
    assert [each.name for each in with_shortage(known, "c", at(9))] == ["a", "b", "c"]


def test_a_shortage_ends_at_its_second() -> None:
    """A subset that was full until now takes a pod now."""
    of = counted(topology(subset("a"), subset("b"), subset("c"), adaptive=True), member("p", "a"))
    full = msgspec.structs.replace(of.status, shortages=(Shortage(name="b", until=at(5), times=1),))
    for now, target in ((at(4), 2), (at(5), 1)):
        status = reschedule(with_status(of, full), member("p", "a"), now=now)
        assert status is not None
        assert [row.missing_reschedule for row in status.subset_statuses] == [int(each == target) for each in range(3)]


@pytest.mark.parametrize(
    ("row", "is_chosen"),
    [
        pytest.param({"missing_replicas": 1}, True, id="one pod is missing"),
        pytest.param({"missing_replicas": 0, "replicas": 2}, False, id="none is"),
        pytest.param({"missing_replicas": 1, "creating": {"x": NOON}}, False, id="it is reserved"),
        pytest.param({"missing_replicas": 1, "missing_reschedule": 1}, False, id="another one is expected there"),
        pytest.param({"missing_replicas": 2, "creating": {"x": NOON}}, True, id="one of two is reserved"),
        pytest.param(
            {"missing_replicas": 2, "creating": {"x": NOON}, "missing_reschedule": 1}, False, id="and one expected"
        ),
    ],
)
def test_a_subset_is_chosen_if_a_pod_is_missing_there(row: dict[str, Any], is_chosen: bool) -> None:
    """Reservations and pods that are expected from others are not missing."""
    of = counted(topology(subset("a"), subset("b", 2), adaptive=True), member("p", "a"))
    first, second = of.status.subset_statuses
    rows = (first, msgspec.structs.replace(second, **row))
    status = msgspec.structs.replace(of.status, subset_statuses=rows)
    assert (reschedule(with_status(of, status), member("p", "a"), now=NOON) is not None) is is_chosen


def test_a_pod_whose_deletion_was_announced_is_not_rescheduled() -> None:
    """Its successor is on its way."""
    of = counted(OF, member("p", "a"))
    status = reschedule(of, member("p", "a"), now=NOON)
    assert status is not None
    assert reschedule(with_status(of, status), member("p", "a"), now=NOON) is None


@pytest.mark.parametrize(
    ("adaptive", "seconds"),
    [
        pytest.param(AdaptiveStrategy(), 120, id="as long again as it was full"),
        pytest.param(AdaptiveStrategy(reschedule_critical_seconds=30), 180, id="and a wait in each of two subsets"),
        pytest.param(
            AdaptiveStrategy(reschedule_critical_seconds=30, return_=ReturnStrategy(settling_seconds=100)),
            380,
            id="and two settling times",
        ),
        pytest.param(None, 120, id="without settings"),
    ],
)
def test_a_shortage_is_kept_until_a_pod_has_been_everywhere_again(
    adaptive: AdaptiveStrategy | None, seconds: int
) -> None:
    """The second time, of two minutes, that ended at noon."""
    spec = topology(subset("a"), subset("b")).spec
    strategy = ScheduleStrategy(type="Adaptive", adaptive=adaptive)
    spec = msgspec.structs.replace(spec, schedule_strategy=strategy)
    known = (Shortage(name="a", until=NOON, times=2), Shortage(name="gone", until=at(9999), times=1))
    assert unexpired(known, spec, at(seconds - 1)) == known[:1]
    assert unexpired(known, spec, at(seconds)) == ()
    fixed = msgspec.structs.replace(spec, schedule_strategy=ScheduleStrategy(type="Fixed", adaptive=adaptive))
    assert unexpired(known, fixed, NOON) == ()


def test_a_shortage_without_a_number_of_times_is_kept_as_the_first_one() -> None:
    """The status may have been edited manually."""
    spec = topology(subset("a"), adaptive=True).spec
    known = (Shortage(name="a", until=NOON, times=0),)
    assert unexpired(known, spec, NOON + FIRST_DURATION - timedelta(seconds=1)) == known
    assert unexpired(known, spec, NOON + FIRST_DURATION) == ()
