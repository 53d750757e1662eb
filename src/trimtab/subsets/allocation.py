"""From a status to places for new pods, and to the announcement of those that go. One object in, one object out.

For each new pod the subsets are looked at in order, and the first with room takes it: `missingReplicas - creating +
deleting` is above zero, or there is no maximum. Three things in that sum may be out of date, and all are settled by
reading live rather than by trusting a cache:

- A percentage is of the size that the workload had when it was counted, and both a smaller and a larger one lead
  astray. So where there are percentages (`has_percentages`) the size is read first, and handed in as `replicas`.
- An entry of `deleting` may be of a deletion that is refused in the end. It counts only if it is `confirmed`: somebody
  has read that the pod is terminating or gone, which never becomes untrue.
- A pod that is counted may have finished, or been released, without anybody having asked for its deletion.

For the latter two `allocate` decides with what it has, and says what it passed a subset over for without being sure
(`Doubts`). If there is any doubt, the caller reads, and asks again with what it learned. Where everything has room,
nothing is read for them at all.

**Adaptive** adds three things. A subset to which pods are to be rescheduled is filled first. A subset that was found
full lately is passed over, and so is one in which the pod, as it would be shaped, finds no node (`Applicant.fits`); but
not if that leaves none: a pod that waits in a subset with room is better off than one that is let go.

Looking for nodes takes time, and hundreds may come at once. Where one pod of a revision found no node, those after it
find none either, unless pods that were placed in the meantime make room (`Applicant.swayed`: by pods to spread among,
or to be near). When the caller's time is up (`hurry`), the last answer for that revision stands, and without one the
pod takes the subset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.statuses import Row, Table, announced_key


def anywhere(subset: int) -> bool:
    """Fits into every subset: no simulation."""
    del subset
    return True


def unhurried() -> bool:
    """There is time for every simulation."""
    return False


@dataclass(frozen=True, slots=True)
class Applicant:
    """A pod that is being created."""

    reservation: str
    """The identity that will be stamped on it."""
    revision: str
    fits: Callable[[int], bool] = anywhere
    """Whether it would find a node as this subset shapes it; only asked for Adaptive, and where there is room."""
    swayed: bool = False
    """Whether other pods of its kind could make room for it by being placed."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A pod that is being deleted or evicted, and was read live after the status: it is there and not terminating."""

    name: str
    revision: str
    subset: str
    reservation: str = ""


@dataclass(slots=True)
class Doubts:
    """What a decision was not sure of."""

    leaving: dict[str, datetime] = field(default_factory=dict)
    """Pods in `deleting` whose places might be free, with the time of their (latest) entry; in the order of the
    status."""
    full: bool = False
    """Whether a subset was passed over because it holds what it may: some of its pods might have ended."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Who goes where: a place in the spec's list for each reservation, None where no subset is left."""

    status: UnitedTopologyStatus
    choices: Mapping[str, int | None]
    doubts: Doubts


def allocate(
    topology: UnitedTopology,
    applicants: Sequence[Applicant],
    *,
    now: datetime,
    confirmed: Collection[str] = (),
    replicas: int | None = None,
    hurry: Callable[[], bool] = unhurried,
) -> Allocation:
    """Places for these pods, in their order. `replicas` is the workload's size as it was just read, if it was."""
    office = _Office(topology, now, frozenset(confirmed), replicas, hurry)
    choices = {applicant.reservation: office.place(applicant) for applicant in applicants}
    return Allocation(office.table.frozen(), choices, office.doubts)


def has_percentages(topology: UnitedTopology) -> bool:
    """Whether it takes the workload's size to tell where there is room."""
    return any(isinstance(subset.max_replicas, str) for subset in topology.spec.subsets)


def announced(topology: UnitedTopology) -> dict[str, datetime]:
    """All entries of `deleting`, whatever the revision: the latest of each name."""
    found: dict[str, datetime] = {}
    for _, row in Table(topology).all():
        _gather(found, row.deleting)
    return found


def announce(topology: UnitedTopology, leaving: Iterable[Leaving], *, now: datetime) -> UnitedTopologyStatus:
    """Enter pods in `deleting`. One that is there already stays as it is, so nothing is counted twice.

    A pod that is only reserved so far is held by its name too from then on, so that the recount can tell that the two
    entries belong together. If an earlier pod of that name was announced and is counted still, it is gone by now;
    whoever knows that would take the place of this one. So both keep their places until they are counted.
    """
    table = Table(topology)
    for pod in leaving:
        row = table.row(pod.revision, pod.subset)
        if row is not None and pod.name not in row.deleting:
            _leave(row, pod, now)
        elif row is not None and pod.reservation in row.creating:
            del row.deleting[pod.name]
    return table.frozen()


def take_back(topology: UnitedTopology, names: Collection[str]) -> UnitedTopologyStatus:
    """Pods that were seen to live on after all."""
    table = Table(topology)
    for _, row in table.all():
        for name in names:
            row.deleting.pop(name, None)
    return table.frozen()


def withdraw(topology: UnitedTopology, reservations: Collection[str]) -> UnitedTopologyStatus:
    """Give up places of pods that were not told of them, and so went on without."""
    table = Table(topology)
    for _, row in table.all():
        for reservation in reservations:
            row.creating.pop(reservation, None)
    return table.frozen()


def _leave(row: Row, pod: Leaving, now: datetime) -> None:
    since = row.creating.pop(pod.reservation, None) if pod.reservation else None
    if since is not None:
        row.creating[announced_key(pod.name, pod.reservation)] = since
    row.deleting[pod.name] = now


class _Office:
    """One round: whoever comes later sees what those before were given."""

    def __init__(
        self,
        topology: UnitedTopology,
        now: datetime,
        confirmed: frozenset[str],
        replicas: int | None,
        hurry: Callable[[], bool],
    ) -> None:
        self.table = Table(topology, replicas=replicas)
        self.doubts = Doubts()
        self._now = now
        self._confirmed = confirmed
        self._hurry = hurry
        self._refused: set[tuple[str, int]] = set()
        self._freed: dict[int, int] = {}
        self._gathered: set[int] = set()
        self._adaptive = topology.spec.schedule_strategy.type == "Adaptive"
        self._full = {each.name for each in topology.status.shortages if each.until > now}

    def place(self, applicant: Applicant) -> int | None:
        """Reserve a place, or find the one that was reserved by an attempt whose answer got lost."""
        rows = self.table.rows(applicant.revision)
        for index, row in enumerate(rows):
            if applicant.reservation in row.creating:
                return index
        choice = self._choose(rows, applicant)
        if choice is not None:
            rows[choice].creating[applicant.reservation] = self._now
            rows[choice].reschedule = max(0, rows[choice].reschedule - 1)
        return choice

    def _choose(self, rows: Sequence[Row], applicant: Applicant) -> int | None:
        if not self._adaptive:
            return next(self._open(rows), None)
        open_rows = list(self._open(rows))
        wanted = [index for index in open_rows if rows[index].reschedule]
        tried = [index for index in open_rows if rows[index].name not in self._full]
        fitting = (index for index in tried if self._fits(applicant, index))
        return wanted[0] if wanted else next(fitting, next(iter(tried or open_rows), None))

    def _open(self, rows: Sequence[Row]) -> Iterator[int]:
        """The subsets with room, in order; why others have none is noted where it is not certain."""
        for index, row in enumerate(rows):
            if row.limit is None or row.missing - len(row.creating) + self._freed_in(row) > 0:
                yield index
            else:
                self._doubt(row)

    def _freed_in(self, row: Row) -> int:
        """How many pods are known to be going. Nobody leaves during a round, so it is looked up once."""
        if id(row) not in self._freed:
            self._freed[id(row)] = sum(name in self._confirmed for name in row.deleting)
        return self._freed[id(row)]

    def _fits(self, applicant: Applicant, index: int) -> bool:
        place = (applicant.revision, index)
        hurried = self._hurry()
        if place in self._refused and (hurried or not applicant.swayed):
            return False
        if hurried or applicant.fits(index):
            self._refused.discard(place)
            return True
        self._refused.add(place)
        return False

    def _doubt(self, row: Row) -> None:
        self.doubts.full = self.doubts.full or row.replicas > 0
        if id(row) not in self._gathered and row.missing - len(row.creating) + len(row.deleting) > 0:
            self._gathered.add(id(row))
            unsure = {name: since for name, since in row.deleting.items() if name not in self._confirmed}
            _gather(self.doubts.leaving, unsure)


def _gather(found: dict[str, datetime], entries: Mapping[str, datetime]) -> None:
    """Add entries; of two with one name the later one counts."""
    for name, since in entries.items():
        found[name] = max(since, found.get(name, since))
