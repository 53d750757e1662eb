"""From existing pods and the old status to the new status: one value, one write.

The counts of the old status are not used: active pods are counted anew, so that events that were lost, doubled or late
cannot make the numbers drift. Only the entries of `creating` and `deleting` carry over, and each follows the table in
`reservations`:

- A reservation is kept until its pod is observed (it is counted then, or has ended). If that takes longer than any
  creation can (`CREATION_LIMIT`), it is `overdue`: the caller does an uncached read for the pod and passes keys without
  one as `absent`.
- A deletion is kept while its pod is counted. It is removed with the pod, or reverted if the pod still exists after
  `DELETION_LIMIT`: the request was refused. A later pod of the same name, which a CloneSet may create, has a
  reservation of its own, and is counted instead of the one that was announced.
- A deletion of a pod that is only reserved is kept with the reservation; as the pod did exist, the uncached read may
  follow at once.

The pods come from a cache of any age, but not older than the one of the last recount (`countedVersion`): the pod of a
reservation that was removed because the pod was observed must be among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.subsets import rescheduling
from trimtab.subsets.members import Member
from trimtab.subsets.reservations import Event, State, after
from trimtab.subsets.statuses import Row, Table, pod_and_reservation

CREATION_LIMIT = timedelta(seconds=75)
"""An API server ends every request after 60 seconds, admission included; the rest is for clocks that differ."""
DELETION_LIMIT = timedelta(seconds=1.5)
"""How long a pod may still exist before its deletion counts as refused: the entry must be gone after two seconds."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The pods and the workload as a caller observed them."""

    members: Sequence[Member]
    replicas: int
    """The workload's size."""
    revision: str
    """The revision that the workload creates pods of now."""
    version: str
    """The resource version of the list or cache of pods."""
    absent: Collection[str] = ()
    """Keys of `creating` for which an uncached read, made after the status was read, found no pod."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of `creating` or `deleting`, for events."""

    revision: str
    subset: str
    key: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Recount:
    """The new status, what to report about it, and when to recount."""

    status: UnitedTopologyStatus
    expired: tuple[Entry, ...] = ()
    """Reservations whose pods do not exist."""
    reverted: tuple[Entry, ...] = ()
    """Deletions of pods that still exist."""
    overdue: tuple[str, ...] = ()
    """Keys of `creating` whose pods need an uncached read."""
    recheck: float | None = None
    """Seconds until time alone changes the result."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The cache is older than the last recount: it must reach this version first."""

    version: str


def recount(topology: UnitedTopology, observed: Observation, *, now: datetime) -> Recount | Stale:
    """The new status, or `Stale` if the cache is too old."""
    status = topology.status
    if _number(observed.version) < _number(status.counted_version):
        return Stale(status.counted_version)
    count = _Count(topology, observed, now)
    count.settle()
    made = count.table.frozen(
        observed_generation=topology.metadata.generation,
        revision=observed.revision,
        counted_version=_latest(status.counted_version, observed.members),
        shortages=rescheduling.unexpired(status.shortages, topology.spec, now),
    )
    return Recount(made, tuple(count.expired), tuple(count.reverted), tuple(count.overdue), count.recheck)


@dataclass(slots=True)
class _Count:
    """One recount."""

    topology: UnitedTopology
    observed: Observation
    now: datetime
    table: Table = field(init=False)
    expired: list[Entry] = field(default_factory=list)
    reverted: list[Entry] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    recheck: float | None = None
    _by_name: dict[str, Member] = field(init=False)
    _by_reservation: dict[str, Member] = field(init=False)
    _unannounced: set[str] = field(init=False)
    """Reservations of pods whose deletion was not announced."""
    _reserved_names: set[str] = field(init=False)
    """The pods of one row whose deletion was announced, and whose reservation still exists."""

    def __post_init__(self) -> None:
        self.table = Table(self.topology, replicas=self.observed.replicas)
        self._by_name = {member.name: member for member in self.observed.members}
        self._by_reservation = {member.reservation: member for member in self.observed.members if member.reservation}

    def settle(self) -> None:
        """Count, then apply the table of states to every entry."""
        self._count()
        keys = (pod_and_reservation(key) for _, row in self.table.all() for key in row.creating)
        self._unannounced = {reservation for name, reservation in keys if not name}
        for revision, row in self.table.all():
            row.creating = {
                key: since for key, since in row.creating.items() if self._is_reserved(revision, row, key, since)
            }
            self._reserved_names = {pod_and_reservation(key)[0] for key in row.creating}
            row.deleting = {
                name: since for name, since in row.deleting.items() if self._is_deleting(revision, row, name, since)
            }
        self._settle_rescheduling()

    def _count(self) -> None:
        self.table.rows(self.observed.revision)
        active = [member for member in self.observed.members if member.active and member.subset]
        counts = Counter((member.revision, member.subset) for member in active)
        for revision in dict.fromkeys(member.revision for member in active):
            self.table.rows(revision)
        for revision, row in self.table.all():
            row.replicas = counts[revision, row.name]
            row.missing = 0 if row.limit is None else row.limit - row.replicas

    def _is_reserved(self, revision: str, row: Row, key: str, since: datetime) -> bool:
        """Whether to keep a reservation."""
        name, reservation = pod_and_reservation(key)
        announced = row.deleting.get(name)
        event = self._event(self._by_reservation.get(reservation))
        if event is Event.UNSEEN and self._has_expired(
            key, announced or since, DELETION_LIMIT if announced else CREATION_LIMIT
        ):
            event = Event.ABSENT
            self.expired.append(Entry(revision, row.name, key, since))
        state = after(State.DELETING if announced else State.RESERVED, event)
        return state is State.RESERVED or (state is State.DELETING and event is Event.UNSEEN)

    def _is_deleting(self, revision: str, row: Row, name: str, since: datetime) -> bool:
        """Whether to keep the announcement of a deletion."""
        member = self._by_name.get(name)
        event = self._event(member) if member is not None or name in self._reserved_names else Event.ENDED
        if event is Event.ACTIVE and not self._is_announced(member, revision, row):
            event = Event.ENDED
        if event is Event.ACTIVE and self._is_over(since, DELETION_LIMIT):
            event = Event.DELETION_FAILED
            self.reverted.append(Entry(revision, row.name, name, since))
        return after(State.DELETING, event) is State.DELETING

    def _event(self, member: Member | None) -> Event:
        if member is None:
            return Event.UNSEEN
        return Event.ACTIVE if member.active else Event.ENDED

    def _is_announced(self, member: Member | None, revision: str, row: Row) -> bool:
        """Whether an announcement is of this pod: it is counted in that row, and not a later one of that name."""
        if member is None or member.reservation in self._unannounced:
            return False
        return (member.revision, member.subset) == (revision, row.name)

    def _has_expired(self, key: str, since: datetime, limit: timedelta) -> bool:
        """Whether the time for a pod to appear is over, and it certainly does not exist."""
        if not self._is_over(since, limit):
            return False
        if key in self.observed.absent:
            return True
        self.overdue.append(key)
        return False

    def _is_over(self, since: datetime, limit: timedelta) -> bool:
        left = (since + limit - self.now).total_seconds()
        if left > 0:
            self.recheck = left if self.recheck is None else min(self.recheck, left)
        return left <= 0

    def _settle_rescheduling(self) -> None:
        """Limit the pods to reschedule to those that the workload is missing."""
        rows = [row for _, row in self.table.all()]
        expected = sum(row.replicas + len(row.creating) - len(row.deleting) for row in rows)
        missing = max(0, self.observed.replicas - expected)
        for row in rows:
            row.reschedule = min(row.reschedule, missing)
            missing -= row.reschedule


def _latest(version: str, members: Iterable[Member]) -> str:
    return max((version, *(member.version for member in members)), key=_number)


def _number(version: str) -> int:
    """A version as a number; -1 if it is none."""
    return int(version) if version.isascii() and version.isdigit() else -1
