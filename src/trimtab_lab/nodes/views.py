"""What a kubelet reads and writes of pods and nodes, as types.

The views of `trimtab.api` have what decisions sync at; a kubelet looks at other things, the states of containers above
all. What it writes of a status is wholly its own, so these types may be encoded: what is written is a patch made of
them (see `statuses`). Times are kept as they are written, so that equal means equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import Toleration
from trimtab.kube.resources import Resource

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
"""How a condition can stand."""

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
FINISHED = frozenset((SUCCEEDED, FAILED))
"""The phases of a pod, and those that it never leaves."""


class Waiting(Model):
    """A container that does not run yet, or not again yet."""

    reason: str = ""
    message: str = ""


class Running(Model):
    """A container that runs."""

    started_at: str = ""


class Terminated(Model):
    """A container that has ended."""

    exit_code: int = 0
    reason: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = msgspec.field(name="containerID", default="")


class ContainerState(Model):
    """One of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Model):
    """How a container is doing."""

    name: str = ""
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(Model):
    """A condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class Address(Model):
    """An IP in a list of them."""

    ip: str = ""


class PodStatus(Model):
    """The part of a pod's status that is its kubelet's."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: tuple[Address, ...] = msgspec.field(name="hostIPs", default=())
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[Address, ...] = msgspec.field(name="podIPs", default=())
    start_time: str = ""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    observed_generation: int = 0

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, if the pod has it."""
        return next((each for each in self.conditions if each.type == kind), None)


class Container(Model):
    """A container; an init container that restarts always is a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None

    @property
    def sidecar(self) -> bool:
        """Whether it is an init container that goes on running beside the others."""
        return self.restart_policy == "Always"


class ReadinessGate(Model):
    """A condition that somebody else sets, and without which a pod is not ready."""

    condition_type: str = ""


class PodSpec(Model):
    """What a kubelet is to run."""

    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    host_network: bool = False
    tolerations: tuple[Toleration, ...] = ()
    readiness_gates: tuple[ReadinessGate, ...] = ()


class Pod(Model):
    """A pod as its kubelet sees it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminating(self) -> bool:
        """Whether somebody has asked for this pod to go."""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.status.phase in FINISHED


class Taint(Model):
    """A taint, and since when a NoExecute one is there."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str = ""


class NodeSpec(Model):
    """What is said of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Model):
    """A condition of a node, and when its kubelet last confirmed it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str = ""
    last_transition_time: str = ""


class NodeAddress(Model):
    """Where a node can be reached."""

    type: str = ""
    address: str = ""


class NodeStatus(Model):
    """What a node's kubelet says of it."""

    capacity: Mapping[str, str] = {}
    allocatable: Mapping[str, str] = {}
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()


class Node(Model):
    """A node as its kubelet and the node controllers see it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    def condition(self, kind: str) -> NodeCondition | None:
        """The condition of that type, if the node has it."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it can run pods, and has said so lately."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == TRUE

    @property
    def internal_ip(self) -> str:
        """The address that its pods are said to run at."""
        return next((each.address for each in self.status.addresses if each.type == "InternalIP"), "")


class WriteResult(Model):
    """What is read of the answer to a write: which version it made."""

    metadata: ObjectMeta = ObjectMeta()


PODS: Resource[Pod] = Resource("", "v1", "Pod", "pods", Pod)
NODES: Resource[Node] = Resource("", "v1", "Node", "nodes", Node, namespaced=False)
POD_WRITES: Resource[WriteResult] = Resource("", "v1", "Pod", "pods", WriteResult)
NODE_WRITES: Resource[WriteResult] = Resource("", "v1", "Node", "nodes", WriteResult, namespaced=False)
LEASE_WRITES: Resource[WriteResult] = Resource("coordination.k8s.io", "v1", "Lease", "leases", WriteResult)
