"""The affinity terms of assigned pods, and how many pods hold each on every node.

An incoming pod must be matched against the terms of all existing pods. Pods of a template hold the same terms, and most
terms select one workload's labels, so each is indexed by a label that it requires (`app=web`); an incoming pod is
matched only against terms that are indexed by its own labels, and against those that require no label.

Who holds a term is kept by node in a dictionary, which is small; as a column only for terms that incoming pods have
matched lately. Users choose the terms, and a column for each would take memory for every node.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimtab.api.meta import Labels
from trimtab.api.selectors import Selector, needed_labels
from trimtab.snapshot.columns import IntColumn, grown
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.shapes import HeldTerm

Pair = tuple[str, str]
_ANY: Pair = ("", "")
"""The index of terms that require no label; no label has an empty key."""
COLUMNS_KEPT = 512
"""At 5,000 nodes 20 MB."""


class TermBook:
    """All terms of assigned pods, with the number of pods that hold each on every node."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._holders: dict[HeldTerm, dict[int, int]] = {}
        self._columns: dict[HeldTerm, IntColumn] = {}
        self._index: dict[Pair, dict[HeldTerm, None]] = {}

    def copy(self, nodes: NodeTable) -> TermBook:
        """The same terms over a copy of the nodes; changes of one do not affect the other."""
        made = TermBook(nodes)
        made._holders = {held: dict(holders) for held, holders in self._holders.items()}
        made._index = {pair: dict(indexed) for pair, indexed in self._index.items()}
        return made

    def __len__(self) -> int:
        """The number of distinct terms."""
        return len(self._holders)

    def __iter__(self) -> Iterator[HeldTerm]:
        return iter(self._holders)

    def per_node(self, held: HeldTerm) -> IntColumn:
        """The number of pods that hold the term on each node, by row. Live; callers must not modify it."""
        column = self._columns.pop(held, None)
        if column is None:
            holders = self._holders.get(held, {})
            column = np.zeros(self._nodes.capacity, dtype=np.int64)
            column[list(holders)] = list(holders.values())
            if len(self._columns) >= COLUMNS_KEPT:
                del self._columns[next(iter(self._columns))]  # the one that was not asked for longest
        elif len(column) < len(self._nodes):
            column = grown(column, self._nodes.capacity)
        self._columns[held] = column
        return column[: len(self._nodes)]

    def reaching(self, namespace: str, namespace_labels: Labels, labels: Labels) -> list[HeldTerm]:
        """The terms that apply to a pod with these labels, in a namespace of that name with those labels."""
        if not self._holders:
            return []
        candidates = [held for pair in (_ANY, *labels.items()) for held in self._index.get(pair, ())]
        return [held for held in candidates if held.term.reaches(namespace, namespace_labels, labels)]

    def adjust(self, held: HeldTerm, node: int, sign: int) -> None:
        """Count a pod that holds the term on a node (`sign` 1), or remove it (-1)."""
        holders = self._holders.get(held)
        if holders is None:
            holders = self._holders[held] = {}
            for pair in _pairs(held.term.selector):
                self._index.setdefault(pair, {})[held] = None
        holders[node] = holders.get(node, 0) + sign
        if not holders[node]:
            del holders[node]
        if not holders:
            self._remove(held)
            return
        column = self._columns.get(held)
        if column is None:
            return
        if node >= len(column):
            column = self._columns[held] = grown(column, self._nodes.capacity)
        column[node] += sign

    def _remove(self, held: HeldTerm) -> None:
        del self._holders[held]
        self._columns.pop(held, None)
        for pair in _pairs(held.term.selector):
            indexed = self._index[pair]
            del indexed[held]
            if not indexed:
                del self._index[pair]


def _pairs(selector: Selector) -> tuple[Pair, ...]:
    """The labels of which every match has exactly one: the shortest such list of the selector."""
    if selector.nothing:
        return ()
    return min(needed_labels(selector), key=len, default=(_ANY,))
