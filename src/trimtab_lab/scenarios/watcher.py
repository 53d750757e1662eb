"""Observes a run: informers for its pods, nodes and workloads, the timeline, and waiting for conditions.

**Waiting.** A condition is checked whenever something has changed. Informers follow each kind separately, so together
they may show a state that never existed: current pods beside an outdated workload. So a condition that holds in the
caches is confirmed by uncached reads, and only those are recorded. If it does not hold there, a change is on its way
and triggers the next check. Nothing is polled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel, within
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, object_key
from trimtab_lab.nodes.nodegroups import CLUSTER
from trimtab_lab.scenarios.observations import NodeView, Observation, Workload
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.timelines import Change, Timeline

Condition = Callable[[Observation], bool]


class Watcher:
    """All observations of a run, from entering to leaving the context."""

    def __init__(
        self,
        client: Client,
        run: Run,
        workloads: Mapping[str, Resource[Workload]],
        on_change: Callable[[Change], None] = lambda _: None,
    ) -> None:
        self.timeline = Timeline(run.story.topology)
        self._client = client
        self._run = run
        self._workloads = workloads
        self._on_change = on_change
        self._started = client.clock.monotonic()
        self._node_views: dict[str, NodeView] = {}
        self._changed = asyncio.Event()
        self._selector = f"{CLUSTER}={run.name}"
        self._pods = Informer(client, Pod, namespace=run.name)
        self._nodes = Informer(client, Node, label_selector=self._selector)
        self._by_kind = {
            resource: Informer(client, resource, namespace=run.name) for resource in dict.fromkeys(workloads.values())
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Watcher:
        self._nodes.subscribe(
            added=self._record_node, updated=lambda _, new: self._record_node(new), deleted=self._node_deleted
        )
        self._pods.subscribe(
            added=self._record_pod,
            updated=lambda _, new: self._record_pod(new),
            deleted=lambda pod: self._record_pod(pod, True),
        )
        for informer in self._by_kind.values():
            informer.subscribe(added=self._notify, updated=lambda _, new: self._notify(new), deleted=self._notify)
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.timeline.end = self.elapsed
        await cancel(*self._tasks)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return (self._client.clock.monotonic() - self._started) / SECOND

    @property
    def problem(self) -> str:
        """Why the caches may be out of date, if so."""
        return "; ".join(informer.problem for informer in self._informers if informer.problem)

    def cached(self) -> Observation:
        """The state in the caches."""
        workloads = {}
        for name, resource in self._workloads.items():
            found = self._by_kind[resource].store.get(object_key(self._run.name, name))
            if found is not None:
                workloads[name] = found
        return Observation(tuple(self._pods.store), dict(self._node_views), workloads)

    async def read(self) -> Observation:
        """The current state by uncached reads. Pods are read last, so that they are as new as the statuses that count
        them.
        """
        workloads: dict[str, Workload] = {}
        for resource in self._by_kind:
            page = await self._client.list(resource, namespace=self._run.name)
            found = {each.metadata.name: each for each in page.items}
            names = [name for name, kind in self._workloads.items() if kind == resource]
            workloads |= {name: found[name] for name in names if name in found}
        nodes = await self._client.list(Node, label_selector=self._selector)
        pods = await self._client.list(Pod, namespace=self._run.name)
        nodes_by_name = {node.metadata.name: NodeView.of(node, self._run.prefix) for node in nodes.items}
        return Observation(pods.items, nodes_by_name, workloads)

    async def until(self, condition: Condition, seconds: float) -> Observation:
        """Wait until a condition holds and return the state. Raises TimeoutError after that time."""
        return await within(self._client.clock, seconds, self._until(condition))

    async def _until(self, condition: Condition) -> Observation:
        while True:
            self._changed.clear()
            if condition(self.cached()):
                observation = await self.read()
                if condition(observation):
                    return observation
            await self._changed.wait()

    @property
    def _informers(self) -> list[Informer[Any]]:
        return [self._nodes, self._pods, *self._by_kind.values()]

    def _record_node(self, node: Node) -> None:
        place = NodeView.of(node, self._run.prefix)
        known = self._node_views.get(node.metadata.name)
        self._node_views[node.metadata.name] = place
        self.timeline.record_node(place, self.elapsed)
        if known is None or known.labels != place.labels:
            for pod in self._pods.store:
                if pod.spec.node_name == node.metadata.name:
                    self._record_pod(pod)
        self._changed.set()

    def _node_deleted(self, node: Node) -> None:
        self._node_views.pop(node.metadata.name, None)
        self._changed.set()

    def _record_pod(self, pod: Pod, gone: bool = False) -> None:
        change = self.timeline.record_pod(pod, self._node_views, self.elapsed, gone=gone)
        if change is not None:
            self._on_change(change)
        self._changed.set()

    def _notify(self, _: Workload) -> None:
        self._changed.set()
