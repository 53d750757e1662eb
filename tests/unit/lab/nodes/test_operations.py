"""Cordons and drains."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.fakes import failure
from tests.unit.lab.nodes.controlplane import Stage, running
from trimtab.kube.errors import Forbidden, NotFound
from trimtab.kube.transport import Request, Response
from trimtab_lab.nodes import operations


async def drained(stage: Stage, *names: str, seconds: float = 60) -> bool:
    """Whether a drain of these nodes ends in that time."""
    drain = asyncio.ensure_future(stage.nodes.drain(names))
    await stage.advance(seconds)
    if drain.done():
        await drain
        return True
    drain.cancel()
    return False


async def test_cordon_and_uncordon_set_unschedulable() -> None:
    """And one that is not any more does not."""
    async with running() as stage:
        await stage.nodes.cordon(["a-1", "a-2"])
        assert stage.server.one("nodes", "a-2")["spec"]["unschedulable"] is True
        await stage.nodes.uncordon(["a-2"])
        assert "unschedulable" not in stage.server.one("nodes", "a-2")["spec"]
        assert stage.server.one("nodes", "a-1")["spec"]["unschedulable"] is True


async def test_a_drain_empties_a_node() -> None:
    """Its pods go gracefully; those of other nodes and of DaemonSets stay."""
    async with running() as stage:
        for name, node in {"one": "a-1", "two": "a-1", "daemon": "a-1", "elsewhere": "b-1"}.items():
            stage.server.add_pod(name, node)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        stage.server.change("pods", "daemon", metadata={"ownerReferences": [owner]})
        await stage.advance(5)
        assert await drained(stage, "a-1")
        assert {tree["metadata"]["name"] for tree in stage.server.objects("pods")} == {"daemon", "elsewhere"}
        assert stage.server.one("nodes", "a-1")["spec"]["unschedulable"] is True


async def test_a_drain_waits_for_budgets() -> None:
    """What is refused is asked for again, until it is allowed."""
    async with running() as stage:
        for name in ("one", "two", "three"):
            stage.server.add_pod(name, "a-1")
        await stage.advance(5)
        stage.server.allow_evictions(1)
        drain = asyncio.ensure_future(stage.nodes.drain(["a-1"]))
        await stage.advance(30)
        assert len(stage.server.objects("pods")) == 2
        assert not drain.done()
        asked = stage.server.written()["POST pods/eviction"]
        assert asked > 3
        stage.server.allow_evictions(2)
        await stage.advance(30)
        assert stage.server.objects("pods") == []
        await drain


async def test_a_drain_ignores_pods_that_are_gone() -> None:
    """A pod that vanishes, or has a successor of its name, counts as gone."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)
        stage.server.allow_evictions(0)
        drain = asyncio.ensure_future(stage.nodes.drain(["a-1"]))
        await stage.advance(1)
        stage.server.delete_pod("p", grace=0)
        stage.server.add_pod("p", "b-1")
        stage.server.allow_evictions(1)
        await stage.advance(30)
        await drain
        assert stage.server.has("pods", "p")


async def test_a_node_that_does_not_exist_cannot_fail() -> None:
    """A misspelt name is an error."""
    async with running() as stage:
        with pytest.raises(NotFound):
            await operations.fail(stage.nodes._client, ["a-9"])  # noqa: SLF001 - any client would do


@pytest.mark.parametrize(
    ("causes", "ends"),
    [
        pytest.param([{"reason": "NamespaceTerminating", "message": "going"}], True, id="its namespace is going"),
        pytest.param([], False, id="somebody has forbidden it"),
    ],
)
async def test_an_eviction_may_be_forbidden(causes: list[dict[str, str]], ends: bool) -> None:
    """A pod in a terminating namespace will be deleted with it; any other refusal is raised."""
    async with running() as stage:
        stage.server.add_pod("p", "a-1")
        await stage.advance(5)

        def forbid(request: Request) -> Response | None:
            return failure(403, "Forbidden", causes=causes) if request.path.endswith("/eviction") else None

        stage.server.intercept = forbid
        drain = asyncio.ensure_future(stage.nodes.drain(["a-1"]))
        await stage.advance(1)
        stage.server.delete_pod("p", grace=0)
        await stage.advance(5)
        if ends:
            await drain
        else:
            with pytest.raises(Forbidden):
                await drain
