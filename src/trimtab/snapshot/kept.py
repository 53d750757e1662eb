"""Values of nodes for the pods of one template, kept from decision to decision.

A decision computes values for each node from what its pods use, such as a score. Pods of one template follow one
another, and then nothing changes from one to the next but the node that the last one was assigned to. So the values are
kept in levels: for the nodes as they were, with one more pod of the template, with two more, and so on. A level is
computed for all nodes at once, when the first of them reaches it; from then on, a node that gets another pod of the
template has its next value without any computation. After any other change everything is computed again: that takes
hardly longer than to compute a single node.

The values are exactly those that would be computed anew: adding a pod's requests is the same, in whichever order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.snapshot.columns import IntColumn
from trimtab.snapshot.requests import Requests

Values = npt.NDArray[Any]
Compute = Callable[[IntColumn | int], Values]
"""Computes the value of each node from its row alone, with so many more pods of the template than there are."""

MAX_CHANGES = 128
"""How many changes are remembered."""
MAX_LEVELS = 8
"""How many levels are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A row that got (`sign` 1) or lost (-1) a pod with these requests; None for any other change."""

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

    def since(self, count: int) -> Sequence[Change] | None:
        """The changes after the first `count`; None if some of them are forgotten."""
        number = self.count - count
        return None if number > len(self._changes) else self._changes[len(self._changes) - number :]


class _Entry:
    """The values of one key."""

    __slots__ = ("_levels", "_steps", "upto", "values")

    def __init__(self, values: Values, upto: int) -> None:
        self.values = _sealed(values)
        """The current values."""
        self.upto = upto
        """The number of changes that they include."""
        self._levels = [self.values]
        self._steps = np.zeros(len(values), dtype=np.int64)
        """The level that each row has reached."""

    def follow(self, changes: Sequence[Change], requests: Requests, compute: Compute) -> bool:
        """Include more changes; false if these are not all of the template, or leave the levels."""
        if any(change.requests is not requests for change in changes):
            return False
        for change in changes:
            self._steps[change.row] += change.sign
        steps = {change.row: self._steps.item(change.row) for change in changes}
        if not all(0 <= step < MAX_LEVELS for step in steps.values()):
            return False
        values = self.values.copy()
        for row, step in steps.items():
            values[row] = self._level(step, compute)[row]
        self.values, self.upto = _sealed(values), self.upto + len(changes)
        return True

    def _level(self, number: int, compute: Compute) -> Values:
        while len(self._levels) <= number:
            self._levels.append(compute(len(self._levels) - self._steps))
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
        if entry is None or len(entry.values) != length or not self._is_current(entry, requests, compute):
            entry = _Entry(compute(0), self._log.count)
        self._entries[key, requests] = entry
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
        return entry.values

    def _is_current(self, entry: _Entry, requests: Requests, compute: Compute) -> bool:
        """Bring an entry up to date; false if it must be computed again."""
        changes = self._log.since(entry.upto)
        return changes is not None and (not changes or entry.follow(changes, requests, compute))


def _sealed(values: Values) -> Values:
    """The array, which decisions keep, made read-only."""
    values.flags.writeable = False
    return values
