"""From the pods that are there and the status as it was, to the status as it should be: one value, one write.

Nothing is added to or taken from a number that was there before: what is active is counted anew, so that an event that
was lost, doubled or late cannot make the numbers drift. Only the entries of `creating` and `deleting` have a memory,
and each of them goes by the table in `reservations`:

- A reservation is kept until its pod is seen (it is counted then, or was seen to have ended). If that takes longer than
  any creation can (`CREATION_LIMIT`), it is `overdue`: the caller looks for the pod live and hands in what is not there
  as `absent`.
- A deletion is kept while its pod is counted. It goes with the pod, or is taken back if the pod lives on after
  `DELETION_LIMIT`: whoever asked was refused. A later pod of the same name, which a CloneSet may make, has a
  reservation of its own, and counts in place of the one that was announced.
- A deletion of a pod that is only reserved is kept with the reservation; as the pod did exist, it may be looked for at
  once.

The pods come from a cache, which may be as old as it likes, but not older than the one that was counted from last
(`countedVersion`): a reservation that was let go because its pod was seen must not be missed as a pod now.
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
"""How long a pod may live on before its deletion counts as refused: the trace is to be gone after two seconds."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the controller sees."""

    members: Sequence[Member]
    replicas: int
    """The workload's size."""
    revision: str
    """The revision that the workload creates pods of now."""
    version: str
    """How far the view of the pods has come."""
    absent: Collection[str] = ()
    """Keys of `creating` that a live read, made after the status was read, did not find a pod for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of `creating` or `deleting`, for telling people."""

    revision: str
    subset: str
    key: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Recount:
    """The new status, and what there is to say about it."""

    status: UnitedTopologyStatus
    expired: tuple[Entry, ...] = ()
    """Reservations that nobody came for."""
    taken_back: tuple[Entry, ...] = ()
    """Deletions of pods that live on."""
    overdue: tuple[str, ...] = ()
    """Keys of `creating` to look for live."""
    recheck: float | None = None
    """Seconds until time alone changes the answer."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The cache is older than the last count: it must see this version first."""

    version: str


def recount(topology: UnitedTopology, observed: Observed, *, now: datetime) -> Recount | Stale:
    """The status as it should be, or that the cache is too old to tell."""
    status = topology.status
    if _number(observed.version) < _number(status.counted_version):
        return Stale(status.counted_version)
    census = _Census(topology, observed, now)
    census.settle()
    made = census.table.frozen(
        observed_generation=topology.metadata.generation,
        revision=observed.revision,
        counted_version=_latest(status.counted_version, observed.members),
        shortages=rescheduling.remembered(status.shortages, topology.spec, now),
    )
    return Recount(made, tuple(census.expired), tuple(census.taken_back), tuple(census.overdue), census.recheck)


@dataclass(slots=True)
class _Census:
    """One count."""

    topology: UnitedTopology
    observed: Observed
    now: datetime
    table: Table = field(init=False)
    expired: list[Entry] = field(default_factory=list)
    taken_back: list[Entry] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    recheck: float | None = None
    _by_name: dict[str, Member] = field(init=False)
    _by_reservation: dict[str, Member] = field(init=False)
    _unannounced: set[str] = field(init=False)
    """Reservations of pods whose deletion was not announced."""
    _held: set[str] = field(init=False)
    """The pods of one row whose deletion was announced, and whose reservation still stands."""

    def __post_init__(self) -> None:
        self.table = Table(self.topology, replicas=self.observed.replicas)
        self._by_name = {member.name: member for member in self.observed.members}
        self._by_reservation = {member.reservation: member for member in self.observed.members if member.reservation}

    def settle(self) -> None:
        """Count, then let every entry go where the table of states says."""
        self._count()
        keys = (pod_and_reservation(key) for _, row in self.table.all() for key in row.creating)
        self._unannounced = {reservation for name, reservation in keys if not name}
        for revision, row in self.table.all():
            row.creating = {
                key: since for key, since in row.creating.items() if self._reserved(revision, row, key, since)
            }
            self._held = {pod_and_reservation(key)[0] for key in row.creating}
            row.deleting = {
                name: since for name, since in row.deleting.items() if self._deleting(revision, row, name, since)
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

    def _reserved(self, revision: str, row: Row, key: str, since: datetime) -> bool:
        """Whether a reservation still holds its place."""
        name, reservation = pod_and_reservation(key)
        announced = row.deleting.get(name)
        event = self._found(self._by_reservation.get(reservation))
        if event is Event.UNSEEN and self._due(
            key, announced or since, DELETION_LIMIT if announced else CREATION_LIMIT
        ):
            event = Event.ABSENT
            self.expired.append(Entry(revision, row.name, key, since))
        state = after(State.DELETING if announced else State.RESERVED, event)
        return state is State.RESERVED or (state is State.DELETING and event is Event.UNSEEN)

    def _deleting(self, revision: str, row: Row, name: str, since: datetime) -> bool:
        """Whether the announcement of a deletion still stands."""
        member = self._by_name.get(name)
        event = self._found(member) if member is not None or name in self._held else Event.ENDED
        if event is Event.ACTIVE and not self._meant(member, revision, row):
            event = Event.ENDED
        if event is Event.ACTIVE and self._over(since, DELETION_LIMIT):
            event = Event.LIVES_ON
            self.taken_back.append(Entry(revision, row.name, name, since))
        return after(State.DELETING, event) is State.DELETING

    def _found(self, member: Member | None) -> Event:
        if member is None:
            return Event.UNSEEN
        return Event.ACTIVE if member.active else Event.ENDED

    def _meant(self, member: Member | None, revision: str, row: Row) -> bool:
        """Whether an announcement is of this pod: it is counted there, and is not a later one of the same name."""
        if member is None or member.reservation in self._unannounced:
            return False
        return (member.revision, member.subset) == (revision, row.name)

    def _due(self, key: str, since: datetime, limit: timedelta) -> bool:
        """Whether the time for a pod to appear is over, and it is certain that there is none."""
        if not self._over(since, limit):
            return False
        if key in self.observed.absent:
            return True
        self.overdue.append(key)
        return False

    def _over(self, since: datetime, limit: timedelta) -> bool:
        left = (since + limit - self.now).total_seconds()
        if left > 0:
            self.recheck = left if self.recheck is None else min(self.recheck, left)
        return left <= 0

    def _settle_rescheduling(self) -> None:
        """No more pods are expected elsewhere than the workload lacks."""
        rows = [row for _, row in self.table.all()]
        there = sum(row.replicas + len(row.creating) - len(row.deleting) for row in rows)
        lacking = max(0, self.observed.replicas - there)
        for row in rows:
            row.reschedule = min(row.reschedule, lacking)
            lacking -= row.reschedule


def _latest(version: str, members: Iterable[Member]) -> str:
    return max((version, *(member.version for member in members)), key=_number)


def _number(version: str) -> int:
    """Versions count up; one that is no number says nothing."""
    return int(version) if version.isascii() and version.isdigit() else -1
