"""What decisions are made with: the configuration's default policies, default constraints and profiles.

Without a configuration it is that of a new installation: every workload has the default policy, which keeps it level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.placement.schedulers import Schedulers
from trimtab.ranking.rankers import Constraint, RankSettings, no_defaults
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.ranking.victims import Options
from trimtab.scaledown.constraints import compiled
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults, read_defaults
from trimtab.scaledown.replicaset_plans import ForeignCosts
from trimtab.scheduler.configuration import schedulers

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

    @property
    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets: Deployment, and those that the configuration names."""
        return DEPLOYMENTS if self.configuration is None else self.configuration.replicaset_owners

    @cached_property
    def schedulers(self) -> Schedulers:
        """The profiles of all schedulers."""
        return schedulers(self.configuration or TrimtabConfiguration())

    def constraints(self, scheduler_name: str) -> tuple[Constraint, ...]:
        """The constraints of workloads whose templates have none, and whose pods name this scheduler."""
        return compiled(self.schedulers.leveling_constraints(scheduler_name))

    @property
    def rank(self) -> RankSettings:
        """How the CloneSet controller ranks pods."""
        given = (self.configuration or TrimtabConfiguration()).clone_set
        return RankSettings(given.rank, self.constraints if given.rank_by_default_constraints else no_defaults)

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
