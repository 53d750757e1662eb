"""The Deployment controller: read, decide, act, report.

It keeps no state between reconciles. Writes that the informers have not shown cannot mislead it: every write is
conditional on the resource version that it was decided on, and the name of the new ReplicaSet follows from its
template, so that it cannot be created twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from trimtab.api import selectors
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, OwnerReference
from trimtab.api.pods import Pod
from trimtab.api.selectors import NOTHING, Selector
from trimtab.kube import ownership
from trimtab.kube.adoption import Adopter
from trimtab.kube.client import Client
from trimtab.kube.errors import AlreadyExists, ApiError, NotFound
from trimtab.kube.events import NORMAL, WARNING, Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, Resource, object_key
from trimtab.kube.runners import Result, Runner, TerminalError
from trimtab.kube.stores import key_of
from trimtab_lab.workloads.deployment import plan as plans
from trimtab_lab.workloads.deployment import progress, templates
from trimtab_lab.workloads.deployment.plan import Change, NewReplicaSet, Plan
from trimtab_lab.workloads.deployment.replicasets import RECREATE
from trimtab_lab.workloads.options import STOCK, Options
from trimtab_lab.workloads.replicaset.controller import BY_CONTROLLER, BY_NAMESPACE

COMPONENT = "deployment-controller"
SCALING = "ScalingReplicaSet"
_DEPLOYMENTS = Resource.of(Deployment)
_SETS = Resource.of(ReplicaSet)


class Controller:
    """Rolls Deployments out."""

    def __init__(
        self,
        client: Client,
        *,
        deployments: Informer[Deployment],
        sets: Informer[ReplicaSet],
        pods: Informer[Pod],
        recorder: Recorder,
        options: Options = STOCK,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._deployments = deployments
        self._sets = sets
        self._pods = pods
        self._recorder = recorder
        self._adopter = Adopter(client, _DEPLOYMENTS, _SETS)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.runner = Runner(
            "deployments",
            self.reconcile,
            self.queue,
            workers=options.deployment_workers,
            after=(deployments, sets, pods),
        )
        deployments.subscribe(added=self._queue, updated=lambda _, new: self._queue(new), deleted=self._queue)
        sets.subscribe(added=self._set_added, updated=self._set_updated, deleted=self._queue_owner)
        pods.subscribe(updated=self._pod_updated, deleted=self._pod_deleted)

    async def reconcile(self, key: Key) -> Result:
        """Take the next step of a Deployment."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return Result()
        if deployment.spec.selector == LabelSelector():
            return await self._refuse(deployment)
        sets = await self._claim(deployment)
        plan = plans.plan(deployment, sets, old_pods=self._occupied(sets), now=self._clock.now())
        if not await self._apply(deployment, plan):
            return Result()
        await self._report(deployment, plans.status_patch(deployment, plan.status, plan.revision))
        return Result(plan.recheck_in)

    # Read.

    async def _claim(self, deployment: Deployment) -> tuple[ReplicaSet, ...]:
        metadata = deployment.metadata
        try:
            selector = selectors.compile(deployment.spec.selector)
        except InvalidError as error:
            raise TerminalError(str(error.under("spec.selector"))) from error
        candidates = self._sets.store.by(BY_NAMESPACE, metadata.namespace)
        return await self._adopter.settle(metadata, ownership.claims(metadata, selector, candidates))

    def _occupied(self, sets: Iterable[ReplicaSet]) -> list[str]:
        """The UIDs of the ReplicaSets that have pods which have not finished, terminating ones included."""
        uids = [each.metadata.uid for each in sets]
        return [uid for uid in uids if any(not pod.finished for pod in self._pods.store.by(BY_CONTROLLER, uid))]

    # Act.

    async def _refuse(self, deployment: Deployment) -> Result:
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self._recorder.record(deployment, WARNING, "SelectingAll", message)
        await self._report(deployment, plans.status_patch(deployment, plans.observed_status(deployment), None))
        return Result()

    async def _apply(self, deployment: Deployment, plan: Plan) -> bool:
        """Write the plan. False if the namespace is terminating, so that nothing can be written."""
        if plan.creation is not None and not await self._create(deployment, plan.creation):
            return False
        for change in plan.changes:
            await self._change(deployment, change)
        for replicaset in plan.expired:
            await self._delete_expired(replicaset)
        return True

    async def _create(self, deployment: Deployment, creation: NewReplicaSet) -> bool:
        try:
            await self._client.create(ReplicaSet, creation.body, namespace=deployment.metadata.namespace)
        except AlreadyExists:
            await self._check_collision(deployment, creation)
            raise
        except ApiError as error:
            if error.is_namespace_terminating:
                return False
            await self._report_failure(deployment, creation, error)
            raise
        if creation.replicas > 0:
            self._record_scaling(deployment, creation.name, 0, creation.replicas)
        return True

    async def _check_collision(self, deployment: Deployment, creation: NewReplicaSet) -> None:
        """Check who has the name: a ReplicaSet of ours that the informer has not shown, or another object."""
        try:
            found = await self._client.get(ReplicaSet, creation.name, namespace=deployment.metadata.namespace)
        except NotFound:
            return
        same = templates.same(found.spec.template, deployment.spec.template)
        if not same or not ownership.is_controlled_by(found, deployment):
            await self._report(deployment, plans.status_patch(deployment, progress.collision_status(deployment), None))

    async def _report_failure(self, deployment: Deployment, creation: NewReplicaSet, error: ApiError) -> None:
        message = f'Failed to create new replica set "{creation.name}": {error.message}'
        self._recorder.record(deployment, WARNING, progress.CREATE_ERROR, message)
        failed = progress.failure_status(deployment, message, self._clock.now())
        await self._report(deployment, plans.status_patch(deployment, failed, None))

    async def _change(self, deployment: Deployment, change: Change) -> None:
        metadata = change.replicaset.metadata
        await self._client.patch(ReplicaSet, metadata.name, change.patch, namespace=metadata.namespace)
        if change.replicas is not None:
            self._record_scaling(deployment, metadata.name, change.replicaset.desired_replicas, change.replicas)

    async def _delete_expired(self, replicaset: ReplicaSet) -> None:
        """Delete an old ReplicaSet, unless it has changed since it was empty: a rollback may use it."""
        metadata = replicaset.metadata
        try:
            await self._client.delete(
                ReplicaSet,
                metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except NotFound:
            return

    def _record_scaling(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {name} from {before} to {after}"
        self._recorder.record(deployment, NORMAL, SCALING, message)

    # Report.

    async def _report(self, deployment: Deployment, patch: dict[str, object] | None) -> None:
        """Write the status, unless the Deployment is gone."""
        if patch is None:
            return
        metadata = deployment.metadata
        with contextlib.suppress(NotFound):
            await self._client.patch(
                Deployment, metadata.name, patch, namespace=metadata.namespace, subresource="status"
            )

    # Event handlers.

    def _queue(self, deployment: Deployment) -> None:
        self.queue.add(key_of(deployment))

    def _set_added(self, replicaset: ReplicaSet) -> None:
        if replicaset.metadata.controller is None:
            self._queue_matching(replicaset)
        else:
            self._queue_owner(replicaset)

    def _set_updated(self, old: ReplicaSet, new: ReplicaSet) -> None:
        before, after = old.metadata.controller, new.metadata.controller
        if before is not None and before != after:
            self._queue_owner_key(old.metadata.namespace, before)
        if after is not None:
            self._queue_owner_key(new.metadata.namespace, after)
        elif before is not None or old.metadata.labels != new.metadata.labels:
            self._queue_matching(new)

    def _queue_owner(self, replicaset: ReplicaSet) -> None:
        owner = replicaset.metadata.controller
        if owner is not None:
            self._queue_owner_key(replicaset.metadata.namespace, owner)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.finished and not old.finished:
            self._pod_deleted(new)

    def _pod_deleted(self, pod: Pod) -> None:
        """Queue a Deployment that recreates its pods: it waits until the old ones are gone."""
        owner = pod.metadata.controller
        if owner is None or owner.kind != _SETS.kind:
            return
        replicaset = self._sets.get(object_key(pod.metadata.namespace, owner.name))
        if replicaset is None or replicaset.metadata.uid != owner.uid or replicaset.metadata.controller is None:
            return
        deployment = self._owner(pod.metadata.namespace, replicaset.metadata.controller)
        if deployment is not None and deployment.spec.strategy.type == RECREATE:
            self.queue.add(key_of(deployment))

    def _queue_owner_key(self, namespace: str, owner: OwnerReference) -> None:
        deployment = self._owner(namespace, owner)
        if deployment is not None:
            self.queue.add(key_of(deployment))

    def _queue_matching(self, replicaset: ReplicaSet) -> None:
        """Queue the Deployments that may adopt a ReplicaSet."""
        for deployment in self._deployments.store.by(BY_NAMESPACE, replicaset.metadata.namespace):
            selector = _selector(deployment)
            if not selector.empty and selector.matches(replicaset.metadata.labels):
                self.queue.add(key_of(deployment))

    def _owner(self, namespace: str, owner: OwnerReference) -> Deployment | None:
        if owner.kind != _DEPLOYMENTS.kind:
            return None
        found = self._deployments.get(object_key(namespace, owner.name))
        return found if found is not None and found.metadata.uid == owner.uid else None


def _selector(deployment: Deployment) -> Selector:
    try:
        return selectors.compile(deployment.spec.selector)
    except InvalidError:
        return NOTHING
