"""The Node, with the fields that placement uses."""

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
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Model):
    """The desired state of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Model):
    """An image that is present on a node."""

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
    """The capacity and conditions of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()


class Node(Model):
    """A Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its condition Ready is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
