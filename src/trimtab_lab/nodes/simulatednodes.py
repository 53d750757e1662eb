"""Which nodes are simulated by this process, and which of them have failed.

A label identifies a simulated node and names its shape; an annotation says that it has failed. Both are part of the
object, so a restarted process knows them, and a user can make a node fail: `kubectl annotate node zone-a-1
lab.trimtab.dev/failed=true`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.kube.informers import Informer
from trimtab.kube.resources import Key
from trimtab_lab.nodes.nodegroups import CLUSTER
from trimtab_lab.nodes.scripts import PREFIX
from trimtab_lab.nodes.views import Node

FAILED = f"{PREFIX}failed"


def has_failed(node: Node) -> bool:
    """Whether a node is annotated as failed."""
    return node.metadata.annotations.get(FAILED) == "true"


class SimulatedNodes:
    """The simulated nodes among all nodes of an informer."""

    def __init__(self, informer: Informer[Node], cluster: str) -> None:
        self.informer = informer
        self._cluster = cluster

    def __iter__(self) -> Iterator[Node]:
        return (node for node in self.informer.store if self.owns(node))

    def owns(self, node: Node) -> bool:
        """Whether this node is simulated here."""
        return node.metadata.labels.get(CLUSTER) == self._cluster

    def get(self, name: str) -> Node | None:
        """The simulated node with this name, if there is one."""
        node = self.informer.get(Key(name))
        return node if node is not None and self.owns(node) else None

    def get_running(self, name: str) -> Node | None:
        """The simulated node with this name, unless it has failed."""
        node = self.get(name)
        return None if node is None or has_failed(node) else node
