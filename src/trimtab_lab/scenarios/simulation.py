"""The nodes of a story, node_simulator: where the runner meets `trimtab_lab.nodes`."""

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
"""Gives a shape its nodes, which live for as long as the context."""


def node_simulator(client: Client, *, settings: Settings = SETTINGS, seed: int = 0) -> NodeSimulator:
    """Nodes on the cluster that the client speaks to; `settings` say whether it has node controllers of its own."""

    @asynccontextmanager
    async def simulate(shape: Shape) -> AsyncIterator[NodeActions]:
        nodes = Nodes(client, client.clock, shape, seed, settings=settings)
        task = asyncio.create_task(nodes.run())
        try:
            yield nodes
        finally:
            if task.done():
                task.result()  # it runs until it is cancelled: this raises what ended it
            await cancel(task)

    return simulate
