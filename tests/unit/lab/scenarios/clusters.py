"""A cluster in memory for stories: the lab with its workload controllers, on virtual time.

Each new pod is placed in the emptiest zone, and runs at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from trimtab.api.nodes import ZONE, Node
from trimtab.api.pods import Pod
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios.actions import NodeActions
from trimtab_lab.testing import InMemoryLab

T = TypeVar("T")
_STEP = 0.5
"""Seconds that pass whenever everything has settled while a story is played."""


@dataclass(slots=True)
class Nodes:
    """Nodes that change at once, and record the operations on them."""

    lab: StoryLab
    shape: Shape
    operations: list[tuple[str, list[str]]] = field(default_factory=list)

    async def reshape(self, shape: Shape) -> None:
        """Nodes of the shape, all ready; no others."""
        present = {node.metadata.name for node in (await self.lab.user.list(Node)).items}
        for name in present & self.shape.nodes.keys() - shape.nodes.keys():
            await self.lab.user.delete(Node, name)
        for plan in shape.nodes.values():
            if plan.name not in present:
                await self.lab.user.create(Node, {"metadata": {"name": plan.name, "labels": dict(plan.labels)}})
                await self._set_ready(plan.name, "True")
        self.shape = shape

    async def fail(self, names: Sequence[str]) -> None:
        """Make nodes unready; their pods are replaced, and stay terminating."""
        self.operations.append(("fail", list(names)))
        self.lab.failed |= set(names)
        for name in names:
            await self._set_ready(name, "Unknown")
        for pod in await self.lab.pods():
            if pod.spec.node_name in names:
                await self.lab.user.delete(Pod, pod.metadata.name, namespace=pod.metadata.namespace)

    async def recover(self, names: Sequence[str]) -> None:
        """Make nodes ready; their terminating pods are removed."""
        self.operations.append(("recover", list(names)))
        self.lab.failed -= set(names)
        for name in names:
            await self._set_ready(name, "True")

    async def cordon(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("cordon", list(names)))

    async def uncordon(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("uncordon", list(names)))

    async def drain(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("drain", list(names)))

    async def _set_ready(self, name: str, status: str) -> None:
        change = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        await self.lab.user.patch(Node, name, change, subresource="status")


class StoryLab(InMemoryLab):
    """A cluster in which stories are played, each in a namespace of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = self.connect()
        """The connection of those who play stories."""
        self.player = self.client(self.connection)
        self.nodes: list[Nodes] = []
        """The nodes of each run."""
        self.failed: set[str] = set()
        """The nodes on which no pod terminates."""
        self.is_paused = False
        """Whether pods neither start nor terminate."""

    async def all(self, kind: type[T]) -> list[T]:
        """All objects of a kind, in all namespaces."""
        return list((await self.user.list(kind)).items)

    def waits(self, pod: Pod) -> bool:
        """Whether a kubelet that works has something to do for a pod."""
        return super().waits(pod) and not self.is_paused and pod.spec.node_name not in self.failed

    async def run_pod(self, pod: Pod, *, ready: bool = True) -> None:
        """Place a pod in the emptiest zone, and run it."""
        if not pod.spec.node_name:
            self.place_on(await self._emptiest(pod))
        await super().run_pod(pod, ready=ready)

    async def _emptiest(self, pod: Pod) -> str:
        """A node of the zone that has the fewest pods of the same story."""
        nodes = {each.metadata.name: each.metadata.labels for each in await self.all(Node)}
        suitable = [name for name, labels in nodes.items() if pod.spec.node_selector.items() <= labels.items()]
        placed = Counter(each.spec.node_name for each in await self.pods() if each.spec.node_name in suitable)
        zones: Counter[str] = Counter()
        for name, count in placed.items():
            zones[nodes[name][ZONE]] += count
        ready = set(suitable) - self.failed
        return min(ready, key=lambda name: (zones[nodes[name][ZONE]], placed[name], name))

    @asynccontextmanager
    async def simulate(self, shape: Shape) -> AsyncIterator[NodeActions]:
        """The nodes of a run."""
        nodes = Nodes(self, Shape(name=shape.name))
        self.nodes.append(nodes)
        await nodes.reshape(shape)
        yield nodes

    async def play(self, playing: Awaitable[T]) -> T:
        """Run pods, and let time pass, until a story has been played."""
        task = asyncio.ensure_future(playing)
        while not task.done():
            await self.run_pods()
            await self.advance(_STEP)
        return await task
