"""Policies and a controller that waits for ranks, together: Trimtab's CloneSets read what the policies write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.cloneset.clusters import manifest
from tests.unit.scaledown.policy_cluster import PolicyCluster, target
from trimtab.api.annotations import RANKED_AMONG, fingerprint
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset.controller import Controller
from trimtab.cloneset.settings import Settings
from trimtab.kube.resources import Resource
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.findings import WITH_POD_COST
from trimtab.scaledown.policy.workloads import workload_ref

CLONESET = target("web", "CloneSet", "apps.kruise.io/v1alpha1")
CARRIERS = ["PodGroupCost", "AlphaAnnotation", "Annotation"]
KEPT = [
    *((carrier, delivery) for carrier in CARRIERS[:2] for delivery in ("Continuous", "OnScaleIntent")),
    ("Annotation", "Continuous"),
]
"""Where the controller waits for costs; those of `Annotation` on scale intent are written while a request is held."""


class CloneWorld(PolicyCluster):
    """A cluster whose CloneSets and policies are kept current."""

    async def start(self) -> None:
        """Start both; CloneSets honour costs as ranks."""
        self.readers = WITH_POD_COST
        await super().start()
        self.clones = self.connect()
        client = self.client(self.clones)
        settings = Settings(pod_cost=True)
        made = Controller(client, settings, policy_of=self._policy_of, rng=random.Random(1))
        self.cloning = asyncio.ensure_future(made.run())
        await self.settle()

    def _policy_of(self, cloneset: CloneSet) -> ScaleDownPolicySpec | None:
        found = effective.effective_policy(workload_ref(cloneset), self.view.policies_in("default"))
        return None if found is None else found.spec

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
async def cluster() -> AsyncIterator[CloneWorld]:
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


@pytest.mark.parametrize(("carrier", "delivery"), KEPT)
async def test_a_cloneset_follows_the_ranks(cluster: CloneWorld, carrier: str, delivery: str) -> None:
    """Wherever they are written, and whenever: it waits until they are there."""
    await cluster.clone(4)
    await cluster.policy(**probing(carrier=carrier, delivery=delivery, whenUnranked={"timeoutSeconds": 600}))
    pods = sorted(await cluster.answering())
    await cluster.shrink(2)
    assert await cluster.names() == set(pods[2:])


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_cloneset_waits_for_the_full_timeout_of_the_policy(cluster: CloneWorld, carrier: str) -> None:
    """Up to the policy's timeout, which no admission budget cuts short; and goes on as soon as the rank is there."""
    await cluster.clone(3)
    await cluster.policy(**probing(carrier=carrier, delivery="Continuous", whenUnranked={"timeoutSeconds": 600}))
    addresses = await cluster.answering()
    pods = sorted(addresses)
    silent = addresses[pods[1]]
    answer = cluster.answers.pop(silent)
    await cluster.advance(60)
    await cluster.shrink(2)
    await cluster.advance(300)
    assert await cluster.names() == set(pods)
    cluster.answers[silent] = answer
    await cluster.advance(40)
    await cluster.run_pods()
    assert await cluster.names() == set(pods[1:])


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_after_the_timeout_a_cloneset_falls_back(cluster: CloneWorld, carrier: str) -> None:
    """To the order that it always had, for all pods: the ranks of the others count for nothing."""
    await cluster.clone(3)
    await cluster.policy(**probing(carrier=carrier, delivery="Continuous", whenUnranked={"timeoutSeconds": 60}))
    addresses = await cluster.answering()
    pods = await cluster.pods()
    crowded = {pod.metadata.name for pod in pods if sum(each.spec.node_name == pod.spec.node_name for each in pods) > 1}
    kept, cheapest = max(crowded), next(name for name in sorted(addresses) if name not in crowded)
    cluster.answers[addresses[cheapest]] = b"1"
    await cluster.advance(20)
    await cluster.look()
    del cluster.answers[addresses[kept]]
    await cluster.advance(60)
    await cluster.shrink(2)
    assert len(await cluster.names()) == 3
    await cluster.advance(120)
    await cluster.run_pods()
    left = await cluster.names()
    assert len(left) == 2
    assert cheapest in left, "alone on its node, it is the last in the original order, and was the first by rank"


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_with_a_recomputed_strategy_one_pod_is_deleted_at_a_time(cluster: CloneWorld, carrier: str) -> None:
    """Each removal waits until the ranks are those of exactly the pods that are left."""
    await cluster.clone(5)
    strategies = [{"name": "AntiAffinity"}]
    await cluster.policy(targetRef=CLONESET, strategies=strategies, carrier=carrier, delivery="Continuous")
    cluster.product.requests.clear()
    await cluster.shrink(2)
    for _ in range(6):
        await cluster.advance(3)
        await cluster.run_pods()
    assert len(await cluster.names()) == 2
    await cluster.look()
    if carrier == "PodGroupCost":
        (left,) = (await cluster.user.list(Resource.of(PodGroupCost), namespace="default")).items
        assert set(left.spec.costs) == await cluster.names()
        assert len(cluster.writes("podgroupcosts")) >= 3
    else:
        among = {pod.metadata.annotations.get(RANKED_AMONG) for pod in await cluster.pods()}
        assert among == {fingerprint(await cluster.names())}
        assert len(cluster.writes()) >= 4 + 3 + 2, "all that are left, after each removal"
    assert await cluster.event_messages("RanksIgnored") == []
