"""The UnitedTopology controller: observe, decide, act, report.

    view → recount → one conditional write of the status → annotations and costs on pods → rescheduling → returns

The status is written before the pods are: a pod's annotation says that it is counted, so it must be counted first.

**No finalizers.** A UnitedTopology that is deleted is gone at once. What it wrote to pods is found by its annotations,
at any time and by any process, and reverted; the pods themselves are left alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.api.annotations import AIMED_SIZE, SubsetAnnotations
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology, UnitedTopologyStatus
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.components import run_together
from trimtab.kube.errors import NotFound
from trimtab.kube.events import Recorder
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, split
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import key_of
from trimtab.ranking.costs import Band
from trimtab.subsets.members import Member
from trimtab.unitedtopology import costs, levels
from trimtab.unitedtopology.controller.counting import CountedTopology, OnIgnored, StatusCounter, soonest
from trimtab.unitedtopology.controller.namespace_labels import NamespaceLabeller
from trimtab.unitedtopology.controller.rescheduling import Rescheduler
from trimtab.unitedtopology.controller.returning import Returner
from trimtab.unitedtopology.controller.triggers import Triggers
from trimtab.unitedtopology.costs import Change
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.pod_annotator import PodAnnotator
from trimtab.unitedtopology.readiness import Readiness, evaluator
from trimtab.unitedtopology.slices import Slices
from trimtab.unitedtopology.targets import Target
from trimtab.unitedtopology.validation import BackgroundValidation, validate_large
from trimtab.unitedtopology.view import View

COMPONENT = "trimtab-unitedtopology"
_STALE_SECONDS = 0.5
"""After how long a UnitedTopology is requeued because a cache was too old."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the controller."""

    pod_webhook: bool = True
    """The feature gate PodWebhook: without it no UnitedTopology is in effect."""
    autoscaler_seconds: float = 300.0
    """How long to wait for an autoscaler that adds a node, before a pod is rescheduled."""
    workers: int = 4
    namespaces: frozenset[str] = frozenset()
    """The namespaces to manage; all, where empty."""
    allowed_fields: tuple[str, ...] = ()
    """The privileged fields that patches may change."""
    owners: ReplicaSetOwners = DEPLOYMENTS
    """The kinds that own ReplicaSets."""


SETTINGS = Settings()


class Controller:
    """Reconciles all UnitedTopologies of a cluster; a component of `app`."""

    def __init__(
        self,
        client: Client,
        settings: Settings = SETTINGS,
        *,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
        caches: Caches[Any] | None = None,
        on_ignored: OnIgnored | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.view = View(client, owners=settings.owners, rng=rng, caches=caches)
        self._client = client
        self._clock = client.corrected_clock
        self._evaluate = evaluator(
            pod_webhook=settings.pod_webhook, allowed_fields=settings.allowed_fields, owners=settings.owners
        )
        validation = BackgroundValidation(
            self.view.topologies, allowed_fields=settings.allowed_fields, owners=settings.owners
        )
        self.levels = levels.Levels(self.view, evaluate=self._evaluate, validation=validation)
        self._annotator = PodAnnotator(client, self.metrics)
        self._recorder = Recorder(client, component=COMPONENT, rng=rng)
        self._counter = StatusCounter(client, self.view, self.metrics, self._recorder, on_ignored)
        self._rescheduler = Rescheduler(
            client, self._counter, self.metrics, self._recorder, autoscaler_seconds=settings.autoscaler_seconds
        )
        self._returner = Returner(
            *(client, self.view, self._counter, self.metrics, self._recorder), allowed_fields=settings.allowed_fields
        )
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            "unitedtopologies", self.reconcile, self.queue, workers=settings.workers, after=self.view.required
        )
        self._labeller = NamespaceLabeller(
            client, self.view, pod_webhook=settings.pod_webhook, namespaces=settings.namespaces
        )
        self.metrics.watch_topologies(lambda: len(self.view.topologies.store))
        self._triggers = Triggers(self.view, self.queue)

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled."""
        return self.view.synced

    @property
    def problems(self) -> list[str]:
        """The failures of the watches."""
        return self.view.problems

    async def run(self) -> None:
        """Reconcile until cancelled."""
        runners = (self.runner, self._labeller.runner)
        await run_together((each.run() for each in runners), [self._recorder.run()], [self.view.run()])

    # Reconcile.

    async def reconcile(self, key: Key) -> Result:
        """Recount the pods of a UnitedTopology, write its status, annotate and reschedule pods."""
        topology = self.view.topologies.get(key)
        if not self._is_managed(key):
            return Result()
        if topology is None:
            return await self._revert_deleted(key)
        if topology.metadata.deletion_timestamp is not None:  # a finalizer of another component holds it
            return await self._revert(self.view.annotated_pods(key))
        if not self.view.is_known(topology.spec.target_ref.kind):
            return Result(_STALE_SECONDS)
        await validate_large(topology, allowed_fields=self.settings.allowed_fields, owners=self.settings.owners)
        readiness = self._evaluate(topology, self.view)
        if not readiness.is_effective:
            return await self._disable(topology, readiness)
        nodes_seen = self._triggers.nodes_seen
        counted = await self._counter.count(topology, readiness)
        if counted is None:
            return Result(_STALE_SECONDS)
        self._triggers.wait_for_nodes(key, counted.members, counted.pods, since=nodes_seen)
        slices = Slices(self._clock)
        if counted.target is not None:  # without its size, percentages and so levels are unknown
            await self._annotate(counted, counted.target)
        await slices.pause()
        rescheduled = await self._rescheduler.run(counted)
        await slices.pause()
        wait = soonest(rescheduled, await self._returner.run(counted))
        await slices.pause()
        await self._revert(self.view.former_pods(counted.topology, counted.target))
        return Result(soonest(counted.recheck, wait, self._size_expires_in(counted)))

    def _is_managed(self, key: Key) -> bool:
        return not self.settings.namespaces or split(key)[0] in self.settings.namespaces

    async def _revert_deleted(self, key: Key) -> Result:
        """Revert what is left of a UnitedTopology that is gone. Pods may be cached before the UnitedTopology that they
        are annotated with; so that is read uncached."""
        pods = self.view.annotated_pods(key)
        self._counter.forget(key)
        self._triggers.forget(key)
        if not pods:
            return Result()
        namespace, name = split(key)
        try:
            await self._client.get(UnitedTopology, name, namespace=namespace)
        except NotFound:
            return await self._revert(pods)
        return Result(_STALE_SECONDS)

    async def _disable(self, topology: UnitedTopology, readiness: Readiness) -> Result:
        """Report why a UnitedTopology is not in effect; revert its pods, unless a corrected spec may need them."""
        status = topology.status
        if readiness.must_revert:
            await self._revert(self.view.annotated_pods(key_of(topology)))
            status = UnitedTopologyStatus(conditions=status.conditions, counted_version=status.counted_version)
        await self._counter.clear(topology, status, readiness)
        return Result()

    async def _revert(self, pods: Sequence[Pod]) -> Result:
        """Remove what was written to pods that no UnitedTopology applies to any more."""
        active = [pod for pod in pods if not pod.terminating]
        await self._annotator.write([(pod, costs.revert_change(pod)) for pod in active], reason="revert")
        return Result()

    # Pods.

    async def _annotate(self, counted: CountedTopology, target: Target) -> None:
        """Annotate pods that were matched, and write the costs of all: after the status that counts them."""
        topology = counted.topology
        bands = levels.bands(topology, counted.members, replicas=target.replicas, revision=target.revision)
        changes: list[tuple[Pod, Change]] = []
        slices = Slices(self._clock)
        for pod, member in zip(counted.pods, counted.members, strict=True):
            await slices.pause()
            if member.active:
                band = bands.get(member.name)
                changes.append((pod, self._subset_change(pod, member, topology) | self._cost_change(pod, band)))
        await self._annotator.write(changes, reason="reconcile")

    def _subset_change(self, pod: Pod, member: Member, topology: UnitedTopology) -> Change:
        if not member.is_matched:
            return {}
        return costs.subset_change(
            pod.metadata.annotations, SubsetAnnotations(topology.metadata.name, member.subset, member.reservation)
        )

    def _cost_change(self, pod: Pod, band: Band | None) -> Change:
        """The change of a cost, unless it was written ahead of a scale-down and has not expired."""
        annotations = pod.metadata.annotations
        size = costs.target_size(annotations)
        if size is not None and size.until > self._clock.now() // SECOND:
            return {}
        expired: Change = {AIMED_SIZE: None} if AIMED_SIZE in annotations else {}
        return costs.cost_change(annotations, band) | expired

    def _size_expires_in(self, counted: CountedTopology) -> float | None:
        """In how many seconds a cost that was written ahead of a scale-down expires."""
        now = self._clock.now() // SECOND  # whole seconds, as in the annotation: a wait is never too short
        sizes = (costs.target_size(pod.metadata.annotations) for pod in counted.pods)
        return min((size.until - now for size in sizes if size is not None and size.until > now), default=None)
