"""The server of the dashboard: where it listens, and with what protection.

Without being told otherwise it listens on this machine alone. Beyond that it needs TLS, because tokens and names of
objects travel over the network, and callers must authenticate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext

from aiohttp import web

from trimtab.admission.certificates import FileCertificates
from trimtab.api.errors import InvalidError
from trimtab.dashboard.access import Access
from trimtab.dashboard.boards import Boards
from trimtab.dashboard.guards import WithoutContent, add_headers, guards, is_loopback
from trimtab.dashboard.handlers import Handlers
from trimtab.dashboard.lab_controls import LabControls
from trimtab.dashboard.metrics import Metrics
from trimtab.dashboard.sources import ClusterSource
from trimtab.inspection.settings import Settings
from trimtab.kube.clocks import Clock
from trimtab.kube.components import run_together

PORT = 10280
_requests = logging.getLogger(f"{__name__}.requests")
_requests.addFilter(WithoutContent())
_STOP = 1.0
"""Seconds that open streams have to end when the server stops."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen."""

    host: str = "127.0.0.1"
    port: int = PORT
    certificate: Path | None = None
    """A PEM file: certificate and chain."""
    key: Path | None = None
    names: Collection[str] = ()
    """Further names of this server that browsers may use."""

    def check(self, *, is_authenticated: bool) -> None:
        """Raise InvalidError for an address that is not protected enough."""
        if (self.certificate is None) != (self.key is None):
            raise InvalidError("certificate", "a certificate needs its key, and a key its certificate; give both files")
        if is_loopback(self.host):
            return
        if self.certificate is None:
            reason = f"{self.host} can be reached from other machines: TLS is needed; give a certificate and its key"
            raise InvalidError("host", reason)
        if not is_authenticated:
            raise InvalidError("host", f"{self.host} can be reached from other machines: a token is needed")

    def certificates(self, clock: Clock) -> FileCertificates | None:
        """The certificate, read again when its files change; None without one. Raises InvalidError."""
        if self.certificate is None or self.key is None:
            return None
        found = FileCertificates(self.certificate, self.key, clock=clock)
        found.check()
        if not found.synced:
            raise InvalidError(str(self.certificate), f"cannot be used: {'; '.join(found.problems)}")
        return found

    def url(self, port: int) -> str:
        """The address for people."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}/"


@dataclass(slots=True)
class DashboardServer:
    """The dashboard of one cluster."""

    source: ClusterSource
    settings: Settings
    listening: Listening
    access: Access
    lab: LabControls | None = None
    metrics: Metrics = field(default_factory=Metrics)
    boards: Boards = field(init=False)

    def __post_init__(self) -> None:
        self.boards = Boards(self.source, is_lab=self.lab is not None)

    def application(self) -> web.Application:
        """All paths, behind the guards."""
        handlers = Handlers(self.source, self.boards, self.settings, self.access, self.metrics)
        application = web.Application(middlewares=guards(self.access, self.listening.names), client_max_size=4096)
        application.on_response_prepare.append(add_headers)
        application.add_routes(
            [
                web.get("/", handlers.page),
                web.get("/assets/{name}", handlers.asset),
                web.get("/api/events", handlers.events),
                web.get("/api/state", handlers.state),
                web.get("/api/plan", handlers.plan),
                web.get("/api/rank", handlers.rank),
                web.get("/api/explain", handlers.explain),
            ]
        )
        if self.lab is not None:
            application.router.add_post("/api/lab/{action}", self.lab.act)
        return application

    async def run(self, on_start: Callable[[str], None]) -> None:
        """Follow the cluster and serve it until cancelled; `on_start` is called with the address."""
        self.listening.check(is_authenticated=self.access.needs_token)
        certificates = self.listening.certificates(self.source.clock)
        context = None if certificates is None else certificates.context
        beside = [self.source.run(), self.boards.run(), *([] if certificates is None else [certificates.run()])]
        await run_together([self._serve(context, on_start)], beside)

    async def _serve(self, context: SSLContext | None, on_start: Callable[[str], None]) -> None:
        runner = web.AppRunner(self.application(), access_log=None, logger=_requests, shutdown_timeout=_STOP)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.listening.host, self.listening.port, ssl_context=context).start()
            on_start(self.listening.url(runner.addresses[0][1]))
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
