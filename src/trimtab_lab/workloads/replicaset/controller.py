"""The ReplicaSet controller: read, decide, act, report.

What it has done and not seen yet it knows from expectations (see `trimtab.kube.expectations`): while they are open it
reports, but makes and deletes nothing. Pods that were made and have failed since are seen as events, so the
expectations are lowered by events, in the handlers below.
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
from trimtab_lab.workloads.replicaset import census, replicas, victims
from trimtab_lab.workloads.replicaset.census import Census
from trimtab_lab.workloads.replicaset.families import Family
from trimtab_lab.workloads.replicaset.metrics import Metrics
from trimtab_lab.workloads.replicaset.pods import PodKeeper

T = TypeVar("T", bound=Object)

BY_CONTROLLER = "controller"
BY_NAMESPACE = "namespace"
"""Indexes that the informers of workloads must have: by their controller's UID, and by namespace."""


class Controller(Generic[T]):
    """Keeps the number of pods of one family of workloads."""

    def __init__(
        self,
        family: Family[T],
        client: Client,
        *,
        workloads: Informer[T],
        pods: Informer[Pod],
        snapshot: Snapshot,
        recorder: Recorder,
        metrics: Metrics,
        options: Options = STOCK,
    ) -> None:
        self.family = family
        self._client = client
        self._clock = client.clock
        self._workloads = workloads
        self._snapshot = snapshot
        self._metrics = metrics
        self._options = options
        self._expectations: Expectations[Key] = Expectations(client.clock)
        self._adopter = Adopter(client, family.resource, Resource.of(Pod))
        self._keeper = PodKeeper(client, recorder, family.resource)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            family.resource.plural,
            self.reconcile,
            self.queue,
            workers=options.replicaset_workers,
            after=(workloads, pods),
        )
        workloads.subscribe(added=self._seen, updated=lambda _, new: self._seen(new), deleted=self._gone)
        pods.subscribe(added=self._pod_added, updated=self._pod_updated, deleted=self._pod_gone)

    async def reconcile(self, a_key: Key) -> Result:
        """Bring the number of a workload's pods in line with what is wanted."""
        replicaset = self._get(a_key)
        if replicaset is None:
            self._expectations.forget(a_key)
            return Result()
        selector = _checked_selector(replicaset)
        adopted = await self._claim(replicaset, selector)
        rows = census.members(self._snapshot.pods, replicaset.metadata, selector, adopted)
        counted = self._count(replicaset, rows)
        failure = await self._act(a_key, replicaset, rows)
        words = None if failure is None else failure.message
        now, terminating = self._clock.now(), self.family.counts_terminating
        await self._report(replicaset, replicas.status(replicaset, counted, words, now, counts_terminating=terminating))
        if failure is not None:
            raise failure
        return Result(replicas.recheck_in(replicaset, counted))

    # Read.

    def _get(self, a_key: Key) -> ReplicaSet | None:
        found = self._workloads.get(a_key)
        return None if found is None else self.family.view(found)

    async def _claim(self, replicaset: ReplicaSet, selector: Selector) -> tuple[Pod, ...]:
        """Adopt and release; what was adopted."""
        metadata = replicaset.metadata
        found = census.misplaced(self._snapshot.pods, metadata, selector)
        return await self._adopter.settle(metadata, ownership.claims(metadata, selector, found))

    def _count(self, replicaset: ReplicaSet, rows: IntColumn) -> Census:
        labels, patience = replicas.template_labels(replicaset), replicaset.spec.min_ready_seconds
        return census.count(self._snapshot.pods, rows, labels, patience, self._clock.now())

    # Decide and act.

    async def _act(self, a_key: Key, replicaset: ReplicaSet, rows: IntColumn) -> ApiError | None:
        """Make or delete pods, if everything done before has been seen; what went wrong.

        Rows hold until the next event: nobody waits between reading them and deciding.
        """
        if replicaset.metadata.deletion_timestamp is not None or not self._expectations.satisfied(a_key):
            return None
        active = census.active(self._snapshot.pods, rows)
        surplus = replicas.surplus(replicaset, len(active), self._options.burst_replicas)
        try:
            if surplus < 0:
                return await self._create(a_key, replicaset, -surplus)
            if surplus > 0:
                return await self._delete(a_key, replicaset, active, surplus)
        except BaseException:
            self._expectations.forget(a_key)  # nobody knows what was done, so nothing can be expected
            raise
        return None

    async def _create(self, a_key: Key, replicaset: ReplicaSet, count: int) -> ApiError | None:
        self._expectations.expect(a_key, creations=count)
        return await self._keeper.create(
            replicaset, count, failed=lambda missing: self._expectations.created(a_key, missing)
        )

    async def _delete(self, a_key: Key, replicaset: ReplicaSet, active: IntColumn, count: int) -> ApiError | None:
        now, order = self._clock.now(), self._options.order
        chosen = victims.choose(self._snapshot.pods, active, self._related(replicaset), count, now, order)
        self._metrics.victims_chosen(chosen.age_ratios)
        self._expectations.expect(a_key, deletions=[pod.metadata.uid for pod in chosen.pods])
        return await self._keeper.delete(
            replicaset, chosen.pods, failed=lambda pod: self._expectations.deleted(a_key, pod.metadata.uid)
        )

    def _related(self, replicaset: ReplicaSet) -> list[IntColumn]:
        """The pods of all workloads of the same owner, by their selectors."""
        owner = replicaset.metadata.controller
        siblings = self._workloads.store.by(BY_CONTROLLER, owner.uid) if owner else []
        found = [_selector(self.family.view(sibling)) for sibling in siblings]
        return [self._snapshot.pods.matching(replicaset.metadata.namespace, selector) for selector in found]

    # Report.

    async def _report(self, replicaset: ReplicaSet, status: ReplicaSetStatus) -> None:
        """What is gone needs no report."""
        if status == replicaset.status:
            return
        metadata = replicaset.metadata
        patch = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "status": replicas.status_tree(status),
        }
        with contextlib.suppress(NotFound):
            await self._client.patch(
                self.family.resource, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )

    # What wakes it.

    def _seen(self, workload: T) -> None:
        self.queue.add(key_of(workload))

    def _gone(self, workload: T) -> None:
        """A successor of the same name starts with nothing expected."""
        self._expectations.forget(key_of(workload))
        self.queue.add(key_of(workload))

    def _pod_added(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if pod.terminating:
            self._pod_gone(pod)
        elif owner is None:
            self._wake_matching(pod)
        elif (a_key := self._owner_key(pod, owner)) is not None:
            self._expectations.created(a_key)
            self.queue.add(a_key)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.terminating:
            self._pod_gone(new)
        before, after = old.metadata.controller, new.metadata.controller
        if before is not None and before != after:
            self._wake(old, before)
        if after is not None:
            self._wake(new, after)
        elif before is not None or old.metadata.labels != new.metadata.labels:
            self._wake_matching(new)

    def _pod_gone(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is not None and (a_key := self._owner_key(pod, owner)) is not None:
            self._expectations.deleted(a_key, pod.metadata.uid)
            self.queue.add(a_key)

    def _wake(self, pod: Pod, owner: OwnerReference) -> None:
        a_key = self._owner_key(pod, owner)
        if a_key is not None:
            self.queue.add(a_key)

    def _wake_matching(self, pod: Pod) -> None:
        """Somebody may want to adopt it."""
        for workload in self._workloads.store.by(BY_NAMESPACE, pod.metadata.namespace):
            selector = _selector(self.family.view(workload))
            if not selector.empty and selector.matches(pod.metadata.labels):
                self.queue.add(key_of(workload))

    def _owner_key(self, pod: Pod, owner: OwnerReference) -> Key | None:
        """The workload that a reference means, if it is of this family and known."""
        if owner.kind != self.family.resource.kind:
            return None
        a_key = object_key(pod.metadata.namespace, owner.name)
        found = self._workloads.get(a_key)
        return a_key if found is not None and found.metadata.uid == owner.uid else None


def _checked_selector(replicaset: ReplicaSet) -> Selector:
    try:
        return selectors.compile(replicaset.spec.selector)
    except InvalidError as error:
        raise TerminalError(str(error.under("spec.selector"))) from error


def _selector(replicaset: ReplicaSet) -> Selector:
    """Which pods another workload is to have: none, where its selector makes no sense."""
    try:
        return selectors.compile(replicaset.spec.selector)
    except InvalidError:
        return NOTHING
