"""Simulated nodes as a service, until it is cancelled.

    nodes  ──→ Registrar       Node objects and their status
           ──→ Heartbeats      Leases
    pods   ──→ Kubelets        the status of pods, and their removal
    leases ──→ NodeLifecycle   only where the control plane has no node controllers

Each part has a queue of names, which informers fill. Nothing is done before the informers have synced, so that a
restarted process continues with what is there. When `run` is cancelled, work in progress may finish and pending events
are written within a grace period; what is due later is left to the next process.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from trimtab.api.leases import Lease
from trimtab.kube.client import Client
from trimtab.kube.clocks import Clock
from trimtab.kube.components import run_together
from trimtab.kube.events import Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.retries import Backoff
from trimtab.kube.runners import Runner
from trimtab.kube.stores import Store, key_of
from trimtab_lab.nodes import heartbeats, operations, settings
from trimtab_lab.nodes.heartbeats import Heartbeats
from trimtab_lab.nodes.kubelets import Kubelets
from trimtab_lab.nodes.nodelifecycle import BY_NODE, NodeLifecycle
from trimtab_lab.nodes.registration import Registrar
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.nodes.simulatednodes import SimulatedNodes, has_failed
from trimtab_lab.nodes.views import NODES, PODS, Node, Pod

_BACKOFF = Backoff(initial=0.05, cap=30.0)


class Nodes:
    """The nodes of a shape, on the control plane of a client."""

    def __init__(self, client: Client, clock: Clock, shape: Shape, seed: int, *, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.shape = shape
        self._client = client
        self._clock = clock
        rng = random.Random(seed)  # noqa: S311 - spreads heartbeats and reconnections, guards nothing
        self.nodes: Informer[Node] = Informer(client, NODES, rng=rng)
        self.pods: Informer[Pod] = Informer(
            client, PODS, field_selector="spec.nodeName!=", indexes={BY_NODE: _node_of}, rng=rng
        )
        self.recorder = Recorder(client, component="lab-nodes", rng=rng)
        self.simulated = SimulatedNodes(self.nodes, shape.name)
        self.registrar = Registrar(client, clock, self.simulated, shape.nodes)
        self.heartbeats = Heartbeats(client, clock, self.simulated, rng)
        self.kubelets = Kubelets(
            client,
            clock,
            self.pods,
            self.simulated,
            seed=seed,
            timings=shape.timings,
            report=self.recorder.record,
            settings=settings,
        )
        self._informers: list[Informer[Any]] = [self.nodes, self.pods]
        self._runners = self._create_runners(rng)
        self._set_intervals()
        self._subscribe()

    # Running.

    async def run(self) -> None:
        """Simulate until cancelled."""
        for name in self.shape.nodes:
            self._node_queue.add(name)
        stages = (self._runners, [self.recorder], self._informers)
        await run_together(*([each.run() for each in stage] for stage in stages))

    def _create_runners(self, rng: random.Random) -> list[Runner[Any]]:
        workers = self.settings.node_workers
        self._node_queue: WorkQueue[str] = self._queue()
        self._heartbeat_queue: WorkQueue[str] = self._queue()
        self._pod_queue: WorkQueue[Key] = self._queue()
        parts: list[Runner[Any]] = [
            Runner("node", self.registrar.reconcile, self._node_queue, workers=workers, after=[self.nodes]),
            Runner("heartbeat", self.heartbeats.reconcile, self._heartbeat_queue, workers=workers, after=[self.nodes]),
            Runner(
                "pod",
                self.kubelets.reconcile,
                self._pod_queue,
                workers=self.settings.pod_workers,
                after=[self.nodes, self.pods],
            ),
        ]
        if self.settings.lifecycle is not None:
            parts.append(self._lifecycle(rng))
        return parts

    def _lifecycle(self, rng: random.Random) -> Runner[Any]:
        assert self.settings.lifecycle is not None  # noqa: S101 - asked by the only caller
        leases: Informer[Lease] = Informer(self._client, Lease, namespace=heartbeats.NAMESPACE, rng=rng)
        queue: WorkQueue[str] = self._queue()
        lifecycle = NodeLifecycle(
            self._client,
            self._clock,
            nodes=self.nodes,
            pods=self.pods,
            leases=leases,
            queue=queue,
            report=self.recorder.record,
            settings=self.settings.lifecycle,
        )
        self._informers.append(leases)
        workers = self.settings.node_workers
        return Runner("lifecycle", lifecycle.reconcile, queue, workers=workers, after=list(self._informers))

    def _queue(self) -> WorkQueue[Any]:
        return WorkQueue(self._clock, backoff=_BACKOFF)

    def _set_intervals(self) -> None:
        """Set the interval of heartbeats, which depends on the number of nodes."""
        renewal = settings.renewal(len(self.shape.nodes), self.settings)
        self.registrar.renewal = self.heartbeats.renewal = renewal

    # Event handlers.

    def _subscribe(self) -> None:
        self.nodes.subscribe(added=self._node_added, updated=self._node_updated, deleted=self._node_deleted)
        self.pods.subscribe(
            added=self._pod_updated, updated=lambda _, pod: self._pod_updated(pod), deleted=self._pod_deleted
        )

    def _node_added(self, node: Node) -> None:
        if self.simulated.owns(node):
            self.registrar.record_address(node)
            self._heartbeat_queue.add(node.name)
            self._queue_pods(node)
        self._node_queue.add(node.name)

    def _node_updated(self, old: Node, node: Node) -> None:
        self._node_queue.add(node.name)
        if not self.simulated.owns(node):
            return
        self.registrar.record_address(node)
        returned = has_failed(old) and not has_failed(node)
        if returned or not self.simulated.owns(old):
            self._heartbeat_queue.add(node.name)
        if returned or has_failed(node) != has_failed(old) or old.internal_ip != node.internal_ip:
            self._queue_pods(node)

    def _node_deleted(self, node: Node) -> None:
        self._node_queue.add(node.name)
        self._queue_pods(node)

    def _queue_pods(self, node: Node) -> None:
        for pod in self.pods.store.by(BY_NODE, node.name):
            self._pod_queue.add(key_of(pod))

    def _pod_updated(self, pod: Pod) -> None:
        if self.simulated.get(pod.spec.node_name) is not None:
            self.kubelets.record_address(pod)
            self._pod_queue.add(key_of(pod))

    def _pod_deleted(self, pod: Pod) -> None:
        self.kubelets.release_address(pod)
        self._pod_queue.add(key_of(pod))

    # Operations.

    async def ready(self) -> None:
        """Wait until every node of the shape exists and is ready, except failed ones."""
        awaited = list(self.shape.nodes)

        def all_ready(_: Store[Node]) -> bool:
            while awaited and self._is_settled(awaited[-1]):
                awaited.pop()
            return not awaited

        await self.nodes.wait_for(all_ready)

    def _is_settled(self, name: str) -> bool:
        node = self.simulated.get(name)
        return node is not None and (node.ready or has_failed(node))

    async def reshape(self, shape: Shape) -> None:
        """Change these nodes to those of another shape of the same name."""
        if shape.name != self.shape.name:
            raise ValueError(f"the nodes are labelled {self.shape.name!r}; another shape must have the same name")
        self.shape, self.registrar.plans = shape, shape.nodes
        self.kubelets.timings = shape.timings
        self._set_intervals()
        for name in {*shape.nodes, *(node.name for node in self.simulated)}:
            self._node_queue.add(name)

    async def fail(self, names: Iterable[str]) -> None:
        """Make nodes fail: no heartbeats, and their pods are not touched. Returns when that is in effect."""
        await self._wait_seen(await operations.fail(self._client, names))

    async def recover(self, names: Iterable[str]) -> None:
        """Let nodes recover."""
        await self._wait_seen(await operations.recover(self._client, names))

    async def cordon(self, names: Iterable[str]) -> None:
        """Mark nodes as unschedulable."""
        await self._wait_seen(await operations.cordon(self._client, names))

    async def uncordon(self, names: Iterable[str]) -> None:
        """Mark nodes as schedulable."""
        await self._wait_seen(await operations.uncordon(self._client, names))

    async def drain(self, names: Iterable[str], *, grace_period_seconds: int | None = None) -> None:
        """Cordon nodes and evict their pods; returns when they are gone."""
        await operations.drain(self._client, names, grace_period_seconds=grace_period_seconds)

    async def _wait_seen(self, versions: dict[str, str]) -> None:
        for name, version in versions.items():
            await self.nodes.wait_seen(Key(name), version)


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
