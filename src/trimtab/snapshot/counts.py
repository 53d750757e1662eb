"""How many pods a selector matches on each node, kept current event by event.

A tally belongs to a set of namespaces and a selector, and is shared by all constraints that count those pods: the
domains of any topology key are one `bincount` over its node label away. Since it counts per node and not per domain,
one tally serves every key and every choice of eligible nodes (a constraint's node policies exclude nodes for one pod
that count for the next).

A tally that has not been requested for long is dropped; the next request counts again, with one scan. There are at most
so many: each takes memory for every node, and users choose the selectors. When there are, a tenth of them are dropped,
those whose last request is longest ago: to find and remove them is not repeated for each new one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.api.selectors import Operator, Selector
from trimtab.snapshot.columns import IntColumn, Mask, grown
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.pods import NOWHERE, PodTable

IDLE_REQUESTS = 10_000
"""A tally is dropped after that many requests for other tallies, or a tenth more."""
MAX_TALLIES = 1024
"""At 5,000 nodes 40 MB; and an event of a pod may change all of them."""
MAX_PAIRS = 2_000_000
"""How many tallies the sets of labels may have together: a selector may match all of them. 16 MB."""


@dataclass(frozen=True, slots=True)
class TallyKey:
    """The pods that are counted: of these namespaces (all if None), matching this selector; terminating ones or not."""

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool

    def covers(self, namespace: str) -> bool:
        """Whether pods of that namespace are counted at all."""
        return self.namespaces is None or namespace in self.namespaces


@dataclass(slots=True, eq=False)
class _Tally:
    key: TallyKey
    per_node: IntColumn
    requested: int


class TallyBook:
    """All tallies, and which of them each set of labels belongs to."""

    def __init__(self, pods: PodTable, nodes: NodeTable) -> None:
        self._pods = pods
        self._nodes = nodes
        self._tallies: dict[Hashable, _Tally] = {}
        self._by_labels: dict[int, list[_Tally]] = {}
        self._pairs = 0
        """How many tallies the sets of labels have together."""
        self._requests = 0
        self._searched = 0
        """The request at which idle tallies were searched for last."""

    def __len__(self) -> int:
        return len(self._tallies)

    def per_node(self, key: TallyKey) -> IntColumn:
        """The number of matching pods on each node, by row. It changes with events; callers must not modify it."""
        self._requests += 1
        tally = self._tallies.get(key)
        if tally is None:
            self._drop_idle()
            self._drop_surplus()
            tally = self._add(key)
        tally.requested = self._requests
        if len(tally.per_node) < len(self._nodes):
            tally.per_node = grown(tally.per_node, self._nodes.capacity)
        return tally.per_node[: len(self._nodes)]

    def adjust(self, labels: int, node: int, *, terminating: bool, sign: int) -> None:
        """Count a pod with that set of labels on a node (`sign` 1), or remove it (-1)."""
        for tally in self._of(labels):
            if terminating and not tally.key.terminating:
                continue
            if node >= len(tally.per_node):
                tally.per_node = grown(tally.per_node, self._nodes.capacity)
            tally.per_node[node] += sign

    def forget_labels(self, labels: int) -> None:
        """Forget a set of labels that no pod has any more: its number may be reused."""
        self._pairs -= len(self._by_labels.pop(labels, ()))

    def _of(self, labels: int) -> list[_Tally]:
        known = self._by_labels.get(labels)
        if known is None:
            known = [tally for tally in self._tallies.values() if self._matches(tally.key, labels)]
            if self._pairs + len(known) > MAX_PAIRS:
                self._forget_all_labels()
            self._by_labels[labels] = known
            self._pairs += len(known)
        return known

    def _forget_all_labels(self) -> None:
        """Forget which tallies each set of labels belongs to; that is found again with the next event of a pod."""
        self._by_labels.clear()
        self._pairs = 0

    def _add(self, key: TallyKey) -> _Tally:
        """Count all pods, and add the tally to the sets of labels that it counts."""
        matching = np.array(self._matching(key), dtype=np.bool_)
        tally = self._tallies[key] = _Tally(key, self._count(key, matching), self._requests)
        for labels in np.flatnonzero(matching).tolist():
            if labels in self._by_labels:
                self._by_labels[labels].append(tally)
                self._pairs += 1
        if self._pairs > MAX_PAIRS:
            self._forget_all_labels()
        return tally

    def _matches(self, key: TallyKey, labels: int) -> bool:
        row = self._pods.labels.rows[labels]
        return row is not None and key.covers(row[0]) and key.selector.matches(row[1])

    def _matching(self, key: TallyKey) -> list[bool]:
        """Whether a tally counts each set of labels; there may be thousands, of which few have its first label."""
        rows, namespaces, matches = self._pods.labels.rows, key.namespaces, key.selector.matches
        name, value = next(
            ((each.key, each.values[0]) for each in key.selector.requirements if each.operator is Operator.EQUALS),
            (None, None),
        )
        return [
            row is not None
            and (name is None or row[1].get(name) == value)
            and (namespaces is None or row[0] in namespaces)
            and matches(row[1])
            for row in rows
        ]

    def _count(self, key: TallyKey, sets: Mask) -> IntColumn:
        """Count all pods with these sets of labels, in one scan."""
        pods = self._pods
        per_node = np.zeros(self._nodes.capacity, dtype=np.int64)
        if not sets.any():
            return per_node
        chosen = self._placed() & sets[pods.label_set]
        if not key.terminating:
            chosen &= ~pods.terminating
        counted = np.bincount(pods.node[chosen], minlength=len(per_node))
        per_node[:] = counted
        return per_node

    def _placed(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        pods = self._pods
        finished = pods.column("phase") > 2
        placed: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
            pods.column("present").astype(np.bool_) & (pods.node != NOWHERE) & ~finished
        )
        return placed

    def _drop_idle(self) -> None:
        """Drop tallies that have not been requested for long; all are searched once in many requests."""
        if self._requests - self._searched < IDLE_REQUESTS // 10:
            return
        self._searched = self._requests
        self._drop([each for each in self._tallies.values() if self._requests - each.requested > IDLE_REQUESTS])

    def _drop_surplus(self) -> None:
        """Make room for a tenth of all, if there are too many."""
        if len(self._tallies) >= MAX_TALLIES:
            oldest_first = sorted(self._tallies.values(), key=lambda each: each.requested)
            self._drop(oldest_first[: max(1, MAX_TALLIES // 10)])

    def _drop(self, tallies: Sequence[_Tally]) -> None:
        if not tallies:
            return
        for tally in tallies:
            del self._tallies[tally.key]
        self._forget_all_labels()
