"""What runs, and what wakes it.

`Controller` watches whose kind CloneSet is. While it is ours a `Service` runs; where it is OpenKruise's, or nobody
serves it, none does, and the log and an event on the definition say so. A service is made anew each time: nothing of
before is of use, for the kind may have come and gone meanwhile.

What it needs to be allowed: to list and watch `customresourcedefinitions`, `clonesets`, `pods`, `nodes`,
`controllerrevisions` and, with the feature gate, `podgroupcosts`; to create, patch and delete `pods` and
`controllerrevisions`; to get `pods`, `clonesets` and `controllerrevisions`; to patch `clonesets/status`; to create and
patch `events`. A namespace's admission plugin OwnerReferencesPermissionEnforcement asks for `clonesets/finalizers`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.api.cloneset import CloneSet
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.cloneset import presence as presences
from trimtab.cloneset.metrics import Metrics
from trimtab.cloneset.presence import DEFINITION, GROUP_COSTS, Presence
from trimtab.cloneset.reconciler import PolicyOf, Reconciler
from trimtab.cloneset.rivals import selector_of
from trimtab.cloneset.settings import SETTINGS, Settings
from trimtab.cloneset.view import View, owner_key
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel, within
from trimtab.kube.events import NORMAL, Recorder
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.runners import Runner
from trimtab.kube.stores import key_of

COMPONENT = "trimtab-cloneset"
GRACE = 2.0
"""Seconds that writes under way are given when the controller ends."""

log = logging.getLogger(__name__)


def _no_policy(_: CloneSet) -> ScaleDownPolicySpec | None:
    return None


@dataclass(frozen=True, slots=True)
class _Mode:
    """What the cluster serves, as far as it changes what is to run."""

    presence: Presence
    group_costs: bool = False


class Controller:
    """Looks after CloneSets where that is ours to do."""

    def __init__(
        self,
        client: Client,
        settings: Settings = SETTINGS,
        *,
        metrics: Metrics | None = None,
        policy_of: PolicyOf = _no_policy,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._policy_of = policy_of
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self._recorder = Recorder(client, component=COMPONENT, rng=self._rng)
        self._definitions: Informer[CustomResourceDefinition] = Informer(
            client, CustomResourceDefinition, rng=self._rng
        )
        self._changed = asyncio.Event()
        self.service: Service | None = None
        self._definitions.subscribe(
            added=lambda _: self._changed.set(),
            updated=lambda _, __: self._changed.set(),
            deleted=lambda _: self._changed.set(),
        )

    @property
    def presence(self) -> Presence:
        """Whose the CloneSets of this cluster are."""
        return presences.presence(self._definitions.get(Key(DEFINITION)))

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once, or there is nothing to see."""
        if not self._definitions.synced:
            return False
        return self.presence is not Presence.OURS or (self.service is not None and self.service.synced)

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is. To stand back is no problem."""
        informers = [self._definitions, *(self.service.view.informers if self.service else ())]
        return [f"{informer.resource.plural}: {informer.problem}" for informer in informers if informer.problem]

    async def run(self) -> None:
        """Look after CloneSets, whenever they are ours, until cancelled."""
        background = [asyncio.ensure_future(self._definitions.run()), asyncio.ensure_future(self._recorder.run())]
        try:
            await self._definitions.wait_synced()
            while True:
                self._changed.clear()
                await self._run_as(self._mode())
        finally:
            await cancel(*background)

    def _mode(self) -> _Mode:
        costs = self._definitions.get(Key(GROUP_COSTS))
        served = costs is not None and presences.served(costs)
        return _Mode(self.presence, self._settings.pod_cost and served)

    async def _run_as(self, mode: _Mode) -> None:
        """Do what is to be done in a mode until it is another."""
        self._say(mode.presence)
        ours = mode.presence is Presence.OURS
        self._metrics.active.set(ours)
        if not ours:
            await self._until_other(mode)
            return
        self.service = Service(
            self._client, self._settings, self._metrics, self._policy_of, mode.group_costs, self._rng
        )
        working = asyncio.ensure_future(self.service.run())
        changing = asyncio.ensure_future(self._until_other(mode))
        try:
            await asyncio.wait((working, changing), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            await cancel(working, changing)
            self.service = None

    async def _until_other(self, mode: _Mode) -> None:
        while self._mode() == mode:
            await self._changed.wait()
            self._changed.clear()

    def _say(self, presence: Presence) -> None:
        log.info("%s", presence.value)
        definition = self._definitions.get(Key(DEFINITION))
        if definition is not None and presence is Presence.OTHERS:
            self._recorder.record(definition, NORMAL, "StandsBack", presence.value)


class Service:
    """One run of the controller: informers, a queue, workers."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        metrics: Metrics,
        policy_of: PolicyOf,
        with_costs: bool,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self.view = View(client, with_costs=with_costs, rng=rng)
        self.recorder = Recorder(client, component=COMPONENT, rng=rng)
        self.queue: WorkQueue[Key] = WorkQueue(client.clock)
        self.reconciler = Reconciler(
            client,
            self.view,
            recorder=self.recorder,
            metrics=metrics,
            settings=settings,
            policy_of=policy_of,
            later=self.queue.add_after,
        )
        self.runner = Runner(
            "clonesets",
            self.reconciler.reconcile,
            self.queue,
            workers=settings.workers,
            after=self.view.informers,
            observe=self._note,
        )
        self._subscribe()

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return all(informer.synced for informer in self.view.informers)

    async def run(self) -> None:
        """Work until cancelled; what is under way then may finish within the grace period."""
        background = [asyncio.ensure_future(informer.run()) for informer in self.view.informers]
        background.append(asyncio.ensure_future(self.recorder.run()))
        working = asyncio.ensure_future(self.runner.run())
        try:
            done, _ = await asyncio.wait((*background, working), return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            await self._end()
            await cancel(working, *background)

    async def _end(self) -> None:
        try:
            await within(self._client.clock, GRACE, self._finish())
        except TimeoutError:
            log.warning("some work was cut off; it is taken up again at the next start")

    async def _finish(self) -> None:
        if self.synced:  # before that nobody has taken anything
            await self.runner.stop()
        await self.recorder.flush()

    def _note(self, _: Key, error: BaseException | None) -> None:
        if error is not None:
            self._metrics.failures.inc()

    # What wakes it.

    def _subscribe(self) -> None:
        view = self.view
        view.clonesets.subscribe(added=self._seen, updated=self._changed, deleted=self._gone)
        view.pods.subscribe(added=self._pod_added, updated=self._pod_updated, deleted=self._pod_gone)
        if view.costs is not None:
            view.costs.subscribe(added=self._costed, updated=lambda _, new: self._costed(new), deleted=self._costed)

    def _wake(self, *keys: Key | None) -> None:
        for a_key in keys:
            if a_key is not None and self._is_concerned(a_key):
                self.queue.add(a_key)

    def _is_concerned(self, a_key: Key) -> bool:
        namespaces = self._settings.namespaces
        return not namespaces or a_key.partition("/")[0] in namespaces

    def _seen(self, cloneset: CloneSet) -> None:
        """A new CloneSet may overlap with its neighbours."""
        self._wake(*(key_of(each) for each in self._neighbours(cloneset)), key_of(cloneset))

    def _changed(self, old: CloneSet, new: CloneSet) -> None:
        if old.metadata.generation != new.metadata.generation:
            self._seen(new)
        else:
            self._wake(key_of(new))

    def _gone(self, cloneset: CloneSet) -> None:
        self.reconciler.forget(key_of(cloneset))
        self._seen(cloneset)

    def _neighbours(self, cloneset: CloneSet) -> Sequence[CloneSet]:
        return self.view.neighbours(cloneset.metadata.namespace)

    def _pod_added(self, pod: Pod) -> None:
        a_key = self.view.owner_of(pod)
        if a_key is not None:
            self.reconciler.expectations.created(a_key)
            if pod.terminating:
                self.reconciler.expectations.deleted(a_key, pod.metadata.uid)
            self._wake(a_key)
        elif pod.metadata.controller is None:
            self._wake_matching(pod)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if new.terminating:
            self._pod_gone(new)
        before, after = self.view.owner_of(old), self.view.owner_of(new)
        self._wake(before, after)
        freed = old.metadata.controller is not None or old.metadata.labels != new.metadata.labels
        if new.metadata.controller is None and freed:
            self._wake_matching(new)

    def _pod_gone(self, pod: Pod) -> None:
        a_key = self.view.owner_of(pod)
        if a_key is not None:
            self.reconciler.expectations.deleted(a_key, pod.metadata.uid)
            self._wake(a_key)

    def _wake_matching(self, pod: Pod) -> None:
        """Somebody may want to adopt it."""
        for cloneset in self.view.neighbours(pod.metadata.namespace):
            if selector_of(cloneset).matches(pod.metadata.labels):
                self._wake(key_of(cloneset))

    def _costed(self, costs: PodGroupCost) -> None:
        self._wake(owner_key(costs))
