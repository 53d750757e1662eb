"""What components are made from, and what they read from the configuration alike."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from prometheus_client import CollectorRegistry

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.switch import Switch
from trimtab.kube.client import Client
from trimtab.kube.leases import Elector, LeaseTimings
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.scaledown.metrics import Metrics as ScaleDownMetrics
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import Defaults
from trimtab.unitedtopology.metrics import Metrics as UnitedTopologyMetrics


@dataclass(frozen=True)
class Means:
    """What components are made from."""

    client: Client
    configuration: TrimtabConfiguration
    registry: CollectorRegistry
    strategies: Mapping[str, Factory] = field(default_factory=lambda: STRATEGIES)
    """Trimtab's own, and those of installed packages."""

    @cached_property
    def switch(self) -> Switch:
        """Whether scale-downs are looked after at this moment."""
        return Switch(on=self.configuration.scale_down.enabled)

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces to look after; all, where empty."""
        return frozenset(self.configuration.namespaces)

    @cached_property
    def scale_down_metrics(self) -> ScaleDownMetrics:
        """One set for the process, whichever components it runs."""
        return ScaleDownMetrics(self.registry)

    @cached_property
    def topology_metrics(self) -> UnitedTopologyMetrics:
        """One set for the process, whichever components it runs."""
        return UnitedTopologyMetrics(self.registry)

    def elect(self, lease: str) -> Elector:
        """A candidate for one of Trimtab's leases."""
        stated = self.configuration.leader_election
        return Elector(
            self.client,
            name=lease,
            namespace=self.configuration.namespace,
            identity=f"{socket.gethostname()}_{os.getpid()}",
            timings=LeaseTimings(stated.lease_seconds, stated.renew_seconds, stated.retry_seconds),
        )


def defaults(configuration: TrimtabConfiguration, strategies: Mapping[str, Factory]) -> Defaults:
    """What the configuration says of scale-downs. Raises InvalidError for strategies that cannot work."""
    exempt = {"kube-system", configuration.namespace}
    try:
        return effective.read_defaults(
            configuration.scale_down, exempt=exempt, only=configuration.namespaces, registry=strategies
        )
    except InvalidError as error:
        raise error.under("scaleDown") from None
