"""A whole lab in one process, to run stories on: API server, controllers, a scheduler, CloneSets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.lab.clonesets import define
from trimtab.cloneset.controller import Controller as CloneSets
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab.scheduler.configuration import read
from trimtab.scheduler.service import Service
from trimtab_lab.apiserver.wire.server import Server
from trimtab_lab.nodes.service import Nodes
from trimtab_lab.nodes.settings import NodeLifecycleSettings, Settings
from trimtab_lab.nodes.shapes import Shape
from trimtab_lab.scenarios.stories import Story
from trimtab_lab.workloads.options import STOCK
from trimtab_lab.workloads.service import Workloads

HASTY = Settings(renew_seconds=2.0, lease_seconds=16)
"""Nodes that are marked Unknown after twenty seconds instead of a minute. A shorter time would be quicker, but on a
busy machine healthy nodes would be marked too.
"""
_CONTROLLERS = replace(
    HASTY, lifecycle=NodeLifecycleSettings(monitor_seconds=1.0, grace_seconds=20.0, eviction_rate=10.0)
)


def configuration(stories: Iterable[Story]) -> dict[str, Any]:
    """The default scheduler, and the profiles that stories need."""
    profiles = [profile for story in stories if story.scheduler for profile in story.scheduler.tree()["profiles"]]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler"}, *profiles],
    }


@asynccontextmanager
async def scheduling(client: Client, config: dict[str, Any]) -> AsyncIterator[None]:
    """Run a scheduler with this configuration for the duration of the context."""
    task = asyncio.create_task(Service(client, read(config)).run())
    try:
        yield
    finally:
        await cancel(task)


@asynccontextmanager
async def cloning(client: Client) -> AsyncIterator[None]:
    """Run the CloneSet controller for the duration of the context."""
    await define(client)
    task = asyncio.create_task(CloneSets(client).run())
    try:
        yield
    finally:
        await cancel(task)


@asynccontextmanager
async def lab(folder: Path, stories: Sequence[Story]) -> AsyncIterator[Client]:
    """A lab for these stories, with the feature gates of all of them, and a client for it."""
    options = STOCK.gated({name: value for story in stories for name, value in story.feature_gates.items()})
    async with Server(folder) as server, Client(Session(discover(server.kubeconfig))) as client:
        controllers = Nodes(client, client.clock, Shape(name="node-controllers"), 0, settings=_CONTROLLERS)
        tasks = [asyncio.create_task(each) for each in (Workloads(client, options=options).run(), controllers.run())]
        try:
            async with scheduling(client, configuration(stories)), cloning(client):
                yield client
        finally:
            await cancel(*tasks)
