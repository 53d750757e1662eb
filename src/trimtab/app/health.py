"""Liveness, readiness and metrics of a process over HTTP.

GET /healthz    the process is alive, and its event loop not stuck
GET /readyz     every component has synced; otherwise a line for each that has not. With `?verbose`, also lines that do
                not affect readiness: features with problems, and objects that cannot be read and are skipped
GET /metrics    for Prometheus
GET /scaledowns the last scale-downs as JSON, the latest first (in processes that hold requests)

It is served in an event loop of its own (`kube.side_loop`), so that a busy process answers its probes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from trimtab.api import codec
from trimtab.api.configuration import Serving
from trimtab.app.loop_monitor import LoopMonitor
from trimtab.kube.components import Component, notes_of


@asynccontextmanager
async def served(
    settings: Serving,
    components: Mapping[str, Component],
    registry: CollectorRegistry,
    documents: Mapping[str, Callable[[], Any]] | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
    monitor: LoopMonitor | None = None,
) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port. `documents` are served as JSON, by path."""
    pages = Pages(components, registry, notes, monitor)
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


def missing(components: Mapping[str, Component], monitor: LoopMonitor | None) -> list[str]:
    """Why a process is not ready: a line for each component that is not; none if it is ready."""
    known = components.items()
    waiting = [f"{name} has not synced with the cluster yet" for name, each in known if not each.synced]
    stalled = [] if monitor is None else monitor.problems
    return stalled + waiting + [f"{name}: {problem}" for name, each in known for problem in each.problems]


async def _json(document: Callable[[], Any], _: web.Request) -> web.Response:
    return web.Response(body=codec.encode(document()), content_type="application/json")


class Pages:
    """The handlers of the three paths."""

    def __init__(
        self,
        components: Mapping[str, Component],
        registry: CollectorRegistry,
        notes: Callable[[], Sequence[str]] = tuple,
        monitor: LoopMonitor | None = None,
    ) -> None:
        self._components = components
        self._registry = registry
        self._notes = notes
        self._monitor = monitor

    async def healthz(self, _: web.Request) -> web.Response:
        """Answer 200, or 503 if the event loop is stuck and the process should be restarted."""
        if self._monitor is not None and self._monitor.is_stuck:
            return web.Response(status=503, text="\n".join(self._monitor.problems) + "\n")
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """Answer 200, or 503 with a line for each component that is not ready."""
        reasons = missing(self._components, self._monitor)
        notes = [f"{name}: {note}" for name, each in self._components.items() for note in notes_of(each)]
        lines = [*(reasons or ["ok"]), *([*notes, *self._notes()] if "verbose" in request.query else ())]
        return web.Response(status=503 if reasons else 200, text="\n".join(lines) + "\n")

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer with all metrics of the process."""
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
