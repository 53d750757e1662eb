"""The controller of disruption budgets: read, decide, act, report."""

from __future__ import annotations

import contextlib

from trimtab.api import codec, selectors
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels, OwnerReference
from trimtab.api.pods import Pod, PodTemplateSpec
from trimtab.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.api.selectors import NOTHING, Selector
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, Conflict, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.runners import Result, Runner
from trimtab.kube.stores import key_of
from trimtab.snapshot import Snapshot
from trimtab_lab.workloads.disruption import budgets
from trimtab_lab.workloads.disruption.budgets import Decision, Owner, SelectedPods
from trimtab_lab.workloads.disruption.owners import Owners, UncountableError
from trimtab_lab.workloads.replicaset.controller import BY_NAMESPACE

COMPONENT = "controllermanager"
_UNCOUNTABLE_RETRY = 60.0
"""Seconds until a budget that cannot be counted is requeued: its kind may be served by then."""
_UNMANAGED = (
    "Some of the selected pods have no controller, so they are not counted as expected. Set spec.minAvailable to a "
    "whole number to count them."
)


class Controller:
    """Keeps the status of disruption budgets."""

    def __init__(
        self,
        client: Client,
        *,
        budgets: Informer[PodDisruptionBudget],
        pods: Informer[Pod],
        deployments: Informer[Deployment],
        sets: Informer[ReplicaSet],
        owners: Owners,
        snapshot: Snapshot,
        recorder: Recorder,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._budgets = budgets
        self._owners = owners
        self._snapshot = snapshot
        self._recorder = recorder
        self._selectors: dict[Key, Selector] = {}
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            "poddisruptionbudgets", self.reconcile, self.queue, after=(budgets, pods, deployments, sets)
        )
        budgets.subscribe(added=self._queue, updated=lambda _, new: self._queue(new), deleted=self._deleted)
        pods.subscribe(added=self._pod_changed, updated=self._pod_updated, deleted=self._pod_changed)
        for informer in (deployments, sets):
            informer.subscribe(updated=self._resized)

    async def reconcile(self, key: Key) -> Result:
        """Compute the status of a budget."""
        budget = self._budgets.get(key)
        if budget is None:
            return Result()
        try:
            decision = await self._decide(budget)
            await self._report(budget, decision.status)
            self._record_event(budget, decision)
        except Conflict:
            raise
        except (ApiError, InvalidError, UncountableError) as error:
            return await self._fail(budget, error)
        return Result(decision.recheck_in)

    # Read and decide.

    async def _decide(self, budget: PodDisruptionBudget) -> Decision:
        selector = selectors.compile(budget.spec.selector)
        owners = await self._owners_of(budget, selector) if budgets.counts_owners(budget) else []
        selected = self._selected(budget, selector)
        if not selected.pods:
            self._recorder.record(budget, NORMAL, "NoPods", "No matching pods found")
        return budgets.decide(budget, selected, owners, self._clock.now())

    def _selected(self, budget: PodDisruptionBudget, selector: Selector) -> SelectedPods:
        table, namespace = self._snapshot.pods, budget.metadata.namespace
        rows = table.matching(namespace, selector)
        disrupted = (self._snapshot.pod(f"{namespace}/{name}") for name in budget.status.disrupted_pods)
        return SelectedPods(
            pods=len(rows),
            healthy=int((table.ready[rows] & ~table.terminating[rows]).sum()),
            disrupted_pods=tuple(pod for pod in disrupted if pod is not None and selector.matches(pod.metadata.labels)),
        )

    async def _owners_of(self, budget: PodDisruptionBudget, selector: Selector) -> list[Owner]:
        """The owners of all pods that have one; an event reports pods without."""
        table = self._snapshot.pods
        rows = table.matching(budget.metadata.namespace, selector)
        one_each = dict(zip(table.owner[rows].tolist(), rows.tolist(), strict=True))
        found = [table.objects[row] for row in one_each.values()]
        references = [(pod.metadata.controller, pod) for pod in found if pod is not None]
        owners = [await self._owner(reference, pod) for reference, pod in references if reference is not None]
        if any(reference is None for reference, _ in references):
            self._recorder.record(budget, WARNING, "UnmanagedPods", _UNMANAGED)
        return owners

    async def _owner(self, reference: OwnerReference, pod: Pod) -> Owner:
        found = await self._owners.find(reference, pod.metadata.namespace)
        if found is None:
            raise UncountableError(f'found no controllers for pod "{pod.metadata.name}"')
        return found

    # Act and report.

    def _record_event(self, budget: PodDisruptionBudget, decision: Decision) -> None:
        for pod in decision.not_deleted:
            message = f"Pod was expected by PDB {key_of(budget)} to be deleted but it wasn't"
            self._recorder.record(pod, WARNING, "NotDeleted", message)

    async def _report(self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> None:
        """Write the status, unless the budget is gone."""
        patch = budgets.status_patch(budget, status)
        if patch is None:
            return
        metadata = budget.metadata
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PodDisruptionBudget, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )

    async def _fail(self, budget: PodDisruptionBudget, error: Exception) -> Result:
        """Allow no disruptions, and retry."""
        reason_text = error.message if isinstance(error, ApiError) else str(error)
        message = f"Failed to calculate the number of expected pods: {reason_text}"
        self._recorder.record(budget, WARNING, "CalculateExpectedPodCountFailed", message)
        await self._report(budget, budgets.failed(budget, reason_text, self._clock.now()))
        if isinstance(error, ApiError):
            raise error
        return Result(_UNCOUNTABLE_RETRY)

    # Event handlers.

    def _queue(self, budget: PodDisruptionBudget) -> None:
        try:
            self._selectors[key_of(budget)] = selectors.compile(budget.spec.selector)
        except InvalidError:
            self._selectors[key_of(budget)] = NOTHING
        self.queue.add(key_of(budget))

    def _deleted(self, budget: PodDisruptionBudget) -> None:
        self._selectors.pop(key_of(budget), None)

    def _pod_changed(self, pod: Pod) -> None:
        self._queue_owner_key(pod.metadata.namespace, pod.metadata.labels)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        self._pod_changed(new)
        if old.metadata.labels != new.metadata.labels:
            self._pod_changed(old)

    def _resized(self, old: Deployment | ReplicaSet, new: Deployment | ReplicaSet) -> None:
        """Queue budgets when an owner is resized: its pods may have been seen before that."""
        if old.spec.replicas != new.spec.replicas and new.spec.template is not None:
            template = codec.view(new.spec.template, PodTemplateSpec)
            self._queue_owner_key(new.metadata.namespace, template.metadata.labels)

    def _queue_owner_key(self, namespace: str, labels: Labels) -> None:
        for budget in self._budgets.store.by(BY_NAMESPACE, namespace):
            key = key_of(budget)
            if self._selectors.get(key, NOTHING).matches(labels):
                self.queue.add(key)
