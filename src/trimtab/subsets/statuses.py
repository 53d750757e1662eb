"""The status as a table: a row for each subset, a table for each revision; and the patch that writes it.

A table is a working copy. It follows the current spec, even where the status was counted for an older one: the limits
are those of the spec, new subsets have empty rows, and counts stay as they are. A subset that was renamed, so that the
spec has a new name where the status has one that is gone, keeps its row: pods may be between admission and storage.

`missingReplicas` is never written below zero (-1 means no maximum), so a subset above its maximum has 0; how many pods
it has is in `replicas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from trimtab.api.documents import JSON
from trimtab.api.unitedtopology import (
    MAX_PENDING,
    MAX_SUBSETS,
    RevisionStatus,
    SubsetStatus,
    UnitedTopology,
    UnitedTopologyStatus,
    status_tree,
)
from trimtab.subsets.apportionment import floors, limits

UNLIMITED = -1
MOST_ENTRIES = MAX_PENDING
"""How many entries of `creating` and `deleting` all subsets of a status have together: API servers store 1.5 MB."""
MOST_ROWS = MAX_SUBSETS
"""How many rows all revisions of a status have together; four revisions are always allowed."""


@dataclass(slots=True)
class Row:
    """One subset of one revision."""

    name: str
    limit: int | None
    missing: int = 0
    """Pods missing up to the limit, reservations not included; below zero where the subset is above its limit."""
    replicas: int = 0
    creating: dict[str, datetime] = field(default_factory=dict)
    deleting: dict[str, datetime] = field(default_factory=dict)
    reschedule: int = 0
    floor: int = 0
    """Pods that it gets before any other subset."""

    @property
    def is_idle(self) -> bool:
        """Whether the row has neither pods nor entries."""
        return not (self.replicas or self.creating or self.deleting)

    def frozen(self) -> SubsetStatus:
        """The row as a part of the status."""
        return SubsetStatus(
            name=self.name,
            replicas=self.replicas,
            missing_replicas=UNLIMITED if self.limit is None else max(0, self.missing),
            creating=self.creating,
            deleting=self.deleting,
            missing_reschedule=self.reschedule,
        )


def announced_key(name: str, reservation: str) -> str:
    """The key of a reservation after the deletion of its pod, of that name, was announced."""
    return f"{name}@{reservation}"


def pod_and_reservation(key: str) -> tuple[str, str]:
    """The parts of a key of `creating`: the name of its pod, if its deletion was announced, and the reservation."""
    name, announced, reservation = key.partition("@")
    return (name, reservation) if announced else ("", key)


class Table:
    """The rows of all revisions, as a mutable copy of the status."""

    def __init__(self, topology: UnitedTopology, *, replicas: int | None = None) -> None:
        """`replicas` is the workload's size, if it is newer than in the status."""
        self._topology = topology
        status = topology.status
        self.replicas = status.replicas if replicas is None else replicas
        self._current = status.observed_generation == topology.metadata.generation and self.replicas == status.replicas
        self._limits = limits(topology.spec.subsets, self.replicas)
        self._floors = floors(topology.spec.subsets, self.replicas)
        self._revisions: dict[str, list[Row]] = {}
        if status.subset_statuses:
            self._revisions[status.revision] = self._rows(status.subset_statuses)
        for other in status.other_revisions:
            self._revisions[other.revision] = self._rows(other.subset_statuses)

    def rows(self, revision: str) -> list[Row]:
        """The rows of a revision, in the order of the spec; empty rows for a new one."""
        if revision not in self._revisions:
            self._revisions[revision] = self._rows(())
        return self._revisions[revision]

    def row(self, revision: str, subset: str) -> Row | None:
        """The row of a subset, if the revision is known and the subset exists."""
        return next((row for row in self._revisions.get(revision, ()) if row.name == subset), None)

    @property
    def entries(self) -> int:
        """How many entries all rows have."""
        return sum(len(row.creating) + len(row.deleting) for _, row in self.all())

    def has_space_for(self, revision: str) -> bool:
        """Whether rows of a revision exist, or may be added."""
        return revision in self._revisions or len(self._revisions) < max(4, MOST_ROWS // len(self._limits))

    def all(self) -> Iterator[tuple[str, Row]]:
        """Every row with its revision."""
        for revision, rows in self._revisions.items():
            for row in rows:
                yield revision, row

    def frozen(self, **changes: object) -> UnitedTopologyStatus:
        """The table as a status; `changes` are other fields of it."""
        newest = str(changes.get("revision", self._topology.status.revision))
        others = {revision: rows for revision, rows in self._revisions.items() if revision != newest}
        fields: dict[str, object] = {
            "replicas": self.replicas,
            "subset_statuses": tuple(row.frozen() for row in self.rows(newest)),
            "other_revisions": tuple(
                RevisionStatus(revision=revision, subset_statuses=tuple(row.frozen() for row in rows))
                for revision, rows in others.items()
                if not all(row.is_idle for row in rows)
            ),
        }
        return msgspec.structs.replace(self._topology.status, **(fields | changes))

    def _rows(self, statuses: Sequence[SubsetStatus]) -> list[Row]:
        names = [subset.name for subset in self._topology.spec.subsets]
        known = {status.name: status for status in statuses} | _renamed(names, statuses)
        bounds = zip(names, self._limits, self._floors, strict=True)
        return [self._row(name, limit, floor, known.get(name)) for name, limit, floor in bounds]

    def _row(self, name: str, limit: int | None, floor: int, status: SubsetStatus | None) -> Row:
        if status is None:
            return Row(name, limit, limit or 0, floor=floor)
        return Row(
            name,
            limit,
            self._missing(limit, status),
            status.replicas,
            dict(status.creating),
            dict(status.deleting),
            status.missing_reschedule,
            floor,
        )

    def _missing(self, limit: int | None, status: SubsetStatus) -> int:
        """The status's number, unless it was written for other limits or hides how far the subset is above its own."""
        if limit is None:
            return 0
        if self._current and status.missing_replicas > 0:
            return status.missing_replicas
        return min(0, limit - status.replicas) if self._current else limit - status.replicas


def _renamed(names: Sequence[str], statuses: Sequence[SubsetStatus]) -> dict[str, SubsetStatus]:
    """The rows of renamed subsets by their new names: those at the same place in a spec of the same length."""
    if len(names) != len(statuses):
        return {}
    old = {status.name for status in statuses}
    pairs = zip(names, statuses, strict=True)
    return {name: status for name, status in pairs if name not in old and status.name not in names}


def is_counted(topology: UnitedTopology) -> bool:
    """Whether the pods have been counted for the current spec. Before that, missing pods are unknown: a renamed subset,
    or a new target, has pods that are not in the status."""
    status = topology.status
    return bool(status.subset_statuses) and status.observed_generation == topology.metadata.generation


def without_entries(status: UnitedTopologyStatus) -> UnitedTopologyStatus:
    """The status without entries of `creating` and `deleting`, for a UnitedTopology that is not in effect."""

    def cleared(each: SubsetStatus) -> SubsetStatus:
        return msgspec.structs.replace(each, creating={}, deleting={})

    return msgspec.structs.replace(
        status,
        subset_statuses=tuple(map(cleared, status.subset_statuses)),
        other_revisions=tuple(
            msgspec.structs.replace(other, subset_statuses=tuple(map(cleared, other.subset_statuses)))
            for other in status.other_revisions
        ),
    )


def patch(topology: UnitedTopology, status: UnitedTopologyStatus) -> JSON | None:
    """The merge patch for the status, which conflicts if the object is not the version that was read; None if nothing
    changed."""
    names = zip(UnitedTopologyStatus.__struct_fields__, UnitedTopologyStatus.__struct_encode_fields__, strict=True)
    changed = [key for name, key in names if getattr(topology.status, name) != getattr(status, name)]
    if not changed:
        return None
    written = status_tree(status)
    version = {"resourceVersion": topology.metadata.resource_version}
    return {"metadata": version, "status": {key: written[key] for key in changed}}
