"""The status as a table: a row for each subset, a table for each revision; and the patch that writes it.

A table is a working copy. It follows the spec as it is now, even where the status was counted for an older one: the
limits are those of the spec, new subsets have empty rows, and what was counted stays counted.

`missingReplicas` is never written below zero (-1 means no maximum), so a subset that holds more than it may shows 0;
how many it holds is in `replicas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from trimtab.api.documents import JSON
from trimtab.api.unitedtopology import RevisionStatus, SubsetStatus, UnitedTopology, UnitedTopologyStatus, status_tree
from trimtab.subsets.apportionment import limits

UNLIMITED = -1


@dataclass(slots=True)
class Row:
    """One subset, filled with pods of one revision."""

    name: str
    limit: int | None
    missing: int = 0
    """What the subset lacks before reservations; below zero where it holds more than it may."""
    replicas: int = 0
    creating: dict[str, datetime] = field(default_factory=dict)
    deleting: dict[str, datetime] = field(default_factory=dict)
    reschedule: int = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is here or on its way."""
        return not (self.replicas or self.creating or self.deleting)

    def frozen(self) -> SubsetStatus:
        """As the status has it."""
        return SubsetStatus(
            name=self.name,
            replicas=self.replicas,
            missing_replicas=UNLIMITED if self.limit is None else max(0, self.missing),
            creating=self.creating,
            deleting=self.deleting,
            missing_reschedule=self.reschedule,
        )


def announced_key(name: str, reservation: str) -> str:
    """What a reservation is kept under once the deletion of its pod, of that name, was announced."""
    return f"{name}@{reservation}"


def pod_and_reservation(key: str) -> tuple[str, str]:
    """A key of `creating`: the name of its pod, where its deletion was announced, and the reservation."""
    name, announced, reservation = key.partition("@")
    return (name, reservation) if announced else ("", key)


class Table:
    """The rows of all revisions, to be changed and frozen again."""

    def __init__(self, topology: UnitedTopology, *, replicas: int | None = None) -> None:
        """`replicas` is the workload's size, where it is known better than in the status."""
        self._topology = topology
        status = topology.status
        self.replicas = status.replicas if replicas is None else replicas
        self._current = status.observed_generation == topology.metadata.generation and self.replicas == status.replicas
        self._limits = limits(topology.spec.subsets, self.replicas)
        self._revisions: dict[str, list[Row]] = {}
        if status.subset_statuses:
            self._revisions[status.revision] = self._rows(status.subset_statuses)
        for other in status.other_revisions:
            self._revisions[other.revision] = self._rows(other.subset_statuses)

    def rows(self, revision: str) -> list[Row]:
        """The rows of a revision, in the order of the spec; empty ones if it is new."""
        if revision not in self._revisions:
            self._revisions[revision] = self._rows(())
        return self._revisions[revision]

    def row(self, revision: str, subset: str) -> Row | None:
        """The row of a subset, if the revision is known and the subset exists."""
        return next((row for row in self._revisions.get(revision, ()) if row.name == subset), None)

    def all(self) -> Iterator[tuple[str, Row]]:
        """Every row with its revision."""
        for revision, rows in self._revisions.items():
            for row in rows:
                yield revision, row

    def frozen(self, **changes: object) -> UnitedTopologyStatus:
        """The status that the table has become; `changes` are other fields of it."""
        newest = str(changes.get("revision", self._topology.status.revision))
        others = {revision: rows for revision, rows in self._revisions.items() if revision != newest}
        made: dict[str, object] = {
            "replicas": self.replicas,
            "subset_statuses": tuple(row.frozen() for row in self.rows(newest)),
            "other_revisions": tuple(
                RevisionStatus(revision=revision, subset_statuses=tuple(row.frozen() for row in rows))
                for revision, rows in others.items()
                if not all(row.idle for row in rows)
            ),
        }
        return msgspec.structs.replace(self._topology.status, **(made | changes))

    def _rows(self, statuses: Sequence[SubsetStatus]) -> list[Row]:
        known = {status.name: status for status in statuses}
        names = [subset.name for subset in self._topology.spec.subsets]
        return [self._row(name, limit, known.get(name)) for name, limit in zip(names, self._limits, strict=True)]

    def _row(self, name: str, limit: int | None, status: SubsetStatus | None) -> Row:
        if status is None:
            return Row(name, limit, limit or 0)
        return Row(
            name,
            limit,
            self._missing(limit, status),
            status.replicas,
            dict(status.creating),
            dict(status.deleting),
            status.missing_reschedule,
        )

    def _missing(self, limit: int | None, status: SubsetStatus) -> int:
        """As the status says, unless it was written for other limits, or cannot say how far the subset is beyond its
        own."""
        if limit is None:
            return 0
        if self._current and status.missing_replicas > 0:
            return status.missing_replicas
        return min(0, limit - status.replicas) if self._current else limit - status.replicas


def counted(topology: UnitedTopology) -> bool:
    """Whether the pods have been counted for the spec as it is. Before that, nobody knows what is missing: a subset
    that was renamed, or a target that was changed, has pods that the status says nothing of."""
    status = topology.status
    return bool(status.subset_statuses) and status.observed_generation == topology.metadata.generation


def without_entries(status: UnitedTopologyStatus) -> UnitedTopologyStatus:
    """The status of a UnitedTopology that nobody gives places by: what was on its way is counted anew later."""

    def settled(each: SubsetStatus) -> SubsetStatus:
        return msgspec.structs.replace(each, creating={}, deleting={})

    return msgspec.structs.replace(
        status,
        subset_statuses=tuple(map(settled, status.subset_statuses)),
        other_revisions=tuple(
            msgspec.structs.replace(other, subset_statuses=tuple(map(settled, other.subset_statuses)))
            for other in status.other_revisions
        ),
    )


def patch(topology: UnitedTopology, status: UnitedTopologyStatus) -> JSON | None:
    """What to send as a merge patch to the status; refused as a conflict if the object is not the one that was read.

    None if there is nothing to write.
    """
    written = status_tree(status)
    names = zip(UnitedTopologyStatus.__struct_fields__, UnitedTopologyStatus.__struct_encode_fields__, strict=True)
    changed = {key: written[key] for name, key in names if getattr(topology.status, name) != getattr(status, name)}
    if not changed:
        return None
    return {"metadata": {"resourceVersion": topology.metadata.resource_version}, "status": changed}
