"""The dashboard as a component: for users of the API server, each of whom sees what it may list itself.

It has processes and a ServiceAccount of its own, which only reads: what pages ask for never delays an admission, and a
process that browsers reach has no permission to write.
"""

from __future__ import annotations

import logging
from pathlib import Path

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.dependencies import Dependencies
from trimtab.dashboard.access import ClusterAccess
from trimtab.dashboard.metrics import Metrics
from trimtab.dashboard.server import DashboardServer, Listening
from trimtab.dashboard.sources import LiveSource
from trimtab.inspection.following import ClusterFollower
from trimtab.inspection.reading import ALL
from trimtab.inspection.settings import Settings
from trimtab.kube.caches import Caches
from trimtab.kube.components import Component
from trimtab.snapshot import Snapshot

log = logging.getLogger(__name__)


def component(dependencies: Dependencies) -> Component:
    """The dashboard of the cluster."""
    settings = Settings(dependencies.configuration, strategies=dependencies.strategies)
    metrics = Metrics(dependencies.registry)
    return ServedDashboard(dependencies.caches, settings, _listening(dependencies.configuration), metrics)


def check(configuration: TrimtabConfiguration) -> None:
    """Raise InvalidError for an address that is not protected enough."""
    try:
        _listening(configuration).check(is_authenticated=True)
    except InvalidError as error:
        raise error.under("dashboard") from None


def _listening(configuration: TrimtabConfiguration) -> Listening:
    written = configuration.dashboard
    return Listening(
        written.host,
        written.port,
        certificate=Path(written.certificate_file) if written.certificate_file else None,
        key=Path(written.key_file) if written.key_file else None,
        names=frozenset(name.lower() for name in written.host_names),
    )


class ServedDashboard:
    """The dashboard, served while `run` runs."""

    def __init__(
        self, caches: Caches[Snapshot], settings: Settings, listening: Listening, metrics: Metrics | None = None
    ) -> None:
        client = caches.client
        self._source = LiveSource(ClusterFollower(client, kinds=ALL, origin="this cluster", caches=caches), settings)
        self._server = DashboardServer(
            self._source, settings, listening, ClusterAccess(client), metrics=metrics or Metrics()
        )
        self.url = ""
        """Its address, once it is served."""

    @property
    def synced(self) -> bool:
        """Whether the first lists are complete."""
        return self._source.synced

    @property
    def problems(self) -> list[str]:
        """What keeps it from being up to date."""
        return self._source.problems

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._server.run(self._started)

    def _started(self, url: str) -> None:
        self.url = url
        log.info("the dashboard is served at %s", url)
