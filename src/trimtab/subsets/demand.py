"""What the owner of new pods still wants: how many more pods it may have than it has.

A review of a pod may be forged, by anyone who reaches the port of the webhooks. So a pod gets a reservation only while
its owner wants more pods than exist or are reserved, and an owner's reservations never exceed what it wants:

    has    = counted pods of its revisions − confirmed deletions + reservations + its pods in no subset
    wanted = its size − has

A size or a count may be out of date. So where nothing is wanted by these, that is `Uncertainty.owners`, and the caller
reads the size uncached, confirms deletions and at last lists the owner's pods; then `has` is the number of its active
pods, and of the reservations of pods that do not exist.

**Reservations without a pod.** A later webhook or a quota may refuse a pod that has a reservation, and its owner tries
again. So when the listed pods show that all that is wanted is reserved, the oldest reservation without a pod makes room
for the new one, if it is older than `ABANDONED`: until then its pod may be on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.subsets.statuses import Row, pod_and_reservation

ABANDONED = timedelta(seconds=5)
"""After which a reservation without a pod makes room for another one of the same owner."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a new pod, as it was found by its name and UID, and the most pods that it may have."""

    kind: str
    name: str
    uid: str
    most: int


@dataclass(frozen=True, slots=True)
class ListedPods:
    """The pods of an owner, from an uncached list."""

    active: int = 0
    reservations: frozenset[str] = frozenset()
    """Of all its pods, terminating ones included."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The most pods that an owner may have, and what is known of its pods besides the status."""

    most: int
    outside: int = 0
    """Its active pods that are in no subset, as last seen."""
    listed: ListedPods | None = None


@dataclass(slots=True)
class OwnerRows:
    """The rows of a status that count the pods of one owner, and how many more pods it wants."""

    rows: Sequence[Row]
    demand: Demand
    confirmed: Collection[str] = ()
    wanted: int = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = self.demand.most - (self._counted() if self.demand.listed is None else self._existing())

    def unconfirmed(self) -> Mapping[str, datetime]:
        """The announced deletions that would make more pods wanted if they were confirmed."""
        return {name: since for row in self.rows for name, since in row.deleting.items() if name not in self.confirmed}

    def drop_abandoned(self, now: datetime) -> bool:
        """Remove the oldest reservation without a pod; whether there is one that is old enough."""
        pending = ((since, index, key) for index, row in enumerate(self.rows) for key, since in self._without_pod(row))
        since, index, key = min(pending, default=(now, 0, ""))
        if since > now - ABANDONED:
            return False
        del self.rows[index].creating[key]
        self.wanted += 1
        return True

    def _counted(self) -> int:
        gone = sum(name in self.confirmed for row in self.rows for name in row.deleting)
        return sum(row.replicas + len(row.creating) for row in self.rows) - gone + self.demand.outside

    def _existing(self) -> int:
        listed = self.demand.listed or ListedPods()
        return listed.active + sum(len(self._without_pod(row)) for row in self.rows)

    def _without_pod(self, row: Row) -> list[tuple[str, datetime]]:
        """The reservations whose pods have not been listed. A pod whose deletion was announced did exist."""
        listed = self.demand.listed or ListedPods()
        return [
            (key, since)
            for key, since in row.creating.items()
            if key not in listed.reservations and not pod_and_reservation(key)[0]
        ]
