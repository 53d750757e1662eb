"""The webhooks, and what decides behind them. Every replica answers; one of them keeps the certificates.

review of a scale-down → `ScaleReviews` → the bands of subsets for the new size → `Intents`: costs, settle, admit
review of a pod        → `Subsets`      → a place in the UnitedTopology's status
review of our kinds    → `Validation`
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trimtab.admission.certificates import CONFIGURATIONS, GivenCertificates, MadeCertificates, always
from trimtab.admission.metrics import Metrics
from trimtab.admission.server import Certificates, Edge, Hook, LetGo
from trimtab.admission.validation import Validation, checks
from trimtab.api.admission import AdmissionRequest
from trimtab.api.configuration import TrimtabConfiguration
from trimtab.api.pods import Pod
from trimtab.app.means import Means, defaults
from trimtab.app.scheduling import default_constraints
from trimtab.kube.components import Background, Candidate, Component, ComponentGroup
from trimtab.ranking.plan import Policy
from trimtab.ranking.rankers import constraints_of
from trimtab.ranking.strategies import Factory
from trimtab.scaledown.intent import reviews
from trimtab.scaledown.intent.gate import Intents, Prepare, Settings
from trimtab.scaledown.intent.plan_reports import PlanReports
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.policy.controller import sampled
from trimtab.scaledown.policy.effective import Governing
from trimtab.scaledown.sources import Sources
from trimtab.scaledown.view import View
from trimtab.unitedtopology.admission.hooks import Subsets
from trimtab.unitedtopology.admission.scaledown_preparation import Foresight
from trimtab.unitedtopology.admission.simulation import Simulation
from trimtab.unitedtopology.levels import Levels
from trimtab.unitedtopology.pod_annotator import Scribe
from trimtab.unitedtopology.verdicts import verdict
from trimtab.unitedtopology.view import View as TopologyView

LEASE = "trimtab-webhooks"

log = logging.getLogger(__name__)


def component(means: Means) -> Component:
    """The edge with all its hooks, and what these need to see."""
    client, configuration = means.client, means.configuration
    topologies = _Topologies(means) if configuration.gate("PodWebhook") else None
    scale_downs = _ScaleDowns(means, prepare=topologies.foresight.prepare if topologies else None)
    candidate = Candidate(partial(means.elect, LEASE)) if configuration.leader_election.enabled else None
    hooks = [
        *ScaleReviews(scale_downs.intents.hold, budget=configuration.scale_down.budget_seconds).hooks,
        *Validation(client, checks(means.strategies)).hooks,
        *(topologies.subsets.hooks if topologies else ()),
    ]
    told: list[LetGo] = [scale_downs.let_go, *([topologies.subsets.let_go] if topologies else [])]
    parts: dict[str, Component] = {
        **scale_downs.parts,
        **(topologies.parts if topologies else {}),
        **({"election": candidate} if candidate else {}),
    }
    return ComponentGroup({**parts, "edge": _edge(means, hooks, _certificates(means, candidate), told)})


class _ScaleDowns:
    """What requests to shrink need: whom policies speak for, what is sampled, and who tells of plans."""

    def __init__(self, means: Means, *, prepare: Prepare | None) -> None:
        stated = defaults(means.configuration, means.strategies)
        self._metrics = means.scale_down_metrics
        self._view = View(means.client)
        self._sources = sampled(means.client, self._view, lambda: replace(stated, enabled=means.switch.on))
        self._reports = PlanReports(means.client)
        self.intents = Intents(
            means.client,
            self._view,
            defaults=stated,
            settings=_settings(means.configuration),
            metrics=self._metrics,
            policy_of=partial(_policy_of, means.strategies, self._sources),
            on_plan=self._reports.note,
            prepare=prepare,
        )
        for source, age in self._sources.ages().items():
            self._metrics.watch_samples(source, age)
        means.switch.tell("webhooks", self._switch)

    @property
    def parts(self) -> dict[str, Component]:
        """What has to run."""
        return {
            "view": self._view,
            "scale-downs": self.intents,
            "samples": Background(self._sources.run),
            "reports": Background(self._reports.run),
        }

    def let_go(self, hook: Hook, request: AdmissionRequest, reason: str) -> None:
        """The edge admitted a request without a decision."""
        log.warning("%s %s/%s was let through: %s", hook.name, request.namespace, request.name, reason)
        if hook.name == reviews.NAME:
            self._metrics.let_go()

    def _switch(self, on: bool) -> None:
        self.intents.configure(replace(self.intents.defaults, enabled=on))


class _Topologies:
    """What UnitedTopologies need in every process that answers: places for pods, and bands for the size to come."""

    def __init__(self, means: Means) -> None:
        client = means.client
        self.view = TopologyView(client)
        simulation = Simulation(self.view, client.clock)
        self.subsets = Subsets(client, simulate=simulation, ended=self.view.ended, registry=means.registry)
        levels = Levels(self.view, verdict=verdict(pod_webhook=True))
        scribe = Scribe(client, means.topology_metrics)
        settle = means.configuration.scale_down.settle_milliseconds / 1000
        self.foresight = Foresight(self.view, levels, scribe, client.clock, settle=settle)

    @property
    def parts(self) -> dict[str, Component]:
        """What has to run."""
        return {"subsets": self.subsets, "topologies": self.view}


def names(configuration: TrimtabConfiguration) -> list[str]:
    """The names and addresses by which API servers reach the webhooks."""
    service = f"{configuration.webhooks.service}.{configuration.namespace}.svc"
    by_address = urlsplit(configuration.webhooks.url).hostname
    return [service, f"{service}.cluster.local", *([by_address] if by_address else [])]


def _settings(configuration: TrimtabConfiguration) -> Settings:
    stated = configuration.scale_down
    return Settings(
        budget=stated.budget_seconds,
        settle=stated.settle_milliseconds / 1000,
        constraints=constraints_of(default_constraints(configuration)),
    )


def _policy_of(
    strategies: Mapping[str, Factory], sources: Sources, governing: Governing, pods: Sequence[Pod]
) -> Policy:
    """A policy's strategies, with what has been sampled of these pods."""
    stated = governing.spec.strategies
    return sources.values(stated, pods).given_to(Policy.of(stated, strategies))


def _edge(means: Means, hooks: Sequence[Hook], certificates: Certificates, told: Sequence[LetGo]) -> Edge:
    stated = means.configuration.webhooks

    def let_go(hook: Hook, request: AdmissionRequest, reason: str) -> None:
        for tell in told:
            tell(hook, request, reason)

    return Edge(
        hooks,
        certificates=certificates,
        host=stated.host,
        port=stated.port,
        metrics=Metrics(means.registry),
        let_go=let_go,
        client_ca=Path(stated.client_ca_file) if stated.client_ca_file else None,
        clock=means.client.clock,
    )


def _certificates(means: Means, candidate: Candidate | None) -> Certificates:
    configuration = means.configuration
    given = configuration.webhooks.certificates
    if given.source == "Files":
        return GivenCertificates(Path(given.certificate_file), Path(given.key_file), clock=means.client.clock)
    return MadeCertificates(
        means.client,
        namespace=configuration.namespace,
        name=given.stored_in,
        names=names(configuration),
        configurations=[(kind, configuration.webhooks.registered_as) for kind in CONFIGURATIONS],
        leads=always if candidate is None else lambda: candidate.is_leader,
    )
