"""Following a run: informers for its pods, nodes and workloads, the timeline they make, and waiting for conditions.

**Waiting.** A condition is looked at whenever something has changed. Informers follow each kind on its own, so together
they may show a moment that never was: pods as they are, beside a workload as it was. Hence a condition that holds on
what was seen is confirmed on what is read anew, and only that is believed and recorded. If it does not hold there, a
change is on its way, and the next look will come by itself. Nothing is ever polled.
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
from trimtab_lab.nodes.shapes import CLUSTER
from trimtab_lab.scenarios.observations import Observation, Place, Workload
from trimtab_lab.scenarios.runs import Run
from trimtab_lab.scenarios.timelines import Change, Timeline

Condition = Callable[[Observation], bool]


class Watching:
    """Everything that a run sees, from entering to leaving."""

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
        self._places: dict[str, Place] = {}
        self._changed = asyncio.Event()
        self._selector = f"{CLUSTER}={run.name}"
        self._pods = Informer(client, Pod, namespace=run.name)
        self._nodes = Informer(client, Node, label_selector=self._selector)
        self._by_kind = {
            resource: Informer(client, resource, namespace=run.name) for resource in dict.fromkeys(workloads.values())
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Watching:
        self._nodes.subscribe(added=self._saw_node, updated=lambda _, new: self._saw_node(new), deleted=self._lost_node)
        self._pods.subscribe(
            added=self._saw_pod, updated=lambda _, new: self._saw_pod(new), deleted=lambda pod: self._saw_pod(pod, True)
        )
        for informer in self._by_kind.values():
            informer.subscribe(added=self._touch, updated=lambda _, new: self._touch(new), deleted=self._touch)
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
        """Why nothing new may be seen, if so."""
        return "; ".join(informer.problem for informer in self._informers if informer.problem)

    def seen(self) -> Observation:
        """What has been seen so far."""
        workloads = {}
        for name, resource in self._workloads.items():
            found = self._by_kind[resource].store.get(object_key(self._run.name, name))
            if found is not None:
                workloads[name] = found
        return Observation(tuple(self._pods.store), dict(self._places), workloads)

    async def read(self) -> Observation:
        """What there is, asked of the server just now. Pods come last: they are then as new as what is said of them."""
        workloads: dict[str, Workload] = {}
        for resource in self._by_kind:
            page = await self._client.list(resource, namespace=self._run.name)
            found = {each.metadata.name: each for each in page.items}
            mine = [name for name, kind in self._workloads.items() if kind == resource]
            workloads |= {name: found[name] for name in mine if name in found}
        nodes = await self._client.list(Node, label_selector=self._selector)
        pods = await self._client.list(Pod, namespace=self._run.name)
        places = {node.metadata.name: Place.of(node, self._run.prefix) for node in nodes.items}
        return Observation(pods.items, places, workloads)

    async def until(self, condition: Condition, seconds: float) -> Observation:
        """What there is once the condition holds. Raises TimeoutError if it does not within that time."""
        return await within(self._client.clock, seconds, self._until(condition))

    async def _until(self, condition: Condition) -> Observation:
        while True:
            self._changed.clear()
            if condition(self.seen()):
                observation = await self.read()
                if condition(observation):
                    return observation
            await self._changed.wait()

    @property
    def _informers(self) -> list[Informer[Any]]:
        return [self._nodes, self._pods, *self._by_kind.values()]

    def _saw_node(self, node: Node) -> None:
        place = Place.of(node, self._run.prefix)
        known = self._places.get(node.metadata.name)
        self._places[node.metadata.name] = place
        self.timeline.saw_node(place, self.elapsed)
        if known is None or known.labels != place.labels:
            for pod in self._pods.store:
                if pod.spec.node_name == node.metadata.name:
                    self._saw_pod(pod)
        self._changed.set()

    def _lost_node(self, node: Node) -> None:
        self._places.pop(node.metadata.name, None)
        self._changed.set()

    def _saw_pod(self, pod: Pod, gone: bool = False) -> None:
        change = self.timeline.saw_pod(pod, self._places, self.elapsed, gone=gone)
        if change is not None:
            self._on_change(change)
        self._changed.set()

    def _touch(self, _: Workload) -> None:
        self._changed.set()
