"""The ReplicaSet controller: read, decide, act, report.

Expectations (see `trimtab.kube.expectations`) count the writes that the informers have not shown: while they are open
it reports, but creates and deletes nothing. A pod that was created and has failed since is still seen as an event, so
the handlers below lower the expectations by events.
"""

from __future__ import annotations

import contextlib
from typing import Generic, TypeVar

from trimtab.api import selectors
from trimtab.api.apps import ReplicaSet, ReplicaSetStatus
from trimtab.api.errors import InvalidError
from trimtab.api.meta import OwnerReference
from trimtab.api.pods import Pod
from trimtab.api.selectors import NOTHING, Selector
from trimtab.kube import ownership
from trimtab.kube.adoption import Adopter
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, NotFound
from trimtab.kube.events import Recorder
from trimtab.kube.expectations import Expectations
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, Resource, object_key
from trimtab.kube.runners import Result, Runner, TerminalError
from trimtab.kube.stores import Object, key_of
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.replicaset import podcounts, replicas, victims
from trimtab_lab.workloads.replicaset.kinds import WorkloadKind
from trimtab_lab.workloads.replicaset.metrics import Metrics
from trimtab_lab.workloads.replicaset.podcontrol import PodControl
from trimtab_lab.workloads.replicaset.podcounts import PodCounts

T = TypeVar("T", bound=Object)

BY_CONTROLLER = "controller"
BY_NAMESPACE = "namespace"
"""Indexes that the informers of workloads must have: by the UID of their controller, and by namespace."""


class Controller(Generic[T]):
    """Keeps the number of pods of one kind of workload."""

    def __init__(
        self,
        kind: WorkloadKind[T],
        client: Client,
        *,
        workloads: Informer[T],
        pods: Informer[Pod],
        snapshot: Snapshot,
        recorder: Recorder,
        metrics: Metrics,
        options: Options = STOCK,
    ) -> None:
        self.kind = kind
        self._client = client
        self._clock = client.clock
        self._workloads = workloads
        self._snapshot = snapshot
        self._metrics = metrics
        self._options = options
        self._expectations: Expectations[Key] = Expectations(client.clock)
        self._adopter = Adopter(client, kind.resource, Resource.of(Pod))
        self._pod_control = PodControl(client, recorder, metrics, kind.resource)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            kind.resource.plural,
            self.reconcile,
            self.queue,
            workers=options.replicaset_workers,
            after=(workloads, pods),
        )
        workloads.subscribe(added=self._queue, updated=lambda _, new: self._queue(new), deleted=self._deleted)
        pods.subscribe(added=self._pod_added, updated=self._pod_updated, deleted=self._pod_deleted)

    async def reconcile(self, key: Key) -> Result:
        """Create or delete pods until a workload has the desired number."""
        replicaset = self._get(key)
        if replicaset is None:
            self._expectations.forget(key)
            return Result()
        selector = _checked_selector(replicaset)
        adopted = await self._claim(replicaset, selector)
        rows = podcounts.owned_rows(self._snapshot.pods, replicaset.metadata, selector, adopted)
        counts = self._count(replicaset, rows)
        failure = await self._act(key, replicaset, rows)
        message = None if failure is None else failure.message
        now, terminating = self._clock.now(), self.kind.counts_terminating
        await self._report(
            replicaset, replicas.status(replicaset, counts, message, now, counts_terminating=terminating)
        )
        if failure is not None:
            raise failure
        return Result(replicas.recheck_in(replicaset, counts))

    # Read.

    def _get(self, key: Key) -> ReplicaSet | None:
        found = self._workloads.get(key)
        return None if found is None else self.kind.view(found)

    async def _claim(self, replicaset: ReplicaSet, selector: Selector) -> tuple[Pod, ...]:
        """Adopt and release pods; returns the adopted ones."""
        metadata = replicaset.metadata
        found = podcounts.claim_candidates(self._snapshot.pods, metadata, selector)
        return await self._adopter.settle(metadata, ownership.claims(metadata, selector, found))

    def _count(self, replicaset: ReplicaSet, rows: IntColumn) -> PodCounts:
        labels, min_ready_seconds = replicas.template_labels(replicaset), replicaset.spec.min_ready_seconds
        return podcounts.count(self._snapshot.pods, rows, labels, min_ready_seconds, self._clock.now())

    # Decide and act.

    async def _act(self, key: Key, replicaset: ReplicaSet, rows: IntColumn) -> ApiError | None:
        """Create or delete pods, if all earlier writes have been seen; returns the first error.

        Rows are valid until the next event: nothing is awaited between reading them and deciding.
        """
        if replicaset.metadata.deletion_timestamp is not None or not self._expectations.satisfied(key):
            return None
        active = podcounts.active(self._snapshot.pods, rows)
        surplus = replicas.surplus(replicaset, len(active), self._options.burst_replicas)
        try:
            if surplus < 0:
                return await self._create(key, replicaset, -surplus)
            if surplus > 0:
                return await self._delete(key, replicaset, active, surplus)
        except BaseException:
            self._expectations.forget(key)  # what was written is not known, so nothing can be expected
            raise
        return None

    async def _create(self, key: Key, replicaset: ReplicaSet, count: int) -> ApiError | None:
        self._expectations.expect(key, creations=count)
        return await self._pod_control.create(
            replicaset, count, failed=lambda missing: self._expectations.created(key, missing)
        )

    async def _delete(self, key: Key, replicaset: ReplicaSet, active: IntColumn, count: int) -> ApiError | None:
        now, order = self._clock.now(), self._options.order
        chosen = victims.choose(self._snapshot.pods, active, self._related(replicaset), count, now, order)
        self._metrics.victims_chosen(chosen.age_ratios)
        self._expectations.expect(key, deletions=[pod.metadata.uid for pod in chosen.pods])
        return await self._pod_control.delete(
            replicaset, chosen.pods, failed=lambda pod: self._expectations.deleted(key, pod.metadata.uid)
        )

    def _related(self, replicaset: ReplicaSet) -> list[IntColumn]:
        """The pods of all workloads of the same owner, by their selectors."""
        owner = replicaset.metadata.controller
        siblings = self._workloads.store.by(BY_CONTROLLER, owner.uid) if owner else []
        found = [_selector(self.kind.view(sibling)) for sibling in siblings]
        return [self._snapshot.pods.matching(replicaset.metadata.namespace, selector) for selector in found]

    # Report.

    async def _report(self, replicaset: ReplicaSet, status: ReplicaSetStatus) -> None:
        """Write the status, unless the workload is gone."""
        if status == replicaset.status:
            return
        metadata = replicaset.metadata
        patch = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "status": replicas.status_tree(status),
        }
        with contextlib.suppress(NotFound):
            await self._client.patch(
                self.kind.resource, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )

    # Event handlers.

    def _queue(self, workload: T) -> None:
        self.queue.add(key_of(workload))

    def _deleted(self, workload: T) -> None:
        """Forget the expectations: a successor with the same name starts without any."""
        self._expectations.forget(key_of(workload))
        self.queue.add(key_of(workload))

    def _pod_added(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if pod.terminating:
            self._pod_deleted(pod)
        elif owner is None:
            self._queue_matching(pod)
        elif (key := self._owner_key(pod, owner)) is not None:
            self._expectations.created(key)
            self.queue.add(key)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.terminating:
            self._pod_deleted(new)
        before, after = old.metadata.controller, new.metadata.controller
        if before is not None and before != after:
            self._queue_owner_key(old, before)
        if after is not None:
            self._queue_owner_key(new, after)
        elif before is not None or old.metadata.labels != new.metadata.labels:
            self._queue_matching(new)

    def _pod_deleted(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is not None and (key := self._owner_key(pod, owner)) is not None:
            self._expectations.deleted(key, pod.metadata.uid)
            self.queue.add(key)

    def _queue_owner_key(self, pod: Pod, owner: OwnerReference) -> None:
        key = self._owner_key(pod, owner)
        if key is not None:
            self.queue.add(key)

    def _queue_matching(self, pod: Pod) -> None:
        """Queue the workloads that may adopt a pod."""
        for workload in self._workloads.store.by(BY_NAMESPACE, pod.metadata.namespace):
            selector = _selector(self.kind.view(workload))
            if not selector.empty and selector.matches(pod.metadata.labels):
                self.queue.add(key_of(workload))

    def _owner_key(self, pod: Pod, owner: OwnerReference) -> Key | None:
        """The workload of an owner reference, if it is of this kind and known."""
        if owner.kind != self.kind.resource.kind:
            return None
        key = object_key(pod.metadata.namespace, owner.name)
        found = self._workloads.get(key)
        return key if found is not None and found.metadata.uid == owner.uid else None


def _checked_selector(replicaset: ReplicaSet) -> Selector:
    try:
        return selectors.compile(replicaset.spec.selector)
    except InvalidError as error:
        raise TerminalError(str(error.under("spec.selector"))) from error


def _selector(replicaset: ReplicaSet) -> Selector:
    """The selector of a workload; one that matches nothing if it is invalid."""
    try:
        return selectors.compile(replicaset.spec.selector)
    except InvalidError:
        return NOTHING
