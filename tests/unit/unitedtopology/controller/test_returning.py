"""Pods return to an earlier subset: evictions, the status, events and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.unit.lab.workloads.objects import template
from tests.unit.unitedtopology.clusters import TopologyCluster, subset
from trimtab.api.annotations import Reason
from trimtab.api.apps import Deployment
from trimtab.api.nodes import Node
from trimtab.api.policy import PodDisruptionBudget
from trimtab.kube.clocks import SECOND

JSON = dict[str, Any]
RETURN = {"settlingSeconds": 60, "maxPods": 1}
STRATEGY = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30, "return": RETURN}}


class ElasticCluster(TopologyCluster):
    """Nodes with a number of places that the scheduler and the simulation agree on."""

    async def give_places(self, name: str, places: int) -> None:
        """How many pods a node takes."""
        self.fits = {**self.fits, name: places}
        amounts = {"cpu": "64", "memory": "64Gi", "pods": str(places)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.user.patch(Node, name, status, subresource="status")
        await self.settle()

    async def pass_time(self, seconds: int, *, step: float = 1) -> None:
        """Let time pass, and pods come and go."""
        end = self.clock.now() + seconds * SECOND
        while self.clock.now() < end:
            await self.clock.advance(step)
            await self.run_pods()


@pytest_asyncio.fixture
async def elastic() -> AsyncIterator[ElasticCluster]:
    """Own nodes (z1) with two places, rented ones (z2) with many; four pods, two of each."""
    made = ElasticCluster()
    await made.start()
    for name, places in (("z1-1", 2), ("z1-2", 0), ("z2-1", 50), ("z2-2", 50), ("z3-1", 0), ("z3-2", 0)):
        await made.give_places(name, places)
    await made.create_topology(subset("own", "z1"), subset("rented", "z2"), scheduleStrategy=STRATEGY)
    await made.deploy(4)
    yield made
    await made.stop()


async def test_pods_return_one_after_the_other(elastic: ElasticCluster) -> None:
    """Once there is room, each after a settling time; then nothing is written."""
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.pass_time(120)
    assert (await elastic.topology()).status.returns == ()
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(30)
    (entry,) = (await elastic.topology()).status.returns
    assert (entry.name, entry.expected) == ("own", 0)
    await elastic.pass_time(60)
    assert await elastic.pods_by_subset() == {"own": 3, "rented": 1}
    await elastic.pass_time(90)
    assert await elastic.pods_by_subset() == {"own": 4}
    messages = await elastic.event_messages(Reason.RETURNED)
    assert len(messages) == 2
    assert all("of rented: own has room again, where its successor goes" in each for each in messages)
    assert elastic.metrics.registry.get_sample_value("trimtab_unitedtopology_pods_returned_total") == 2
    await elastic.pass_time(60)
    before = len([each for each in elastic.controller_wire.requests if each.method != "GET"])
    await elastic.pass_time(600, step=5)
    assert len([each for each in elastic.controller_wire.requests if each.method != "GET"]) == before
    assert (await elastic.topology()).status.returns == ()


async def test_a_disruption_budget_is_obeyed(elastic: ElasticCluster) -> None:
    """The pod stays, an event says why, and the subset does not count as full."""
    selector = {"matchLabels": template(app="web")["metadata"]["labels"]}
    body = {"metadata": {"name": "web"}, "spec": {"minAvailable": 4, "selector": selector}}
    await elastic.create(PodDisruptionBudget, body)
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(200)
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    assert await elastic.event_messages(Reason.RETURN_DELAYED)
    assert (await elastic.topology()).status.shortages == ()
    await elastic.patch(PodDisruptionBudget, "web", {"spec": {"minAvailable": 3}})
    await elastic.pass_time(400)
    assert await elastic.pods_by_subset() == {"own": 4}


async def test_nothing_returns_while_the_workload_is_not_whole(elastic: ElasticCluster) -> None:
    """A pod that no node takes yet: the next move would cost one more."""
    await elastic.patch(Deployment, "web", {"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}})
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(100)
    assert await elastic.event_messages(Reason.RETURNED) == []
