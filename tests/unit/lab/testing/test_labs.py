"""The cluster that ships for tests: what its methods promise. That it works is shown by all tests that use it."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Forbidden, NotFound, Unreachable
from trimtab.kube.informers import Informer
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.testing import InMemoryLab


async def test_pods_are_placed_on_new_zones_by_turns() -> None:
    """One node of each zone after the other; then where the test says."""
    async with InMemoryLab() as lab:
        await lab.add_zones(a=2, b=1)
        await lab.deploy(3)
        assert {pod.spec.node_name for pod in await lab.pods()} == {"a-0", "a-1", "b-0"}
        assert await lab.zones() == {"a": 2, "b": 1}
        lab.place_on("b-0")
        await lab.scale(5)
        assert await lab.zones() == {"a": 2, "b": 3}


async def test_two_runs_with_one_seed_are_the_same() -> None:
    """Names, nodes and victims included."""

    async def survivors() -> list[tuple[str, str]]:
        async with InMemoryLab(seed=7) as lab:
            await lab.add_zones(a=3)
            await lab.deploy(6)
            await lab.scale(2)
            return [(pod.metadata.name, pod.spec.node_name) for pod in await lab.pods()]

    assert await survivors() == await survivors()


async def test_a_snapshot_has_the_nodes_and_pods_of_the_cluster() -> None:
    """As decisions read them."""
    async with InMemoryLab() as lab:
        await lab.add_zones(a=1)
        await lab.deploy(2)
        view = await lab.snapshot()
        assert sorted(view.pods.rows.index) == sorted(pod.key for pod in await lab.pods())
        assert list(view.nodes.rows.index) == ["a-0"]


@pytest.mark.parametrize("is_older", [False, True], ids=["streamed", "in pages, by an older server"])
async def test_an_informer_lists_and_watches(is_older: bool) -> None:
    """Only what its selector includes."""
    async with InMemoryLab() as lab:
        await lab.deploy(2)
        await lab.deploy(1, "other")
        wire = lab.connect()
        wire.refuse = lambda request: status_error(422, "no WatchList") if is_older and is_streamed(request) else None
        informer = Informer(lab.client(wire), Pod, label_selector="app=web")
        task = asyncio.ensure_future(informer.run())
        await lab.settle()
        assert len(informer.store) == 2
        await lab.scale(3)
        assert {pod.metadata.name for pod in informer.store} == {
            pod.metadata.name for pod in await lab.pods() if pod.metadata.labels["app"] == "web"
        }
        assert [is_streamed(request) for request in wire.requests] == ([True, False] if is_older else [True])
        await cancel(task)


def is_streamed(request: Request) -> bool:
    """Whether a request asks for a list as initial events."""
    return "sendInitialEvents" in dict(request.params)


async def test_only_the_chosen_custom_kinds_are_served() -> None:
    """None by default."""
    async with InMemoryLab(kinds=[ScaleDownPolicy]) as lab:
        assert await lab.all(ScaleDownPolicy) == []
    async with InMemoryLab() as lab:
        with pytest.raises(NotFound):
            await lab.all(ScaleDownPolicy)


async def test_a_connection_can_be_disturbed_without_the_others() -> None:
    """Its requests are refused, or the process at its end is dead."""
    async with InMemoryLab() as lab:
        wire = lab.connect()
        client = lab.client(wire)
        wire.refuse = lambda request: status_error(403, "no nodes") if request.path.endswith("/nodes") else None
        with pytest.raises(Forbidden):
            await client.list(Node)
        assert not (await client.list(Pod)).items
        wire.dead = True
        with pytest.raises(Unreachable):
            await wire.send(Request("GET", "/api/v1/pods"))
        await lab.deploy(1)
        assert len(await lab.pods()) == 1
