"""Liveness, readiness and metrics of a process over HTTP.

GET /healthz    the process is alive
GET /readyz     every component has synced; otherwise a line for each that has not
GET /metrics    for Prometheus
GET /scaledowns the last scale-downs as JSON, the latest first (in processes that hold requests)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from trimtab.api import codec
from trimtab.api.configuration import Serving
from trimtab.kube.components import Component


@asynccontextmanager
async def served(
    settings: Serving,
    components: Mapping[str, Component],
    registry: CollectorRegistry,
    documents: Mapping[str, Callable[[], Any]] | None = None,
) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port. `documents` are served as JSON, by path."""
    pages = Pages(components, registry)
    application = web.Application()
    application.router.add_get("/healthz", pages.healthz)
    application.router.add_get("/readyz", pages.readyz)
    application.router.add_get("/metrics", pages.metrics)
    for path, document in (documents or {}).items():
        application.router.add_get(path, partial(_json, document))
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _json(document: Callable[[], Any], _: web.Request) -> web.Response:
    return web.Response(body=codec.encode(document()), content_type="application/json")


class Pages:
    """The handlers of the three paths."""

    def __init__(self, components: Mapping[str, Component], registry: CollectorRegistry) -> None:
        self._components = components
        self._registry = registry

    async def healthz(self, _: web.Request) -> web.Response:
        """Answer 200: the process is alive."""
        return web.Response(text="ok\n")

    async def readyz(self, _: web.Request) -> web.Response:
        """Answer 200, or 503 with a line for each component that is not ready."""
        known = self._components.items()
        waiting = [f"{name} has not synced with the cluster yet" for name, each in known if not each.synced]
        missing = waiting + [f"{name}: {problem}" for name, each in known for problem in each.problems]
        return web.Response(status=503 if missing else 200, text="\n".join(missing or ["ok"]) + "\n")

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer with all metrics of the process."""
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
