"""Liveness, readiness and metrics of a process over HTTP.

GET /healthz    the process is alive, and its event loop not stuck
GET /readyz     every component has synced; otherwise a line for each that has not. With `?verbose`, also lines that do
                not affect readiness: features with problems, and objects that cannot be read and are skipped
GET /metrics    for Prometheus
GET /scaledowns the last scale-downs as JSON, the latest first (in processes that hold requests)

It is served in an event loop of its own (`kube.side_loop`), so that a busy process answers its probes. Any pod may
reach the port: its connections are limited as those of the webhooks are, and what takes long to render, metrics and
scale-downs, is rendered ten times a second at most.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from trimtab.admission.connections import Connection, Connections, Limits, Refusal
from trimtab.api import codec
from trimtab.api.configuration import Serving
from trimtab.app.loop_monitor import LoopMonitor
from trimtab.kube.clocks import SECOND, Clock, SystemClock
from trimtab.kube.components import Component, notes_of

Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]

LIMITS = Limits(connections=64, handshakes=64, body=1024, buffered=64 * 1024)
"""For kubelets, and a few scrapers that keep their connections."""
_RENDERED = SECOND // 10
"""For how long a page is sent again as it is: rendering it takes some milliseconds."""
_GRACE = 1.0
"""Seconds that answers may take when the process stops."""


@asynccontextmanager
async def served(
    settings: Serving,
    components: Mapping[str, Component],
    registry: CollectorRegistry,
    documents: Mapping[str, Callable[[], Any]] | None = None,
    notes: Callable[[], Sequence[str]] = tuple,
    monitor: LoopMonitor | None = None,
    *,
    clock: Clock | None = None,
    limits: Limits = LIMITS,
) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port. `documents` are served as JSON, by path."""
    clock = clock or SystemClock()
    pages = Pages(components, registry, notes, monitor, clock)
    handlers: dict[str, Handler] = {"/healthz": pages.healthz, "/readyz": pages.readyz, "/metrics": pages.metrics}
    handlers |= {path: _document(document, clock) for path, document in (documents or {}).items()}
    connections = Connections(partial(_answer, handlers), clock=clock, limits=limits)
    async with connections.listening(settings.host, settings.port, None, grace=_GRACE) as (_, port, *_):
        yield port


async def _answer(handlers: Mapping[str, Handler], request: web.BaseRequest, _: Connection, __: bytes) -> web.Response:
    handler = handlers.get(request.path)
    if handler is None:
        raise Refusal(404, f"there are only {', '.join(handlers)}")
    if request.method not in ("GET", "HEAD"):
        raise Refusal(405, "pages are read with GET")
    return await handler(request)


def missing(components: Mapping[str, Component], monitor: LoopMonitor | None) -> list[str]:
    """Why a process is not ready: a line for each component that is not; none if it is ready."""
    known = components.items()
    waiting = [f"{name} has not synced with the cluster yet" for name, each in known if not each.synced]
    stalled = [] if monitor is None else monitor.problems
    return stalled + waiting + [f"{name}: {problem}" for name, each in known for problem in each.problems]


class Rendered:
    """The bytes of a page, which are rendered anew when they are a tenth of a second old."""

    def __init__(self, render: Callable[[], bytes], clock: Clock) -> None:
        self._render = render
        self._clock = clock
        self._at: int | None = None
        self._body = b""

    @property
    def body(self) -> bytes:
        """The bytes."""
        now = self._clock.monotonic()
        if self._at is None or now - self._at >= _RENDERED:
            self._at, self._body = now, self._render()
        return self._body


def _document(document: Callable[[], Any], clock: Clock) -> Handler:
    rendered = Rendered(lambda: codec.encode(document()), clock)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=rendered.body, content_type="application/json")

    return answer


class Pages:
    """The handlers of the three paths."""

    def __init__(
        self,
        components: Mapping[str, Component],
        registry: CollectorRegistry,
        notes: Callable[[], Sequence[str]] = tuple,
        monitor: LoopMonitor | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._components = components
        self._rendered = Rendered(partial(generate_latest, registry), clock or SystemClock())
        self._notes = notes
        self._monitor = monitor

    async def healthz(self, _: web.BaseRequest) -> web.Response:
        """Answer 200, or 503 if the event loop is stuck and the process should be restarted."""
        if self._monitor is not None and self._monitor.is_stuck:
            return web.Response(status=503, text="\n".join(self._monitor.problems) + "\n")
        return web.Response(text="ok\n")

    async def readyz(self, request: web.BaseRequest) -> web.Response:
        """Answer 200, or 503 with a line for each component that is not ready."""
        reasons = missing(self._components, self._monitor)
        notes = [f"{name}: {note}" for name, each in self._components.items() for note in notes_of(each)]
        lines = [*(reasons or ["ok"]), *([*notes, *self._notes()] if "verbose" in request.query else ())]
        return web.Response(status=503 if reasons else 200, text="\n".join(lines) + "\n")

    async def metrics(self, _: web.BaseRequest) -> web.Response:
        """Answer with all metrics of the process."""
        return web.Response(body=self._rendered.body, headers={"Content-Type": CONTENT_TYPE_LATEST})
