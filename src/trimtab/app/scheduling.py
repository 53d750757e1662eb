"""The scheduler, from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.api.pods import TopologySpreadConstraint
from trimtab.app.dependencies import Dependencies
from trimtab.kube.components import Component
from trimtab.placement.profiles import DEFAULT_SCHEDULER, Profile, default_profile
from trimtab.ranking.rankers import RankSettings, constraints_of
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab.scheduler.configuration import Configuration
from trimtab.scheduler.metrics import Metrics
from trimtab.scheduler.service import Service


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
        read = scheduler_configuration.read(tree)
    except InvalidError as error:
        raise error.under("scheduler") from None
    election_tree = (tree or {}).get("leaderElection") or {}
    election = read.election
    if election is not None and "resourceNamespace" not in election_tree:
        election = replace(election, namespace=configuration.namespace)
    return replace(read, election=election, namespaces=frozenset(configuration.namespaces))


def profile_of(configuration: TrimtabConfiguration) -> Callable[[str], Profile | None]:
    """A function that finds how the scheduler of a name places pods: by the configuration, or as kube-scheduler does
    without one; None for a scheduler that is neither."""
    return {DEFAULT_SCHEDULER: default_profile(), **settings(configuration).profiles}.get


def default_constraints(configuration: TrimtabConfiguration) -> tuple[TopologySpreadConstraint, ...]:
    """The constraints by which workloads without any are kept level on scale-down."""
    return scheduler_configuration.scale_down_constraints(settings(configuration))


def rank_settings(configuration: TrimtabConfiguration) -> RankSettings:
    """How the CloneSet controller ranks pods."""
    ranked_by = default_constraints(configuration) if configuration.clone_set.rank_by_default_constraints else ()
    return RankSettings(configuration.clone_set.rank, constraints_of(ranked_by))
