"""The hooks of UnitedTopologies together: what they share, and what keeps them up to date.

    subsets = Subsets(client, simulate=simulation, ended=view.ended, registry=registry)
    AdmissionServer([*subsets.hooks], …, on_skip=subsets.let_go)     and beside it     subsets.run()

Every process that answers has its own; they meet in the status of the UnitedTopology alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from trimtab.admission.server import Hook
from trimtab.api.admission import AdmissionRequest
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.events import WARNING, Recorder
from trimtab.kube.stores import Object
from trimtab.unitedtopology.admission import pod_reviews
from trimtab.unitedtopology.admission.deletion_reviews import DeletionReviews
from trimtab.unitedtopology.admission.pod_reviews import PodReviews, Simulate
from trimtab.unitedtopology.admission.status_batcher import Ended, RoundMetrics, Rounds, nobody_ended
from trimtab.unitedtopology.admission.topologies import Topologies

COMPONENT = "trimtab-pods"


class Subsets:
    """Pods that come and go, for UnitedTopologies; a component of `app` beside the edge."""

    def __init__(
        self,
        client: Client,
        *,
        simulate: Simulate | None = None,
        ended: Ended = nobody_ended,
        registry: CollectorRegistry | None = None,
        budget: float = pod_reviews.BUDGET,
        rng: random.Random | None = None,
    ) -> None:
        self.topologies = Topologies(client, rng=rng)
        self.rounds = Rounds(client, self.topologies.get, ended=ended, metrics=RoundMetrics(registry), rng=rng)
        self.topologies.tell_gone(self.rounds.forget)
        self._recorder = Recorder(client, component=COMPONENT, rng=rng)
        self._pods = PodReviews(
            self.topologies, self.rounds, client.clock, simulate=simulate, tell=self._told, budget=budget
        )
        self._deletions = DeletionReviews(self.topologies, self.rounds, client.clock, budget=budget)
        self.hooks: Sequence[Hook] = (*self._pods.hooks, *self._deletions.hooks)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return self.topologies.synced

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is."""
        return self.topologies.problems

    async def run(self) -> None:
        """Keep up with the cluster until cancelled."""
        tasks = [asyncio.ensure_future(each) for each in (self.topologies.run(), self._recorder.run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel(*tasks)
            await self._deletions.close()
            await self.rounds.close()

    def let_go(self, hook: Hook, request: AdmissionRequest, reason: str) -> None:
        """The edge admitted a request without a decision; the event is about the UnitedTopology."""
        if hook.name == pod_reviews.NAME:
            self._pods.let_go(request, reason)

    def _told(self, about: Object, reason: str, message: str) -> None:
        self._recorder.record(about, WARNING, reason, message)
