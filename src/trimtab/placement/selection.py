"""The node that a pod names, and the nodes that an operator has closed."""

from __future__ import annotations

import numpy as np

from trimtab.api.nodes import Taint
from trimtab.api.tolerations import NO_SCHEDULE, tolerated
from trimtab.placement.framework import UNRESOLVABLE, Cycle, Refusals

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""Who tolerates this taint may go to a cordoned node, whether or not the node has it."""


class NodeName:
    """A pod that names its node may go nowhere else."""

    name = "NodeName"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """All nodes but the one named."""
        wanted = cycle.pod.spec.node_name
        if not wanted:
            return None
        nodes = cycle.snapshot.nodes
        others = np.ones(len(nodes), dtype=np.bool_)
        row = nodes.rows.index.get(wanted)
        if row is not None:
            others[row] = False
        return Refusals.of(others, UNRESOLVABLE, "node(s) didn't match the requested node name")


class NodeUnschedulable:
    """A cordoned node takes no new pods, except those that tolerate it."""

    name = "NodeUnschedulable"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The cordoned nodes."""
        cordoned = cycle.snapshot.nodes.unschedulable
        if not cordoned.any() or tolerated(cycle.pod.spec.tolerations, CORDONED):
            return None
        return Refusals.of(cordoned.copy(), UNRESOLVABLE, "node(s) were unschedulable")
