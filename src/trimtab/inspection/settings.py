"""What decisions are made with: the configuration's default policies, default constraints and profiles.

Without a configuration it is that of a new installation: every workload has the default policy, which keeps it level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.ranking.rankers import Constraint, constraints_of
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.ranking.victims import Options
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults, read_defaults
from trimtab.scaledown.replicaset_plans import ForeignCosts
from trimtab.scheduler import configuration as scheduling
from trimtab.scheduler.configuration import Configuration as SchedulerConfiguration

WINDOW = 10.0
"""Seconds in which the controller is assumed to act."""
NEW_INSTALLATION = Defaults(policies=(DefaultPolicy("level"),))


@dataclass(frozen=True)
class Settings:
    """How the cluster is inspected."""

    configuration: TrimtabConfiguration | None = None
    strategies: Mapping[str, Factory] = field(default_factory=lambda: STRATEGIES)

    @cached_property
    def defaults(self) -> Defaults:
        """The default policies, and the namespaces that none applies to."""
        given = self.configuration
        if given is None:
            return NEW_INSTALLATION
        exempt = {"kube-system", given.namespace}
        try:
            return read_defaults(given.scale_down, exempt=exempt, only=given.namespaces, registry=self.strategies)
        except InvalidError as error:
            raise error.under("scaleDown") from None

    @cached_property
    def scheduler(self) -> SchedulerConfiguration:
        """The scheduler's part of the configuration."""
        tree = None if self.configuration is None else self.configuration.scheduler
        if isinstance(tree, str):
            raise InvalidError("scheduler", f"the file {tree} has not been read")
        return scheduling.read(tree)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of workloads whose templates have none."""
        return constraints_of(scheduling.scale_down_constraints(self.scheduler))

    @property
    def options(self) -> Options:
        """The feature gates of the controllers."""
        if self.configuration is None:
            return Options()
        gates = self.configuration.scale_down.controller_gates
        return Options(logarithmic=gates.logarithmic_scale_down, deletion_cost=gates.pod_deletion_cost)

    @property
    def tolerance(self) -> float:
        """Seconds by which the clocks of the control plane may differ."""
        return 5.0 if self.configuration is None else self.configuration.scale_down.clock_tolerance_seconds

    @property
    def foreign_costs(self) -> ForeignCosts:
        """How costs of other writers count where a policy does not say."""
        return "Obey" if self.configuration is None else self.configuration.scale_down.other_costs
