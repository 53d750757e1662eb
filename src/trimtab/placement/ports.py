"""Host ports: a node has each of them once.

Two ports clash if protocol and number are the same and the addresses meet: `0.0.0.0`, which is what no address means,
meets every other, and any other address only itself (`::` too).
"""

from __future__ import annotations

import numpy as np

from trimtab.placement.framework import UNSCHEDULABLE, Cycle, Refusals
from trimtab.snapshot import Snapshot
from trimtab.snapshot.shapes import EVERY_ADDRESS, HostPort


class NodePorts:
    """A pod may go where the host ports that it wants are free."""

    name = "NodePorts"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes where a port is taken."""
        snapshot = cycle.snapshot
        wanted = snapshot.shape(cycle.pod).ports
        if not wanted:
            return None
        taken = np.zeros(len(snapshot.nodes), dtype=np.bool_)
        for port in wanted:
            taken[_rows_where_taken(snapshot, port)] = True
        return Refusals.of(taken, UNSCHEDULABLE, "node(s) didn't have free ports for the requested pod ports")


def _rows_where_taken(snapshot: Snapshot, wanted: HostPort) -> list[int]:
    by_node = snapshot.ports.get((wanted.protocol, wanted.port), {})
    return [row for row, taken in by_node.items() if any(_meet(wanted.ip, port.ip) for port in taken)]


def _meet(one: str, other: str) -> bool:
    return one == other or EVERY_ADDRESS in (one, other)
