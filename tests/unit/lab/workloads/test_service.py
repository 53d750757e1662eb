"""All controllers together: how they start, and how they end."""

from __future__ import annotations

import asyncio

from tests.unit.lab.workloads.clusters import World
from tests.unit.lab.workloads.objects import deployment_tree
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.kube.transport import Request


async def test_they_end_without_a_trace() -> None:
    """Whoever cancels them gets his cancellation, and no task is left behind."""
    before = asyncio.all_tasks()
    world = World()
    await world.start()
    assert world.workloads.synced
    assert world.workloads.problems == []
    await world.create(Deployment, deployment_tree("web", 3))
    await world.close()
    assert world.task.cancelled()
    assert asyncio.all_tasks() == before


async def test_what_is_under_way_is_finished() -> None:
    """Cancelled in the middle of a batch of pods: those that were begun are made, and reported."""
    world = World()
    await world.start()
    count = 0

    def stop(request: Request) -> None:
        nonlocal count
        count += request.path.endswith("/pods") and request.method == "POST"
        if count == 2:
            world.task.cancel()

    world.wire.after = stop
    await world.user.create(Deployment, deployment_tree("web", 7), namespace="default")
    while not world.task.done():
        await asyncio.sleep(0)
    assert len(await world.pods()) == 7
    await world.close()


async def test_what_hangs_is_cut_off() -> None:
    """The API server does not answer any more: after the grace period nobody waits for it."""
    world = World()
    await world.start()

    def strike(request: Request) -> None:
        if request.path.endswith("/replicasets"):
            world.wire.dead = True

    world.wire.after = strike
    await world.user.create(Deployment, deployment_tree("web", 3), namespace="default")
    await world.settle()
    world.task.cancel()
    await world.clock.advance(2.5)
    assert world.task.done()
    await world.close()


async def test_they_end_before_they_have_begun() -> None:
    """Cancelled while the first lists are still being read."""
    world = World()
    world.wire.dead = True
    await world.start()
    world.task.cancel()
    await world.clock.advance(2.5)
    assert world.task.done()
    await world.close()


async def test_trouble_is_shown() -> None:
    """For health pages: what is not up to date, and why."""
    world = World()
    await world.start()
    world.wire.dead = True
    await world.create(ReplicaSet, {"metadata": {"name": "x"}, "spec": spec()})
    await world.advance(60)
    assert any(problem.startswith("replicasets: ") for problem in world.workloads.problems)
    await world.close()


def spec() -> dict[str, object]:
    """The spec of a ReplicaSet without pods."""
    tree = deployment_tree("x", 0)["spec"]
    return {"replicas": 0, "selector": tree["selector"], "template": tree["template"]}
