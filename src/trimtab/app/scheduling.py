"""The scheduler, and the profiles of all schedulers, from the configuration."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.dependencies import Dependencies
from trimtab.kube.components import Component
from trimtab.placement.profiles import DEFAULT_SCHEDULER
from trimtab.placement.schedulers import Schedulers, kube_scheduler_profiles
from trimtab.placement.spreading import Terms
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.constraints import DefaultsFor, compiled
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab.scheduler.configuration import Configuration
from trimtab.scheduler.metrics import Metrics
from trimtab.scheduler.service import Service

log = logging.getLogger(__name__)


def component(dependencies: Dependencies) -> Component:
    """The scheduler. It has its own lease, so that standby replicas keep warm caches."""
    return Service(
        dependencies.client,
        settings(dependencies.configuration),
        metrics=Metrics(dependencies.registry),
        leases=dependencies.leases,
    )


def settings(configuration: TrimtabConfiguration) -> Configuration:
    """The scheduler's part of the configuration. Its lease is in Trimtab's namespace, unless it names another."""
    tree = configuration.scheduler
    if isinstance(tree, str):
        raise InvalidError("scheduler", f"the file {tree} has not been read")
    try:
        read = scheduler_configuration.read(tree, terms=Terms(spreading=configuration.gate("EvenPodsSpread")))
    except InvalidError as error:
        raise error.under("scheduler") from None
    election_tree = (tree or {}).get("leaderElection") or {}
    election = read.election
    if election is not None and "resourceNamespace" not in election_tree:
        election = replace(election, namespace=configuration.namespace)
    return replace(read, election=election, namespaces=frozenset(configuration.namespaces))


def schedulers(configuration: TrimtabConfiguration) -> Schedulers:
    """The profiles of all schedulers: the one source of default constraints. Raises InvalidError with the field."""
    tree = configuration.default_constraints.kube_scheduler
    if isinstance(tree, str):
        raise InvalidError("defaultConstraints.kubeScheduler", f"the file {tree} has not been read")
    own = settings(configuration).profiles
    try:
        return Schedulers(own, {} if tree is None else kube_scheduler_profiles(dict(tree)))
    except InvalidError as error:
        raise error.under("defaultConstraints.kubeScheduler") from None


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
