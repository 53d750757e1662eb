"""Where stories meet the node_simulator nodes."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.fakes import FakeServer
from tests.unit.lab.scenarios.stories import story
from trimtab.kube.client import Client
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.scenarios.simulation import node_simulator


async def test_nodes_appear_and_end_with_the_context() -> None:
    """They are made while the context lasts; afterwards nothing runs any more."""
    clock = VirtualClock()
    server = FakeServer(clock)
    before = asyncio.all_tasks()
    async with node_simulator(Client(server, clock=clock))(story().cluster):
        while len(server.objects("nodes")) < 4:
            await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_what_ends_the_nodes_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation that broke explains why a story did not go on."""

    async def broken(_: Nodes) -> None:
        raise RuntimeError("out of nodes")

    monkeypatch.setattr(Nodes, "run", broken)
    clock = VirtualClock()
    with pytest.raises(RuntimeError, match="out of nodes"):
        async with node_simulator(Client(FakeServer(clock), clock=clock))(story().cluster):
            await asyncio.sleep(0)
