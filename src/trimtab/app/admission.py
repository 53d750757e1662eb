"""The webhooks, and the features that decide behind them. Every replica answers; the leader renews the certificates.

review of a scale-down → `ScaleReviews` → the bands of subsets for the new size → `ScaleDownHolder`: costs, settle time
review of a pod        → `DefaultingReviews`, `SubsetHooks` → default constraints; a reservation in the status
review of our kinds    → `Validation`
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trimtab.admission.certificates import CONFIGURATIONS, FileCertificates, ManagedCertificates, always
from trimtab.admission.metrics import Metrics, ReviewOutcome
from trimtab.admission.self_check import Registrations, SelfCheck, Target
from trimtab.admission.server import AdmissionServer, Hook, OnSkip
from trimtab.admission.undecided import UndecidedReports
from trimtab.admission.validation import Check, Validation, checks
from trimtab.api.admission import AdmissionRequest
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.core import Service
from trimtab.api.pods import Pod
from trimtab.app.dependencies import Dependencies, defaults
from trimtab.app.pod_webhook import Defaulting, pod_hooks
from trimtab.app.scheduling import leveling_constraints, rank_settings, schedulers
from trimtab.kube.components import Background, CacheGroup, Candidate, Component, ComponentGroup, FeatureGroup
from trimtab.kube.events import Recorder
from trimtab.kube.paced_events import PacedRecorder
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies import Factory
from trimtab.ranking.victims import Options
from trimtab.scaledown.intent import reviews
from trimtab.scaledown.intent.gate import no_match, no_tiers
from trimtab.scaledown.intent.hold_settings import HoldSettings
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.intent.planner import ModelSettings
from trimtab.scaledown.intent.requests import ScaleDownRequest
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.sources.targets import sources_for
from trimtab.scaledown.view import View
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.admission.scaledown_preparation import ScaleDownPreparation
from trimtab.unitedtopology.admission.simulation import Simulation, SimulationOnDemand
from trimtab.unitedtopology.levels import Levels
from trimtab.unitedtopology.pod_annotator import PodAnnotator
from trimtab.unitedtopology.readiness import evaluator
from trimtab.unitedtopology.validation import BackgroundValidation
from trimtab.unitedtopology.view import View as TopologyView

LEASE = "trimtab-webhooks"
HISTORY = "/scaledowns"
"""The path of the last scale-downs, beside the metrics."""
_COMPONENT = "trimtab-scaledown"
"""The source of events about scale-downs."""
_SKIPPED: Mapping[ReviewOutcome, HoldOutcome] = {
    ReviewOutcome.LATE: HoldOutcome.LATE,
    ReviewOutcome.FAILED: HoldOutcome.FAILED,
    ReviewOutcome.BUSY: HoldOutcome.RATE_LIMITED,
    ReviewOutcome.NOT_READY: HoldOutcome.NOT_SYNCED,
}
"""How requests to scale down are reported that the server admits without a decision."""
Certificates = FileCertificates | ManagedCertificates

log = logging.getLogger(__name__)


def component(dependencies: Dependencies) -> Component:
    """The admission server with all its hooks, and the caches that they read."""
    client, configuration = dependencies.client, dependencies.configuration
    topologies = _Topologies(dependencies) if configuration.gate("PodWebhook") else None
    scale_downs = _ScaleDowns(dependencies, topologies)
    defaulting = Defaulting(dependencies) if configuration.defaults_at_admission else None
    on_skip: list[OnSkip] = [scale_downs.on_skip, *([topologies.subsets.report_undecided] if topologies else [])]
    candidate = Candidate(partial(dependencies.elect, LEASE)) if configuration.leader_election.enabled else None
    hooks = [
        *ScaleReviews(
            scale_downs.holder.hold,
            budget=configuration.scale_down.budget_seconds,
            owners=configuration.replicaset_owners,
        ).hooks,
        *Validation(client, _checks(dependencies)).hooks,
        *pod_hooks(defaulting, topologies.subsets.hooks if topologies else (), _all(on_skip)),
    ]
    features: dict[str, Component] = {
        "scale-downs": scale_downs.component,
        **({"subsets": topologies.component} if topologies else {}),
        **({"default-constraints": defaulting.owners} if defaulting else {}),
    }
    server = _server(dependencies, hooks, _certificates(dependencies, candidate), _all(on_skip))
    return ComponentGroup(
        {"server": server},
        {"election": candidate} if candidate else {},
        {"features": FeatureGroup(features, client.clock)},
    )


def _checks(dependencies: Dependencies) -> Mapping[tuple[str, str], Check]:
    configuration = dependencies.configuration
    allowed = configuration.united_topology.allowed_patch_fields
    return checks(dependencies.strategies, allowed_fields=allowed, owners=configuration.replicaset_owners)


class _ScaleDowns:
    """What reviews of scale-downs need: a view of policies and workloads, samples, and reports of plans."""

    def __init__(self, dependencies: Dependencies, topologies: _Topologies | None) -> None:
        configured = defaults(dependencies.configuration, dependencies.strategies)
        self._metrics = dependencies.scale_down_metrics
        self.view = View(
            dependencies.client, owners=dependencies.configuration.replicaset_owners, caches=dependencies.caches
        )
        self._sources = sources_for(
            dependencies.client,
            self.view,
            lambda: replace(configured, enabled=dependencies.switch.on),
            networks=dependencies.probe_networks,
            profile_of=schedulers(dependencies.configuration).known,
            registry=dependencies.strategies,
            sources=dependencies.make_sources(),
            on_failure=self._metrics.record_source_failure,
        )
        self._reports = PlanReports(dependencies.client, self.view.policies.get)
        self._recorder = Recorder(dependencies.client, component=_COMPONENT)
        self._undecided = UndecidedReports(partial(dependencies.client.dropped_events.report, _COMPONENT))
        self._events = PacedRecorder(self._recorder, dependencies.client.clock)
        self.holder = ScaleDownHolder(
            dependencies.client,
            self.view,
            defaults=configured,
            settings=_settings(dependencies.configuration),
            metrics=self._metrics,
            policy_of=partial(_policy_of, dependencies.strategies, self._sources),
            on_plan=self._reports.record,
            prepare=topologies.preparation.prepare if topologies else None,
            tiers=topologies.levels.tiers if topologies else no_tiers,
            match_pods=topologies.levels.match_pods if topologies else no_match,
            recorder=self._events,
            on_result=self._reports.record_end,
            executor=ThreadPoolExecutor(1, thread_name_prefix="planner"),
        )
        dependencies.documents[HISTORY] = lambda: [record.tree() for record in self.holder.history.records()]
        for source, age in self._sources.ages().items():
            self._metrics.watch_samples(source, age)
        dependencies.switch.subscribe("webhooks", self._switch)

    @property
    def component(self) -> ComponentGroup:
        """What has to run."""
        return ComponentGroup(
            {"scale-downs": self.holder},
            {"reports": Background(self._reports.run), "event-pace": Background(self._events.run)},
            {"events": Background(self._recorder.run)},
            {"view": self.view, "samples": Background(self._sources.run)},
        )

    def on_skip(self, hook: Hook, request: AdmissionRequest, reason: str, outcome: ReviewOutcome) -> None:
        """Report a request that the server admitted without a decision."""
        log.warning("%s %s/%s was admitted without a decision: %s", hook.name, request.namespace, request.name, reason)
        if hook.name == reviews.NAME:
            read = partial(reviews.scale_down_request, owners=self.view.owners)
            self._undecided.submit(request, read, partial(self._report_skipped, _SKIPPED[outcome]))

    def _report_skipped(self, outcome: HoldOutcome, scale_down: ScaleDownRequest | None) -> None:
        if scale_down is not None:
            self.holder.report_skipped(scale_down, outcome)

    def _switch(self, on: bool) -> None:
        self.holder.configure(replace(self.holder.defaults, enabled=on))


class _Topologies:
    """What UnitedTopologies need in every replica: subsets for new pods, and cost bands for the size to come."""

    def __init__(self, dependencies: Dependencies) -> None:
        client = dependencies.client
        allowed = dependencies.configuration.united_topology.allowed_patch_fields
        owners = dependencies.configuration.replicaset_owners
        self.view = TopologyView(client, owners=owners, caches=dependencies.caches)
        self.services = dependencies.caches.open(Service)
        known = schedulers(dependencies.configuration)
        simulation = Simulation(self.view, client.clock, profile_of=known.profile, services=self.services)
        self.simulation = SimulationOnDemand(simulation, self.view.topologies)
        self.subsets = SubsetHooks(
            client,
            simulate=self.simulation,
            ended=self.view.ended_pods,
            outside=self.view.pods_outside,
            workload=self.view.workload,
            allowed_fields=allowed,
            defaults=known.default_constraints,
            owners=owners,
            registry=dependencies.registry,
            caches=dependencies.caches,
        )
        evaluate = evaluator(pod_webhook=True, allowed_fields=allowed, owners=owners)
        validation = BackgroundValidation(self.view.topologies, allowed_fields=allowed, owners=owners)
        self.levels = Levels(self.view, evaluate=evaluate, validation=validation)
        annotator = PodAnnotator(client, dependencies.topology_metrics)
        settle = dependencies.configuration.scale_down.settle_milliseconds / 1000
        self.preparation = ScaleDownPreparation(
            self.view, self.levels, annotator, client.corrected_clock, settle=settle
        )

    @property
    def component(self) -> ComponentGroup:
        """What has to run."""
        return ComponentGroup(
            {"subsets": self.subsets},
            {"topologies": self.view, "services": CacheGroup((self.services,)), "simulation": self.simulation},
        )


def names(configuration: TrimtabConfiguration) -> list[str]:
    """The DNS names and addresses at which API servers call the webhooks."""
    service = f"{configuration.webhooks.service}.{configuration.namespace}.svc"
    by_address = urlsplit(configuration.webhooks.url).hostname
    return [service, f"{service}.cluster.local", *([by_address] if by_address else [])]


def _settings(configuration: TrimtabConfiguration) -> HoldSettings:
    scale_down, known = configuration.scale_down, schedulers(configuration)
    return HoldSettings(
        budget=scale_down.budget_seconds,
        settle=scale_down.settle_milliseconds / 1000,
        model=ModelSettings(
            tolerance=scale_down.clock_tolerance_seconds,
            foreign_costs=scale_down.other_costs,
            rank=rank_settings(configuration, known),
            options=Options(
                logarithmic=scale_down.controller_gates.logarithmic_scale_down,
                deletion_cost=scale_down.controller_gates.pod_deletion_cost,
            ),
        ),
        constraints=leveling_constraints(known),
    )


def _policy_of(
    strategies: Mapping[str, Factory], sources: Sources, policy: EffectivePolicy, pods: Sequence[Pod]
) -> Policy:
    """A policy's strategies, with the samples of these pods."""
    weighted = policy.spec.strategies
    return sources.values(weighted, pods).apply_to(Policy.of(weighted, strategies))


def _all(callbacks: Sequence[OnSkip]) -> OnSkip:
    def on_skip(hook: Hook, request: AdmissionRequest, reason: str, outcome: ReviewOutcome) -> None:
        for callback in callbacks:
            callback(hook, request, reason, outcome)

    return on_skip


def _server(
    dependencies: Dependencies, hooks: Sequence[Hook], certificates: Certificates, on_skip: OnSkip
) -> AdmissionServer:
    webhooks = dependencies.configuration.webhooks
    metrics = Metrics(dependencies.registry)
    metrics.watch_certificate(lambda: 0.0 if certificates.pair is None else certificates.pair.expires.timestamp())
    return AdmissionServer(
        hooks,
        certificates=certificates,
        host=webhooks.host,
        port=webhooks.port,
        metrics=metrics,
        on_skip=on_skip,
        client_ca=Path(webhooks.client_ca_file) if webhooks.client_ca_file else None,
        clock=dependencies.client.clock,
        check=_self_check(dependencies, certificates),
        lag=dependencies.lag,
        tracing=dependencies.tracing,
    )


def _self_check(dependencies: Dependencies, certificates: Certificates) -> SelfCheck:
    client, configuration = dependencies.client, dependencies.configuration
    webhooks = configuration.webhooks
    name = urlsplit(webhooks.url).hostname or names(configuration)[0]
    registrations = Registrations(
        client,
        webhooks.registered_as,
        own=lambda: Target(name, certificates.trusted),
        managed=webhooks.certificates.source == "Managed",
    )
    return SelfCheck(
        registrations.targets,
        server_time=client.server_time,
        clock=client.clock,
        needs_client_certificate=bool(webhooks.client_ca_file),
    )


def _certificates(dependencies: Dependencies, candidate: Candidate | None) -> Certificates:
    configuration = dependencies.configuration
    settings = configuration.webhooks.certificates
    if settings.source != "Managed":
        certificate, key = settings.files
        return FileCertificates(
            Path(certificate),
            Path(key),
            clock=dependencies.client.clock,
            server_time=dependencies.client.server_time,
        )
    return ManagedCertificates(
        dependencies.client,
        namespace=configuration.namespace,
        name=settings.stored_in,
        names=names(configuration),
        configurations=[(kind, configuration.webhooks.registered_as) for kind in CONFIGURATIONS],
        is_leader=always if candidate is None else lambda: candidate.is_leader,
    )
