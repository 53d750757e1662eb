"""All controllers together: how they start, and how they end."""

from __future__ import annotations

import asyncio

from tests.unit.lab.workloads.objects import deployment_tree
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.kube.clocks import GRACE, cancel
from trimtab.kube.transport import Request
from trimtab_lab.testing import InMemoryLab


async def test_they_end_without_a_trace() -> None:
    """The cancellation is raised, and no task is left behind."""
    before = asyncio.all_tasks()
    lab = InMemoryLab()
    await lab.start()
    assert lab.workloads.synced
    assert lab.workloads.problems == []
    await lab.create(Deployment, deployment_tree("web", 3))
    await lab.close()
    assert lab.task.cancelled()
    assert asyncio.all_tasks() == before


async def test_what_is_under_way_is_finished() -> None:
    """Cancelled in the middle of a batch of pods: those that were begun are made, and reported."""
    lab = InMemoryLab()
    await lab.start()
    count = 0

    def stop(request: Request) -> None:
        nonlocal count
        count += request.path.endswith("/pods") and request.method == "POST"
        if count == 2:
            lab.task.cancel()

    lab.wire.after = stop
    await lab.user.create(Deployment, deployment_tree("web", 7), namespace="default")
    while not lab.task.done():
        await asyncio.sleep(0)
    assert len(await lab.pods()) == 7
    await lab.close()


async def test_what_hangs_is_cut_off() -> None:
    """The API server does not answer any more: the shutdown ends after the grace periods, of reconciles and events."""
    lab = InMemoryLab()
    await lab.start()

    def strike(request: Request) -> None:
        if request.path.endswith("/replicasets"):
            lab.wire.dead = True

    lab.wire.after = strike
    await lab.user.create(Deployment, deployment_tree("web", 3), namespace="default")
    await lab.settle()
    stopping = asyncio.ensure_future(cancel(lab.task))
    await lab.clock.advance(2 * GRACE)
    await stopping
    await lab.close()


async def test_they_end_before_they_have_begun() -> None:
    """Cancelled while the first lists are still being read."""
    lab = InMemoryLab()
    lab.wire.dead = True
    await lab.start()
    lab.task.cancel()
    await lab.clock.advance(2.5)
    assert lab.task.done()
    await lab.close()


async def test_trouble_is_shown() -> None:
    """For health pages: what is not up to date, and why."""
    lab = InMemoryLab()
    await lab.start()
    lab.wire.dead = True
    await lab.create(ReplicaSet, {"metadata": {"name": "x"}, "spec": spec()})
    await lab.advance(60)
    assert any(problem.startswith("replicasets: ") for problem in lab.workloads.problems)
    await lab.close()


def spec() -> dict[str, object]:
    """The spec of a ReplicaSet without pods."""
    tree = deployment_tree("x", 0)["spec"]
    return {"replicas": 0, "selector": tree["selector"], "template": tree["template"]}
