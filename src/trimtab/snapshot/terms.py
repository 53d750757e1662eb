"""The affinity terms that placed pods hold against others, and how many hold each on every node.

A pod that comes must be compared with the terms of all who are there already. Pods of a template hold the same terms,
and most terms speak of one workload's labels, so each is filed under a pair of labels that it cannot do without
(`app=web`); who comes looks under its own labels only. Terms without such a pair are looked at for everybody.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimtab.api.meta import Labels
from trimtab.api.selectors import Operator, Selector
from trimtab.snapshot.columns import IntColumn, grown
from trimtab.snapshot.nodes import NodeTable
from trimtab.snapshot.shapes import HeldTerm

Pair = tuple[str, str]
_ANY: Pair = ("", "")
"""Where terms are filed that could speak of any labels; no label has an empty key."""


class TermBook:
    """All held terms, with their holders on each node."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._holders: dict[HeldTerm, IntColumn] = {}
        self._filed: dict[Pair, dict[HeldTerm, None]] = {}

    def __len__(self) -> int:
        """How many distinct terms are held."""
        return len(self._holders)

    def __iter__(self) -> Iterator[HeldTerm]:
        return iter(self._holders)

    def per_node(self, held: HeldTerm) -> IntColumn:
        """How many pods hold the term on each node, a row a node. Live, and not the caller's to change."""
        holders = self._holders.get(held)
        if holders is None:
            return np.zeros(len(self._nodes), dtype=np.int64)
        if len(holders) < len(self._nodes):
            holders = self._holders[held] = grown(holders, self._nodes.capacity)
        return holders[: len(self._nodes)]

    def reaching(self, namespace: str, namespace_labels: Labels, labels: Labels) -> list[HeldTerm]:
        """The terms that speak of a pod with these labels, in a namespace of that name with those labels."""
        if not self._holders:
            return []
        candidates = [held for pair in (_ANY, *labels.items()) for held in self._filed.get(pair, ())]
        return [held for held in candidates if held.term.reaches(namespace, namespace_labels, labels)]

    def adjust(self, held: HeldTerm, node: int, sign: int) -> None:
        """A pod that holds the term came to a node (`sign` 1) or left it (-1)."""
        holders = self._holders.get(held)
        if holders is None:
            holders = self._holders[held] = np.zeros(self._nodes.capacity, dtype=np.int64)
            for pair in _pairs(held.term.selector):
                self._filed.setdefault(pair, {})[held] = None
        elif node >= len(holders):
            holders = self._holders[held] = grown(holders, self._nodes.capacity)
        holders[node] += sign
        if sign < 0 and not holders.any():
            self._forget(held)

    def _forget(self, held: HeldTerm) -> None:
        del self._holders[held]
        for pair in _pairs(held.term.selector):
            filed = self._filed[pair]
            del filed[held]
            if not filed:
                del self._filed[pair]


def _pairs(selector: Selector) -> tuple[Pair, ...]:
    """Pairs of labels of which a match has exactly one: the fewest that the selector offers."""
    if selector.nothing:
        return ()
    offers = [
        tuple((requirement.key, value) for value in requirement.values)
        for requirement in selector.requirements
        if requirement.operator in (Operator.EQUALS, Operator.IN)
    ]
    return min(offers, key=len, default=(_ANY,))
