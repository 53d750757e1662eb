"""A process of Trimtab: components beside one another, until one fails or the process is told to stop.

Then all of them end, each in its own order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from trimtab.api.configuration import Serving, TrimtabConfiguration
from trimtab.app.means import Means, defaults
from trimtab.app.switch import Watch
from trimtab.kube import config
from trimtab.kube.client import Client
from trimtab.kube.clocks import SystemClock
from trimtab.kube.components import Background, Component, ComponentGroup
from trimtab.kube.endpoints import Endpoint
from trimtab.kube.sessions import Session
from trimtab.kube.transport import Transport
from trimtab.ranking.strategies import registry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run, and against what."""

    configuration: TrimtabConfiguration = field(default_factory=TrimtabConfiguration)
    kubeconfig: Path | None = None
    context: str = ""
    read_again: Callable[[], TrimtabConfiguration] | None = None
    """Reads the configuration as it is by now, where it may change."""


def _scheduler(means: Means) -> Component:
    from trimtab.app import scheduling

    return scheduling.component(means)


def _webhooks(means: Means) -> Component:
    from trimtab.app import admission

    return admission.component(means)


def _controllers(means: Means) -> Component:
    from trimtab.app import control

    return control.component(means)


COMPONENTS: Mapping[str, Callable[[Means], Component]] = {
    "scheduler": _scheduler,
    "webhooks": _webhooks,
    "controllers": _controllers,
}
"""What can be run, by name."""


def check(configuration: TrimtabConfiguration) -> None:
    """Raises InvalidError for what cannot work, before anything is started."""
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
    """How a cluster is reached; tests listen in."""
    port: int = -1
    """Where health and metrics are served, once they are."""

    async def run(self) -> None:
        """Run everything until cancelled. What one component raises ends them all."""
        configuration = self.settings.configuration
        check(configuration)
        endpoint = config.discover(self.settings.kubeconfig, context=self.settings.context)
        async with AsyncExitStack() as stack:
            client = Client(self.connect(endpoint), clock=SystemClock())
            stack.push_async_callback(client.close)
            means = Means(client, configuration, self.registry, registry())
            self.components.update({name: COMPONENTS[name](means) for name in configuration.components})
            if configuration.serving.port >= 0:
                await self._serve(stack, configuration.serving)
            log.info("running %s against %s", ", ".join(self.components), endpoint.server)
            await ComponentGroup({**self.components, **self._watching(means)}).run()

    def _watching(self, means: Means) -> dict[str, Component]:
        read = self.settings.read_again
        return {} if read is None else {"switch": Background(Watch(means.switch, read, means.client.clock).run)}

    async def _serve(self, stack: AsyncExitStack, serving: Serving) -> None:
        from trimtab.app import health

        self.port = await stack.enter_async_context(health.served(serving, self.components, self.registry))
        log.info("health and metrics on http://%s:%d", serving.host, self.port)
