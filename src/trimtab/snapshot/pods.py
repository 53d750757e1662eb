"""The table of pods: the columns that rankings and spreading read, a row for each pod."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from trimtab.api.annotations import DELETION_COST, parse_cost
from trimtab.api.pods import ContainerStatus, Pod
from trimtab.api.selectors import Selector
from trimtab.api.times import ZERO_NS, to_ns
from trimtab.snapshot.columns import Columns, IntColumn, Mask, Rows, SmallColumn

NOWHERE = -1
"""The node of a pod that is not assigned, and the owner of a pod without a controller."""
NEVER = 0
"""An unknown time: Kubernetes' zero time."""

PHASES: Mapping[str, int] = {"Unknown": 1, "Running": 2, "Succeeded": 3, "Failed": 4}
"""Phases as numbers, in the order in which pods are deleted; all others count as Pending, 0."""
_FINISHED = (PHASES["Succeeded"], PHASES["Failed"])

_REFERENCES: Mapping[str, type[np.generic]] = {
    "node": np.int32,
    "owner": np.int32,
    "labels": np.int32,
    "assumed": np.bool_,
}
_IDENTITY: Mapping[str, type[np.generic]] = {
    "present": np.bool_,
    "created": np.int64,
    "uid_head": np.uint64,
    "uid_tail": np.uint64,
}
_STATE: Mapping[str, type[np.generic]] = {
    "phase": np.int8,
    "ready": np.bool_,
    "ready_since": np.int64,
    "restarts": np.int64,
    "sidecar_restarts": np.int64,
    "cost": np.int64,
    "costed": np.bool_,
    "terminating": np.bool_,
    "active": np.bool_,
}
_OWN_COLUMNS = {**_IDENTITY, **_STATE}
"""The columns that depend on the pod alone: those that never change, and those that do."""

Cells = tuple[int, ...]
Values = npt.NDArray[Any]

_FARTHEST = 2**62  # so that the difference of two times fits 64 bits
_WORDS = struct.Struct(">QQ")
_pack = msgspec.msgpack.Encoder().encode


class LabelSets:
    """Distinct sets of labels, numbered per namespace, so that a selector is matched once a set and not once a pod.

    A number is freed when the last pod with those labels is deleted: each pod of a StatefulSet has a set of its own.
    Pods of a template share the object of their labels (see `api.pooling`), by whose identity it is found first.
    """

    __slots__ = ("_by_identity", "_counts", "_free", "_ids", "_keys", "rows")

    def __init__(self) -> None:
        self.rows: list[tuple[str, Mapping[str, str]] | None] = []
        self._by_identity: dict[int, int] = {}
        """Numbers by the identity of the labels in `rows`, which keep them alive."""
        self._ids: dict[tuple[str, bytes], int] = {}
        self._keys: list[tuple[str, bytes]] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def take(self, namespace: str, labels: Mapping[str, str]) -> int:
        """The number of a set, with one more reference."""
        number = self._by_identity.get(id(labels))
        if number is not None and (row := self.rows[number]) is not None and row[0] == namespace:
            self._counts[number] += 1
            return number
        key = (namespace, _pack(labels))
        number = self._ids.get(key)
        if number is not None:
            self._counts[number] += 1
            return number
        number = self._free_number()
        self._ids[key] = number
        self._keys[number] = key
        self._counts[number] = 1
        self.rows[number] = (namespace, labels)
        self._by_identity[id(labels)] = number
        return number

    def release(self, number: int) -> bool:
        """Drop one reference to a set; true if it was the last."""
        self._counts[number] -= 1
        if self._counts[number]:
            return False
        del self._ids[self._keys[number]]
        row, self.rows[number] = self.rows[number], None
        if row is not None and self._by_identity.get(id(row[1])) == number:
            del self._by_identity[id(row[1])]
        self._free.append(number)
        return True

    def copy(self) -> LabelSets:
        """The same sets; changes of one do not affect the other."""
        made = LabelSets()
        made.rows, made._keys, made._counts = list(self.rows), list(self._keys), list(self._counts)
        made._ids, made._free = dict(self._ids), list(self._free)
        made._by_identity = dict(self._by_identity)
        return made

    def _free_number(self) -> int:
        if self._free:
            return self._free.pop()
        self.rows.append(None)
        self._keys.append(("", b""))
        self._counts.append(0)
        return len(self.rows) - 1


class Owners:
    """The controllers of pods, numbered. A number is freed when the last pod of its controller is deleted."""

    __slots__ = ("_counts", "_rows")

    def __init__(self) -> None:
        self._rows = Rows()
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        """The number of controllers that have pods."""
        return len(self._counts)

    def get(self, uid: str) -> int | None:
        """The number of a controller; None if it has no pods."""
        return self._rows.index.get(uid)

    def take(self, uid: str) -> int:
        """The number of a controller, with one more reference."""
        count = self._counts.get(uid, 0)
        self._counts[uid] = count + 1
        return self._rows.index[uid] if count else self._rows.take(uid)

    def release(self, number: int) -> None:
        """Drop one reference to a controller."""
        uid = self._rows.names[number] or ""
        self._counts[uid] -= 1
        if not self._counts[uid]:
            del self._counts[uid]
            self._rows.release(uid)

    def copy(self) -> Owners:
        """The same controllers; changes of one do not affect the other."""
        made = Owners()
        made._rows, made._counts = self._rows.copy(), dict(self._counts)
        return made


class Position(NamedTuple):
    """Where a pod is counted, beside its usage."""

    node: int
    labels: int
    terminating: bool


class PodTable:
    """All pods, in columns. Slices returned by its properties are live: they change with the next event."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.objects: list[Pod | None] = []
        self.labels = LabelSets()
        self.owners = Owners()
        self._columns = Columns(**_REFERENCES, **_OWN_COLUMNS)
        self._columns["node"][:] = NOWHERE
        self._columns["owner"][:] = NOWHERE

    def __len__(self) -> int:
        """The length of the columns, rows without a pod included: see `column('present')`."""
        return len(self.rows)

    def copy(self) -> PodTable:
        """The same pods; changes of one do not affect the other."""
        made = PodTable()
        made.rows, made.objects, made.labels = self.rows.copy(), list(self.objects), self.labels.copy()
        made.owners, made._columns = self.owners.copy(), self._columns.copy()
        return made

    @property
    def node(self) -> SmallColumn:
        """The row of each pod's node, or NOWHERE."""
        column: SmallColumn = self._columns["node"][: len(self)]
        return column

    @property
    def active(self) -> Mask:
        """Which pods exist, have not finished and are not terminating."""
        column: Mask = self._columns["active"][: len(self)]
        return column

    @property
    def ready(self) -> Mask:
        """Which pods are ready."""
        column: Mask = self._columns["ready"][: len(self)]
        return column

    @property
    def terminating(self) -> Mask:
        """Which pods are terminating."""
        column: Mask = self._columns["terminating"][: len(self)]
        return column

    @property
    def owner(self) -> SmallColumn:
        """Which workload manages each pod: a number from `owners`, or NOWHERE."""
        column: SmallColumn = self._columns["owner"][: len(self)]
        return column

    @property
    def label_set(self) -> SmallColumn:
        """Which set of labels each pod has: an index into `labels.rows`."""
        column: SmallColumn = self._columns["labels"][: len(self)]
        return column

    def column(self, name: str) -> IntColumn:
        """Any other column by its name: phase, ready_since, created, restarts, sidecar_restarts, cost, …"""
        column: IntColumn = self._columns[name][: len(self)]
        return column

    def owned_by(self, uid: str) -> IntColumn:
        """The rows of the pods that a workload manages."""
        owner = self.owners.get(uid)
        if owner is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.owner == owner)

    def matching(self, namespace: str, selector: Selector) -> IntColumn:
        """The rows of the pods of a namespace that a selector matches; it is matched once for each set of labels."""
        known = enumerate(self.labels.rows)
        sets = [n for n, row in known if row is not None and row[0] == namespace and selector.matches(row[1])]
        return np.flatnonzero(np.isin(self.label_set, sets) & self.column("present").astype(np.bool_))

    def take_all(self, keys: Sequence[str]) -> list[int]:
        """Assign an empty row to each of some pods that have none."""
        rows = [self.rows.take(key) for key in keys]
        self.objects += [None] * (len(self.rows) - len(self.objects))
        self._reserve(len(self.rows))
        return rows

    def is_assumed(self, row: int) -> bool:
        """Whether the pod of a row is assumed, and not observed, on its node."""
        assumed: bool = self._columns["assumed"].item(row)
        return assumed

    def position(self, row: int) -> Position:
        """Where the pod of a row is counted."""
        columns = self._columns
        return Position(columns["node"].item(row), columns["labels"].item(row), columns["terminating"].item(row))

    def write(self, row: int, pod: Pod, cells: Cells, *, node: int, labels: int, assumed: bool) -> None:
        """Fill the columns of a row; `cells` are those of the pod (see `cells_of`)."""
        self.objects[row] = pod
        former = self._columns["owner"].item(row)
        referred = (node, self._take_owner(pod), labels, assumed)
        for column, cell in zip(self._columns.values(), (*referred, *cells), strict=True):
            column[row] = cell
        if former != NOWHERE:
            self.owners.release(former)

    def rewrite(self, row: int, pod: Pod, cells: Cells) -> None:
        """Fill the columns of a pod's state (see `state_cells_of`); all others stay as they are."""
        self.objects[row] = pod
        for column, cell in zip(self._state_columns(), cells, strict=True):
            column[row] = cell

    def _state_columns(self) -> Iterable[Values]:
        return islice(self._columns.values(), len(_REFERENCES) + len(_IDENTITY), None)

    def write_all(
        self,
        rows: Sequence[int],
        pods: Sequence[Pod],
        cells: Sequence[Values],
        nodes: Sequence[int],
        labels: Sequence[int],
    ) -> None:
        """Fill the columns of empty rows; `cells` are columns of the pods (see `columns_of`)."""
        for row, pod in zip(rows, pods, strict=True):
            self.objects[row] = pod
        referred = (nodes, [self._take_owner(pod) for pod in pods], labels, False)
        written = np.array(rows)  # once, and not for each column
        for column, values in zip(self._columns.values(), (*referred, *cells), strict=True):
            column[written] = values

    def _take_owner(self, pod: Pod) -> int:
        owner = pod.metadata.controller
        return NOWHERE if owner is None else self.owners.take(owner.uid)

    def release(self, key: str) -> None:
        """Free the row of a pod."""
        row = self.rows.release(key)
        self.objects[row] = None
        self._columns["present"][row] = False
        self._columns["active"][row] = False
        self._columns["ready"][row] = False
        self._columns["terminating"][row] = False
        self._columns["node"][row] = NOWHERE
        owner = self._columns["owner"].item(row)
        if owner != NOWHERE:
            self._columns["owner"][row] = NOWHERE
            self.owners.release(owner)

    def _reserve(self, rows: int) -> None:
        before = self._columns.capacity
        if self._columns.reserve(rows):
            self._columns["node"][before:] = NOWHERE
            self._columns["owner"][before:] = NOWHERE


def cells_of(pod: Pod) -> Cells:
    """The cells that depend on the pod alone, in the order of `_OWN_COLUMNS`. Raises InvalidError for invalid times."""
    metadata = pod.metadata
    return (True, nanoseconds(metadata.creation_timestamp), *uid_words(metadata.uid), *state_cells_of(pod))


def state_cells_of(pod: Pod) -> Cells:
    """The cells of a pod's state, in the order of `_STATE`. Raises InvalidError for invalid times."""
    status = pod.status
    ready, cost = status.condition("Ready"), deletion_cost(pod)
    is_ready = ready is not None and ready.status == "True"
    phase, terminating = PHASES.get(status.phase, 0), pod.metadata.deletion_timestamp is not None
    return (
        phase,
        is_ready,
        nanoseconds(ready.last_transition_time) if ready is not None and is_ready else NEVER,
        most_restarts(status.container_statuses),
        sidecar_restarts(pod),
        cost or 0,
        cost is not None,
        terminating,
        not terminating and phase not in _FINISHED,
    )


def columns_of(pods: Iterable[Pod]) -> list[Values]:
    """The cells of several pods, as columns: numpy takes longer to begin a write than to do it."""
    columns = zip(*map(cells_of, pods), strict=True)
    return [np.array(cells, dtype=kind) for kind, cells in zip(_OWN_COLUMNS.values(), columns, strict=True)]


def nanoseconds(moment: datetime | None) -> int:
    """A time as the columns hold it.

    1970 itself becomes a nanosecond later, to differ from NEVER; times are limited to 146 years before and after it.
    """
    if moment is None:
        return NEVER
    since = to_ns(moment)
    if -_FARTHEST <= since <= _FARTHEST:
        return since or 1
    return NEVER if since == ZERO_NS else _FARTHEST if since > 0 else -_FARTHEST


def deletion_cost(pod: Pod) -> int | None:
    """The cost that ReplicaSets honour; None if it is absent or not an int32 in the format that they accept."""
    return parse_cost(pod.metadata.annotations.get(DELETION_COST))


def sidecar_restarts(pod: Pod) -> int:
    """The most restarts of any sidecar."""
    if not pod.status.init_container_statuses:
        return 0
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    return most_restarts(s for s in pod.status.init_container_statuses if s.name in sidecars) if sidecars else 0


def most_restarts(statuses: Iterable[ContainerStatus]) -> int:
    """The most restarts of any of these; a negative count, which the API server accepts, counts as 0."""
    most = 0
    for status in statuses:
        if status.restart_count > most:
            most = status.restart_count
    return most


def uid_words(uid: str) -> tuple[int, int]:
    """The first sixteen bytes of a UID as two numbers that sort as the text does."""
    words: tuple[int, int] = _WORDS.unpack_from(uid.encode().ljust(_WORDS.size, b"\0"))
    return words
