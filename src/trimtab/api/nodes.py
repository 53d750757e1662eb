"""The Node, as far as placing pods looks at it."""

from __future__ import annotations

from datetime import datetime

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import ResourceList

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
DEPRECATED_ZONE = "failure-domain.beta.kubernetes.io/zone"
DEPRECATED_REGION = "failure-domain.beta.kubernetes.io/region"


class Taint(Model):
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Model):
    """What an operator says of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Model):
    """An image that lies on a node."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeCondition(Model):
    """A condition of a node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_heartbeat_time: datetime | None = None


class NodeStatus(Model):
    """What a node has to give, and how it is."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()


class Node(Model):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it can run pods."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
