"""The parts of pods and nodes that a kubelet reads and writes, as types.

The types of `trimtab.api` hold what decisions need; a kubelet needs other fields, above all the states of containers.
What it writes of a status is wholly its own, so these types may be encoded: what is written is a patch made of them
(see `statuses`). Times are kept as text, so that equal means equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trimtab.api.meta import ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import Toleration
from trimtab.kube.resources import Resource

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
"""The statuses of a condition."""

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
FINISHED = frozenset((SUCCEEDED, FAILED))
"""The phases of a pod, and the final ones."""


class Waiting(Model):
    """The state of a container that does not run yet, or not again yet."""

    reason: str = ""
    message: str = ""


class Running(Model):
    """The state of a running container."""

    started_at: str = ""


class Terminated(Model):
    """The state of a container that has ended."""

    exit_code: int = 0
    reason: str = ""
    started_at: str = ""
    finished_at: str = ""
    container_id: str = msgspec.field(name="containerID", default="")


class ContainerState(Model):
    """The state of a container: one of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Model):
    """The status of a container."""

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
    """An IP address in a list."""

    ip: str = ""


class PodStatus(Model):
    """The part of a pod's status that its kubelet owns."""

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
        """The condition of this type, if the pod has it."""
        return next((each for each in self.conditions if each.type == kind), None)


class Container(Model):
    """A container; an init container that restarts always is a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str | None = None

    @property
    def sidecar(self) -> bool:
        """Whether it is an init container that keeps running beside the others."""
        return self.restart_policy == "Always"


class ReadinessGate(Model):
    """A condition that another component sets, and without which a pod is not ready."""

    condition_type: str = ""


class PodSpec(Model):
    """What a kubelet runs."""

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
        """Whether the pod has been deleted and still runs."""
        return self.metadata.deletion_timestamp is not None

    @property
    def finished(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.status.phase in FINISHED


class Taint(Model):
    """A taint; `time_added` is set for NoExecute."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str = ""


class NodeSpec(Model):
    """The spec of a node."""

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
    """An address of a node."""

    type: str = ""
    address: str = ""


class NodeStatus(Model):
    """The status of a node."""

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
        """The condition of this type, if the node has it."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == TRUE

    @property
    def internal_ip(self) -> str:
        """Its internal IP address."""
        return next((each.address for each in self.status.addresses if each.type == "InternalIP"), "")


class WriteResult(Model):
    """The part of a response to a write that is read: the resource version."""

    metadata: ObjectMeta = ObjectMeta()


PODS: Resource[Pod] = Resource("", "v1", "Pod", "pods", Pod)
NODES: Resource[Node] = Resource("", "v1", "Node", "nodes", Node, namespaced=False)
POD_WRITES: Resource[WriteResult] = Resource("", "v1", "Pod", "pods", WriteResult)
NODE_WRITES: Resource[WriteResult] = Resource("", "v1", "Node", "nodes", WriteResult, namespaced=False)
LEASE_WRITES: Resource[WriteResult] = Resource("coordination.k8s.io", "v1", "Lease", "leases", WriteResult)
