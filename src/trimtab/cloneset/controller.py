"""The CloneSet controller: what runs, and what queues a CloneSet.

`Controller` watches which controller the kind CloneSet belongs to. While it is Trimtab's, a `Service` runs; if it is
OpenKruise's or not served, none does, and the log and an event on the definition say so. Each run has a new service:
the kind may have been deleted and created meanwhile.

Permissions: list and watch `customresourcedefinitions`, `clonesets`, `pods`, `nodes`, `controllerrevisions` and, with
the feature gate, `podgroupcosts`; create, patch and delete `pods` and `controllerrevisions`; get `pods`, `clonesets`
and `controllerrevisions`; patch `clonesets/status`; create and patch `events`; for the admission plugin
OwnerReferencesPermissionEnforcement, update `clonesets/finalizers`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset import kind_owner
from trimtab.cloneset.conflicts import selector_of
from trimtab.cloneset.decisions import PolicyOf
from trimtab.cloneset.kind_owner import DEFINITION, GROUP_COSTS, KindOwner
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.reconciler import Reconciler
from trimtab.cloneset.settings import SETTINGS, Settings
from trimtab.cloneset.view import View, owner_key
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup, run_together
from trimtab.kube.events import NORMAL, Recorder
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.runners import Runner
from trimtab.kube.stores import key_of
from trimtab.snapshot import MIRRORED, Snapshot

COMPONENT = "trimtab-cloneset"

log = logging.getLogger(__name__)


def _no_policy(_: CloneSet) -> ScaleDownPolicySpec | None:
    return None


@dataclass(frozen=True, slots=True)
class _Mode:
    """What the cluster serves, as far as it decides what has to run."""

    owner: KindOwner
    group_costs: bool = False


class Controller:
    """Manages CloneSets while the kind is Trimtab's."""

    def __init__(
        self,
        client: Client,
        settings: Settings = SETTINGS,
        *,
        metrics: Metrics | None = None,
        policy_of: PolicyOf = _no_policy,
        rng: random.Random | None = None,
        caches: Caches[Snapshot] | None = None,
    ) -> None:
        """`caches` are those of the process; without them, it has its own."""
        self._client = client
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._policy_of = policy_of
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self._recorder = Recorder(client, component=COMPONENT, rng=self._rng)
        self._caches = caches or Caches(client, Snapshot(), MIRRORED, rng=self._rng)
        self._definitions = self._caches.open(CustomResourceDefinition)
        self._watched = CacheGroup((self._definitions,))
        self._changed = asyncio.Event()
        self.service: Service | None = None
        self._definitions.subscribe(
            added=lambda _: self._changed.set(),
            updated=lambda _, __: self._changed.set(),
            deleted=lambda _: self._changed.set(),
        )

    @property
    def owner(self) -> KindOwner:
        """Which controller the CloneSets of this cluster belong to."""
        return kind_owner.kind_owner(self._definitions.get(Key(DEFINITION)))

    @property
    def synced(self) -> bool:
        """Whether all caches are filled, or none is needed."""
        if not self._definitions.synced:
            return False
        return self.owner is not KindOwner.TRIMTAB or (self.service is not None and self.service.view.synced)

    @property
    def problems(self) -> list[str]:
        """Why caches are outdated. Leaving CloneSets to OpenKruise is no problem."""
        return [*self._watched.problems, *(self.service.view.problems if self.service else ())]

    async def run(self) -> None:
        """Manage CloneSets while the kind is Trimtab's, until cancelled."""
        await run_together([self._manage()], [self._recorder.run()], [self._definitions.run()])

    async def _manage(self) -> None:
        await self._definitions.wait_synced()
        while True:
            self._changed.clear()
            await self._run_as(self._mode())

    def _mode(self) -> _Mode:
        costs = self._definitions.get(Key(GROUP_COSTS))
        served = costs is not None and kind_owner.is_served(costs)
        return _Mode(self.owner, self._settings.pod_cost and served)

    async def _run_as(self, mode: _Mode) -> None:
        """Run in a mode until it changes."""
        self._report(mode.owner)
        ours = mode.owner is KindOwner.TRIMTAB
        self._metrics.active.set(ours)
        if not ours:
            await self._until_mode_changes(mode)
            return
        caches = self._caches.scope()
        view = View(caches, with_costs=mode.group_costs)
        self.service = Service(self._client, self._settings, self._metrics, self._policy_of, view, self._rng)
        try:
            await run_together([self.service.run(), self._until_mode_changes(mode)])
        finally:
            caches.close()
            self.service = None

    async def _until_mode_changes(self, mode: _Mode) -> None:
        while self._mode() == mode:
            await self._changed.wait()
            self._changed.clear()

    def _report(self, owner: KindOwner) -> None:
        log.info("%s", owner.value)
        definition = self._definitions.get(Key(DEFINITION))
        if definition is not None and owner is KindOwner.OTHER:
            self._recorder.record(definition, NORMAL, Reason.NOT_MANAGED, owner.value)


class Service:
    """One run of the controller: caches, a queue, workers."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        policy_of: PolicyOf,
        view: View,
        rng: random.Random,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self.view = view
        self.recorder = Recorder(client, component=COMPONENT, rng=rng)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.reconciler = Reconciler(
            client,
            self.view,
            recorder=self.recorder,
            metrics=metrics,
            settings=settings,
            policy_of=policy_of,
            requeue=self.queue.add_after,
        )
        self.runner = Runner(
            "clonesets",
            self.reconciler.reconcile,
            self.queue,
            workers=settings.workers,
            after=self.view.caches,
            observe=self._count_failure,
        )
        self._subscribe()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await run_together([self.runner.run()], [self.recorder.run()], [self.view.run()])

    def _count_failure(self, _: Key, error: BaseException | None) -> None:
        if error is not None:
            self._metrics.failures.inc()

    # What queues a CloneSet.

    def _subscribe(self) -> None:
        view = self.view
        view.clonesets.subscribe(
            added=self._cloneset_added, updated=self._cloneset_updated, deleted=self._cloneset_deleted
        )
        view.pods.subscribe(added=self._pod_added, updated=self._pod_updated, deleted=self._pod_deleted)
        if view.costs is not None:
            view.costs.subscribe(
                added=self._costs_changed, updated=lambda _, new: self._costs_changed(new), deleted=self._costs_changed
            )

    def _enqueue(self, *keys: Key | None) -> None:
        for key in keys:
            if key is not None and self._is_in_scope(key):
                self.queue.add(key)

    def _is_in_scope(self, key: Key) -> bool:
        namespaces = self._settings.namespaces
        return not namespaces or key.partition("/")[0] in namespaces

    def _cloneset_added(self, cloneset: CloneSet) -> None:
        """Queue a CloneSet and its neighbours, whose selectors it may overlap."""
        self._enqueue(*(key_of(each) for each in self._neighbours(cloneset)), key_of(cloneset))

    def _cloneset_updated(self, old: CloneSet, new: CloneSet) -> None:
        if old.metadata.generation != new.metadata.generation:
            self._cloneset_added(new)
        else:
            self._enqueue(key_of(new))

    def _cloneset_deleted(self, cloneset: CloneSet) -> None:
        self.reconciler.forget(key_of(cloneset))
        self._cloneset_added(cloneset)

    def _neighbours(self, cloneset: CloneSet) -> Sequence[CloneSet]:
        return self.view.clonesets_in(cloneset.metadata.namespace)

    def _pod_added(self, pod: Pod) -> None:
        key = self.view.owner_of(pod)
        if key is not None:
            self.reconciler.expectations.created(key)
            if pod.terminating:
                self.reconciler.expectations.deleted(key, pod.metadata.uid)
            self._enqueue(key)
        elif pod.metadata.controller is None:
            self._enqueue_matching(pod)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.terminating:
            self._pod_deleted(new)
        before, after = self.view.owner_of(old), self.view.owner_of(new)
        self._enqueue(before, after)
        freed = old.metadata.controller is not None or old.metadata.labels != new.metadata.labels
        if new.metadata.controller is None and freed:
            self._enqueue_matching(new)

    def _pod_deleted(self, pod: Pod) -> None:
        key = self.view.owner_of(pod)
        if key is not None:
            self.reconciler.expectations.deleted(key, pod.metadata.uid)
            self._enqueue(key)

    def _enqueue_matching(self, pod: Pod) -> None:
        """Queue the CloneSets that may adopt an orphan."""
        for cloneset in self.view.clonesets_in(pod.metadata.namespace):
            if selector_of(cloneset).matches(pod.metadata.labels):
                self._enqueue(key_of(cloneset))

    def _costs_changed(self, costs: PodGroupCost) -> None:
        self._enqueue(owner_key(costs))
