"""A process of Trimtab: some components, run until one of them fails or the process is stopped.

Then all of them are stopped.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.app import health, tracing
from trimtab.app.dependencies import Dependencies, defaults, sources
from trimtab.app.loop_monitor import LoopMonitor
from trimtab.app.metrics import Metrics
from trimtab.app.switch import ConfigurationWatch
from trimtab.app.unreadable import UnreadableReports
from trimtab.inspection.cluster import KINDS
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clock_offset import ClockMonitor
from trimtab.kube.clocks import SystemClock
from trimtab.kube.components import Background, Component, ComponentGroup
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.leases import LeaseCalls
from trimtab.kube.sessions import Session
from trimtab.kube.side_loop import SideLoop
from trimtab.kube.transport import Transport
from trimtab.kube.watches import analyse
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


def _dashboard(dependencies: Dependencies) -> Component:
    from trimtab.app import dashboard

    return dashboard.component(dependencies)


COMPONENTS: Mapping[str, Callable[[Dependencies], Component]] = {
    "scheduler": _scheduler,
    "webhooks": _webhooks,
    "controllers": _controllers,
    "dashboard": _dashboard,
}
"""All components, by name."""


def check(configuration: TrimtabConfiguration) -> None:
    """Raise InvalidError if the configuration is invalid."""
    from trimtab.app import pod_webhook, scheduling

    if "dashboard" in configuration.components:
        from trimtab.app import dashboard

        dashboard.check(configuration)
    scheduling.schedulers(configuration)
    pod_webhook.rules(configuration)
    defaults(configuration, registry())
    sources(configuration)


@dataclass(slots=True)
class App:
    """The running product."""

    settings: Settings
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    components: dict[str, Component] = field(default_factory=dict)
    documents: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """What is served as JSON beside the metrics, by path."""
    connect: Callable[[Endpoint], Transport] = Session
    """Opens the connection to the cluster; tests replace it."""
    port: int = -1
    """The port that health and metrics are served on, once they are."""

    async def run(self) -> None:
        """Run all components until cancelled, or until one of them raises."""
        configuration = self.settings.configuration
        check(configuration)
        for kind in KINDS:  # now, while nothing waits for the event loop
            analyse(kind.model)
        async with AsyncExitStack() as stack:
            traces = tracing.start(os.environ)
            client = await self._connect(stack)
            if traces is not None:
                stack.callback(traces.close)
                client = client.using(on_attempt=traces.call)
            metrics = Metrics(self.registry)
            client.list_fallbacks.on_report = metrics.count_list_fallback
            client.dropped_events.on_report = metrics.count_dropped_event
            monitor = LoopMonitor(client.clock, metrics.observe_lag)
            unreadable = UnreadableReports(client, metrics)
            pages_loop = await stack.enter_async_context(SideLoop("pages"))
            leases_loop = await stack.enter_async_context(SideLoop("leases"))
            dependencies = Dependencies(
                client,
                configuration,
                self.registry,
                registry(),
                self.documents,
                lease_calls=await self._lease_calls(stack, leases_loop, metrics),
                tracing=traces,
                lag=lambda: monitor.lag,
                on_ignored=unreadable.report_ignored,
            )
            metrics.watch_readiness(lambda: not health.missing(self.components, monitor))
            self.components.update({name: COMPONENTS[name](dependencies) for name in configuration.components})
            if configuration.serving.port >= 0:
                pages = health.served(
                    *(configuration.serving, self.components, self.registry, self.documents),
                    notes=lambda: unreadable.lines,
                    monitor=monitor,
                    clock=client.clock,
                )
                await self._serve(stack, pages_loop, pages)
            watching = self._watching_clock(client, metrics) | self._watching_configuration(dependencies)
            background = {"reports": Background(unreadable.run), "loop": Background(monitor.run)}
            await ComponentGroup(self.components, {**watching, **background}).run()

    async def _connect(self, stack: AsyncExitStack) -> Client:
        endpoint = self._endpoint()
        client = Client(self.connect(endpoint), clock=SystemClock())
        stack.push_async_callback(client.close)
        log.info("running %s against %s", ", ".join(self.settings.configuration.components), endpoint.server)
        return client

    async def _lease_calls(self, stack: AsyncExitStack, side: SideLoop, metrics: Metrics) -> LeaseCalls:
        """Leases are renewed in a loop of their own, which no request reaches, with connections of their own."""
        transport = self.connect(self._endpoint())
        stack.push_async_callback(lambda: side.run(transport.close()))
        client = Client(transport, clock=SystemClock())
        return LeaseCalls(client, side.run, lambda made: metrics.watch_leader(made.name, lambda: made.is_leader))

    def _endpoint(self) -> Endpoint:
        return config.discover(self.settings.kubeconfig, context=self.settings.context)

    def _watching_clock(self, client: Client, metrics: Metrics) -> dict[str, Component]:
        metrics.watch_clock_offset(lambda: -client.server_time.offset)
        return {"clock": Background(ClockMonitor(client.server_time, client.clock).run)}

    def _watching_configuration(self, dependencies: Dependencies) -> dict[str, Component]:
        read = self.settings.read_again
        if read is None:
            return {}
        return {"switch": Background(ConfigurationWatch(dependencies.switch, read, dependencies.client.clock).run)}

    async def _serve(self, stack: AsyncExitStack, side: SideLoop, pages: AbstractAsyncContextManager[int]) -> None:
        self.port = await side.run(pages.__aenter__())
        stack.push_async_callback(lambda: side.run(pages.__aexit__(None, None, None)))
        log.info("health and metrics are served on port %d", self.port)
