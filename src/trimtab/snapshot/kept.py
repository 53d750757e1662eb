"""Values of nodes for the pods of one template, kept from decision to decision.

A decision computes values for each node from what its pods use, such as a score. Pods of one template follow one
another, and from one to the next little changes but the node that the last one was assigned to. So the values are kept
in levels: for the nodes as they were, with one more pod of the template, with two more, and so on. A level is computed
for all nodes at once, when the first of them reaches it; from then on, a node that gets another pod of the template has
its next value without any computation. Nodes that changed otherwise are computed again.

The values are exactly those that would be computed anew: adding a pod's requests is the same, in whichever order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.snapshot.columns import IntColumn, SmallColumn
from trimtab.snapshot.requests import Requests

Selection = slice | IntColumn
"""Some rows: all of them, or these."""
ALL: Selection = slice(None)

Values = npt.NDArray[Any]
Compute = Callable[[Selection, IntColumn | int], Values]
"""Computes the values of some rows, each from its row alone, with so many more pods of the template than there are."""

MAX_CHANGES = 128
"""How many changes are remembered: after many, computing all rows again takes no longer than going through them."""
MAX_LEVELS = 8
"""How many levels are kept: a node that gets more pods of the template is computed again."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A row that changed: it got (`sign` 1) or lost (-1) a pod with these requests; None for any other change."""

    row: int
    requests: Requests | None
    sign: int


class ChangeLog:
    """Changes in order. The oldest are forgotten."""

    __slots__ = ("_changes", "count")

    def __init__(self) -> None:
        self.count = 0
        """The number of changes so far."""
        self._changes: list[Change] = []

    def add(self, row: int, requests: Requests | None, sign: int) -> None:
        """Record a change."""
        self.count += 1
        self._changes.append(Change(row, requests, sign))
        if len(self._changes) > MAX_CHANGES:
            del self._changes[: MAX_CHANGES // 2]

    def forget(self, number: int) -> None:
        """Record that so many changes are not remembered: all values are computed again."""
        self.count += number
        self._changes.clear()

    def since(self, count: int) -> list[Change] | None:
        """The changes after the first `count`; None if some of them are forgotten."""
        number = self.count - count
        return None if number > len(self._changes) else self._changes[len(self._changes) - number :]


class _Entry:
    """The values of one key."""

    __slots__ = ("_levels", "_steps", "upto", "values")

    def __init__(self, values: Values, upto: int) -> None:
        values.flags.writeable = False
        self.values = values
        """The current values, read-only: decisions keep them."""
        self.upto = upto
        """The number of changes that they include."""
        self._levels: list[Values] = []
        """Empty until the first update: many templates have a single pod."""
        self._steps: SmallColumn = np.zeros(0, dtype=np.int32)
        """The level that each row has reached."""

    def update(self, changes: Iterable[Change], requests: Requests, compute: Compute) -> None:
        """Include more changes."""
        if not self._levels:
            self._levels, self._steps = [self.values.copy()], np.zeros(len(self.values), dtype=np.int32)
        stale: set[int] = set()
        rows: set[int] = set()
        for change in changes:
            rows.add(change.row)
            if change.requests is requests:
                self._steps[change.row] += change.sign
            else:
                stale.add(change.row)
        stale.update(row for row in rows if not 0 <= self._steps[row] < MAX_LEVELS)
        if stale:
            self._restart(np.array(sorted(stale)), compute)
        values = self.values.copy()
        for row in rows:
            values[row] = self._level(self._steps.item(row), compute)[row]
        values.flags.writeable = False
        self.values = values

    def _restart(self, rows: IntColumn, compute: Compute) -> None:
        """Compute some rows again; their levels count from their present state on."""
        self._steps[rows] = 0
        count = len(self._levels)
        values = compute(np.tile(rows, count), np.repeat(np.arange(count), len(rows)))
        for level, of_level in zip(self._levels, values.reshape(count, -1), strict=True):
            level[rows] = of_level

    def _level(self, number: int, compute: Compute) -> Values:
        while len(self._levels) <= number:
            self._levels.append(compute(ALL, len(self._levels) - self._steps.astype(np.int64)))
        return self._levels[number]


class KeptValues:
    """Values by key, of which the most recently used are kept."""

    __slots__ = ("_entries", "_limit", "_log")

    def __init__(self, log: ChangeLog, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._entries: dict[Hashable, _Entry] = {}

    def current(self, key: Hashable, requests: Requests, length: int, compute: Compute) -> Values:
        """The values of all rows, of which there are so many, for a pod with these requests.

        `key` and `requests` must determine `compute`. The array is read-only, and stays as it is when rows change.
        """
        entry = self._entries.pop((key, requests), None)
        changes = None if entry is None else self._log.since(entry.upto)
        if entry is None or changes is None or len(entry.values) != length:
            entry = _Entry(compute(ALL, 0), self._log.count)
        elif changes:
            entry.update(changes, requests, compute)
            entry.upto = self._log.count
        self._entries[key, requests] = entry
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
        return entry.values
