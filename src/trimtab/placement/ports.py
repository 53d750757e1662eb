"""NodePorts: each host port of a node can be used once.

Two ports conflict if protocol and number are the same and the addresses overlap: `0.0.0.0`, the default, overlaps
with every address, and any other address only with itself (`::` too).
"""

from __future__ import annotations

import numpy as np

from trimtab.api.pods import Pod
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import UNSCHEDULABLE, Cycle, PluginKind, Refusals
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.snapshot import Snapshot
from trimtab.snapshot.shapes import EVERY_ADDRESS, HostPort


class NodePorts:
    """Refuses nodes where a host port of the pod is in use."""

    name = "NodePorts"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes where a port is in use."""
        snapshot = cycle.snapshot
        ports = snapshot.shape(cycle.pod).ports
        if not ports:
            return None
        in_use = np.zeros(len(snapshot.nodes), dtype=np.bool_)
        for port in ports:
            in_use[_rows_in_use(snapshot, port)] = True
        return Refusals.of(in_use, UNSCHEDULABLE, "node(s) didn't have free ports for the requested pod ports")


def _rows_in_use(snapshot: Snapshot, port: HostPort) -> list[int]:
    by_node = snapshot.ports.get((port.protocol, port.port), {})
    return [row for row, used in by_node.items() if any(_overlap(port.ip, other.ip) for other in used)]


def _overlap(one: str, other: str) -> bool:
    return one == other or EVERY_ADDRESS in (one, other)


def _freed_port(context: HintContext, pod: Pod, change: Change) -> bool:
    freed = {(port.protocol, port.port) for port in context.snapshot.shape(change.old).ports}
    return any((port.protocol, port.port) in freed for port in context.snapshot.shape(pod).ports)


HINTS: Hints = (
    hint(Subject.NODE, Action.ADD),
    hint(Subject.ASSIGNED_POD, Action.DELETE, condition=_freed_port),
)

PLUGIN = PluginKind(("preFilter", "filter"), needs=("preFilter",), make=lambda _: NodePorts(), hints=HINTS)
