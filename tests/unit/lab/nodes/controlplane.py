"""A control plane in memory, as far as kubelets see of one, and simulated nodes at work on it under a clock that stands
still until it is moved.

New nodes get the `not-ready` taint as an API server's admission gives it; pods that are deleted stay for their grace
period; status is patched as its schema says; evictions are refused while a budget holds.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.kube.fakes import FakeServer, answer, failure
from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.patches import schema_for, strategic_merge
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.shapes import Shape

CORE = "/api/v1"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
KINDS = {"pods": "Pod", "nodes": "Node"}
GRACE = 30

TWO_ZONES = shapes.read(
    {
        "zones": [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 2}],
        "pods": {"startSeconds": 1, "stopSeconds": 2},
    }
)
"""Four nodes whose pods need a second to start and two to stop."""


@dataclass(slots=True)
class ControlPlane(FakeServer):
    """Pods, nodes and Leases."""

    budget: int | None = None
    """How many more evictions are allowed; None if any number."""

    # What a test does.

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
        self._delete_pod(f"default/{name}", {"gracePeriodSeconds": grace})

    def written(self) -> Counter[str]:
        """What has been written so far: how often what was done to which kind."""
        return Counter(
            f"{request.method} {_subject(request.path)}" for request in self.requests if request.method != "GET"
        )

    # What clients do.

    def _respond(self, request: Request) -> Response:
        body = json.loads(request.body) if request.body else {}
        parts = request.path.split("/")
        if request.method == "POST" and parts[-1] == "eviction":
            return self._evict(f"{parts[-4]}/{parts[-2]}", body)
        if request.method == "PATCH" and parts[-1] == "status":
            return self._patch_status(parts, body)
        if request.method == "POST" and parts[-1] == "nodes":
            spec = body.get("spec", {})
            body = {**body, "spec": {**spec, "taints": [*spec.get("taints", []), NOT_READY]}}
            return self._create((CORE, "nodes"), "", body)
        if request.method == "DELETE" and parts[-2] == "pods":
            return self._delete_pod(f"{parts[-3]}/{parts[-1]}", body)
        # A subclass of a dataclass with slots has another class than the one that `super()` was compiled for.
        return FakeServer._respond(self, request)  # noqa: SLF001 - as above

    def _patch_status(self, parts: list[str], patch: JSON) -> Response:
        plural, name = parts[-3], parts[-2]
        key = name if plural == "nodes" else f"{parts[-4]}/{name}"
        tree = self._objects.get((CORE, plural), {}).get(key)
        if tree is None:
            return failure(404, "NotFound", f"{plural} {key} not found")
        if patch.get("metadata", {}).get("uid", tree["metadata"]["uid"]) != tree["metadata"]["uid"]:
            return failure(409, "Conflict", "the UID in the precondition does not match")
        merged = strategic_merge({"status": tree.get("status", {})}, {"status": patch["status"]}, _schema(plural))
        return answer(200, self.put(CORE, plural, {**tree, "status": merged["status"]}))

    def _delete_pod(self, key: str, options: JSON) -> Response:
        tree = self._objects.get((CORE, "pods"), {}).get(key)
        if tree is None:
            return failure(404, "NotFound", "pods not found")
        metadata = tree["metadata"]
        if (options.get("preconditions") or {}).get("uid", metadata["uid"]) != metadata["uid"]:
            return failure(409, "Conflict", "the UID in the precondition does not match")
        grace = options.get("gracePeriodSeconds", GRACE)
        if grace == 0 and not metadata.get("finalizers"):
            self.drop(CORE, "pods", key)
        elif "deletionTimestamp" not in metadata or grace < metadata["deletionGracePeriodSeconds"]:
            ends = times.format_time(self.clock.now() + grace * SECOND)
            marked = {**metadata, "deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
            self.put(CORE, "pods", {**tree, "metadata": marked})
        return answer(200, {"kind": "Status", "status": "Success"})

    def _evict(self, key: str, eviction: JSON) -> Response:
        if self.budget is not None:
            if self.budget == 0:
                causes = [{"reason": "DisruptionBudget", "message": "The budget needs 1 healthy pod"}]
                return failure(429, "TooManyRequests", "Cannot evict pod", causes=causes)
            self.budget -= 1
        return self._delete_pod(key, eviction.get("deleteOptions", {}))


def _prefixed(annotations: Mapping[str, str]) -> dict[str, str]:
    return {f"lab.trimtab.dev/{name}": value for name, value in annotations.items()}


def _schema(plural: str) -> Any:
    return schema_for("v1", KINDS[plural])


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
            await cancel(self._task)
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
