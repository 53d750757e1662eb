"""The story's nodes, simulated by `trimtab_lab.nodes`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.settings import SETTINGS, Settings
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios.actions import NodeActions

NodeSimulator = Callable[[Shape], AbstractAsyncContextManager[NodeActions]]
"""Simulates the nodes of a shape for the duration of the context."""


def node_simulator(client: Client, *, settings: Settings = SETTINGS, seed: int = 0) -> NodeSimulator:
    """A simulator for the cluster of a client; `settings` say whether it has node controllers of its own."""

    @asynccontextmanager
    async def simulate(shape: Shape) -> AsyncIterator[NodeActions]:
        nodes = Nodes(client, client.clock, shape, seed, settings=settings)
        task = asyncio.create_task(nodes.run())
        try:
            yield nodes
        finally:
            if task.done():
                task.result()  # it runs until cancelled: this raises its error
            await cancel(task)

    return simulate
