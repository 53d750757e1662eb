"""CloneSets on the lab over HTTP: kubectl, trouble on the wire, and policies that rank."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bench.soak.wire import trouble
from tests.lab.clonesets import (
    CLONESETS,
    CloneSetSandbox,
    cloneset_sandbox,
    manifest,
    ranks_are_followed,
    recomputed_ranks_are_waited_for,
)
from tests.lab.test_kubectl import FOUND, Kubectl
from trimtab.api import configuration
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.app.process import App, Settings
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError
from trimtab.kube.sessions import Session
from trimtab_lab.apiserver.wire.server import Server

pytestmark = pytest.mark.slow

TROUBLED = 12.0
"""Seconds of trouble."""
LARGEST = 12


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """A client of the server."""
    async with Client(Session(discover(server.kubeconfig))) as made:
        yield made


@pytest.mark.skipif(not FOUND, reason="kubectl is not installed")
async def test_kubectl_scales_and_shows(client: Client, server: Server, tmp_path: Path) -> None:
    """`kubectl scale`, `kubectl get` with its columns and short name, and `kubectl explain` of a field."""
    kubectl = Kubectl(FOUND[0], server.kubeconfig, tmp_path)
    async with cloneset_sandbox(client) as made:
        await made.create(2)
        await made.until(2)
        assert "scaled" in await kubectl("scale", "cloneset/web", "--replicas=5", "-n", made.name)
        await made.until(5)
        await made.reported(lambda cloneset: cloneset.status.replicas == 5)
        header, row = (await kubectl("get", "clone", "-n", made.name)).splitlines()
        columns = ["NAME", "DESIRED", "UPDATED", "UPDATED_READY", "UPDATED_AVAILABLE", "READY", "TOTAL", "AGE"]
        assert header.split() == columns
        assert row.split()[:-1] == ["web", "5", "5", "0", "0", "0", "5"]
        said = await kubectl("explain", "cloneset.spec.scaleStrategy.podsToDelete")
        assert "replaced unless the CloneSet is scaled down" in " ".join(said.split())


async def test_trouble_on_the_wire_leaves_exactly_what_is_wanted(client: Client, server: Server) -> None:
    """Latency, cut watches, conflicts, refusals: never more pods than were ever wanted, and in the end just as many."""
    rng = random.Random(5)
    async with Client(Session(discover(server.kubeconfig))) as troubled, cloneset_sandbox(troubled) as made:
        await client.create(CLONESETS, manifest(4, by=made.name), namespace=made.name)
        most = 0

        def count(_: Pod) -> None:
            nonlocal most
            most = max(most, len(made.names))

        made.pods.subscribe(added=count)
        ends = time.monotonic() + TROUBLED
        while time.monotonic() < ends:
            server.faults.clear()
            for _ in range(rng.randrange(3)):
                server.faults.add(trouble(rng))
            with suppress(ApiError):
                await client.resize(CloneSet, "web", rng.randrange(LARGEST + 1), namespace=made.name)
            await asyncio.sleep(rng.uniform(0.2, 0.8))
        server.faults.clear()
        await client.resize(CloneSet, "web", 7, namespace=made.name)
        await made.until(7)
        await made.reported(lambda cloneset: cloneset.status.replicas == 7)
        assert len((await client.list(Pod, namespace=made.name)).items) == 7
    assert most <= LARGEST


# Policies, with all of Trimtab's controllers running.


@asynccontextmanager
async def trimtab(client: Client, server: Server) -> AsyncIterator[CloneSetSandbox]:
    """A namespace that Trimtab reconciles."""
    async with cloneset_sandbox(client, manager="trimtab") as made:
        told = {
            "components": ["controllers"],
            "namespaces": [made.name],
            "featureGates": {"CloneSetPodCost": True},
            "leaderElection": {"enabled": False},
            "serving": {"port": -1},
        }
        running = asyncio.ensure_future(App(Settings(configuration.read(told), server.kubeconfig)).run())
        try:
            yield made
        finally:
            await cancel(running)


@pytest.mark.parametrize("story", [ranks_are_followed, recomputed_ranks_are_waited_for], ids=lambda each: each.__name__)
async def test_a_cloneset_follows_a_policy(
    client: Client, server: Server, story: Callable[[CloneSetSandbox], Awaitable[None]]
) -> None:
    """With the ranks that the policy's controller writes."""
    async with trimtab(client, server) as made:
        await story(made)
