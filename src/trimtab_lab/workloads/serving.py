"""The metrics of the controllers over HTTP: `GET /metrics`, on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_HOST = "127.0.0.1"


@asynccontextmanager
async def serve_metrics(registry: CollectorRegistry, port: int) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port, which is any free one if 0 was given."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
