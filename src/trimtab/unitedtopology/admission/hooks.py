"""The hooks of UnitedTopologies, and the caches that they share.

    subsets = SubsetHooks(client, simulate=simulation, ended=view.ended_pods, …, registry=registry)
    AdmissionServer([*subsets.hooks], …, on_skip=subsets.report_undecided)     and beside it     subsets.run()

Every process that serves webhooks has its own; they coordinate through the status of the UnitedTopology only.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import Hook
from trimtab.admission.undecided import UndecidedReports
from trimtab.api.admission import AdmissionRequest
from trimtab.api.annotations import Reason
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.components import run_together
from trimtab.kube.events import WARNING, Recorder
from trimtab.kube.stores import Object
from trimtab.unitedtopology.admission import pod_reviews
from trimtab.unitedtopology.admission.allocator import EndedPods, PodsOutside, no_ended_pods, no_pods_outside
from trimtab.unitedtopology.admission.deletion_reviews import DeletionReviews
from trimtab.unitedtopology.admission.fits import Simulate
from trimtab.unitedtopology.admission.pod_reviews import DefaultsFor, PodReviews, no_defaults, pod_metadata
from trimtab.unitedtopology.admission.status_batcher import StatusBatcher
from trimtab.unitedtopology.admission.topologies import CachedWorkload, Topologies, no_workload
from trimtab.unitedtopology.metrics import AdmissionMetrics

COMPONENT = "trimtab-pods"


class SubsetHooks:
    """Reviews of pods for UnitedTopologies; a component of `app` beside the HTTPS server."""

    def __init__(
        self,
        client: Client,
        *,
        simulate: Simulate | None = None,
        ended: EndedPods = no_ended_pods,
        outside: PodsOutside = no_pods_outside,
        workload: CachedWorkload = no_workload,
        allowed_fields: Collection[str] = (),
        defaults: DefaultsFor = no_defaults,
        owners: ReplicaSetOwners = DEPLOYMENTS,
        registry: CollectorRegistry | None = None,
        budget: float = pod_reviews.BUDGET,
        rng: random.Random | None = None,
        caches: Caches[Any] | None = None,
    ) -> None:
        """`caches` are those of the process; without them, it has its own. `ended`, `outside` and `workload` read
        caches of pods and workloads, where the process has them; `allowed_fields` are the privileged fields that
        patches may change, `defaults` the default constraints, `owners` the kinds that own ReplicaSets."""
        self.topologies = Topologies(
            client, workload=workload, allowed_fields=allowed_fields, owners=owners, rng=rng, caches=caches
        )
        self.batcher = StatusBatcher(
            *(client, self.topologies.get),
            ended=ended,
            outside=outside,
            owners=owners,
            metrics=AdmissionMetrics(registry),
            rng=rng,
        )
        self.topologies.on_deleted(self.batcher.forget)
        self._recorder = Recorder(client, component=COMPONENT, rng=rng)
        self._pods = PodReviews(
            *(self.topologies, self.batcher, client.corrected_clock),
            simulate=simulate,
            report=self._report,
            allowed_fields=allowed_fields,
            defaults=defaults,
            budget=budget,
        )
        self._undecided = UndecidedReports(partial(client.dropped_events.report, COMPONENT))
        self._deletions = DeletionReviews(self.topologies, self.batcher, client.corrected_clock, budget=budget)
        self.hooks: Sequence[Hook] = [
            replace(hook, is_ready=lambda: self.synced) for hook in (*self._pods.hooks, *self._deletions.hooks)
        ]

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled."""
        return self.topologies.synced

    @property
    def problems(self) -> list[str]:
        """The failures of the watches."""
        return self.topologies.problems

    async def run(self) -> None:
        """Keep the caches current, and write events, until cancelled."""
        try:
            await run_together([self._recorder.run()], [self.topologies.run()])
        finally:
            await self._deletions.close()
            await self.batcher.close()

    def report_undecided(self, hook: Hook, request: AdmissionRequest, reason: str, _: ReviewOutcome) -> None:
        """Record an event on the UnitedTopology of a pod that was admitted without a decision."""
        if hook.name == pod_reviews.NAME and request.object is not None:
            self._undecided.submit(request, pod_metadata, partial(self._pods.report_undecided, request, reason))

    def _report(self, about: Object, reason: Reason, message: str) -> None:
        self._recorder.record(about, WARNING, reason, message)
