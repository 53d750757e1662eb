"""SelectorSpread: how Kubernetes spread pods before it had default constraints.

Kept as the baseline that default constraints are compared with, and for clusters that want the old behaviour: it is off
unless a profile enables it. It scores only, and only pods without constraints of their own.

1. A node's raw score is the number of its pods that the deduced selector matches (see `defaults`); for a pod without
   service and owner that is 0 everywhere.
2. By node: 100 for a node without such pods, 0 for the fullest, in proportion between them.
3. By zone in the same way, over the sums of the feasible nodes of each zone; a zone is a region and a zone in it, by
   the deprecated labels first and by the modern ones where those are absent.
4. A node with a zone gets a third of 2 and two thirds of 3, truncated; one without, 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.api.nodes import DEPRECATED_REGION, DEPRECATED_ZONE, REGION, ZONE
from trimtab.placement import defaults
from trimtab.placement.framework import MAX_SCORE, Cycle, PluginKind, Scores
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import LabelColumn, NodeTable

ZONE_WEIGHT = 2.0 / 3.0

_ZONES = (DEPRECATED_ZONE, ZONE)
_REGIONS = (DEPRECATED_REGION, REGION)

Numbers = npt.NDArray[Any]


class SelectorSpread:
    """Prefers nodes and zones with few pods of the same service or workload."""

    name = "SelectorSpread"

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """A higher score for nodes and zones with fewer pods of the same group."""
        if cycle.pod.spec.topology_spread_constraints:
            return None
        raw = _counts(cycle)
        counts = np.where(feasible, raw, 0)
        by_node = _shares(counts)
        zones = _zones(cycle.snapshot.nodes)
        if not (zones[feasible] > 0).any():
            return Scores(raw, by_node.astype(np.int64))
        sums = np.bincount(zones, weights=counts)
        sums[0] = 0
        mixed = by_node * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * _shares(sums)[zones]
        return Scores(raw, np.where(zones > 0, mixed, by_node).astype(np.int64))


def _counts(cycle: Cycle) -> IntColumn:
    selector = defaults.deduced_selector(cycle)
    if selector.empty:
        return np.zeros(len(cycle.snapshot.nodes), dtype=np.int64)
    return cycle.snapshot.matching(cycle.pod.metadata.namespace, selector).copy()


def _shares(counts: Numbers) -> Numbers:
    """100 for none, 0 for the most."""
    most = counts.max(initial=0)
    if not most:
        return np.full(len(counts), float(MAX_SCORE))
    shares: Numbers = float(MAX_SCORE) * ((most - counts) / float(most))
    return shares


def _zones(nodes: NodeTable) -> IntColumn:
    """The zone of each node as a number; 0 for nodes that have none."""
    zones, regions = nodes.label(_ZONES), nodes.label(_REGIONS)
    combined = _numbers(regions, len(nodes)) * (len(zones.values) + 1) + _numbers(zones, len(nodes))
    return combined.astype(np.int64)


def _numbers(column: LabelColumn, rows: int) -> Numbers:
    """A label as numbers from 1; 0 where it is absent or empty."""
    numbers: Numbers = column.codes[:rows] + 1
    empty = column.index.get("")
    if empty is not None:
        numbers[numbers == empty + 1] = 0
    return numbers


PLUGIN = PluginKind(("preScore", "score"), needs=("preScore",), make=lambda _: SelectorSpread())
