"""The controllers: CloneSets, UnitedTopologies and ScaleDownPolicies, in one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from trimtab.api.cloneset import CloneSet
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.app.means import Means, defaults
from trimtab.app.scheduling import default_constraints
from trimtab.cloneset.controller import Controller as CloneSets
from trimtab.cloneset.metrics import Metrics as CloneSetMetrics
from trimtab.cloneset.settings import GATE
from trimtab.cloneset.settings import Settings as CloneSetSettings
from trimtab.kube.client import Client
from trimtab.kube.components import Background, Component, ComponentGroup, LeaderElectedComponent
from trimtab.ranking.rankers import constraints_of
from trimtab.scaledown.continuous.delivery import Settings as Continuous
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.controller import ScaleDownPolicies, sampled
from trimtab.scaledown.policy.effective import Defaults
from trimtab.scaledown.policy.findings import BUILT_IN, WITH_POD_COST
from trimtab.scaledown.view import View
from trimtab.unitedtopology.controller.controller import Controller as UnitedTopologies
from trimtab.unitedtopology.controller.controller import Settings as UnitedTopologySettings

LEASE = "trimtab-controllers"


def component(means: Means) -> Component:
    """All controllers; under leader election, unless there is only ever one process."""
    make = _maker(means)
    if not means.configuration.leader_election.enabled:
        return make(means.client)
    return LeaderElectedComponent(means.client, partial(means.elect, LEASE), make)


def _maker(means: Means) -> Callable[[Client], Component]:
    """Makes the controllers of one term. What is counted is counted over all terms of the process."""
    written = defaults(means.configuration, means.strategies)
    cloneset_metrics = CloneSetMetrics(means.registry)

    def now() -> Defaults:
        return replace(written, enabled=means.switch.on)

    def make(client: Client) -> Component:
        view = View(client)
        stated = now()
        sources = sampled(client, view, now)
        topologies = UnitedTopologies(client, _topology_settings(means), metrics=means.topology_metrics)
        scale_downs = ScaleDownPolicies(
            client,
            view,
            sources,
            defaults=stated,
            settings=Continuous(constraints=constraints_of(default_constraints(means.configuration))),
            readers=WITH_POD_COST if means.configuration.gate(GATE) else BUILT_IN,
            bands=topologies.levels,
            metrics=means.scale_down_metrics,
            registry=means.strategies,
        )
        clonesets = CloneSets(
            client, _cloneset_settings(means), metrics=cloneset_metrics, policy_of=_policy_of(view, now)
        )
        means.switch.tell("controllers", lambda _: scale_downs.configure(now()))
        return ComponentGroup(
            {
                "view": view,
                "samples": Background(sources.run),
                "scaledownpolicies": scale_downs,
                "unitedtopologies": topologies,
                "clonesets": clonesets,
            }
        )

    return make


def _cloneset_settings(means: Means) -> CloneSetSettings:
    return CloneSetSettings(
        pod_cost=means.configuration.gate(GATE),
        default_constraints=default_constraints(means.configuration),
        strategies=means.strategies,
        namespaces=means.namespaces,
    )


def _topology_settings(means: Means) -> UnitedTopologySettings:
    return UnitedTopologySettings(pod_webhook=means.configuration.gate("PodWebhook"), namespaces=means.namespaces)


def _policy_of(view: View, now: Callable[[], Defaults]) -> Callable[[CloneSet], ScaleDownPolicySpec | None]:
    """Which policy speaks for a CloneSet."""

    def policy_of(cloneset: CloneSet) -> ScaleDownPolicySpec | None:
        namespace = cloneset.metadata.namespace
        found = effective.governing(
            effective.workload_ref(cloneset), view.policies_in(namespace), now(), view.namespace_labels(namespace)
        )
        return None if found is None else found.spec

    return policy_of
