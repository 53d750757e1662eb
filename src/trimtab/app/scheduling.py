"""The scheduler, from the configuration."""

from __future__ import annotations

from dataclasses import replace

from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.errors import InvalidError
from trimtab.app.means import Means
from trimtab.kube.components import Component
from trimtab.scheduler import configuration as scheduler_configuration
from trimtab.scheduler.configuration import Configuration
from trimtab.scheduler.metrics import Metrics
from trimtab.scheduler.service import Service


def component(means: Means) -> Component:
    """The scheduler. It has a lease of its own, so that replicas that wait keep a warm view of the cluster."""
    return Service(means.client, settings(means.configuration), metrics=Metrics(means.registry))


def settings(configuration: TrimtabConfiguration) -> Configuration:
    """The scheduler's part of the configuration. Its lease is where Trimtab keeps its own, unless it says otherwise."""
    tree = configuration.scheduler
    if isinstance(tree, str):
        raise InvalidError("scheduler", f"the file {tree} has not been read")
    try:
        read = scheduler_configuration.read(tree)
    except InvalidError as error:
        raise error.under("scheduler") from None
    stated = (tree or {}).get("leaderElection") or {}
    election = read.election
    if election is not None and "resourceNamespace" not in stated:
        election = replace(election, namespace=configuration.namespace)
    return replace(read, election=election, namespaces=frozenset(configuration.namespaces))
