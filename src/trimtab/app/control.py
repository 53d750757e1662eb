"""The controllers: CloneSets, UnitedTopologies and ScaleDownPolicies, in one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimtab.api.cloneset import CloneSet
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.app.means import Means, defaults
from trimtab.controllers.cloneset.controller import Controller as CloneSets
from trimtab.controllers.cloneset.metrics import Metrics as CloneSetMetrics
from trimtab.controllers.cloneset.settings import GATE
from trimtab.controllers.cloneset.settings import Settings as CloneSetSettings
from trimtab.controllers.scaledownpolicy import policies
from trimtab.controllers.scaledownpolicy.view import View
from trimtab.controllers.unitedtopology.controller import Controller as UnitedTopologies
from trimtab.controllers.unitedtopology.controller import Settings as UnitedTopologySettings
from trimtab.controllers.unitedtopology.metrics import Metrics as UnitedTopologyMetrics
from trimtab.kube.client import Client
from trimtab.kube.components import Component, Led, Together

LEASE = "trimtab-controllers"


def component(means: Means) -> Component:
    """All controllers; under leader election, unless there is only ever one process."""
    make = _maker(means)
    if not means.configuration.leader_election.enabled:
        return make(means.client)
    return Led(means.client, partial(means.elect, LEASE), make)


def _maker(means: Means) -> Callable[[Client], Component]:
    """Makes the controllers of one term. What is counted is counted over all terms of the process."""
    clonesets = CloneSetMetrics(means.registry)
    topologies = UnitedTopologyMetrics(means.registry)

    def make(client: Client) -> Component:
        view = View(client)
        return Together(
            {
                "view": view,
                "clonesets": CloneSets(
                    client, _cloneset_settings(means), metrics=clonesets, policy_of=_policy_of(means, view)
                ),
                "unitedtopologies": UnitedTopologies(client, _topology_settings(means), metrics=topologies),
            }
        )

    return make


def _cloneset_settings(means: Means) -> CloneSetSettings:
    return CloneSetSettings(
        pod_cost=means.configuration.gate(GATE), strategies=means.strategies, namespaces=means.namespaces
    )


def _topology_settings(means: Means) -> UnitedTopologySettings:
    return UnitedTopologySettings(pod_webhook=means.configuration.gate("PodWebhook"), namespaces=means.namespaces)


def _policy_of(means: Means, view: View) -> Callable[[CloneSet], ScaleDownPolicySpec | None]:
    """Which policy speaks for a CloneSet."""
    stated = defaults(means.configuration, means.strategies)

    def policy_of(cloneset: CloneSet) -> ScaleDownPolicySpec | None:
        namespace = cloneset.metadata.namespace
        found = policies.governing(
            policies.workload_ref(cloneset), view.policies_in(namespace), stated, view.namespace_labels(namespace)
        )
        return None if found is None else found.spec

    return policy_of
