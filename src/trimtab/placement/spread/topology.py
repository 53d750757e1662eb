"""A constraint against the nodes of a snapshot: its domains, and how many matching pods each has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.api.logarithms import go_log
from trimtab.api.nodes import HOSTNAME
from trimtab.api.tolerations import untolerated
from trimtab.placement.affinity import suited_nodes
from trimtab.placement.domains import Totals, domains
from trimtab.placement.framework import UNRESOLVABLE, Codes, Cycle
from trimtab.placement.spread.constraints import SpreadConstraint
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

_UNBOUNDED = 2**31 - 1
"""The minimum of no domains at all, where `minDomains` does not make it 0."""

Floats = npt.NDArray[np.float64]


class Topology:
    """A constraint, and the domains that its key divides the nodes into."""

    __slots__ = ("_constraint", "_domains", "present")

    def __init__(self, snapshot: Snapshot, constraint: SpreadConstraint) -> None:
        self._constraint = constraint
        self._domains = domains(snapshot.nodes, constraint.key)
        self.present = self._domains.present

    def codes(self, cycle: Cycle, complete: Mask) -> Codes:
        """The codes of this constraint alone, by node (rules 3 to 5)."""
        constraint = self._constraint
        eligible = _eligible(cycle, constraint, complete)
        counts = self._domains.sums(_matching(cycle, constraint), eligible)
        lowest = self._lowest(counts[1:][self._domains.sizes(eligible)[1:] > 0])
        most = lowest + constraint.max_skew - constraint.selector.matches(cycle.pod.metadata.labels)
        by_domain = (counts > most).astype(np.int8)
        by_domain[0] = UNRESOLVABLE
        return by_domain.take(self._domains.slots)

    def credit(self, cycle: Cycle, takes_part: Mask, scored: Mask) -> Floats:
        """The amount that this constraint adds to the raw score of each node (rules 7 and 8)."""
        constraint = self._constraint
        matching = _matching(cycle, constraint)
        if constraint.key == HOSTNAME:
            credit = self._term(matching, np.count_nonzero(scored))
            return credit if self.present.all() else credit * self.present
        counts = self._domains.sums(matching, _eligible(cycle, constraint, takes_part))
        by_domain = self._term(counts, np.count_nonzero(self._domains.sizes(scored)))
        by_domain[0] = 0.0
        return by_domain.take(self._domains.slots)

    def crowding(self, cycle: Cycle) -> IntColumn:
        """The pods that count in the domain of each node; on a node that does not count, those on the node itself."""
        matching = _matching(cycle, self._constraint)
        eligible = _eligible(cycle, self._constraint, self.present)
        counts = self._domains.sums(matching, eligible).astype(np.int64)
        return np.where(eligible, counts.take(self._domains.slots), matching)

    def _term(self, counts: Totals, domains: np.integer[Any]) -> Floats:
        return counts * go_log(float(domains + 2)) + float(self._constraint.max_skew - 1)

    def _lowest(self, counts: Totals) -> int:
        if len(counts) < self._constraint.min_domains:
            return 0
        return int(counts.min()) if len(counts) else _UNBOUNDED


def _matching(cycle: Cycle, constraint: SpreadConstraint) -> IntColumn:
    """The number of pods that count on each node (rule 1)."""
    selector = constraint.selector
    if selector.empty or selector.nothing:
        return np.zeros(len(cycle.snapshot.nodes), dtype=np.int64)
    return cycle.snapshot.matching(cycle.pod.metadata.namespace, selector)


def _eligible(cycle: Cycle, constraint: SpreadConstraint, nodes: Mask) -> Mask:
    """The nodes, of those given, that the constraint's policies include (rule 2)."""
    if constraint.honor_affinity:
        suited = suited_nodes(cycle)
        nodes = nodes if suited is None else nodes & suited
    if constraint.honor_taints:
        nodes = nodes & cycle.once("spread.taints", lambda: _tolerated_nodes(cycle))
    return nodes


def _tolerated_nodes(cycle: Cycle) -> Mask:
    nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
    tolerated = np.array([untolerated(tolerations, taints) is None for taints in nodes.taint_sets])
    return tolerated.take(nodes.taints)
