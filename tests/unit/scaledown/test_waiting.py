"""Policies and a controller that waits for ranks, together: Trimtab's CloneSets read what the policies write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.cloneset.worlds import manifest
from tests.unit.lab.workloads.clusters import Wire
from tests.unit.scaledown.worlds import PolicyWorld, target
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset.controller import Controller
from trimtab.cloneset.settings import Settings
from trimtab.kube.client import Client
from trimtab.kube.resources import Resource
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.findings import WITH_POD_COST

CLONESET = target("web", "CloneSet", "apps.kruise.io/v1alpha1")
CARRIERS = ["PodGroupCost", "AlphaAnnotation"]
DELIVERIES = ["Continuous", "OnScaleIntent"]


class CloneWorld(PolicyWorld):
    """A cluster whose CloneSets and policies are looked after."""

    async def start(self) -> None:
        """Start both; CloneSets honour costs as ranks."""
        self.readers = WITH_POD_COST
        await super().start()
        self.clones = Wire(self.cluster)
        client = Client(self.clones, clock=self.clock, rng=random.Random(1))
        settings = Settings(pod_cost=True)
        made = Controller(client, settings, policy_of=self._policy_of, rng=random.Random(1))
        self.cloning = asyncio.ensure_future(made.run())
        await self.settle()

    def _policy_of(self, cloneset: CloneSet) -> ScaleDownPolicySpec | None:
        found = effective.governing(effective.workload_ref(cloneset), self.view.policies_in("default"))
        return None if found is None else found.spec

    def _activity(self) -> tuple[int, int]:
        requests, version = super()._activity()
        return requests + len(getattr(self, "clones", self.product).requests), version

    async def close(self) -> None:
        """End everything."""
        self.cloning.cancel()
        while not self.cloning.done():
            await self.clock.advance(0.5)
        await super().close()

    async def clone(self, replicas: int) -> dict[str, str]:
        """A CloneSet whose pods answer what they cost; its pods by answer, the cheapest first."""
        await self.create(CloneSet, manifest(replicas))
        await self.run_pods()
        return await self.answering()

    async def answering(self) -> dict[str, str]:
        """Let every pod answer 100, 200, … by name; the addresses of the pods."""
        addresses = {}
        for at, pod in enumerate(sorted(await self.pods(), key=lambda pod: pod.metadata.name), 1):
            address = f"10.2.0.{at}"
            self.answers[address] = str(100 * at).encode()
            status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
            await self.user.patch(Pod, pod.metadata.name, status, namespace="default", subresource="status")
            addresses[pod.metadata.name] = address
        await self.advance(20)
        await self.look()
        return addresses

    async def shrink(self, replicas: int) -> None:
        """`kubectl scale` of the CloneSet; pods that go are given time to."""
        await self.user.resize(CloneSet, "web", replicas, namespace="default")
        for _ in range(4):
            await self.advance(1.1)
        await self.run_pods()
        await self.look()

    async def names(self) -> set[str]:
        """The pods that are there to stay."""
        return {pod.metadata.name for pod in await self.pods()}


@pytest_asyncio.fixture
async def world() -> AsyncIterator[CloneWorld]:
    """A cluster of two zones."""
    made = CloneWorld()
    await made.start()
    await made.add_nodes("a1", zone="a")
    await made.add_nodes("b1", zone="b")
    made.place_on("a1", "b1")
    yield made
    await made.close()


def probing(**more: Any) -> dict[str, Any]:
    """A policy by which pods are asked."""
    probe = {"name": "Probe", "args": {"periodSeconds": 10, "maxAgeSeconds": 30}}
    return {"targetRef": CLONESET, "strategies": [probe], **more}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("delivery", DELIVERIES)
async def test_a_cloneset_follows_the_ranks(world: CloneWorld, carrier: str, delivery: str) -> None:
    """Wherever they are written, and whenever: it waits until they are there."""
    await world.clone(4)
    await world.policy(**probing(carrier=carrier, delivery=delivery, whenUnranked={"timeoutSeconds": 600}))
    pods = sorted(await world.answering())
    await world.shrink(2)
    assert await world.names() == set(pods[2:])


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_it_waits_for_a_pod_without_a_rank_in_full(world: CloneWorld, carrier: str) -> None:
    """Up to the policy's timeout, which no admission budget cuts short; and goes on as soon as the rank is there."""
    await world.clone(3)
    await world.policy(**probing(carrier=carrier, delivery="Continuous", whenUnranked={"timeoutSeconds": 600}))
    addresses = await world.answering()
    pods = sorted(addresses)
    silent = addresses[pods[1]]
    answer = world.answers.pop(silent)
    await world.advance(60)
    await world.shrink(2)
    await world.advance(300)
    assert await world.names() == set(pods)
    world.answers[silent] = answer
    await world.advance(40)
    await world.run_pods()
    assert await world.names() == set(pods[1:])


async def test_after_the_timeout_it_falls_back(world: CloneWorld) -> None:
    """To the order that it always had."""
    await world.clone(3)
    await world.policy(**probing(carrier="PodGroupCost", delivery="Continuous", whenUnranked={"timeoutSeconds": 60}))
    addresses = await world.answering()
    del world.answers[addresses[min(addresses)]]
    await world.advance(60)
    await world.shrink(2)
    assert len(await world.names()) == 3
    await world.advance(120)
    await world.run_pods()
    assert len(await world.names()) == 2


async def test_a_strategy_that_must_be_asked_anew_lets_one_go_at_a_time(world: CloneWorld) -> None:
    """Each removal waits until the ranks are those of exactly the pods that are left."""
    await world.clone(5)
    strategies = [{"name": "AntiAffinity"}]
    await world.policy(targetRef=CLONESET, strategies=strategies, carrier="PodGroupCost", delivery="Continuous")
    world.product.requests.clear()
    await world.shrink(2)
    for _ in range(6):
        await world.advance(3)
        await world.run_pods()
    assert len(await world.names()) == 2
    await world.look()
    (left,) = (await world.user.list(Resource.of(PodGroupCost), namespace="default")).items
    assert set(left.spec.costs) == await world.names()
    assert len(world.writes("podgroupcosts")) >= 3
