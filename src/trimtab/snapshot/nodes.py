"""The table of nodes: allocatable and requested resources, and labels as small integers.

A row exists for every node that a pod names, also for one that has not been observed (`known` is false): pods may be
observed before their node, or after its deletion, and their counts must be right when it appears.

Columns take memory for each node, so users must not be able to add any number of them. A resource has a column once a
node has some of it; what pods request of others is kept in dictionaries. Labels that pods name as topology keys have
columns while they are in use, if a node has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from trimtab.api.nodes import Node, Taint
from trimtab.snapshot.columns import Columns, IntColumn, Mask, Rows, SmallColumn, grown
from trimtab.snapshot.kept import ChangeLog, Compute, KeptValues, Values
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests, amounts

ABSENT = -1
"""The code of a label that a node does not have."""

LabelKey = str | tuple[str, ...]
"""A label; or several aliases, of which the first that a node has counts."""

T = TypeVar("T")

_LIMIT = 2**63
_MASKS_KEPT = 512
_VALUES_KEPT = 24
"""Three for each template of pods; at 5,000 nodes about 4 MB."""
_IMAGES_KEPT = 512
_LABELS_KEPT = 256
_SPARE = 64
"""Values of a label, and sets of taints, that no node has any more, besides one for each row."""


@dataclass(slots=True, eq=False)
class LabelColumn:
    """One label of all nodes, as codes: equal codes mean equal values, `ABSENT` that a node lacks the label."""

    codes: SmallColumn
    values: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)

    def copy(self) -> LabelColumn:
        """The same column; changes of one do not affect the other."""
        return LabelColumn(self.codes.copy(), list(self.values), dict(self.index))

    def code(self, value: str) -> int:
        """The code of a value; a new one if the value is new."""
        code = self.index.get(value)
        if code is None:
            code = self.index[value] = len(self.values)
            self.values.append(value)
        return code


@dataclass(slots=True, eq=False)
class _Predicate:
    """A predicate's value for each node, and the last change of the table that it includes."""

    mask: Mask
    upto: int


class NodeTable:
    """All nodes, in columns. Slices returned by its properties are live: they change with the next event."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.objects: list[Node | None] = []
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2, PODS: 3}
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.images: dict[str, dict[int, int]] = {}
        self.changes = 0
        self._taint_ids: dict[tuple[Taint, ...], int] = {(): 0}
        self._columns = Columns(
            known=np.bool_,
            unschedulable=np.bool_,
            taints=np.int32,
            pods=np.int64,
            named=np.int64,
            changed=np.int64,
        )
        capacity = self._columns.capacity
        self._allocatable = np.zeros((capacity, len(self.resources)), dtype=np.int64, order="F")
        self._requested = np.zeros((capacity, len(self.resources)), dtype=np.int64, order="F")
        self._assumed = np.zeros((capacity, 2), dtype=np.int64, order="F")
        self._unknown: dict[str, dict[int, int]] = {}
        """What pods request of resources that no node has: by resource and row."""
        self._image_sizes: dict[str, IntColumn] = {}
        self._labels: dict[LabelKey, LabelColumn] = {}
        self._label_names: Counter[str] = Counter()
        """How many nodes have a label of each name."""
        self._absent = LabelColumn(np.full(capacity, ABSENT, dtype=np.int32))
        """The column of every label that no node has."""
        self._predicates: dict[Hashable, _Predicate] = {}
        self._derived: dict[Hashable, tuple[tuple[int, int], Any]] = {}
        self._log = ChangeLog()
        self._kept = KeptValues(self._log, _VALUES_KEPT)

    def copy(self) -> NodeTable:
        """The same nodes; changes of one do not affect the other. What can be computed again is left out."""
        made = NodeTable()
        made.rows, made.objects, made.changes = self.rows.copy(), list(self.objects), self.changes
        made.resources, made.taint_sets = dict(self.resources), list(self.taint_sets)
        made.images = {name: dict(holders) for name, holders in self.images.items()}
        made._taint_ids, made._columns = dict(self._taint_ids), self._columns.copy()
        made._allocatable, made._requested = self._allocatable.copy(order="F"), self._requested.copy(order="F")
        made._assumed = self._assumed.copy(order="F")
        made._unknown = {name: dict(by_row) for name, by_row in self._unknown.items()}
        made._labels = {key: column.copy() for key, column in self._labels.items()}
        made._label_names, made._absent = Counter(self._label_names), self._absent
        return made

    def __len__(self) -> int:
        """The length of the columns, rows without a node included: see `known`."""
        return len(self.rows)

    @property
    def capacity(self) -> int:
        """The number of rows that fit before arrays grow."""
        return self._columns.capacity

    @property
    def known(self) -> Mask:
        """Which rows hold a node that exists."""
        column: Mask = self._columns["known"][: len(self)]
        return column

    @property
    def unschedulable(self) -> Mask:
        """Which nodes are cordoned."""
        column: Mask = self._columns["unschedulable"][: len(self)]
        return column

    @property
    def taints(self) -> SmallColumn:
        """Which set of taints each node has: an index into `taint_sets`."""
        column: SmallColumn = self._columns["taints"][: len(self)]
        return column

    @property
    def pods(self) -> IntColumn:
        """The number of pods on each node, assumed ones included."""
        column: IntColumn = self._columns["pods"][: len(self)]
        return column

    @property
    def allocatable(self) -> IntColumn:
        """The allocatable resources: a row for each node, a column for each resource (see `resources`)."""
        return self._allocatable[: len(self)]

    @property
    def requested(self) -> IntColumn:
        """The resources that the pods of each node request."""
        return self._requested[: len(self)]

    @property
    def assumed(self) -> IntColumn:
        """Requested CPU and memory, with assumed amounts for containers without a request."""
        return self._assumed[: len(self)]

    def row_of(self, name: str) -> int:
        """The row of a node; a new one if the name is new."""
        row = self.rows.index.get(name)
        if row is not None:
            return row
        row = self.rows.take(name)
        if row == len(self.objects):
            self.objects.append(None)
        if self._columns.reserve(len(self.rows)):
            self._allocatable = grown(self._allocatable, self.capacity)
            self._requested = grown(self._requested, self.capacity)
            self._assumed = grown(self._assumed, self.capacity)
            for column in self._labels.values():
                size = len(column.codes)
                column.codes = grown(column.codes, self.capacity)
                column.codes[size:] = ABSENT
            self._absent = LabelColumn(np.full(self.capacity, ABSENT, dtype=np.int32))
            for image, sizes in self._image_sizes.items():
                self._image_sizes[image] = grown(sizes, self.capacity)
        return row

    def put(self, node: Node) -> int:
        """Add or update a node."""
        allocatable = amounts(node.status.allocatable)  # first: an invalid quantity must change nothing
        row = self.row_of(node.metadata.name)
        self._remove_images(row)
        self._count_labels(self.objects[row], node)
        self.objects[row] = node
        self._columns["known"][row] = True
        self._columns["unschedulable"][row] = node.spec.unschedulable
        self._columns["taints"][row] = self._taint_set(node.spec.taints)
        self._set_allocatable(row, allocatable)
        for key, column in self._labels.items():
            value = label_of(node, key)
            column.codes[row] = ABSENT if value is None else column.code(value)
        self._add_images(row, node)
        self._forget_former_values()
        self._touch(row)
        return row

    def _forget_former_values(self) -> None:
        """Forget labels and taints of nodes that are gone, now and then.

        Each node has a hostname of its own, and in some clusters thousands of nodes come and go in a day: decisions
        would take longer with each of them. Columns of labels are computed again when they are requested.
        """
        most = 2 * len(self.rows) + _SPARE
        if len(self.taint_sets) > most:
            self._renumber_taints()
        for key in [key for key, column in self._labels.items() if len(column.values) > most]:
            del self._labels[key]

    def _renumber_taints(self) -> None:
        self.taint_sets, self._taint_ids = [()], {(): 0}
        for row, node in enumerate(self.objects):
            self._columns["taints"][row] = 0 if node is None else self._taint_set(node.spec.taints)

    def drop(self, name: str) -> None:
        """Delete a node. Its row stays while pods name it."""
        row = self.rows.index.get(name)
        if row is None or self.objects[row] is None:
            return
        self._remove_images(row)
        self._count_labels(self.objects[row], None)
        self.objects[row] = None
        self._columns["known"][row] = False
        self._columns["unschedulable"][row] = False
        self._columns["taints"][row] = 0
        self._allocatable[row] = 0
        for column in self._labels.values():
            column.codes[row] = ABSENT
        self._touch(row)
        self._release_if_unused(row)

    def _count_labels(self, old: Node | None, new: Node | None) -> None:
        before, after = ({} if each is None else each.metadata.labels for each in (old, new))
        if before.keys() == after.keys():
            return
        self._label_names.update(after.keys())
        for name in before:
            self._label_names[name] -= 1
            if not self._label_names[name]:
                del self._label_names[name]

    def refer(self, name: str) -> int:
        """The row of a node that a pod names; the row is kept until `unrefer`."""
        row = self.row_of(name)
        self._columns["named"][row] += 1
        return row

    def refer_all(self, names: Sequence[str]) -> list[int]:
        """The rows of the nodes that several pods name, as `refer` for each."""
        rows = [self.row_of(name) for name in names]
        np.add.at(self._columns["named"], np.array(rows, dtype=np.intp), 1)
        return rows

    def unrefer(self, row: int) -> None:
        """Drop a reference to a row that `refer` added."""
        self._columns["named"][row] -= 1
        self._release_if_unused(row)

    def _release_if_unused(self, row: int) -> None:
        name = self.rows.names[row]
        if name is not None and self.objects[row] is None and not self._columns["named"][row]:
            self.rows.release(name)

    def charge(self, row: int, requests: Requests, sign: int) -> None:
        """Add a pod's requests to a node (`sign` 1), or subtract them (-1)."""
        for name, amount in requests.amounts.items():
            column = self.resources.get(name)
            if column is None:
                self._charge_unknown(name, row, sign * amount)
            else:
                _add(self._requested, row, column, sign * amount)
        _add(self._assumed, row, 0, sign * requests.assumed_cpu)
        _add(self._assumed, row, 1, sign * requests.assumed_memory)
        self._columns["pods"][row] += sign
        self._log.add(row, requests, sign)

    def charge_all(self, charges: Sequence[tuple[int, Requests]]) -> None:
        """Add the requests of many pods, each to a node: as `charge` for each, with one write for each resource."""
        by_requests: dict[int, tuple[Requests, list[int]]] = {}
        for row, requests in charges:  # which the pods of a template share
            by_requests.setdefault(id(requests), (requests, []))[1].append(row)
        for requests, on in by_requests.values():
            rows = np.array(on, dtype=np.intp)
            for name, amount in requests.amounts.items():
                column = self.resources.get(name)
                if column is not None:
                    _add_all(self._requested[:, column], rows, amount)
                    continue
                for row in on:
                    self._charge_unknown(name, row, amount)
            _add_all(self._assumed[:, 0], rows, requests.assumed_cpu)
            _add_all(self._assumed[:, 1], rows, requests.assumed_memory)
            np.add.at(self._columns["pods"], rows, 1)
        self._log.forget(len(charges))

    def _charge_unknown(self, name: str, row: int, amount: int) -> None:
        by_row = self._unknown.setdefault(name, {})
        by_row[row] = by_row.get(row, 0) + amount
        if not by_row[row]:
            del by_row[row]
        if not by_row:
            del self._unknown[name]

    def label(self, key: LabelKey) -> LabelColumn:
        """One label of all nodes. The column is created at the first call and kept current while it is in use."""
        column = self._labels.pop(key, None)
        if column is None and self._label_names.keys().isdisjoint((key,) if isinstance(key, str) else key):
            return self._absent
        if column is None:
            column = LabelColumn(np.full(self.capacity, ABSENT, dtype=np.int32))
            for name, row in self.rows.index.items():
                node = self.objects[row]
                value = None if node is None or name is None else label_of(node, key)
                if value is not None:
                    column.codes[row] = column.code(value)
            if len(self._labels) >= _LABELS_KEPT:
                del self._labels[next(iter(self._labels))]  # the one that was not asked for longest
                self._derived.clear()  # which may have codes of that column
        self._labels[key] = column
        return column

    def codes(self, key: LabelKey) -> SmallColumn:
        """The codes of one label, by row."""
        return self.label(key).codes[: len(self)]

    def evaluate(self, key: Hashable, test: Callable[[Node], bool]) -> Mask:
        """The value of a predicate for each node; only nodes that changed since the last call are tested again.

        `key` must determine `test`. Rows without a node are false.
        """
        predicate = self._predicates.pop(key, None)
        if predicate is None or len(predicate.mask) < len(self):
            mask = np.zeros(self.capacity, dtype=np.bool_)
            predicate = _Predicate(mask, -1)
        if predicate.upto != self.changes:
            self._retest(predicate, test)
        self._predicates[key] = predicate
        if len(self._predicates) > _MASKS_KEPT:
            self._predicates.pop(next(iter(self._predicates)))
        return predicate.mask[: len(self)]

    def _retest(self, predicate: _Predicate, test: Callable[[Node], bool]) -> None:
        stale = np.flatnonzero(self._columns["changed"][: len(self)] > predicate.upto)
        for row in stale.tolist():
            node = self.objects[row]
            predicate.mask[row] = node is not None and test(node)
        predicate.upto = self.changes

    def image_sizes(self, name: str) -> IntColumn | None:
        """The size of an image on each node, 0 where it is absent; None if no node has it.

        The column is created at the first call and kept current from then on.
        """
        holders = self.images.get(name)
        if holders is None:
            return None
        sizes = self._image_sizes.pop(name, None)
        if sizes is None:
            sizes = np.zeros(self.capacity, dtype=np.int64)
            sizes[list(holders)] = list(holders.values())
        self._image_sizes[name] = sizes
        if len(self._image_sizes) > _IMAGES_KEPT:
            self._image_sizes.pop(next(iter(self._image_sizes)))
        return sizes[: len(self)]

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """A value that depends on the nodes alone, recomputed only after a node has changed.

        `key` must determine `compute`. The value is shared; callers must not modify it.
        """
        state = (self.changes, len(self))
        cached = self._derived.get(key)
        if cached is None or cached[0] != state:
            if len(self._derived) >= _MASKS_KEPT:
                self._derived.clear()
            cached = self._derived[key] = (state, compute())
        value: T = cached[1]
        return value

    def kept(self, key: Hashable, requests: Requests, compute: Compute) -> Values:
        """Values of all nodes for a pod with these requests, from the nodes' resources alone; see `KeptValues`."""
        return self._kept.current(key, requests, len(self), compute)

    def _touch(self, row: int) -> None:
        self.changes += 1
        self._columns["changed"][row] = self.changes
        self._log.add(row, None, 0)

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        known = self._taint_ids.get(taints)
        if known is None:
            known = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return known

    def _resource(self, name: str) -> int:
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            extra = np.zeros((self.capacity, 1), dtype=np.int64, order="F")
            self._allocatable = np.asfortranarray(np.hstack([self._allocatable, extra]))
            self._requested = np.asfortranarray(np.hstack([self._requested, extra]))
            for row, amount in self._unknown.pop(name, {}).items():
                _add(self._requested, row, index, amount)
        return index

    def _set_allocatable(self, row: int, allocatable: Mapping[str, int]) -> None:
        indexed = {self._resource(name): amount for name, amount in allocatable.items()}
        self._allocatable[row] = 0
        for index, amount in indexed.items():
            self._allocatable[row, index] = amount

    def _add_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                self.images.setdefault(name, {})[row] = image.size_bytes
                if name in self._image_sizes:
                    self._image_sizes[name][row] = image.size_bytes

    def _remove_images(self, row: int) -> None:
        node = self.objects[row]
        if node is None:
            return
        for name in {name for image in node.status.images for name in image.names}:
            holders = self.images[name]
            del holders[row]
            if name in self._image_sizes:
                self._image_sizes[name][row] = 0
            if not holders:
                del self.images[name]
                self._image_sizes.pop(name, None)


def _add(table: IntColumn, row: int, column: int, amount: int) -> None:
    """Add to one cell. Overflow wraps around, as in kube-scheduler, so that subtracting restores the old value.

    An API server accepts a request of 8Ei; two such pods on one node must not raise an error.
    """
    table[row, column] = _wrapped(table.item(row, column) + amount)


def _add_all(column: IntColumn, rows: IntColumn, amount: int) -> None:
    """Add to many cells, to some of them several times; overflow wraps around."""
    np.add.at(column, rows, _wrapped(amount))


def _wrapped(number: int) -> int:
    return number if -_LIMIT <= number < _LIMIT else (number + _LIMIT) % (2 * _LIMIT) - _LIMIT


def label_of(node: Node, key: LabelKey) -> str | None:
    """The value of a node's label; None if the node lacks it."""
    labels = node.metadata.labels
    if isinstance(key, str):
        return labels.get(key)
    return next((labels[name] for name in key if name in labels), None)
