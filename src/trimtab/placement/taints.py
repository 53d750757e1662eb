"""Taints: nodes that want to be left alone, and the pods that may come nevertheless.

A node is refused for a taint that repels (`NoSchedule`, `NoExecute`) and is not tolerated; its score falls with each
`PreferNoSchedule` taint that is not. Nodes share few sets of taints, so the question is asked once a set.
"""

from __future__ import annotations

import numpy as np

from trimtab.api.tolerations import count_prefer_no_schedule, untolerated
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, Cycle, Refusals, Scores
from trimtab.placement.normalization import in_reverse, largest
from trimtab.snapshot.columns import Mask


class TaintToleration:
    """A pod may go where it tolerates the taints, and prefers where there are fewer that it does not."""

    name = "TaintToleration"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes with a repelling taint that the pod does not tolerate."""
        nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
        repelled = np.array([untolerated(tolerations, taints) is not None for taints in nodes.taint_sets])
        if not repelled.any():
            return None
        return Refusals.of(repelled.take(nodes.taints, mode="clip"), UNRESOLVABLE, "node(s) had untolerated taint(s)")

    def score(self, cycle: Cycle, feasible: Mask) -> Scores:
        """The number of taints that make a node less welcome."""
        nodes, tolerations = cycle.snapshot.nodes, cycle.pod.spec.tolerations
        counts = np.array(
            [count_prefer_no_schedule(tolerations, taints) for taints in nodes.taint_sets], dtype=np.int64
        )
        if not counts.any():
            return Scores(np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), MAX_SCORE, dtype=np.int64))
        raw = counts.take(nodes.taints, mode="clip")
        marks = in_reverse(counts, largest(raw, feasible))
        return Scores(raw, marks.take(nodes.taints, mode="clip"))
