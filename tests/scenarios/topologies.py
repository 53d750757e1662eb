"""A whole cluster with subsets on virtual time: the lab's API server and controllers, Trimtab's webhooks and its own.

Each webhook process has its own client and caches; the API server asks them by turns, as a
Service would. One that was killed does not answer, and its failure policy lets the request through.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.unit.scaledown.scale_cluster import NoCertificates
from tests.unit.unitedtopology.clusters import TopologyCluster
from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import AdmissionServer
from trimtab.admission.validation import Validation
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.admission import AdmissionReview, answer
from trimtab.api.annotations import NAMESPACE_LABEL, NAMESPACE_LABEL_VALUE
from trimtab.api.unitedtopology import UnitedTopologyStatus
from trimtab.cloneset.controller import Controller as CloneSets
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import untyped
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, Defaults
from trimtab.scaledown.view import View as ScaleDownView
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.admission.simulation import Simulation
from trimtab.unitedtopology.view import View as TopologyView
from trimtab_lab.apiserver.admission.admission_reviews import CallError
from trimtab_lab.testing import Wire

JSON = dict[str, Any]

_CONFIGURATIONS = {
    kind: untyped("admissionregistration.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
_RULES: dict[str, tuple[str, JSON]] = {
    "pods": (
        "MutatingWebhookConfiguration",
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
    ),
    "deletions": (
        "ValidatingWebhookConfiguration",
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]},
    ),
    "evictions": (
        "ValidatingWebhookConfiguration",
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction"], "operations": ["CREATE"]},
    ),
    "scale": (
        "ValidatingWebhookConfiguration",
        {
            "apiGroups": ["apps", "apps.kruise.io"],
            "apiVersions": ["*"],
            "resources": ["deployments", "deployments/scale", "replicasets", "clonesets", "clonesets/scale"],
            "operations": ["UPDATE"],
        },
    ),
    "validate": (
        "ValidatingWebhookConfiguration",
        {
            "apiGroups": ["apps.kruise.io"],
            "apiVersions": ["*"],
            "resources": ["unitedtopologies"],
            "operations": ["CREATE", "UPDATE"],
        },
    ),
}
_PATHS = {"evictions": "/deletions"}


@dataclass(slots=True)
class Process:
    """One webhook process."""

    edge: AdmissionServer
    subsets: SubsetHooks
    simulation: Simulation
    wire: Wire
    tasks: list[asyncio.Future[None]] = field(default_factory=list)
    dead: bool = False
    mute: bool = False
    """Whether its answers get lost: it decides, writes, and is not heard."""


class SubsetCluster(TopologyCluster):
    """A cluster in which new pods get subsets, and all workloads are kept level as they shrink."""

    policies: Defaults = LEVEL_EVERYONE

    def __init__(self, *, seed: int = 1, processes: int = 1) -> None:
        super().__init__(seed=seed, call=self._call)
        self.processes: list[Process] = []
        self._count = processes
        self._turn = itertools.count()
        self.asked: Counter[str] = Counter()
        self.let_go: list[str] = []
        self.background: list[asyncio.Future[None]] = []

    async def start(self) -> None:
        """Start everything."""
        await super().start()
        for _ in range(self._count):
            await self.start_webhooks()
        for name, (kind, rule) in _RULES.items():
            await self.user.create(_CONFIGURATIONS[kind], self._configuration(name, kind, rule))
        await self.settle()

    async def start_webhooks(self) -> Process:
        """Start one more webhook process."""
        wire = self.connect()
        client = self.client(wire, seed=7)
        topologies = TopologyView(client, rng=random.Random(10))
        simulation = Simulation(topologies, client.clock, rng=random.Random(8))
        simulation.follow()
        subsets = SubsetHooks(
            client,
            simulate=simulation,
            ended=topologies.ended_pods,
            outside=topologies.pods_outside,
            workload=topologies.workload,
            rng=random.Random(9),
        )
        view = ScaleDownView(client)
        holder = ScaleDownHolder(client, view, defaults=self.policies, prepare=self._prepare)
        scale = ScaleReviews(holder.hold)
        hooks = [*subsets.hooks, *Validation(client).hooks, *scale.hooks]
        edge = AdmissionServer(
            hooks,
            certificates=NoCertificates(),
            host="",
            port=0,
            on_skip=lambda *skip: self._let_go(subsets, *skip),
            clock=self.clock,
        )
        process = Process(edge, subsets, simulation, wire)
        process.tasks = [asyncio.ensure_future(each.run()) for each in (subsets, topologies, view, holder)]
        self.processes.append(process)
        await self.settle()
        return process

    async def start_clonesets(self) -> None:
        """Start the controller of CloneSets beside the others."""
        clonesets = CloneSets(self.client(seed=11), rng=random.Random(12))
        self.background.append(asyncio.ensure_future(clonesets.run()))
        await self.settle()

    async def kill_webhooks(self, process: Process) -> None:
        """A process dies: nothing that it was about to write arrives."""
        process.dead = process.wire.dead = True
        await cancel(*process.tasks)

    async def stop(self) -> None:
        """End everything that runs."""
        for process in self.processes:
            await cancel(*process.tasks)
        for task in self.background:
            task.cancel()
            while not task.done():
                await self.clock.advance(0.5)
        await super().stop()

    async def entries(self) -> list[str]:
        """What is reserved or announced in any UnitedTopology's status."""
        status: UnitedTopologyStatus = (await self.topology()).status
        rows = [*status.subset_statuses, *(row for each in status.other_revisions for row in each.subset_statuses)]
        return [entry for row in rows for entry in (*row.creating, *row.deleting)]

    async def shares(self) -> dict[str, int]:
        """How many active pods each subset has, by their annotations."""
        return dict(sorted((await self.pods_by_subset()).items()))

    # The way of a review.

    async def _call(self, config: JSON, body: bytes, timeout: float) -> bytes:
        path = str(config["url"]).partition("https://trimtab")[2]
        living = [process for process in self.processes if not process.dead]
        if not living:
            raise CallError("connection refused")
        process = living[next(self._turn) % len(living)]
        request = codec.decode(body, AdmissionReview).request
        assert request is not None
        self.asked[path] += 1
        response = await process.edge.decide(process.edge.hooks[path], request, timeout=timeout)
        if process.dead or process.mute:
            raise CallError("connection reset by peer")
        return codec.encode(answer(response))

    async def _prepare(self, kind: str, namespace: str, name: str, replicas: int) -> int:
        return await self.preparation.prepare(kind, namespace, name, replicas)

    def _let_go(self, subsets: SubsetHooks, hook: Any, request: Any, reason: str, outcome: ReviewOutcome) -> None:
        self.let_go.append(f"{hook.name}: {reason}")
        subsets.report_undecided(hook, request, reason, outcome)

    def _configuration(self, name: str, kind: str, rule: JSON) -> JSON:
        labelled = {"matchLabels": {NAMESPACE_LABEL: NAMESPACE_LABEL_VALUE}} if name in ("pods", "deletions") else {}
        webhook: JSON = {
            "name": f"{name}.trimtab.dev",
            "clientConfig": {"url": f"https://trimtab{_PATHS.get(name, f'/{name}')}"},
            "rules": [rule],
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 3,
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": labelled,
        }
        return {"kind": kind, "metadata": {"name": f"trimtab-{name}"}, "webhooks": [webhook]}


def reservation_of(annotations: JSON) -> str:
    """The reservation that a pod came with."""
    known = keys.subset_annotations(annotations)
    return known.reservation if known is not None else ""
