"""UnitedTopologies with failures, over the wire: whatever fails or is killed, the state converges.

A whole lab in one process: API server, workload controllers, a scheduler, simulated nodes, and Trimtab's webhooks and
controller, all over HTTPS.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.deployments import DeploymentSandbox, deployment_sandbox
from tests.lab.subset_processes import SubsetProcesses, running_subsets
from tests.scenarios.labs import configuration, scheduling
from trimtab.api import annotations as keys
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.wire.faults import Fault
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.workloads.service import Workloads

pytestmark = pytest.mark.slow

ZONES = {"zone-a": 2, "zone-b": 2, "zone-c": 2}
PATIENCE = 90.0


@dataclass
class Plane:
    """A lab with a workload that has subsets."""

    server: Server
    fleet: DeploymentSandbox
    trimtab: SubsetProcesses

    async def status(self) -> UnitedTopologyStatus:
        """The status of the UnitedTopology."""
        found = await self.fleet.client.get(UnitedTopology, "web", namespace=self.fleet.name)
        return found.status

    def counts(self) -> Counter[str]:
        """How many active pods are annotated with each subset."""
        return Counter(subset_of(pod) for pod in self.fleet.pods.store if pod.active)

    async def is_right(self, size: int) -> bool:
        """Whether every pod is there, in a subset, and counted, and nothing is on its way."""
        try:
            status = await self.status()
        except ApiError:
            return False
        rows = status.subset_statuses
        quiet = not status.other_revisions and not any(row.creating or row.deleting for row in rows)
        counts = self.counts()
        counted = {row.name: row.replicas for row in rows if row.replicas}
        return quiet and sum(counts.values()) == size and counted == dict(counts) and status.replicas == size


def subset_of(pod: Pod) -> str:
    """The subset of a pod."""
    known = keys.subset_annotations(pod.metadata.annotations)
    return known.subset if known is not None else ""


def subset(name: str, zone: str, most: int | str | None = None) -> JSON:
    """A subset in a zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"name": name, "nodeSelectorTerm": term} | ({} if most is None else {"maxReplicas": most})


TOPOLOGY: JSON = {
    "apiVersion": "apps.kruise.io/v1alpha1",
    "kind": "UnitedTopology",
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "subsets": [subset("a", "zone-a", 6), subset("b", "zone-b", "50%"), subset("c", "zone-c")],
    },
}


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running(client: Client) -> AsyncIterator[None]:
    """The control plane's own controllers and scheduler."""
    controllers = Nodes(client, client.clock, Shape(name="node-controllers"), 0)
    tasks = [asyncio.create_task(each) for each in (Workloads(client).run(), controllers.run())]
    try:
        async with scheduling(client, configuration(())):
            yield
    finally:
        await cancel(*tasks)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    """A lab in which six pods are in zone-a, half in zone-b, the rest in zone-c."""
    async with (
        Server(tmp_path, seed=5) as server,
        Client(Session(discover(server.kubeconfig))) as client,
        running(client),
        deployment_sandbox(client, ZONES) as made,
        running_subsets(client, made.name) as trimtab,
    ):
        await client.create(UnitedTopology, TOPOLOGY, namespace=made.name)
        await made.deploy("web", 4)
        found = Plane(server, made, trimtab)
        await eventually(lambda: found.is_right(4))
        yield found


async def test_webhooks_and_controller_are_killed(plane: Plane) -> None:
    """Pods are created all the time; those without a reservation are matched, and deleted first."""
    await plane.fleet.scale("web", 10)
    await plane.trimtab.kill_controller()
    await plane.fleet.settled(10)
    assert plane.counts()["a"] == 6
    await plane.trimtab.start_controller()
    await plane.trimtab.kill_webhooks()
    await plane.fleet.scale("web", 14)
    await plane.fleet.settled(14)
    await eventually(lambda: plane.is_right(14))
    await plane.trimtab.start_webhooks()
    await plane.fleet.scale("web", 10)
    await plane.fleet.settled(10)
    await eventually(lambda: plane.is_right(10))
    assert plane.counts()["a"] == 6


async def test_the_api_server_restarts(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection breaks and every watch ends, in the middle of growing; nothing is given away twice."""
    await plane.fleet.scale("web", 18)
    await plane.server.stop()
    monkeypatch.setattr(bootstrap, "create_default_objects", _as_it_was)
    await plane.server.start()
    await plane.fleet.settled(18)
    await eventually(lambda: plane.is_right(18))
    assert plane.counts() == {"a": 6, "b": 9, "c": 3}


async def _as_it_was(_: Cluster) -> None:
    """A server that was there before finds everything where it was."""


async def test_half_a_minute_of_faults(plane: Plane) -> None:
    """Errors, conflicts, delays, watches that break and versions that are forgotten, while sizes change."""
    rng = random.Random(9)
    size = 4
    for _ in range(10):
        plane.server.faults.clear()
        for _ in range(rng.randrange(3)):
            plane.server.faults.add(trouble(rng))
        with suppress(ApiError):
            await plane.fleet.scale("web", size := rng.randrange(2, 20))
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(rng.uniform(1.0, 3.0)):
                await plane.fleet.settled(size)
    plane.server.faults.clear()
    await plane.fleet.scale("web", 16)
    await plane.fleet.settled(16)
    await eventually(lambda: plane.is_right(16))
    await plane.fleet.scale("web", 8)
    await plane.fleet.settled(8)
    await eventually(lambda: plane.is_right(8))
    assert plane.counts()["a"] <= 6


def trouble(rng: random.Random) -> Fault:
    """Something that goes wrong with some requests."""
    kind = rng.choice(["latency", "cut", "conflict", "throttle", "gone", "error", "unavailable"])
    seconds = {"latency": rng.uniform(0.05, 0.6), "cut": rng.uniform(0, 0.5), "throttle": 1.0}.get(kind, 0.0)
    watches = {"cut": True, "gone": True, "conflict": False}.get(kind)
    return Fault(kind, probability=rng.uniform(0.05, 0.3), seconds=seconds, watches=watches)
