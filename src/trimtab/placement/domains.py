"""The domains of a topology: the nodes, divided by the value of a label.

Domains are numbered from 1, by value; slot 0 is for nodes that lack the label. Arrays by domain have an element for
each slot, so that `by_domain.take(domains.slots)` is the same by node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import LabelKey, NodeTable

Totals = npt.NDArray[Any]
"""Sums by domain: whole numbers, although numpy returns weighted sums as floats."""


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """A label of all nodes: the slot of each node, the nodes that have the label, and the number of rows of each slot.

    `empty` is the slot of the empty value; 0 if there is none.
    """

    slots: IntColumn
    present: Mask
    rows: IntColumn
    empty: int

    def sums(self, amounts: IntColumn, nodes: Mask) -> Totals:
        """The sum of the amounts on these nodes, by domain; a missing label counts as an empty one, if there is one."""
        if not nodes.all():
            amounts = amounts * nodes
        return self._with_missing(np.bincount(self.slots, weights=amounts, minlength=len(self.rows)))

    def sizes(self, nodes: Mask) -> Totals:
        """The number of these nodes in each domain; a missing label as in `sums`. Callers must not modify it."""
        if nodes.all():
            return self.rows
        return self._with_missing(np.bincount(self.slots, weights=nodes, minlength=len(self.rows)))

    def _with_missing(self, totals: Totals) -> Totals:
        if self.empty:
            totals[self.empty] += totals[0]
            totals[0] = 0
        return totals


def domains(nodes: NodeTable, key: LabelKey) -> Domains:
    """The domains of a label, recomputed only after a node has changed."""
    return nodes.derived(("domains", key), lambda: _domains(nodes, key))


def _domains(nodes: NodeTable, key: LabelKey) -> Domains:
    column = nodes.label(key)
    slots = np.add(column.codes[: len(nodes)], 1, dtype=np.intp)
    rows = np.bincount(slots, minlength=len(column.values) + 1)
    empty = column.index.get("", -1) + 1
    if empty:
        rows[empty] += rows[0]
        rows[0] = 0
    return Domains(slots, slots > 0, rows, empty)
