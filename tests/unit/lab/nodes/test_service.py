"""All parts together: whatever goes wrong on the way, the cluster gets there."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.unit.kube.fakes import Misbehaviour
from tests.unit.lab.nodes.controlplane import TWO_ZONES, ControlPlane, Stage, running
from trimtab.kube.clocks import cancel
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes import shapes
from trimtab_lab.nodes.settings import LAB

ROUGH = Misbehaviour(
    latency=0.3, refuse=0.1, fail=0.1, lose_answer=0.1, gone=0.1, cut=0.05, repeat=0.1, bookmark=0.2, split=0.2
)


async def _trouble(stage: Stage, rng: random.Random) -> set[str]:
    """Some minutes in which pods come and go, nodes fail, and the process is killed; the pods that should be there."""
    server, nodes = stage.server, list(TWO_ZONES.nodes)
    wanted: set[str] = set()
    for number in range(30):
        server.add_pod(f"p-{number}", rng.choice(nodes))
        wanted.add(f"p-{number}")
        if rng.random() < 0.3:
            gone = rng.choice(sorted(wanted))
            wanted.discard(gone)
            server.delete_pod(gone)
        node = rng.choice(nodes)
        if rng.random() < 0.2 and server.has("nodes", node):
            server.annotate("nodes", node, {"failed": rng.choice(["true", "false"])})
        if rng.random() < 0.15:
            await stage.restart()
        await stage.advance(rng.random() * 30)
    return wanted


@pytest.mark.parametrize("seed", [pytest.param(seed, id=f"seed {seed}") for seed in range(3)])
async def test_after_all_trouble_the_cluster_is_as_it_should_be(seed: int) -> None:
    """A server that misbehaves, nodes that fail, a process that dies: what remains to be done is done afterwards."""
    rng = random.Random(seed)
    server = ControlPlane(VirtualClock(), rng=random.Random(seed), bad=ROUGH)
    async with running(server=server, seed=seed) as stage:
        wanted = await _trouble(stage, rng)
        server.bad = Misbehaviour()
        for name in TWO_ZONES.nodes:
            server.annotate("nodes", name, {})
        await stage.advance(300)
        assert all(server.stands("nodes", name) == "True" for name in TWO_ZONES.nodes)
        assert {tree["metadata"]["name"] for tree in server.objects("pods")} == wanted
        assert all(server.stands("pods", name) == "True" for name in wanted)
        assert {server.pod(name)["containerStatuses"][0].get("restartCount", 0) for name in wanted} == {0}
        assert len({server.pod(name)["podIP"] for name in wanted}) == len(wanted)


@pytest.mark.parametrize("seed", [pytest.param(1, id="with the same seed"), pytest.param(2, id="with another seed")])
async def test_two_processes_for_one_shape_do_no_harm(seed: int) -> None:
    """What one of them has written the other one takes up, instead of insisting on its own."""
    async with running() as stage, running(server=stage.server, seed=seed):
        for number in range(5):
            stage.server.add_pod(f"p-{number}", "a-1", {"start-seconds": "1-20", "crash-after-seconds": "15-25"})
        await stage.advance(120)
        assert {stage.server.pod(f"p-{number}")["phase"] for number in range(5)} == {"Running"}
        assert stage.server.written()["PATCH pods/status"] < 5 * 2 * 10
        for number in range(5):
            stage.server.delete_pod(f"p-{number}")
        await stage.advance(5)
        assert stage.server.objects("pods") == []
        assert all(stage.server.stands("nodes", name) == "True" for name in TWO_ZONES.nodes)


async def test_pending_events_are_written_when_it_stops() -> None:
    """Requests that are in progress finish, too."""
    async with running() as stage:
        stage.server.bad = Misbehaviour(latency=0.2)
        stage.server.add_pod("web", "a-1", {"start-seconds": "soon"})
        await stage.settle()
        assert stage.server.objects("events") == []
        await stage.stop()
        assert [event["reason"] for event in stage.server.objects("events")] == ["InvalidAnnotation"]


async def test_a_shape_of_another_name_cannot_take_over() -> None:
    """The nodes are marked with the name of theirs."""
    async with running() as stage:
        with pytest.raises(ValueError, match="must have the same name"):
            await stage.nodes.reshape(shapes.read({"name": "other"}))


async def test_it_ends_when_it_is_cancelled() -> None:
    """And leaves no task behind."""
    before = asyncio.all_tasks()
    async with running(settings=LAB) as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)
        assert asyncio.all_tasks() - before
    assert asyncio.all_tasks() == before


async def test_ready_waits_for_every_node() -> None:
    """But for those that have failed, which would be waited for in vain."""
    async with running() as stage:
        await stage.nodes.fail(["a-1"])
        stage.server.change("nodes", "a-1", status={"conditions": []})
        stage.server.bad.refuse = 1.0
        larger = shapes.read({"zones": [{"name": "a", "nodes": 2}, {"name": "b", "nodes": 3}]})
        await stage.nodes.reshape(larger)
        waiting = asyncio.ensure_future(stage.nodes.ready())
        await stage.advance(60)
        assert not waiting.done()
        stage.server.bad.refuse = 0.0
        await stage.advance(60)
        assert waiting.done()
        await cancel(waiting)
