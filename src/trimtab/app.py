"""The composition root: what `trimtab run` starts, and how it ends.

Everything that talks to a cluster is constructed here and nowhere else. Components run beside one another until one
fails or the process is told to stop; then all of them end, each in its own order.

    GET /healthz    the process lives
    GET /readyz     every component has seen the cluster; otherwise what is missing
    GET /metrics    for Prometheus
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from trimtab.api.errors import InvalidError
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock
from trimtab.kube.sessions import Session
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab.scheduler.metrics import Metrics as SchedulerMetrics
from trimtab.scheduler.service import Service as Scheduler

log = logging.getLogger(__name__)

LogFormat = Literal["console", "json"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run, and against what."""

    components: Sequence[str] = ("scheduler",)
    kubeconfig: Path | None = None
    context: str = ""
    scheduler: Mapping[str, Any] | None = None
    """A KubeSchedulerConfiguration, as it was written."""
    host: str = "127.0.0.1"
    port: int = 10269
    """Where health and metrics are served; 0 for any free port, −1 for nowhere."""


class Component(Protocol):
    """A part of Trimtab that runs against a cluster."""

    @property
    def synced(self) -> bool:
        """Whether it has seen the cluster."""
        ...

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...


def _scheduler(client: Client, settings: Settings, registry: CollectorRegistry) -> Component:
    return Scheduler(client, scheduler_configuration.read(settings.scheduler), metrics=SchedulerMetrics(registry))


COMPONENTS: Mapping[str, Callable[[Client, Settings, CollectorRegistry], Component]] = {
    "scheduler": _scheduler,
}
"""What can be run, by name."""


def check(settings: Settings) -> None:
    """Raises InvalidError for settings that cannot work, before anything is started."""
    for index, name in enumerate(settings.components):
        if name not in COMPONENTS:
            known = ", ".join(COMPONENTS)
            raise InvalidError(f"components[{index}]", f'"{name}" is not a component; known are {known}')
    if not settings.components:
        raise InvalidError("components", f"names nothing to run; write some of {', '.join(COMPONENTS)}")
    scheduler_configuration.read(settings.scheduler)


@dataclass(slots=True)
class App:
    """The running product."""

    settings: Settings
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    components: dict[str, Component] = field(default_factory=dict)
    port: int = -1
    """Where health and metrics are served, once they are."""

    async def run(self) -> None:
        """Run everything until cancelled. What one component raises ends them all."""
        check(self.settings)
        endpoint = config.discover(self.settings.kubeconfig, context=self.settings.context)
        async with AsyncExitStack() as stack:
            client = Client(Session(endpoint), clock=SystemClock())
            stack.push_async_callback(client.close)
            for name in self.settings.components:
                self.components[name] = COMPONENTS[name](client, self.settings, self.registry)
            if self.settings.port >= 0:
                await self._serve(stack)
            log.info("running %s against %s", ", ".join(self.components), endpoint.server)
            async with asyncio.TaskGroup() as group:
                for name, component in self.components.items():
                    group.create_task(component.run(), name=name)

    async def _serve(self, stack: AsyncExitStack) -> None:
        application = web.Application()
        application.router.add_get("/healthz", _healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, self.settings.host, self.settings.port).start()
        self.port = runner.addresses[0][1]
        log.info("health and metrics on http://%s:%d", self.settings.host, self.port)

    async def _readyz(self, _: web.Request) -> web.Response:
        waiting = [f"{name} has not seen the cluster yet" for name, each in self.components.items() if not each.synced]
        problems = [f"{name}: {problem}" for name, each in self.components.items() for problem in each.problems]
        missing = waiting + problems
        return web.Response(status=503 if missing else 200, text="\n".join(missing or ["ok"]) + "\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def until_stopped(work: Callable[[], Any]) -> None:
    """Await some work until it ends or the process is told to stop (SIGINT, SIGTERM)."""
    task = asyncio.ensure_future(work())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(form: LogFormat = "console", level: str = "info") -> None:
    """Write logs to standard error."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(_JsonLines() if form == "json" else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
