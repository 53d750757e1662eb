"""A process of Trimtab: some components, run until one of them fails or the process is stopped.

Then all of them are stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from trimtab.api.configuration import Serving, TrimtabConfiguration
from trimtab.app.dependencies import Dependencies, defaults
from trimtab.app.metrics import Metrics
from trimtab.app.switch import ConfigurationWatch
from trimtab.app.unreadable import UnreadableReports
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clock_offset import ClockMonitor
from trimtab.kube.clocks import SystemClock
from trimtab.kube.components import Background, Component, ComponentGroup
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.sessions import Session
from trimtab.kube.transport import Transport
from trimtab.ranking.strategies import registry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run, and against which cluster."""

    configuration: TrimtabConfiguration = field(default_factory=TrimtabConfiguration)
    kubeconfig: Path | None = None
    context: str = ""
    read_again: Callable[[], TrimtabConfiguration] | None = None
    """Reads the configuration again, if it may change while the process runs."""


def _scheduler(dependencies: Dependencies) -> Component:
    from trimtab.app import scheduling

    return scheduling.component(dependencies)


def _webhooks(dependencies: Dependencies) -> Component:
    from trimtab.app import admission

    return admission.component(dependencies)


def _controllers(dependencies: Dependencies) -> Component:
    from trimtab.app import control

    return control.component(dependencies)


COMPONENTS: Mapping[str, Callable[[Dependencies], Component]] = {
    "scheduler": _scheduler,
    "webhooks": _webhooks,
    "controllers": _controllers,
}
"""All components, by name."""


def check(configuration: TrimtabConfiguration) -> None:
    """Raise InvalidError if the configuration is invalid."""
    from trimtab.app import scheduling

    if "scheduler" in configuration.components:
        scheduling.settings(configuration)
    defaults(configuration, registry())


@dataclass(slots=True)
class App:
    """The running product."""

    settings: Settings
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    components: dict[str, Component] = field(default_factory=dict)
    connect: Callable[[Endpoint], Transport] = Session
    """Opens the connection to the cluster; tests replace it."""
    port: int = -1
    """The port that health and metrics are served on, once they are."""

    async def run(self) -> None:
        """Run all components until cancelled, or until one of them raises."""
        configuration = self.settings.configuration
        check(configuration)
        endpoint = config.discover(self.settings.kubeconfig, context=self.settings.context)
        async with AsyncExitStack() as stack:
            client = Client(self.connect(endpoint), clock=SystemClock())
            stack.push_async_callback(client.close)
            dependencies = Dependencies(client, configuration, self.registry, registry())
            self.components.update({name: COMPONENTS[name](dependencies) for name in configuration.components})
            metrics = Metrics(self.registry)
            unreadable = UnreadableReports(client, metrics)
            if configuration.serving.port >= 0:
                await self._serve(stack, configuration.serving, lambda: unreadable.lines)
            log.info("running %s against %s", ", ".join(self.components), endpoint.server)
            watching = self._watching_clock(client, metrics) | self._watching_configuration(dependencies)
            reports = {"reports": Background(unreadable.run)}
            await ComponentGroup({**self.components, **watching, **reports}).run()

    def _watching_clock(self, client: Client, metrics: Metrics) -> dict[str, Component]:
        metrics.watch_clock_offset(lambda: -client.server_time.offset)
        return {"clock": Background(ClockMonitor(client.server_time, client.clock).run)}

    def _watching_configuration(self, dependencies: Dependencies) -> dict[str, Component]:
        read = self.settings.read_again
        if read is None:
            return {}
        return {"switch": Background(ConfigurationWatch(dependencies.switch, read, dependencies.client.clock).run)}

    async def _serve(self, stack: AsyncExitStack, serving: Serving, notes: Callable[[], list[str]]) -> None:
        from trimtab.app import health

        self.port = await stack.enter_async_context(health.served(serving, self.components, self.registry, notes))
        log.info("health and metrics are served on http://%s:%d", serving.host, self.port)
