"""Adaptive: pods that no node of their subset can take.

The pod is deleted, and its successor is expected in the next subset (`missingReschedule`). The subset that had no node
for it is recorded as full (`shortages`), for all revisions, and skipped for `FIRST_DURATION`, twice as long each time
that it is found full again, at most `LONGEST_DURATION`. If it is not found full for as long again after that, the
record is removed; but not before a pod has had the time to wait in each of the subsets once more. Otherwise a pod that
finds no node anywhere would be rescheduled for ever, where it waits longer than subsets are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Shortage, UnitedTopology, UnitedTopologySpec, UnitedTopologyStatus
from trimtab.subsets.members import Member
from trimtab.subsets.statuses import Row, Table

FIRST_DURATION = timedelta(minutes=1)
LONGEST_DURATION = timedelta(hours=1)
_MOST_DOUBLINGS = 10


def unschedulable_since(pod: Pod) -> datetime | None:
    """Since when an active pod has been unschedulable; None if it is not."""
    condition = pod.status.condition("PodScheduled")
    if condition is None or not pod.active or pod.spec.node_name:
        return None
    if condition.status != "False" or condition.reason != "Unschedulable":
        return None
    return condition.last_transition_time


def reschedule(topology: UnitedTopology, member: Member, *, now: datetime) -> UnitedTopologyStatus | None:
    """The status that expects a pod's successor in another subset; None if no other has free capacity.

    The same write adds the pod to `deleting`, so that its successor counts as missing from then on.
    """
    table = Table(topology)
    row = table.row(member.revision, member.subset)
    if row is None or member.name in row.deleting:
        return None
    shortages = with_shortage(topology.status.shortages, member.subset, now)
    full = {each.name for each in shortages if each.until > now}
    target = next((other for other in _others(table.rows(member.revision), row) if other.name not in full), None)
    if target is None:
        return None
    row.deleting[member.name] = now
    target.reschedule += 1
    return table.frozen(shortages=shortages)


def with_shortage(shortages: Sequence[Shortage], subset: str, now: datetime) -> tuple[Shortage, ...]:
    """The shortages with this subset; while it is recorded as full already, nothing changes."""
    known = next((each for each in shortages if each.name == subset), None)
    if known is not None and known.until > now:
        return tuple(shortages)
    times = known.times + 1 if known is not None else 1
    made = Shortage(name=subset, until=now + _duration(times), times=times)
    return (*(each for each in shortages if each.name != subset), made)


def unexpired(shortages: Sequence[Shortage], spec: UnitedTopologySpec, now: datetime) -> tuple[Shortage, ...]:
    """The shortages that are still to be kept."""
    strategy = spec.schedule_strategy
    names = {subset.name for subset in spec.subsets} if strategy.type == "Adaptive" else set()
    adaptive = strategy.adaptive
    seconds = adaptive.reschedule_critical_seconds if adaptive is not None else None
    round_trip = timedelta(seconds=seconds or 0) * len(spec.subsets)
    if adaptive is not None and adaptive.return_ is not None:  # the next failure follows after two settling times
        round_trip += timedelta(seconds=2 * adaptive.return_.settling_seconds)
    return tuple(
        each for each in shortages if each.name in names and now < each.until + _duration(each.times) + round_trip
    )


def _duration(times: int) -> timedelta:
    return min(FIRST_DURATION * (1 << min(max(times, 1) - 1, _MOST_DOUBLINGS)), LONGEST_DURATION)


def _others(rows: Sequence[Row], row: Row) -> Iterator[Row]:
    """The other subsets with free capacity, from the next one on and around to the one before."""
    at = next(index for index, each in enumerate(rows) if each is row)
    for other in (*rows[at + 1 :], *rows[:at]):
        if other.limit is None or other.missing - len(other.creating) - other.reschedule > 0:
            yield other
