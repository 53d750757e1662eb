"""Scale-downs that no running process tracks: when they are taken over, and when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.runners import Result
from trimtab.scaledown.intent.overdue import OverdueScaleDowns
from trimtab.scaledown.view import View, Workload
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock

JSON = dict[str, Any]
APPS = "/apis/apps/v1"
AFTER = 15.0


class Stage:
    """A cluster without controllers, and what is taken over there."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.view = View(Client(self.server, clock=self.clock))
        self.tracked: set[str] = set()
        self.taken: list[str] = []
        self.overdue = OverdueScaleDowns(
            self.view, self.clock, is_tracked=self.tracked.__contains__, take_over=self._take_over, after=AFTER
        )

    async def _take_over(self, key: str, workload: Workload) -> None:
        assert key.endswith(f"/{workload.metadata.name}")
        self.taken.append(key)

    def workload(self, kind: str, name: str, size: int, counted: int, owner: JSON | None = None) -> JSON:
        """Store a workload that has so many pods by its status; a reference to it."""
        metadata: JSON = {"name": name, "namespace": "shop"} | ({"ownerReferences": [owner]} if owner else {})
        tree = {"metadata": metadata, "spec": {"replicas": size, "template": {}}, "status": {"replicas": counted}}
        stored = self.server.put(APPS, f"{kind.lower()}s", tree)
        uid = stored["metadata"]["uid"]
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}

    def pods(self, owner: JSON, count: int, *, terminating: int = 0) -> None:
        """Store pods of a controller, the first of them terminating."""
        for number in range(count):
            built = pod(f"{owner['name']}-{number}", namespace="shop").on("n1").ready()
            tree = (built.terminating() if number < terminating else built).tree()
            tree["metadata"]["ownerReferences"] = [owner]
            self.server.put("/api/v1", "pods", tree)

    async def taken_in(self, seconds: float) -> list[str]:
        """What is taken over within so many seconds."""
        self.taken.clear()
        await self.clock.advance(seconds)
        return list(self.taken)


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """An empty cluster, seen."""
    made = Stage()
    tasks = [asyncio.create_task(part) for part in (made.view.run(), made.overdue.run())]
    await made.clock.advance(1)
    yield made
    await cancel(*tasks)


async def test_a_scale_down_that_takes_long_is_taken_over_again_and_again(stage: Stage) -> None:
    """Until the controller has no more pods than its size."""
    owner = stage.workload("ReplicaSet", "web", 2, 3)
    stage.pods(owner, 3)
    assert await stage.taken_in(AFTER - 1) == []
    assert await stage.taken_in(2) == ["shop/ReplicaSet/web"]
    assert await stage.taken_in(AFTER) == ["shop/ReplicaSet/web"]
    stage.server.drop("/api/v1", "pods", "shop/web-0")
    assert await stage.taken_in(10 * AFTER) == []


async def test_a_scale_down_that_is_tracked_is_left_to_its_plan(stage: Stage) -> None:
    """When the plan is given up while it is still in progress, it is taken over."""
    stage.tracked.add("shop/ReplicaSet/web")
    stage.pods(stage.workload("ReplicaSet", "web", 2, 3), 3)
    assert await stage.taken_in(3 * AFTER) == []
    stage.tracked.clear()
    assert await stage.taken_in(AFTER) == ["shop/ReplicaSet/web"]


async def test_terminating_pods_are_no_surplus(stage: Stage) -> None:
    """The controller has acted: nothing is left to plan."""
    stage.pods(stage.workload("ReplicaSet", "web", 2, 3), 3, terminating=1)
    assert await stage.taken_in(5 * AFTER) == []


async def test_a_workload_that_has_gone_or_is_whole_is_not_taken_over(stage: Stage) -> None:
    """What its status counts decides whether it is looked at, its pods whether it is taken over."""
    stage.pods(stage.workload("ReplicaSet", "gone", 2, 3), 3)
    stage.pods(stage.workload("ReplicaSet", "whole", 3, 3), 5)
    await stage.taken_in(1)
    stage.server.drop(APPS, "replicasets", "shop/gone")
    assert await stage.taken_in(5 * AFTER) == []


async def test_a_deployment_is_taken_over_by_its_one_replicaset(stage: Stage) -> None:
    """Older ReplicaSets without size and pods do not count; with pods of two revisions the rollout decides."""
    deployment = stage.workload("Deployment", "web", 2, 3)
    stage.pods(stage.workload("ReplicaSet", "web-2", 2, 2, deployment), 3)
    stage.workload("ReplicaSet", "web-1", 0, 0, deployment)
    assert await stage.taken_in(AFTER + 1) == ["shop/Deployment/web"]
    stage.pods(stage.workload("ReplicaSet", "web-0", 0, 1, deployment), 1)
    assert "shop/Deployment/web" not in await stage.taken_in(2 * AFTER)


async def test_a_deployment_whose_replicaset_is_to_grow_is_in_a_rollout(stage: Stage) -> None:
    """It has a size, and no pods yet."""
    deployment = stage.workload("Deployment", "web", 2, 3)
    stage.pods(stage.workload("ReplicaSet", "web-2", 2, 2, deployment), 3)
    stage.workload("ReplicaSet", "web-3", 1, 0, deployment)
    assert "shop/Deployment/web" not in await stage.taken_in(2 * AFTER)


async def test_a_workload_that_is_gone_is_not_checked_again(stage: Stage) -> None:
    """One that still shrinks is, whether its scale-down is tracked or not."""
    assert await stage.overdue.reconcile("shop/ReplicaSet/gone") == Result()
    stage.pods(stage.workload("ReplicaSet", "web", 2, 3), 3)
    await stage.clock.advance(0.1)
    stage.tracked.add("shop/ReplicaSet/web")
    assert await stage.overdue.reconcile("shop/ReplicaSet/web") == Result(AFTER)
