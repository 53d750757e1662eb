"""Simulated nodes as a service: informers in, heartbeats and statuses out, until it is cancelled.

    nodes  ──→ Registrar    Node objects and their status
           ──→ Heartbeats   Leases
    pods   ──→ Kubelets     pods' statuses, and their end
    leases ──→ Lifecycle    only where the control plane has no node controllers

Each part has a queue of names, and informers put names into it. Nothing is done before the informers have seen
everything once, so that a process that starts again takes up what is there instead of beginning anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

from trimtab.api.leases import Lease
from trimtab.kube.client import Client
from trimtab.kube.clocks import Clock
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
from trimtab_lab.nodes.lifecycle import BY_NODE, Lifecycle
from trimtab_lab.nodes.registration import Registrar
from trimtab_lab.nodes.roster import Roster, has_failed
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.nodes.views import NODES, PODS, Node, Pod

_BACKOFF = Backoff(initial=0.05, cap=30.0)


class Nodes:
    """The nodes of a shape, on whatever control plane the client speaks to."""

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
        self.roster = Roster(self.nodes, shape.name)
        self.registrar = Registrar(client, clock, self.roster, shape.nodes)
        self.heartbeats = Heartbeats(client, clock, self.roster, rng)
        self.kubelets = Kubelets(
            client,
            clock,
            self.pods,
            self.roster,
            seed=seed,
            habits=shape.habits,
            report=self.recorder.record,
            settings=settings,
        )
        self._queues: list[WorkQueue[Any]] = []
        self._informers: list[Informer[Any]] = [self.nodes, self.pods]
        self._runners = self._parts(rng)
        self._pace()
        self._subscribe()

    # What runs.

    async def run(self) -> None:
        """Simulate until cancelled."""
        for name in self.shape.nodes:
            self._registrations.add(name)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers:
                    group.create_task(informer.run())
                for runner in self._runners:
                    group.create_task(runner.run())
                group.create_task(self.recorder.run())
        finally:
            for queue in self._queues:
                queue.shut_down()

    def _parts(self, rng: random.Random) -> list[Runner[Any]]:
        workers = self.settings.node_workers
        self._registrations: WorkQueue[str] = self._queue()
        self._beats: WorkQueue[str] = self._queue()
        self._work: WorkQueue[Key] = self._queue()
        parts: list[Runner[Any]] = [
            Runner("node", self.registrar.reconcile, self._registrations, workers=workers, after=[self.nodes]),
            Runner("heartbeat", self.heartbeats.reconcile, self._beats, workers=workers, after=[self.nodes]),
            Runner(
                "pod",
                self.kubelets.reconcile,
                self._work,
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
        lifecycle = Lifecycle(
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
        queue: WorkQueue[Any] = WorkQueue(self._clock, backoff=_BACKOFF)
        self._queues.append(queue)
        return queue

    def _pace(self) -> None:
        """How often nodes give a sign of life depends on how many there are."""
        renewal = settings.renewal(len(self.shape.nodes), self.settings)
        self.registrar.renewal = self.heartbeats.renewal = renewal

    # What is seen.

    def _subscribe(self) -> None:
        self.nodes.subscribe(added=self._node_added, updated=self._node_updated, deleted=self._node_deleted)
        self.pods.subscribe(added=self._pod_seen, updated=lambda _, pod: self._pod_seen(pod), deleted=self._pod_gone)

    def _node_added(self, node: Node) -> None:
        if self.roster.owns(node):
            self.registrar.seen(node)
            self._beats.add(node.name)
            self._wake_pods(node)
        self._registrations.add(node.name)

    def _node_updated(self, old: Node, node: Node) -> None:
        self._registrations.add(node.name)
        if not self.roster.owns(node):
            return
        self.registrar.seen(node)
        returned = has_failed(old) and not has_failed(node)
        if returned or not self.roster.owns(old):
            self._beats.add(node.name)
        if returned or has_failed(node) != has_failed(old) or old.internal_ip != node.internal_ip:
            self._wake_pods(node)

    def _node_deleted(self, node: Node) -> None:
        self._registrations.add(node.name)
        self._wake_pods(node)

    def _wake_pods(self, node: Node) -> None:
        for pod in self.pods.store.by(BY_NODE, node.name):
            self._work.add(key_of(pod))

    def _pod_seen(self, pod: Pod) -> None:
        if self.roster.get(pod.spec.node_name) is not None:
            self.kubelets.seen(pod)
            self._work.add(key_of(pod))

    def _pod_gone(self, pod: Pod) -> None:
        self.kubelets.gone(pod)
        self._work.add(key_of(pod))

    # What people do.

    async def ready(self) -> None:
        """Wait until every node of the shape is there and ready, but for those that have failed."""
        awaited = list(self.shape.nodes)

        def all_stand(_: Store[Node]) -> bool:
            while awaited and self._stands(awaited[-1]):
                awaited.pop()
            return not awaited

        await self.nodes.wait_for(all_stand)

    def _stands(self, name: str) -> bool:
        node = self.roster.get(name)
        return node is not None and (node.ready or has_failed(node))

    async def reshape(self, shape: Shape) -> None:
        """Turn these nodes into those of another shape of the same name."""
        if shape.name != self.shape.name:
            raise ValueError(f"the nodes are marked as {self.shape.name!r}; another shape must have the same name")
        self.shape, self.registrar.plans = shape, shape.nodes
        self.kubelets.habits = shape.habits
        self._pace()
        for name in {*shape.nodes, *(node.name for node in self.roster)}:
            self._registrations.add(name)

    async def fail(self, names: Iterable[str]) -> None:
        """Let nodes fail: no heartbeats, and nothing happens to their pods. Returns when that is in effect."""
        await self._seen(await operations.fail(self._client, names))

    async def recover(self, names: Iterable[str]) -> None:
        """Let nodes come back."""
        await self._seen(await operations.recover(self._client, names))

    async def cordon(self, names: Iterable[str]) -> None:
        """Give nodes no more pods."""
        await self._seen(await operations.cordon(self._client, names))

    async def uncordon(self, names: Iterable[str]) -> None:
        """Give nodes pods again."""
        await self._seen(await operations.uncordon(self._client, names))

    async def drain(self, names: Iterable[str], *, grace_period_seconds: int | None = None) -> None:
        """Cordon nodes and evict their pods; returns when they are gone."""
        await operations.drain(self._client, names, grace_period_seconds=grace_period_seconds)

    async def _seen(self, versions: dict[str, str]) -> None:
        for name, version in versions.items():
            await self.nodes.wait_seen(Key(name), version)


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
