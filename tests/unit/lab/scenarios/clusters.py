"""A control plane in memory, as far as a story sees of one: it keeps Deployments at their size, at once.

It places each new pod in the emptiest zone, and removes the youngest first. Time is virtual.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.kube.fakes import FakeServer
from trimtab.api import times
from trimtab.api.apps import Deployment
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.transport import Request
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios.actions import NodeActions

CORE, APPS = "/api/v1", "/apis/apps/v1"
ZONE = "topology.kubernetes.io/zone"


@dataclass(slots=True)
class Nodes:
    """Nodes that change at once, and record the operations on them."""

    control_plane: FakeControlPlane
    shape: Shape
    operations: list[tuple[str, list[str]]] = field(default_factory=list)

    async def reshape(self, shape: Shape) -> None:
        """Nodes of the shape, all ready; no others."""
        for name in self.shape.nodes:
            if name not in shape.nodes:
                self.control_plane.server.drop(CORE, "nodes", name)
        self.shape = shape
        for plan in shape.nodes.values():
            self._set(plan.name, dict(plan.labels), ready=True)

    async def fail(self, names: Sequence[str]) -> None:
        """Make nodes unready; their pods are replaced, and stay terminating."""
        await self._operate("fail", names, ready=False)
        for tree in self.control_plane.pods():
            if tree["spec"].get("nodeName") in names:
                self.control_plane.terminate(tree)
        self.control_plane.reconcile()

    async def recover(self, names: Sequence[str]) -> None:
        """Make nodes ready; their terminating pods are removed."""
        await self._operate("recover", names, ready=True)
        for tree in self.control_plane.pods():
            if tree["spec"].get("nodeName") in names and tree["metadata"].get("deletionTimestamp"):
                self.control_plane.remove(tree)

    async def cordon(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("cordon", list(names)))

    async def uncordon(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("uncordon", list(names)))

    async def drain(self, names: Sequence[str]) -> None:
        """Record the operation."""
        self.operations.append(("drain", list(names)))

    async def _operate(self, what: str, names: Sequence[str], *, ready: bool) -> None:
        self.operations.append((what, list(names)))
        for name in names:
            self._set(name, dict(self.shape.nodes[name].labels), ready=ready)

    def _set(self, name: str, labels: dict[str, str], *, ready: bool) -> None:
        status = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
        tree = {"metadata": {"name": name, "labels": labels}, "status": status}
        self.control_plane.server.put(CORE, "nodes", tree)


@dataclass(slots=True)
class FakeControlPlane:
    """The server, its only controller, and the nodes of the runs on it."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    is_stopped: bool = False
    """Whether the controller does nothing."""
    made: int = 0
    nodes: list[Nodes] = field(default_factory=list)
    server: FakeServer = field(init=False)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.server = FakeServer(self.clock)
        self.server.intercept = self._before
        self.client = Client(self.server, clock=self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeControlPlane]:
        """With its controller running."""
        informer = Informer(self.client, Deployment)
        informer.subscribe(added=lambda _: self.reconcile(), updated=lambda _, __: self.reconcile())
        task = asyncio.create_task(informer.run())
        try:
            yield self
        finally:
            await cancel(task)

    @asynccontextmanager
    async def simulate(self, shape: Shape) -> AsyncIterator[NodeActions]:
        """The nodes of a run."""
        nodes = Nodes(self, shape)
        self.nodes.append(nodes)
        await nodes.reshape(shape)
        yield nodes

    def pods(self) -> list[dict[str, Any]]:
        """All pods."""
        return self.server.objects("pods")

    def reconcile(self) -> None:
        """Create or delete the pods of every Deployment, and update its status."""
        for deployment in self.server.objects("deployments"):
            if not self.is_stopped:
                self._resize(deployment)
                self._report(deployment)

    def terminate(self, tree: dict[str, Any]) -> None:
        """Mark a pod as terminating."""
        metadata = {**tree["metadata"], "deletionTimestamp": times.format_time(self.clock.now())}
        self.server.put(CORE, "pods", {**tree, "metadata": metadata})

    def remove(self, tree: dict[str, Any]) -> None:
        """Remove a pod."""
        self.server.drop(CORE, "pods", f"{tree['metadata']['namespace']}/{tree['metadata']['name']}")

    def _of(self, deployment: dict[str, Any]) -> list[dict[str, Any]]:
        namespace = deployment["metadata"]["namespace"]
        mine = [tree for tree in self.pods() if tree["metadata"]["namespace"] == namespace]
        return [tree for tree in mine if not tree["metadata"].get("deletionTimestamp")]

    def _resize(self, deployment: dict[str, Any]) -> None:
        pods, wanted = self._of(deployment), deployment["spec"]["replicas"]
        for tree in pods[wanted:]:
            self.remove(tree)
        for _ in range(wanted - len(pods)):
            self._create(deployment)

    def _create(self, deployment: dict[str, Any]) -> None:
        self.made += 1
        now = times.format_time(self.clock.now())
        name, namespace = f"web-{self.made}", deployment["metadata"]["namespace"]
        template = deployment["spec"]["template"]
        metadata = {**template["metadata"], "name": name, "namespace": namespace, "creationTimestamp": now}
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "conditions": [condition]}
        spec = {**template["spec"], "nodeName": self._emptiest(deployment)}
        self.server.put(CORE, "pods", {"metadata": metadata, "spec": spec, "status": status})

    def _emptiest(self, deployment: dict[str, Any]) -> str:
        nodes = {tree["metadata"]["name"]: tree for tree in self.server.objects("nodes")}
        ready = [name for name, tree in nodes.items() if tree["status"]["conditions"][0]["status"] == "True"]
        zone = {name: nodes[name]["metadata"]["labels"][ZONE] for name in nodes}
        count = Counter(zone[tree["spec"]["nodeName"]] for tree in self._of(deployment))
        return str(min(ready, key=lambda name: (count[zone[name]], name)))

    def _report(self, deployment: dict[str, Any]) -> None:
        wanted = deployment["spec"]["replicas"]
        said = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), wanted)
        if deployment.get("status") != said:
            self.server.put(APPS, "deployments", {**deployment, "status": said})

    def _before(self, request: Request) -> None:
        """Delete the objects of a deleted namespace."""
        root, _, name = request.path.rpartition("/")
        if request.method == "DELETE" and root == f"{CORE}/namespaces":
            for group, plural in ((APPS, "deployments"), (CORE, "pods")):
                for tree in self.server.objects(plural):
                    if tree["metadata"]["namespace"] == name:
                        self.server.drop(group, plural, f"{name}/{tree['metadata']['name']}")
