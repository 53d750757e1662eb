"""The scheduler, and the profiles of all schedulers, from the configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.app.dependencies import Dependencies
from trimtab.kube.components import Component
from trimtab.placement.profiles import DEFAULT_SCHEDULER
from trimtab.placement.schedulers import Schedulers
from trimtab.ranking.rankers import Constraint, DefaultsFor, RankSettings
from trimtab.scaledown.constraints import compiled
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab.scheduler.configuration import Configuration, schedulers
from trimtab.scheduler.metrics import Metrics
from trimtab.scheduler.service import Service

log = logging.getLogger(__name__)

__all__ = ["component", "leveling_constraints", "rank_settings", "schedulers", "settings"]


def component(dependencies: Dependencies) -> Component:
    """The scheduler. It has its own lease, so that standby replicas keep warm caches."""
    made = Service(
        dependencies.client,
        settings(dependencies.configuration),
        metrics=Metrics(dependencies.registry),
        leases=dependencies.leases,
        caches=dependencies.caches,
        shares_watches=len(dependencies.configuration.components) > 1,
    )
    made.state.snapshot.report_ignored_to(dependencies.on_ignored)
    return made


def settings(configuration: TrimtabConfiguration) -> Configuration:
    """The scheduler's part of the configuration. Its lease is in Trimtab's namespace, unless it names another."""
    read, tree = scheduler_configuration.read_part(configuration), configuration.scheduler
    election_tree = (tree.get("leaderElection") or {}) if isinstance(tree, Mapping) else {}
    election = read.election
    if election is not None and "resourceNamespace" not in election_tree:
        election = replace(election, namespace=configuration.namespace)
    return replace(read, election=election, namespaces=frozenset(configuration.namespaces))


def leveling_constraints(known: Schedulers) -> DefaultsFor:
    """The constraints by which workloads without any are kept level on scale-downs: those that place their pods."""

    @cache
    def constraints(scheduler_name: str) -> tuple[Constraint, ...]:
        found = compiled(known.leveling_constraints(scheduler_name))
        if not found:
            log.warning(
                "the scheduler %s has no default constraints: workloads whose pods name it, and state no constraints, "
                "are not kept level on scale-downs",
                scheduler_name or DEFAULT_SCHEDULER,
            )
        return found

    return constraints


def rank_settings(configuration: TrimtabConfiguration, known: Schedulers) -> RankSettings:
    """How the CloneSet controller ranks pods."""
    if not configuration.clone_set.rank_by_default_constraints:
        return RankSettings(configuration.clone_set.rank)
    return RankSettings(configuration.clone_set.rank, leveling_constraints(known))
