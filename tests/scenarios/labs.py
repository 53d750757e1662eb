"""A whole lab in one process, for stories to be played on: API server, workload controllers, a scheduler, nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.sessions import Session
from trimtab.lab.apiserver.server import Server
from trimtab.lab.nodes.settings import LifecycleSettings, Settings
from trimtab.lab.scenarios.stories import Story
from trimtab.lab.workloads.service import Workloads
from trimtab.scheduler.configuration import read
from trimtab.scheduler.service import Service

HASTY = Settings(
    lifecycle=LifecycleSettings(monitor_seconds=0.5, grace_seconds=4.0, tainted_a_second=10.0), renew_seconds=1.0
)
"""Nodes that are given up after seconds, not after a minute: the story is the same."""


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
    """A scheduler with this configuration, for as long as the context."""
    task = asyncio.create_task(Service(client, read(config)).run())
    try:
        yield
    finally:
        await cancel(task)


@asynccontextmanager
async def lab(folder: Path, stories: Iterable[Story]) -> AsyncIterator[Client]:
    """A lab that can play these stories, and a client for it."""
    async with Server(folder) as server, Client(Session(discover(server.kubeconfig))) as client:
        workloads = asyncio.create_task(Workloads(client).run())
        try:
            async with scheduling(client, configuration(stories)):
                yield client
        finally:
            await cancel(workloads)
