"""The work of Kubernetes' node controllers, for a control plane that has none: `health` has the decisions.

It knows of a node only what the API server says, so it notices a failure as Kubernetes does, by a Lease that is not
renewed, and it applies to every node, simulated or not. It must be off on a control plane with a controller manager.

The time without a heartbeat is measured by our own clock, from when a heartbeat was *seen*. After a restart every node
therefore has its whole grace period again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

import msgspec

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.leases import Lease
from trimtab.api.meta import ObjectReference
from trimtab.api.nodes import ZONE
from trimtab.kube.client import Client, PatchKind
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import Conflict, NotFound
from trimtab.kube.events import NORMAL
from trimtab.kube.informers import Informer
from trimtab.kube.limits import TokenBucket
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result
from trimtab_lab.nodes import health
from trimtab_lab.nodes.health import ZoneState
from trimtab_lab.nodes.kubelets import EventReporter
from trimtab_lab.nodes.settings import NodeLifecycleSettings
from trimtab_lab.nodes.views import FAILED, FALSE, NODE_WRITES, POD_WRITES, TRUE, Node, Pod, Taint

BY_NODE = "node"
"""The index of the pod informer that this controller needs."""

_LEASE_FACTOR = 1.25
"""By which factor a Lease may be overdue, relative to its duration."""
_ZONE_CACHE_TIME = SECOND
"""How long the counts of ready nodes by zone are cached."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Heartbeat:
    """A node's last heartbeat: its times, and when it was seen."""

    renewed: str
    confirmed: str
    seen: int
    lease_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ZoneCount:
    """The number of nodes in a zone, and its state."""

    total: int
    state: ZoneState


class NodeLifecycle:
    """Marks nodes without heartbeats as Unknown, taints them, and evicts their pods."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        nodes: Informer[Node],
        pods: Informer[Pod],
        leases: Informer[Lease],
        queue: WorkQueue[str],
        report: EventReporter,
        settings: NodeLifecycleSettings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._pods = pods
        self._leases = leases
        self._queue = queue
        self._report = report
        self._settings = settings
        self._heartbeats: dict[str, Heartbeat] = {}
        self._buckets: dict[str, tuple[float, TokenBucket]] = {}
        self._first_seen: dict[tuple[str, str], int] = {}
        self._missing: dict[str, int] = {}
        self._zones: dict[str, ZoneCount] = {}
        self._counted: int | None = None
        self._subscribe()

    def _subscribe(self) -> None:
        add = self._queue.add
        self._nodes.subscribe(
            added=lambda node: add(node.name), updated=lambda _, node: add(node.name), deleted=self._node_deleted
        )
        self._pods.subscribe(added=self._pod_updated, updated=lambda _, pod: self._pod_updated(pod))

    def _node_deleted(self, node: Node) -> None:
        self._heartbeats.pop(node.metadata.uid, None)
        self._first_seen = {key: at for key, at in self._first_seen.items() if key[0] != node.metadata.uid}
        self._queue.add(node.name)

    def _pod_updated(self, pod: Pod) -> None:
        """Queue the node of a pod, unless the node is in order."""
        name = pod.spec.node_name
        node = self._nodes.get(Key(name))
        if name and (node is None or not node.ready or health.no_execute_taints(node)):
            self._queue.add(name)

    # One node.

    async def reconcile(self, name: str) -> Result:
        """Check one node: its heartbeats, its taints, and the pods to evict."""
        node = self._nodes.get(Key(name))
        if node is None:
            return await self._collect_orphans(name)
        self._missing.pop(name, None)
        left = self._seconds_left(node)
        if left <= 0:
            await self._mark_unknown(node)
        waits = [left if left > 0 else None, await self._taint(node)]
        if not node.ready:
            await self._mark_pods(node)
        waits.append(await self._evict(node))
        return Result(requeue_after=min((wait for wait in waits if wait is not None), default=None))

    def _seconds_left(self, node: Node) -> float:
        """Seconds until the grace period of a node without heartbeats ends."""
        now = self._clock.monotonic()
        heartbeat = self._heartbeat(node, now)
        settings = self._settings
        grace = settings.grace_seconds if node.condition("Ready") else settings.startup_grace_seconds
        return max(grace, heartbeat.lease_seconds * _LEASE_FACTOR) - (now - heartbeat.seen) / SECOND

    def _heartbeat(self, node: Node, now: int) -> Heartbeat:
        """The node's last heartbeat that the informers show."""
        lease = self._leases.get(Key(f"kube-node-lease/{node.name}"))
        ready = node.condition("Ready")
        renewed = (lease.spec.renew_time or "") if lease else ""
        confirmed = ready.last_heartbeat_time if ready else ""
        heartbeat = self._heartbeats.get(node.metadata.uid)
        if heartbeat is None or (heartbeat.renewed, heartbeat.confirmed) != (renewed, confirmed):
            lease_seconds = float((lease.spec.lease_duration_seconds or 0) if lease else 0)
            heartbeat = self._heartbeats[node.metadata.uid] = Heartbeat(renewed, confirmed, now, lease_seconds)
        return heartbeat

    async def _mark_unknown(self, node: Node) -> None:
        """Set the conditions of a node to Unknown. What follows is done when that has been seen."""
        conditions = health.unknown_conditions(node, self._clock.now())
        if not conditions:
            return
        log.info("node %s: no heartbeat within its grace period", node.name)
        body = {"status": {"conditions": [msgspec.to_builtins(each) for each in conditions]}}
        await self._client.patch(NODE_WRITES, node.name, body, how=PatchKind.STRATEGIC, subresource="status")
        text = f"Node {node.name} status is now: NodeNotReady"
        self._report(_about(node, "Node"), NORMAL, "NodeNotReady", text)

    # Taints.

    async def _taint(self, node: Node) -> float | None:
        """Write the taints that the node should have; when to requeue it, if the NoExecute taint has to wait."""
        evicts, wait = self._may_evict(node)
        wanted = health.taints(node, evicts=evicts, now=self._clock.now())
        if wanted != node.spec.taints:
            patch: JSON = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [msgspec.to_builtins(taint) for taint in wanted] or None},
            }
            await self._client.patch(NODE_WRITES, node.name, patch)
        return wait

    def _may_evict(self, node: Node) -> tuple[bool, float | None]:
        """Whether a node may get a NoExecute taint for not being ready, and else when to check again."""
        ready = node.condition("Ready")
        if ready is None or ready.status == TRUE:
            return False, None
        zones = self._count()
        if health.is_all_disrupted(count.state for count in zones.values()):
            return False, self._settings.monitor_seconds
        if health.has_eviction_taint(node):
            return True, None
        zone = node.metadata.labels.get(ZONE, "")
        rate = health.eviction_rate_of(zones[zone].state, zones[zone].total, self._settings)
        if rate > 0 and self._bucket(zone, rate).take():
            return True, None
        return False, self._settings.monitor_seconds

    def _bucket(self, zone: str, rate: float) -> TokenBucket:
        held = self._buckets.get(zone)
        if held is None or held[0] != rate:
            held = self._buckets[zone] = (rate, TokenBucket(rate, 1, self._clock))
        return held[1]

    def _count(self) -> dict[str, ZoneCount]:
        """The states of the zones; counted again when the last count is too old."""
        now = self._clock.monotonic()
        if self._counted is None or now - self._counted >= _ZONE_CACHE_TIME:
            self._counted, self._zones = now, self._counted_zones()
        return self._zones

    def _counted_zones(self) -> dict[str, ZoneCount]:
        numbers: dict[str, list[int]] = {}
        for node in self._nodes.store:
            zone = numbers.setdefault(node.metadata.labels.get(ZONE, ""), [0, 0])
            zone[0] += node.ready
            zone[1] += 1
        return {
            zone: ZoneCount(total, health.zone_state(ready, total, self._settings))
            for zone, (ready, total) in numbers.items()
        }

    # Pods.

    async def _mark_pods(self, node: Node) -> None:
        """Set the Ready condition of the pods on a node that is not ready to False."""
        for pod in self._pods.store.by(BY_NODE, node.name):
            held = pod.status.condition("Ready")
            if held is not None and held.status == TRUE:
                at = times.format_time(self._clock.now())
                change = {"type": "Ready", "status": FALSE, "lastTransitionTime": at}
                await _unless_gone(self._write(pod, {"conditions": [change]}))

    async def _evict(self, node: Node) -> float | None:
        """Evict the pods whose toleration of the node's taints has ended; seconds until the next one's ends."""
        taints = {taint: self._since(node, taint) for taint in health.no_execute_taints(node)}
        if not taints:
            return None
        waits: list[float] = []
        for pod in self._pods.store.by(BY_NODE, node.name):
            due = None if pod.terminating else health.eviction_time(pod.spec.tolerations, taints, _arrived(pod))
            if due is None:
                continue
            left = (due - self._clock.now()) / SECOND
            if left > 0:
                waits.append(left)
            else:
                await _unless_gone(self._evict_one(pod))
        return min(waits, default=None)

    def _since(self, node: Node, taint: Taint) -> int:
        if taint.time_added:
            return times.parse_ns(taint.time_added)
        return self._first_seen.setdefault((node.metadata.uid, taint.key), self._clock.now())

    async def _evict_one(self, pod: Pod) -> None:
        metadata = pod.metadata
        text = f"Marking for deletion Pod {metadata.namespace}/{metadata.name}"
        self._report(_about(pod, "Pod"), NORMAL, "TaintManagerEviction", text)
        disrupted = self._disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        await self._write(pod, {"conditions": [disrupted]})
        await self._client.delete(POD_WRITES, metadata.name, namespace=metadata.namespace, uid=metadata.uid)

    async def _collect_orphans(self, name: str) -> Result:
        """Remove the pods of a node that was deleted a while ago: no kubelet will."""
        pods = self._pods.store.by(BY_NODE, name)
        if not pods:
            self._missing.pop(name, None)
            return Result()
        now = self._clock.monotonic()
        left = self._settings.orphan_seconds - (now - self._missing.setdefault(name, now)) / SECOND
        if left > 0:
            return Result(requeue_after=left)
        for pod in pods:
            await _unless_gone(self._remove(pod))
        return Result()

    async def _remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        disrupted = self._disrupted("DeletionByPodGC", "PodGC: node no longer exists")
        await self._write(pod, {"conditions": [disrupted]} | ({} if pod.finished else {"phase": FAILED}))
        await self._client.delete(
            POD_WRITES, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_period_seconds=0
        )

    async def _write(self, pod: Pod, status: JSON) -> None:
        metadata = pod.metadata
        await self._client.patch(
            POD_WRITES,
            metadata.name,
            {"metadata": {"uid": metadata.uid}, "status": status},
            how=PatchKind.STRATEGIC,
            namespace=metadata.namespace,
            subresource="status",
        )

    def _disrupted(self, reason: str, message: str) -> JSON:
        at = times.format_time(self._clock.now())
        condition = {"type": "DisruptionTarget", "status": TRUE, "reason": reason, "message": message}
        return {**condition, "lastTransitionTime": at}


async def _unless_gone(work: Awaitable[None]) -> None:
    """Write to a pod, ignoring that it is gone or was replaced."""
    try:
        await work
    except (NotFound, Conflict) as error:
        log.debug("%s", error)


def _arrived(pod: Pod) -> int:
    """When a pod came to its node, by its status or else its creation."""
    if pod.status.start_time:
        return times.parse_ns(pod.status.start_time)
    created = pod.metadata.creation_timestamp
    return times.to_ns(created) if created else 0


def _about(an_object: Node | Pod, kind: str) -> ObjectReference:
    metadata = an_object.metadata
    return ObjectReference(
        api_version="v1", kind=kind, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
    )
