"""Node objects: created, kept as the shape has them, and their status confirmed periodically, as kubelets do.

A node of the shape that does not exist is created and then given its status. Labels and taints of the shape are written
where they are missing; those from elsewhere stay. A simulated node that is not in the shape is deleted. A node with the
right name but without our label is not touched: it may be a real one.

A change that another component reverts is repeated, but at most once a second, so that two components that disagree do
not write as fast as the API server lets them.

An API server gives every new node the taint `not-ready`, which a controller removes once the node is ready. Where there
is such a controller, both want the same; where there is none, we remove it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.tolerations import NO_SCHEDULE
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import AlreadyExists, NotFound
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result, TerminalError
from trimtab_lab.nodes.addresses import NODE_NETWORK, Addresses
from trimtab_lab.nodes.nodegroups import NodePlan
from trimtab_lab.nodes.settings import Renewal
from trimtab_lab.nodes.simulatednodes import SimulatedNodes, has_failed
from trimtab_lab.nodes.views import FALSE, NODE_WRITES, TRUE, Node, NodeAddress, NodeCondition, Taint

NOT_READY = "node.kubernetes.io/not-ready"

CONDITIONS: dict[str, tuple[str, str, str]] = {
    "MemoryPressure": (FALSE, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": (FALSE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": (FALSE, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": (TRUE, "KubeletReady", "kubelet is posting ready status"),
}
"""The conditions that the kubelet of a healthy node reports: status, reason and message."""

KUBELET_VERSION = "v1.36.4"

_MIN_INTERVAL = SECOND
"""The shortest time between two equal operations on a node."""

log = logging.getLogger(__name__)


class Registrar:
    """Keeps Node objects as planned."""

    def __init__(self, client: Client, clock: Clock, simulated: SimulatedNodes, plans: Mapping[str, NodePlan]) -> None:
        self.plans = plans
        self.renewal = Renewal(10.0, 300.0)
        self._client = client
        self._clock = clock
        self._simulated = simulated
        self._addresses = Addresses(NODE_NETWORK)
        self._not_before: dict[tuple[str, str], int] = {}
        """Until when an operation is not repeated, by node and operation."""

    def record_address(self, node: Node) -> None:
        """Record the address of a node that exists already."""
        if node.internal_ip:
            self._addresses.record(node.name, node.internal_ip)

    async def reconcile(self, name: str) -> Result:
        """Bring one node to what its plan says."""
        plan, node = self.plans.get(name), self._simulated.informer.get(Key(name))
        if plan is None:
            return await self._remove(name, node)
        if node is None:
            return await self._create(plan)
        if not self._simulated.owns(node):
            raise TerminalError("a node with this name exists and is not simulated; it is not changed")
        if has_failed(node):
            return Result()
        await self._update_metadata(plan, node)
        return await self._report(plan, node)

    def _hold_back(self, name: str, operation: str) -> float:
        """Seconds until an operation may be repeated on a node, or 0 if it may now; then it counts as done."""
        now = self._clock.monotonic()
        left = self._not_before.get((name, operation), now) - now
        if left <= 0:
            self._not_before[name, operation] = now + _MIN_INTERVAL
        return max(left, 0) / SECOND

    async def _create(self, plan: NodePlan) -> Result:
        """Create the object. Its status follows when it has been seen."""
        wait = self._hold_back(plan.name, "create")
        if wait:
            return Result(requeue_after=wait)
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": plan.name, "labels": dict(plan.labels)},
            "spec": {"taints": [msgspec.to_builtins(taint) for taint in plan.taints]},
        }
        try:
            await self._client.create(NODE_WRITES, body)
        except AlreadyExists:
            log.debug("%s exists already", plan.name)
        return Result()

    async def _remove(self, name: str, node: Node | None) -> Result:
        """Delete a node that is no longer in the shape, if it is simulated."""
        if node is not None and self._simulated.owns(node):
            try:
                await self._client.delete(NODE_WRITES, node.name, uid=node.metadata.uid)
            except NotFound:
                log.debug("%s is already deleted", node.name)
            self._addresses.release(node.name)
        for operation in ("create", "report"):
            self._not_before.pop((name, operation), None)
        return Result()

    async def _update_metadata(self, plan: NodePlan, node: Node) -> None:
        """Write missing labels and taints, and remove the taint of a node that was not ready."""
        patch = changes(plan, node)
        if patch is not None:
            await self._client.patch(NODE_WRITES, node.name, patch)

    async def _report(self, plan: NodePlan, node: Node) -> Result:
        """Write the status if it is not current or was not confirmed for too long."""
        now = self._clock.now()
        left = self.renewal.status_interval - (now - _confirmed(node)) / SECOND
        if left > 0 and is_status_current(plan, node):
            return Result(requeue_after=left)
        wait = self._hold_back(plan.name, "report")
        if wait:
            return Result(requeue_after=wait)
        address = node.internal_ip or self._addresses.allocate(plan.name)
        body = {"status": status(plan, node, address, now)}
        await self._client.patch(NODE_WRITES, node.name, body, how=PatchKind.STRATEGIC, subresource="status")
        return Result(requeue_after=self.renewal.status_interval)


def changes(plan: NodePlan, node: Node) -> JSON | None:
    """The changes to a node except its status: a merge patch for this resource version, or None."""
    labels = {key: value for key, value in plan.labels.items() if node.metadata.labels.get(key) != value}
    taints = _taints(plan, node)
    if not labels and taints == node.spec.taints:
        return None
    patch: JSON = {"metadata": {"resourceVersion": node.metadata.resource_version}}
    if labels:
        patch["metadata"]["labels"] = labels
    if taints != node.spec.taints:
        patch["spec"] = {"taints": [msgspec.to_builtins(taint) for taint in taints] or None}
    return patch


def is_status_current(plan: NodePlan, node: Node) -> bool:
    """Whether a node's status is what a healthy kubelet reports, apart from the heartbeat."""
    held = node.status
    if not node.internal_ip or any(
        held.capacity.get(name) != amount or held.allocatable.get(name) != amount
        for name, amount in plan.capacity.items()
    ):
        return False
    reported = {each.type: (each.status, each.reason, each.message) for each in held.conditions}
    return all(reported.get(kind) == value for kind, value in CONDITIONS.items())


def status(plan: NodePlan, node: Node, address: str, now: int) -> JSON:
    """The status that a healthy kubelet reports."""
    addresses = (NodeAddress(type="InternalIP", address=address), NodeAddress(type="Hostname", address=plan.name))
    return {
        "capacity": dict(plan.capacity),
        "allocatable": dict(plan.capacity),
        "addresses": [msgspec.to_builtins(each) for each in addresses],
        "conditions": [msgspec.to_builtins(each) for each in _conditions(node, times.format_time(now))],
        "nodeInfo": _info(node),
    }


def _conditions(node: Node, now: str) -> list[NodeCondition]:
    conditions = []
    for kind, (wanted_status, reason, message) in CONDITIONS.items():
        old = node.condition(kind)
        since = old.last_transition_time if old is not None and old.status == wanted_status else ""
        conditions.append(
            NodeCondition(
                type=kind,
                status=wanted_status,
                reason=reason,
                message=message,
                last_heartbeat_time=now,
                last_transition_time=since or now,
            )
        )
    return conditions


def _taints(plan: NodePlan, node: Node) -> tuple[Taint, ...]:
    """The node's taints with those of its plan, without the one that a new node has until it is ready."""
    held = {(taint.key, taint.effect): taint for taint in node.spec.taints}
    merged = dict(held)
    for taint in plan.taints:
        old = held.get((taint.key, taint.effect))
        if old is None or old.value != taint.value:
            merged[taint.key, taint.effect] = taint
    if node.ready:
        merged.pop((NOT_READY, NO_SCHEDULE), None)
    return tuple(merged.values())


def _confirmed(node: Node) -> int:
    """When the kubelet last confirmed that the node is ready."""
    ready = node.condition("Ready")
    return times.parse_ns(ready.last_heartbeat_time) if ready is not None and ready.last_heartbeat_time else 0


def _info(node: Node) -> JSON:
    return {
        "machineID": node.metadata.uid.replace("-", ""),
        "systemUUID": node.metadata.uid,
        "bootID": node.metadata.uid,
        "kernelVersion": "0.0.0-simulated",
        "osImage": "Trimtab lab",
        "containerRuntimeVersion": "lab://1.0.0",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
