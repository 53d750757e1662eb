"""What all components are built from."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_network
from typing import Any

from prometheus_client import CollectorRegistry

from trimtab.admission.tracing import Tracing
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.switch import Switch
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.leases import Elector, LeaseCalls, LeaseTimings
from trimtab.kube.stores import Object
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.metrics import Metrics as ScaleDownMetrics
from trimtab.scaledown.policy.defaults import Defaults, read_defaults
from trimtab.scaledown.sources import Source
from trimtab.scaledown.sources.answers import Network
from trimtab.scaledown.sources.registry import make_sources
from trimtab.scaledown.sources.registry import registry as source_registry
from trimtab.scaledown.sources.signals import SourceFactory
from trimtab.snapshot import MIRRORED, Snapshot
from trimtab.unitedtopology.metrics import Metrics as UnitedTopologyMetrics


@dataclass(frozen=True)
class Dependencies:
    """The client, the configuration and what is shared by all components of a process."""

    client: Client
    configuration: TrimtabConfiguration
    registry: CollectorRegistry
    strategies: Mapping[str, Factory] = field(default_factory=lambda: STRATEGIES)
    """Trimtab's own strategies, and those of installed packages."""
    documents: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """What is served as JSON beside the metrics, by path."""
    lease_calls: LeaseCalls | None = None
    """How leases are renewed, if not by the client."""
    tracing: Tracing | None = None
    """Records a span for each review, if it is configured."""
    lag: Callable[[], float] = lambda: 0.0
    """How many seconds the event loop is late."""
    on_ignored: Callable[[Object, str], None] | None = None
    """Called for objects of which some rules are ignored, with the reason."""

    @cached_property
    def caches(self) -> Caches[Snapshot]:
        """The caches of the process, and the one snapshot of the cluster for all that only read it."""
        snapshot = Snapshot()
        snapshot.report_ignored_to(self.on_ignored)
        return Caches(self.client, snapshot, MIRRORED)

    @cached_property
    def switch(self) -> Switch:
        """Whether scale-downs are handled at this moment."""
        return Switch(on=self.configuration.scale_down.enabled)

    @property
    def leases(self) -> LeaseCalls:
        """How leases are renewed."""
        return self.lease_calls or LeaseCalls(self.client)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that Trimtab handles; all, if empty."""
        return frozenset(self.configuration.namespaces)

    @property
    def probe_networks(self) -> tuple[Network, ...]:
        """The networks in which pods are probed; all, if empty."""
        return tuple(ip_network(text) for text in self.configuration.scale_down.probe_networks)

    def make_sources(self) -> dict[str, Source]:
        """The sources of signals that are configured; each component has its own."""
        return sources(self.configuration, lambda: self._known_sources)

    @cached_property
    def _known_sources(self) -> Mapping[str, SourceFactory]:
        """Those that are installed: looking for them in all packages takes tens of milliseconds."""
        return source_registry()

    @cached_property
    def scale_down_metrics(self) -> ScaleDownMetrics:
        """The metrics, shared by all components of the process."""
        return ScaleDownMetrics(self.registry)

    @cached_property
    def topology_metrics(self) -> UnitedTopologyMetrics:
        """The metrics, shared by all components of the process."""
        return UnitedTopologyMetrics(self.registry)

    def elect(self, lease: str) -> Elector:
        """A candidate for one of Trimtab's leases."""
        election = self.configuration.leader_election
        return self.leases.candidate(
            name=lease,
            namespace=self.configuration.namespace,
            identity=f"{socket.gethostname()}_{os.getpid()}",
            timings=LeaseTimings(election.lease_seconds, election.renew_seconds, election.retry_seconds),
        )


def sources(
    configuration: TrimtabConfiguration, known: Callable[[], Mapping[str, SourceFactory]] = source_registry
) -> dict[str, Source]:
    """The sources of signals of the configuration, of the known ones. Raises InvalidError for invalid settings."""
    configured = configuration.scale_down.sources
    try:
        return make_sources(configured, known()) if configured else {}
    except InvalidError as error:
        raise error.under("scaleDown.sources") from None


def defaults(configuration: TrimtabConfiguration, strategies: Mapping[str, Factory]) -> Defaults:
    """The scale-down settings of the configuration. Raises InvalidError for invalid strategies."""
    exempt = {"kube-system", configuration.namespace}
    try:
        return read_defaults(
            configuration.scale_down, exempt=exempt, only=configuration.namespaces, registry=strategies
        )
    except InvalidError as error:
        raise error.under("scaleDown") from None
