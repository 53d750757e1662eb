"""CloneSets on the lab over HTTP: kubectl, trouble on the wire, and policies that rank."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab.clonesets import CLONESETS, CloneSetSandbox, cloneset_sandbox, manifest, template
from tests.lab.test_chaos import trouble
from tests.lab.test_kubectl import FOUND, Kubectl
from trimtab.api import configuration
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost
from trimtab.app.process import App, Settings
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import ApiError
from trimtab.kube.informers import Informer
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
async def trimtab(client: Client, server: Server) -> AsyncIterator[tuple[CloneSetSandbox, Informer[PodGroupCost]]]:
    """A namespace that Trimtab reconciles, with nodes in three zones, and the costs that it writes there."""
    async with cloneset_sandbox(client, manager="trimtab") as made:
        await made.nodes({"az-1": "a1 a2", "az-2": "b1 b2", "az-3": "c1 c2"})
        told = {
            "components": ["controllers"],
            "namespaces": [made.name],
            "featureGates": {"CloneSetPodCost": True},
            "leaderElection": {"enabled": False},
            "serving": {"port": -1},
        }
        app = App(Settings(configuration.read(told), server.kubeconfig))
        costs: Informer[PodGroupCost] = Informer(client, PodGroupCost, namespace=made.name)
        working = [asyncio.ensure_future(each) for each in (app.run(), costs.run())]
        try:
            yield made, costs
        finally:
            await cancel(*working)


async def twelve(made: CloneSetSandbox, **spec: Any) -> None:
    """Twelve pods, four in each zone."""
    await made.create(12, updateStrategy={"maxUnavailable": "100%"}, **spec)
    await made.until(12)
    await made.run_pods("a1", "a2", "b1", "b2", "c1", "c2")
    await made.reported(lambda cloneset: cloneset.status.available_replicas == 12)


def zones(made: CloneSetSandbox) -> list[int]:
    """How many pods are in each zone, by the first letter of the node."""
    places = [pod.spec.node_name.removeprefix(f"{made.name}-")[0] for pod in made.pods.store if pod.active]
    return [places.count(letter) for letter in "abc"]


async def test_a_policy_ranks_and_the_cloneset_follows(client: Client, server: Server) -> None:
    """The workflow of twelve pods in three zones, with the ranks that the policy's controller writes."""
    async with trimtab(client, server) as (made, costs):
        await made.govern(delivery="Continuous", carrier="PodGroupCost", strategies=[{"name": "Balance"}])
        await twelve(made)
        await costs.wait_for(lambda store: any(len(set(each.spec.costs.values())) == 4 for each in store))
        for size in (11, 10, 9, 6, 3):
            before = {name: cost for each in costs.store for name, cost in each.spec.costs.items()}
            there = set(made.names)
            await made.scale(size)
            left = await made.until(size)
            assert min(before[name] for name in there - left) >= max(before[name] for name in left)
            assert max(zones(made)) - min(zones(made)) <= 1


async def test_a_policy_that_must_rank_anew_is_waited_for(client: Client, server: Server) -> None:
    """Each removal is followed by ranks for the pods that are left, and only then by the next one."""
    ranked: list[frozenset[str]] = []
    avoids = {
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    }
    apart = template(app="web")
    preferred = [{"weight": 1, **avoids}]
    apart["spec"]["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    async with trimtab(client, server) as (made, costs):
        costs.subscribe(
            added=lambda new: ranked.append(frozenset(new.spec.costs)),
            updated=lambda _, new: ranked.append(frozenset(new.spec.costs)),
        )
        await made.govern(
            delivery="Continuous",
            carrier="PodGroupCost",
            strategies=[{"name": "AntiAffinity"}],
            whenUnranked={"timeoutSeconds": 600},
        )
        await twelve(made, template=apart)
        await costs.wait_for(lambda store: any(set(each.spec.costs) == made.names for each in store))
        everyone = frozenset(made.names)
        await made.scale(8)
        await made.until(8)
        steps = [everyone - set(made.gone[:count]) for count in range(4)]
        assert [step for step in ranked if step in steps and len(step) < 12] == steps[1:]
        assert not [event for event in made.events.store if event.reason == "RanksIgnored"]
