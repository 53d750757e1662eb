"""From a status to reservations for new pods, and announcements of deletions. One object in, one object out.

For each new pod the subsets are checked in order, and the first with free capacity takes it: `missingReplicas -
creating + deleting` is above zero, or there is no maximum. Three terms of that sum may be out of date, and each is
settled by an uncached read rather than from a cache:

- A percentage refers to the size that the workload had when it was counted; a smaller and a larger one both mislead.
  So where there are percentages or floors (`needs_size`), the size is read first and passed in as `replicas`.
- An entry of `deleting` may be of a deletion that is refused in the end. It counts only if it is `confirmed`: the pod
  was read as terminating or gone, which never becomes untrue.
- A pod that is counted may have finished, or been released by its owner, without a deletion request.

For the latter two `allocate` decides with what it has, and returns why subsets were skipped without certainty
(`Uncertainty`). If there is any, the caller reads, and calls again with the result. Where every subset has free
capacity, nothing is read for them.

**Floors.** Subsets that have fewer pods than their `minReplicas` are checked before all others, in their order.

**Adaptive** adds three things. A subset to which pods are to be rescheduled is filled first. A subset that was found
full lately is skipped, and so is one in which the pod, as it would be shaped, finds no node (`PodCreation.fits`);
unless that leaves none: a pod that waits in a subset with free capacity is better off than one without a subset.

Simulations take time, and hundreds of pods may come at once. If one pod of a revision found no node, later pods of the
revision are not simulated, unless pods that were placed in the meantime can make a node fit
(`PodCreation.is_affected_by_peers`: spread constraints or pod affinity). When the caller's time is used up
(`is_out_of_time`), the last result for that revision is used, and without one the pod takes the subset. `decide` asks
for each simulation, so that its caller can let other tasks run in between.

**No more than wanted.** A pod whose owner wants no more pods (see `demand`) gets no reservation, and neither does one
for which the status has no space (`statuses.MOST_ENTRIES`, `statuses.MOST_ROWS`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.subsets.demand import Demand, Owner, OwnerRows
from trimtab.subsets.questions import Questions, answer_all
from trimtab.subsets.recount import CREATION_LIMIT
from trimtab.subsets.statuses import MOST_ENTRIES, Row, Table, announced_key


def fits_anywhere(subset: int) -> bool:
    """Report that a pod fits into every subset: no simulation."""
    del subset
    return True


def never_out_of_time() -> bool:
    """Report that there is time for every simulation."""
    return False


@dataclass(frozen=True, slots=True)
class PodCreation:
    """A pod that is being created."""

    reservation: str
    """The identity that will be written to its annotation."""
    revision: str
    fits: Callable[[int], bool] = fits_anywhere
    """Whether it would find a node as this subset shapes it; called for Adaptive only, where there is free capacity."""
    is_affected_by_peers: bool = False
    """Whether placing other pods of the workload can make a node fit for it."""
    owner: Owner | None = None
    """Its controller; without one, the pod is taken to be wanted."""


@dataclass(frozen=True, slots=True)
class PodDeletion:
    """A pod that is being deleted or evicted: an uncached read after that of the status found it, not terminating."""

    name: str
    revision: str
    subset: str
    reservation: str = ""


@dataclass(slots=True)
class Uncertainty:
    """What an allocation could not decide for certain."""

    deleting: dict[str, datetime] = field(default_factory=dict)
    """Pods in `deleting` that may be gone already, with the time of their (latest) entry; in the order of the
    status."""
    full: bool = False
    """Whether a subset was skipped because it is full: some of its pods may have ended."""
    owners: set[str] = field(default_factory=set)
    """The UIDs of owners that want no more pods, by a size or a count that may be out of date."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The new status, and for each reservation the index of its subset in the spec; None where no subset is left."""

    status: UnitedTopologyStatus
    choices: Mapping[str, int | None]
    uncertainty: Uncertainty
    unwanted: frozenset[str] = frozenset()
    """The reservations that were not made because the pod's owner wants no more pods, or the status has no space."""
    unsimulated: int = 0
    """How many pods took a subset because there was no time to simulate them."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The question whether a pod would find a node as one of the subsets shapes it."""

    creation: PodCreation
    subset: int

    def simulate(self) -> bool:
        """The answer."""
        return self.creation.fits(self.subset)


def allocate(
    topology: UnitedTopology,
    creations: Sequence[PodCreation],
    *,
    now: datetime,
    confirmed: Collection[str] = (),
    replicas: int | None = None,
    demands: Mapping[str, Demand] | None = None,
    is_out_of_time: Callable[[], bool] = never_out_of_time,
) -> Allocation:
    """Reserve capacity for these pods at once; see `decide`."""
    questions = decide(
        topology,
        creations,
        now=now,
        confirmed=confirmed,
        replicas=replicas,
        demands=demands,
        is_out_of_time=is_out_of_time,
    )
    return answer_all(questions, Fit.simulate)


def decide(
    topology: UnitedTopology,
    creations: Sequence[PodCreation],
    *,
    now: datetime,
    confirmed: Collection[str] = (),
    replicas: int | None = None,
    demands: Mapping[str, Demand] | None = None,
    is_out_of_time: Callable[[], bool] = never_out_of_time,
) -> Questions[Fit, Allocation]:
    """Reserve capacity for these pods, in their order. `replicas` is the workload's size, if it was just read;
    `demands` are those of the pods' owners by UID, where they are known better than by `PodCreation.owner`."""
    chooser = _SubsetChooser(topology, now, frozenset(confirmed), replicas, is_out_of_time, demands or {})
    choices: dict[str, int | None] = {}
    for creation in creations:
        yield None
        choices[creation.reservation] = yield from chooser.reserve(creation)
    return Allocation(
        chooser.table.frozen(), choices, chooser.uncertainty, frozenset(chooser.unwanted), chooser.unsimulated
    )


def needs_size(topology: UnitedTopology) -> bool:
    """Whether the workload's size is needed to compute free capacity."""
    return any(isinstance(each.max_replicas, str) or each.min_replicas for each in topology.spec.subsets)


def announced_deletions(topology: UnitedTopology) -> dict[str, datetime]:
    """All entries of `deleting`, whatever the revision: the latest of each name."""
    found: dict[str, datetime] = {}
    for _, row in Table(topology).all():
        _merge(found, row.deleting)
    return found


def announce(topology: UnitedTopology, deletions: Iterable[PodDeletion], *, now: datetime) -> UnitedTopologyStatus:
    """Add pods to `deleting`. An entry that exists already stays as it is, so nothing is counted twice.

    If the pod has only a reservation so far, the key of that gets the pod's name too, so that the recount can tell that
    the two entries belong together. If an earlier pod of that name was announced and is still counted, it is gone by
    now, and its confirmed deletion would free the capacity of the new pod. So the entry of `deleting` is removed, and
    both pods hold their capacity until the next recount.
    """
    table = Table(topology)
    rows = {(revision, row.name): row for revision, row in table.all()}
    entries = table.entries
    for pod in deletions:
        row = rows.get((pod.revision, pod.subset))
        if row is not None and pod.name not in row.deleting:
            if entries < MOST_ENTRIES:
                _announce(row, pod, now)
                entries += 1
        elif row is not None and pod.reservation in row.creating:
            del row.deleting[pod.name]
            entries -= 1
    return table.frozen()


def revert_deletions(topology: UnitedTopology, names: Collection[str]) -> UnitedTopologyStatus:
    """Remove the entries of pods whose announced deletion did not happen."""
    table, removed = Table(topology), frozenset(names)
    for _, row in table.all():
        for name in removed.intersection(row.deleting):
            del row.deleting[name]
    return table.frozen()


def withdraw(topology: UnitedTopology, reservations: Collection[str]) -> UnitedTopologyStatus:
    """Remove reservations of pods that were admitted without them."""
    table, removed = Table(topology), frozenset(reservations)
    for _, row in table.all():
        for reservation in removed.intersection(row.creating):
            del row.creating[reservation]
    return table.frozen()


Reservations = Mapping[tuple[str, str], Mapping[str, datetime]]
"""Entries of `creating`, by revision and subset."""


def reservations(topology: UnitedTopology) -> Reservations:
    """The reservations of a UnitedTopology, whose pods may be between admission and storage."""
    return {(revision, row.name): dict(row.creating) for revision, row in Table(topology).all() if row.creating}


def restore(topology: UnitedTopology, former: Reservations, *, now: datetime) -> UnitedTopologyStatus:
    """Add the reservations of a UnitedTopology of the same name that was deleted, as far as their pods may still come.

    Should a pod be counted already, the next recount removes its entry.
    """
    table = Table(topology)
    names = {subset.name for subset in topology.spec.subsets}
    for (revision, subset), entries in former.items():
        young = {key: since for key, since in entries.items() if now < since + CREATION_LIMIT}
        if young and subset in names and table.has_space_for(revision):
            row = next(row for row in table.rows(revision) if row.name == subset)
            row.creating = young | row.creating
    return table.frozen()


def _announce(row: Row, pod: PodDeletion, now: datetime) -> None:
    since = row.creating.pop(pod.reservation, None) if pod.reservation else None
    if since is not None:
        row.creating[announced_key(pod.name, pod.reservation)] = since
    row.deleting[pod.name] = now


class _SubsetChooser:
    """One allocation: later pods see the reservations of earlier ones."""

    def __init__(
        self,
        topology: UnitedTopology,
        now: datetime,
        confirmed: frozenset[str],
        replicas: int | None,
        is_out_of_time: Callable[[], bool],
        demands: Mapping[str, Demand],
    ) -> None:
        self.table = Table(topology, replicas=replicas)
        self.uncertainty = Uncertainty()
        self.unwanted: set[str] = set()
        self.unsimulated = 0
        self._entries = self.table.entries
        self._demands = demands
        self._owners: dict[str, OwnerRows] = {}
        self._now = now
        self._confirmed = confirmed
        self._is_out_of_time = is_out_of_time
        self._without_node: set[tuple[str, int]] = set()
        self._freed: dict[int, int] = {}
        self._checked: set[int] = set()
        self._adaptive = topology.spec.schedule_strategy.type == "Adaptive"
        self._full = {each.name for each in topology.status.shortages if each.until > now}

    def reserve(self, creation: PodCreation) -> Questions[Fit, int | None]:
        """Reserve capacity, or find the reservation of an earlier attempt whose response was lost."""
        if not self.table.has_space_for(creation.revision):
            self.unwanted.add(creation.reservation)
            return None
        rows = self.table.rows(creation.revision)
        for index, row in enumerate(rows):
            if creation.reservation in row.creating:
                return index
        owner = self._owner(creation)
        if self._entries >= MOST_ENTRIES or (owner is not None and not self._is_wanted(creation, owner)):
            self.unwanted.add(creation.reservation)
            return None
        choice = yield from self._choose(rows, creation)
        if choice is not None:
            rows[choice].creating[creation.reservation] = self._now
            rows[choice].reschedule = max(0, rows[choice].reschedule - 1)
            self._entries += 1
            if owner is not None:
                owner.wanted -= 1
        return choice

    def _owner(self, creation: PodCreation) -> OwnerRows | None:
        """The rows of a pod's owner: those of its revision for a ReplicaSet, and all of them for a CloneSet."""
        owner = creation.owner
        if owner is None:
            return None
        if owner.uid not in self._owners:
            everything = [row for _, row in self.table.all()]
            rows = self.table.rows(creation.revision) if creation.revision == owner.uid else everything
            demand = self._demands.get(owner.uid, Demand(owner.most))
            self._owners[owner.uid] = OwnerRows(rows, demand, self._confirmed)
        return self._owners[owner.uid]

    def _is_wanted(self, creation: PodCreation, owner: OwnerRows) -> bool:
        """Whether the pod's owner wants it; records where that is not certain."""
        if owner.wanted > 0:
            return True
        if owner.demand.listed is not None:
            return owner.drop_abandoned(self._now)
        self.uncertainty.owners.add(creation.owner.uid if creation.owner is not None else "")
        _merge(self.uncertainty.deleting, owner.unconfirmed())
        return False

    def _choose(self, rows: Sequence[Row], creation: PodCreation) -> Questions[Fit, int | None]:
        if not self._adaptive:
            return next(self._with_capacity(rows), None)
        available = list(self._with_capacity(rows))
        rescheduled = [index for index in available if rows[index].reschedule]
        if rescheduled:
            return rescheduled[0]
        candidates = [index for index in available if rows[index].name not in self._full]
        for index in candidates:
            if (yield from self._fits(creation, index)):
                return index
        return next(iter(candidates or available), None)

    def _with_capacity(self, rows: Sequence[Row]) -> Iterator[int]:
        """The subsets with free capacity, those below their floors first; records why others have none where that is
        not certain."""
        below = [index for index, row in enumerate(rows) if row.floor and self._is_below_floor(row)]
        for index in dict.fromkeys((*below, *range(len(rows)))):
            row = rows[index]
            if row.limit is None or row.missing - len(row.creating) + self._confirmed_in(row) > 0:
                yield index
            else:
                self._record_uncertainty(row)

    def _is_below_floor(self, row: Row) -> bool:
        """Whether a subset has fewer pods than its floor; records where that is not certain."""
        reserved = row.replicas + len(row.creating)
        if reserved - self._confirmed_in(row) < row.floor:
            return True
        self.uncertainty.full = self.uncertainty.full or row.replicas > 0
        if reserved - len(row.deleting) < row.floor:
            self._record_deleting(row)
        return False

    def _confirmed_in(self, row: Row) -> int:
        """How many deletions are confirmed. No deletion is added during an allocation, so they are counted once."""
        if id(row) not in self._freed:
            self._freed[id(row)] = sum(name in self._confirmed for name in row.deleting)
        return self._freed[id(row)]

    def _fits(self, creation: PodCreation, index: int) -> Questions[Fit, bool]:
        target = (creation.revision, index)
        is_late = self._is_out_of_time()
        if target in self._without_node and (is_late or not creation.is_affected_by_peers):
            return False
        if is_late and creation.fits is not fits_anywhere:
            self.unsimulated += 1
        if is_late or (yield Fit(creation, index)):
            self._without_node.discard(target)
            return True
        self._without_node.add(target)
        return False

    def _record_uncertainty(self, row: Row) -> None:
        self.uncertainty.full = self.uncertainty.full or row.replicas > 0
        if row.missing - len(row.creating) + len(row.deleting) > 0:
            self._record_deleting(row)

    def _record_deleting(self, row: Row) -> None:
        if id(row) not in self._checked:
            self._checked.add(id(row))
            unsure = {name: since for name, since in row.deleting.items() if name not in self._confirmed}
            _merge(self.uncertainty.deleting, unsure)


def _merge(found: dict[str, datetime], entries: Mapping[str, datetime]) -> None:
    """Add entries; of two with the same name the later one is kept."""
    for name, since in entries.items():
        found[name] = max(since, found.get(name, since))
