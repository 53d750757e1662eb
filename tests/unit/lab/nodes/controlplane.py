"""Simulated nodes at work on the lab's API server, in memory, under a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.kube.lab_server import LabServer
from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.transport import Request
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.shapes import Shape

CORE, POLICY = "/api/v1", "/apis/policy/v1"
GRACE = 30

TWO_ZONES = shapes.read(
    {
        "zones": [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 2}],
        "pods": {"startSeconds": 1, "stopSeconds": 2},
    }
)
"""Four nodes whose pods need a second to start and two to stop."""


@dataclass(slots=True)
class ControlPlane(LabServer):
    """Pods, nodes and Leases."""

    def add_pod(self, name: str, node: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> JSON:
        """Create a pod that has a node already. Annotations are given without their prefix."""
        tree = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": _prefixed(annotations or {}),
                "creationTimestamp": times.format_time(self.clock.now()),
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}], **spec},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        }
        return self.put(CORE, "pods", tree)

    def change(self, plural: str, name: str, **parts: JSON) -> None:
        """Change parts of an object: metadata, spec or status."""
        tree = self.one(plural, name)
        self.put(CORE, plural, {**tree, **{part: {**tree.get(part, {}), **new} for part, new in parts.items()}})

    def annotate(self, plural: str, name: str, annotations: Mapping[str, str]) -> None:
        """Give an object these annotations of the lab instead of those that it has."""
        self.change(plural, name, metadata={"annotations": _prefixed(annotations)})

    def one(self, plural: str, name: str) -> JSON:
        """An object as it is."""
        return next(tree for tree in self.objects(plural) if tree["metadata"]["name"] == name)

    def has(self, plural: str, name: str) -> bool:
        """Whether there is such an object."""
        return any(tree["metadata"]["name"] == name for tree in self.objects(plural))

    def pod(self, name: str) -> JSON:
        """A pod's status."""
        status: JSON = self.one("pods", name)["status"]
        return status

    def stands(self, plural: str, name: str, kind: str = "Ready") -> str:
        """How a condition of an object stands."""
        conditions = self.one(plural, name).get("status", {}).get("conditions", [])
        return next((str(each["status"]) for each in conditions if each["type"] == kind), "")

    def taints(self, node: str) -> set[str]:
        """The taints of a node as `key:effect`, without what all keys begin with."""
        taints = self.one("nodes", node)["spec"].get("taints") or []
        return {f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in taints}

    def delete_pod(self, name: str, grace: int = GRACE) -> None:
        """Ask for a pod to go."""
        body = json.dumps({"gracePeriodSeconds": grace}).encode()
        self._respond(Request("DELETE", f"{CORE}/namespaces/default/pods/{name}", body=body))

    def allow_evictions(self, count: int) -> None:
        """Have a disruption budget for all pods that allows so many more evictions."""
        status = {"disruptionsAllowed": count, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3}
        metadata = {"name": "all", "namespace": "default"}
        self.put(POLICY, "poddisruptionbudgets", {"metadata": metadata, "spec": {"selector": {}}, "status": status})

    def written(self) -> Counter[str]:
        """What has been written so far: how often what was done to which kind."""
        return Counter(
            f"{request.method} {_subject(request.path)}" for request in self.requests if request.method != "GET"
        )


def _prefixed(annotations: Mapping[str, str]) -> dict[str, str]:
    return {f"lab.trimtab.dev/{name}": value for name, value in annotations.items()}


def _subject(path: str) -> str:
    """The plural in a path, with the subresource if there is one."""
    parts = path.split("/")
    known = ("pods", "nodes", "leases", "namespaces", "events")
    index = max(index for index, part in enumerate(parts) if part in known)
    return "/".join([parts[index], *parts[index + 2 :]])


@dataclass(slots=True)
class Stage:
    """A control plane, a clock that stands still, and simulated nodes."""

    server: ControlPlane
    clock: VirtualClock
    nodes: Nodes
    settings: Settings
    seed: int = 1
    _task: asyncio.Future[None] | None = field(default=None)

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        for _ in range(400):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that this brings about."""
        await self.clock.advance(seconds)
        await self.settle()

    async def start(self) -> None:
        """Begin to simulate."""
        self._task = asyncio.ensure_future(self.nodes.run())
        await self.settle()

    async def stop(self) -> None:
        """End it, as if the process had been killed."""
        if self._task is not None:
            while not self._task.done():
                self._task.cancel()  # again and again: no grace period
                await self.settle()
            self._task = None

    async def restart(self, shape: Shape | None = None) -> None:
        """Kill the process, and start another one that knows nothing."""
        await self.stop()
        client = Client(self.server, clock=self.clock, rng=random.Random(self.seed))
        shape = shape or self.nodes.shape
        self.nodes = Nodes(client, self.clock, shape, self.seed, settings=self.settings)
        await self.start()


@asynccontextmanager
async def running(
    shape: Shape = TWO_ZONES, *, settings: Settings = SETTINGS, server: ControlPlane | None = None, seed: int = 1
) -> AsyncIterator[Stage]:
    """Simulated nodes on a control plane, once they are all ready."""
    clock = server.clock if server is not None else VirtualClock()
    assert isinstance(clock, VirtualClock)
    plane = server or ControlPlane(clock)
    client = Client(plane, clock=clock, rng=random.Random(seed))
    stage = Stage(plane, clock, Nodes(client, clock, shape, seed, settings=settings), settings, seed)
    await stage.start()
    try:
        yield stage
    finally:
        await stage.stop()
