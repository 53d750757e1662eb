"""NodeName: the node that a pod names in `spec.nodeName`."""

from __future__ import annotations

import numpy as np

from trimtab.placement.changes import Action, Subject
from trimtab.placement.framework import UNRESOLVABLE, Cycle, PluginKind, Refusals
from trimtab.placement.hints import Hints, hint


class NodeName:
    """Refuses all nodes but the one that a pod names."""

    name = "NodeName"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """All nodes but the one named."""
        name = cycle.pod.spec.node_name
        if not name:
            return None
        nodes = cycle.snapshot.nodes
        others = np.ones(len(nodes), dtype=np.bool_)
        row = nodes.rows.index.get(name)
        if row is not None:
            others[row] = False
        return Refusals.of(others, UNRESOLVABLE, "node(s) didn't match the requested node name")


HINTS: Hints = (hint(Subject.NODE, Action.ADD),)

PLUGIN = PluginKind(("filter",), make=lambda _: NodeName(), hints=HINTS)
