"""The controllers: CloneSets, UnitedTopologies and ScaleDownPolicies, in one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from trimtab.api.cloneset import CloneSet
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.app.dependencies import Dependencies, defaults
from trimtab.app.scheduling import leveling_constraints, rank_settings, schedulers
from trimtab.cloneset.controller import Controller as CloneSets
from trimtab.cloneset.metrics import Metrics as CloneSetMetrics
from trimtab.cloneset.settings import GATE
from trimtab.cloneset.settings import Settings as CloneSetSettings
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.components import Background, Component, ComponentGroup, FeatureGroup, LeaderElectedComponent
from trimtab.kube.events import Recorder
from trimtab.placement.schedulers import Schedulers
from trimtab.scaledown.continuous.delivery import ContinuousSettings
from trimtab.scaledown.policy.controller import ScaleDownPolicies
from trimtab.scaledown.policy.defaults import Defaults
from trimtab.scaledown.policy.findings import BUILT_IN, WITH_POD_COST
from trimtab.scaledown.policy.groups import Groups
from trimtab.scaledown.policy.workloads import workload_ref
from trimtab.scaledown.sources.targets import sources_for
from trimtab.scaledown.view import View
from trimtab.snapshot import Snapshot
from trimtab.unitedtopology.controller.controller import Controller as UnitedTopologies
from trimtab.unitedtopology.controller.controller import Settings as UnitedTopologySettings

LEASE = "trimtab-controllers"


def component(dependencies: Dependencies) -> Component:
    """All controllers; under leader election, unless it is disabled."""
    make = _factory(dependencies)
    if not dependencies.configuration.leader_election.enabled:
        return make(dependencies.client, dependencies.caches)
    return LeaderElectedComponent(dependencies.caches, partial(dependencies.elect, LEASE), make)


def _factory(dependencies: Dependencies) -> Callable[[Client, Caches[Snapshot]], Component]:
    """A function that builds the controllers of one leader term. Metrics are shared by all terms of the process."""
    configured = defaults(dependencies.configuration, dependencies.strategies)
    cloneset_metrics = CloneSetMetrics(dependencies.registry)
    known = schedulers(dependencies.configuration)
    constraints = leveling_constraints(known)

    def now() -> Defaults:
        return replace(configured, enabled=dependencies.switch.on)

    def make(client: Client, caches: Caches[Snapshot]) -> Component:
        view = View(client, owners=dependencies.configuration.replicaset_owners, caches=caches)
        sources = sources_for(
            client,
            view,
            now,
            networks=dependencies.probe_networks,
            profile_of=known.known,
            registry=dependencies.strategies,
            sources=dependencies.make_sources(),
            on_failure=dependencies.scale_down_metrics.record_source_failure,
        )
        recorder = Recorder(client, component="trimtab-scaledown")
        topologies = UnitedTopologies(
            client,
            _topology_settings(dependencies),
            metrics=dependencies.topology_metrics,
            caches=caches,
            on_ignored=dependencies.on_ignored,
        )
        scale_downs = ScaleDownPolicies(
            client,
            view,
            sources,
            defaults=now(),
            settings=ContinuousSettings(constraints=constraints),
            readers=WITH_POD_COST if dependencies.configuration.gate(GATE) else BUILT_IN,
            bands=topologies.levels.matched_bands,
            metrics=dependencies.scale_down_metrics,
            registry=dependencies.strategies,
            recorder=recorder,
            on_ignored=dependencies.on_ignored,
        )
        clonesets = CloneSets(
            client,
            _cloneset_settings(dependencies, known),
            metrics=cloneset_metrics,
            policy_of=_policy_of(scale_downs.groups),
            caches=caches,
        )
        dependencies.switch.subscribe("controllers", lambda _: scale_downs.configure(now()))
        caches.on_close(lambda: dependencies.switch.unsubscribe("controllers"))
        policies = ComponentGroup(
            {"controller": scale_downs},
            {"events": Background(recorder.run)},
            {"view": view, "samples": Background(sources.run)},
        )
        return FeatureGroup(
            {
                "scaledownpolicies": policies,
                "unitedtopologies": topologies,
                "clonesets": clonesets,
            },
            client.clock,
        )

    return make


def _cloneset_settings(dependencies: Dependencies, known: Schedulers) -> CloneSetSettings:
    return CloneSetSettings(
        pod_cost=dependencies.configuration.gate(GATE),
        rank=rank_settings(dependencies.configuration, known),
        strategies=dependencies.strategies,
        namespaces=dependencies.namespaces,
    )


def _topology_settings(dependencies: Dependencies) -> UnitedTopologySettings:
    return UnitedTopologySettings(
        pod_webhook=dependencies.configuration.gate("PodWebhook"),
        namespaces=dependencies.namespaces,
        allowed_fields=dependencies.configuration.united_topology.allowed_patch_fields,
        owners=dependencies.configuration.replicaset_owners,
    )


def _policy_of(groups: Groups) -> Callable[[CloneSet], ScaleDownPolicySpec | None]:
    """A function that finds the policy that is enforced for a CloneSet."""

    def policy_of(cloneset: CloneSet) -> ScaleDownPolicySpec | None:
        policy = groups.policy_for(workload_ref(cloneset))
        return policy.spec if policy is not None and policy.is_enforced else None

    return policy_of
