"""A dashboard over a socket of this machine, for tests: on a cluster as a value, or on a fake API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

from tests.unit.inspection.clusters import SOFT, three_zones
from trimtab.dashboard.access import Access, OpenAccess
from trimtab.dashboard.lab_controls import LabControls
from trimtab.dashboard.server import DashboardServer, Listening
from trimtab.dashboard.sources import ClusterSource, FileSource
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import cancel

SETTINGS = Settings()
WEB = "default/Deployment/web"
ON = ["a1", "a1", "a2", "a2", "b1", "b2", "b1", "c1"]


def web() -> Cluster:
    """Eight pods in three zones, most of them in the first."""
    return three_zones().deployment("web", ON, constraints=[SOFT]).build()


@dataclass
class Dashboard:
    """A served dashboard, and a browser without a page."""

    server: DashboardServer
    client: TestClient[Any, Any]

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        """Ask for a path."""
        return await self.client.get(path, headers=headers)

    async def json(self, path: str, **headers: str) -> Any:
        """The answer of a path that must exist."""
        answer = await self.get(path, **headers)
        assert answer.status == 200, await answer.text()
        return await answer.json()

    @asynccontextmanager
    async def events(self, query: str = "", **headers: str) -> AsyncIterator[Events]:
        """The state as it is sent."""
        async with self.client.get(f"/api/events{query}", headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield Events(answer)


@dataclass
class Events:
    """Server-sent events as they come."""

    answer: aiohttp.ClientResponse

    async def next(self) -> tuple[str, Any]:
        """The next event: its name and its content. Comments are skipped."""
        fields: dict[str, str] = {}
        while True:
            line = (await self.answer.content.readuntil(b"\n")).decode().rstrip("\n")
            if not line and fields:
                return fields["event"], json.loads(fields["data"])
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value


@asynccontextmanager
async def dashboard(
    source: ClusterSource | Cluster,
    *,
    access: Access | None = None,
    names: frozenset[str] = frozenset(),
    lab: LabControls | None = None,
) -> AsyncIterator[Dashboard]:
    """Serve a cluster."""
    shown = FileSource(source, SETTINGS) if isinstance(source, Cluster) else source
    server = DashboardServer(shown, SETTINGS, Listening(names=names), access or OpenAccess(), lab)
    tasks = [asyncio.ensure_future(shown.run()), asyncio.ensure_future(server.boards.run())]
    client: TestClient[Any, Any] = TestClient(TestServer(server.application()))
    await client.start_server()
    try:
        yield Dashboard(server, client)
    finally:
        await client.close()
        await cancel(*tasks)


@asynccontextmanager
async def running(server: DashboardServer) -> AsyncIterator[str]:
    """Run a server as a process does; yields its address. Its error is raised."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(server.run(address.set_result))
    try:
        await asyncio.wait((task, address), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield address.result()
    finally:
        await cancel(task)


def rows(state: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The rows of a section, as they were sent."""
    found: dict[str, Any] = state[section]
    return found
