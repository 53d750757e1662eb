"""A scheduler at work on the lab's API server, in memory. Every binding is recorded, so that none is made twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.kube.fakes import Change, FakeStream, Watcher
from tests.unit.kube.lab_server import LabServer
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.transport import Request, Response
from trimtab.scheduler.configuration import Configuration, read
from trimtab.scheduler.service import Service
from trimtab.testing.builders import NodeBuilder, PodBuilder
from trimtab.testing.clocks import VirtualClock

CORE = "/api/v1"
APPS = "/apis/apps/v1"
SCHEDULER = "trimtab"

QUIET: Mapping[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
}
"""A configuration for tests that are not about leases."""


@dataclass(slots=True)
class ControlPlane(LabServer):
    """Pods, nodes and the other objects that a scheduler watches."""

    bindings: list[tuple[str, str]] = field(default_factory=list)
    """Every binding that took place: the pod's UID, and the node."""
    deaf: bool = False
    """Whether watches stay silent."""

    def add_pod(self, pod: PodBuilder, *, scheduler: str = SCHEDULER) -> str:
        """Create a pod; its UID."""
        tree = pod.spec(schedulerName=scheduler).tree()
        made: str = self.put(CORE, "pods", tree)["metadata"]["uid"]
        return made

    def change_pod(self, name: str, **parts: JSON) -> None:
        """Change parts of a pod: metadata, spec or status."""
        tree = self.pod(name)
        self.put(CORE, "pods", {**tree, **{part: {**tree[part], **change} for part, change in parts.items()}})

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        self.drop(CORE, "pods", f"default/{name}")

    def add_node(self, node: NodeBuilder) -> None:
        """Create a node, or overwrite it."""
        self.put(CORE, "nodes", node.tree())

    def delete_node(self, name: str) -> None:
        """Delete a node. Its pods stay."""
        self.drop(CORE, "nodes", name)

    def pod(self, name: str) -> JSON:
        """A pod as it is."""
        return next(tree for tree in self.objects("pods") if tree["metadata"]["name"] == name)

    def pods(self) -> dict[str, str]:
        """Where the pods are, by name; those without a node have none."""
        return {tree["metadata"]["name"]: tree["spec"].get("nodeName", "") for tree in self.objects("pods")}

    def condition(self, name: str) -> JSON | None:
        """The condition PodScheduled of a pod."""
        conditions = self.pod(name)["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), None)

    def events(self, reason: str = "") -> list[JSON]:
        """The events, all or those of one reason."""
        return [event for event in self.objects("events") if reason in ("", event["reason"])]

    def calls(self, ending: str) -> list[Request]:
        """The requests so far that wrote to paths with this ending."""
        return [r for r in self.requests if r.method != "GET" and r.path.endswith(ending)]

    def _tell(self, watcher: Watcher, change: Change) -> None:
        if not self.deaf:
            super(ControlPlane, self)._tell(watcher, change)

    def _respond(self, request: Request) -> Response:
        # A dataclass with slots is another class than the one that a bare `super()` was compiled for.
        response = super(ControlPlane, self)._respond(request)
        if request.path.endswith("/binding") and response.status == 201:
            binding = json.loads(request.body or b"{}")
            self.bindings.append((binding["metadata"]["uid"], binding["target"]["name"]))
        return response


@dataclass(slots=True)
class Wire:
    """A connection that can go dead, as if its process had been killed: no response ever arrives."""

    server: ControlPlane
    dead: bool = False

    async def send(self, request: Request) -> Response:
        """As the server answers."""
        await self._hang()
        response = await self.server.send(request)
        await self._hang()
        return response

    async def stream(self, request: Request) -> FakeStream:
        """As the server answers."""
        await self._hang()
        return await self.server.stream(request)

    async def close(self) -> None:
        """There is nothing to close."""

    async def _hang(self) -> None:
        if self.dead:
            await asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Stage:
    """A control plane, a clock that stands still, and a scheduler."""

    server: ControlPlane
    clock: VirtualClock
    service: Service
    task: asyncio.Future[None]

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that this brings about."""
        await self.clock.advance(seconds)
        await self.settle()


def new_service(
    server: ControlPlane,
    clock: VirtualClock,
    configuration: Configuration | None = None,
    *,
    seed: int = 1,
    wire: Wire | None = None,
) -> Service:
    """A scheduler for a control plane, with all its random choices seeded."""
    client = Client(wire or server, clock=clock, rng=random.Random(seed))
    return Service(client, configuration or read(QUIET), rng=random.Random(seed), identity=f"scheduler-{seed}")


async def stop(clock: VirtualClock, *tasks: asyncio.Future[Any]) -> None:
    """Cancel these, and advance the clock until they have ended. One that has already failed fails the test."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
        task.cancel()
    await clock.advance(20)
    await cancel(*tasks)


@asynccontextmanager
async def running(
    *things: NodeBuilder | PodBuilder, configuration: Configuration | None = None
) -> AsyncIterator[Stage]:
    """A scheduler at work in a cluster that holds these nodes and pods."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    for thing in things:
        if isinstance(thing, NodeBuilder):
            server.add_node(thing)
        else:
            server.add_pod(thing)
    async with on_stage(server, clock, configuration) as stage:
        yield stage


@asynccontextmanager
async def on_stage(
    server: ControlPlane, clock: VirtualClock, configuration: Configuration | None = None
) -> AsyncIterator[Stage]:
    """A scheduler at work with this control plane."""
    service = new_service(server, clock, configuration)
    stage = Stage(server, clock, service, asyncio.ensure_future(service.run()))
    try:
        await stage.settle()
        yield stage
    finally:
        await stop(clock, stage.task)
