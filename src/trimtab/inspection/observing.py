"""Follows every scale-down of a cluster by watching alone: what was left, and what the plan would have left.

Nothing is installed and nothing is held, so a scale-down is seen when it has happened already. When it has ended, the
cluster is put together as it was at the version of the request (see `versions`), the plan is made for that moment, and
what is left is compared with it, as an installation compares it (`scaledown.results`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trimtab.api import times
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwner, ReplicaSetOwners
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.plans import PlanInput, controller_plans, controller_sizes
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import kind_of
from trimtab.inspection.versions import PastCluster, VersionLog
from trimtab.kube import versions
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.components import run_together
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.results.evaluation import ControllerState, PlanState, evaluate
from trimtab.scaledown.results.history import Distribution, ScaleDownRecord
from trimtab.scaledown.results.levels import ExpectedLevel, check_levels, counted, level_result
from trimtab.scaledown.stability import is_rolling_out
from trimtab.snapshot import MIRRORED, Snapshot

WORKLOADS: tuple[type[Any], ...] = (Deployment, ReplicaSet, ReplicationController, CloneSet)
FOLLOWED: tuple[type[Any], ...] = (Pod, Node, Namespace, ScaleDownPolicy, PodGroupCost, *WORKLOADS)
_KEPT = 120 * SECOND
"""For how many nanoseconds replaced versions are kept."""
_CATCH_UP = 10 * SECOND
"""For how many nanoseconds the watch of pods may be behind that of workloads."""
_TICK = 0.25
_SYNC = 0.05
_MOST_DELETED = 500


class ObservedScaleDown(ScaleDownRecord, omit_defaults=False):
    """A scale-down that was followed from outside: a record with what was deleted."""

    deleted: tuple[str, ...] = ()
    """The pods that are gone."""
    possible: tuple[str, ...] = ()
    """The pods that the controller alone might have deleted."""

    def sentence(self) -> str:
        """How it ended, in one line."""
        if self.result not in ("level", "best", "missed"):
            return self.result
        first = next(iter(self.distributions), None)
        if first is None:
            return "no constraints to keep level"
        left = counted(first.left) if first.left else f"a skew of {first.skew_left}"
        planned = counted(first.planned) if first.planned else f"a skew of {first.skew_planned}"
        would = f"Trimtab would have left {planned}" if self.result == "missed" else "as level as Trimtab would have"
        return f"left {left} ({first.topology_key}), {would}"


@dataclass(slots=True)
class OpenScaleDown:
    """A scale-down that has been seen and has not ended."""

    before: Workload
    version: int
    time: int
    """By the API server's clock."""
    started: int
    """By the monotonic clock."""
    to: int
    replaced: int | None = None
    """The version of the next change of the size, which ends it."""
    replaced_at: int = 0
    """When that was seen, by the monotonic clock."""


@dataclass
class ScaleDownObserver:
    """Follows the scale-downs of a cluster, or of one namespace, and reports each when it has ended."""

    client: Client
    settings: Settings
    report: Callable[[ObservedScaleDown], None]
    namespace: str = ""
    """The only namespace to follow; all, if empty."""
    kinds: Iterable[type[Any]] = FOLLOWED
    """The kinds that may be watched."""
    caches: Mapping[type[Any], Cache[Any]] | None = None
    """Caches that another part of the process runs; without them, the observer runs its own."""
    snapshot: Snapshot = field(default_factory=Snapshot)
    """The snapshot that the caches keep current."""
    open: dict[tuple[str, str, str], list[OpenScaleDown]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        custom = tuple(kind for kind in self.kinds if issubclass(kind, CustomWorkload))
        self._owners = ReplicaSetOwners(custom)
        kept: tuple[type[Any], ...] = (Pod, *WORKLOADS, *custom)
        self._logs: dict[type[Any], VersionLog[Any]] = {kind: VersionLog() for kind in kept}
        own = Caches(self.client, self.snapshot, MIRRORED, namespace=self.namespace)
        self._caches: dict[type[Any], Cache[Any]] = {}
        for kind in self.kinds:
            cache = self._caches[kind] = own.open(kind) if self.caches is None else self.caches[kind]
            if kind in self._logs:
                self._subscribe(kind, cache)
        self._numbers = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        own = self._caches.values() if self.caches is None else ()
        await run_together([self._check_regularly()], [each.run() for each in own])

    async def wait_synced(self) -> None:
        """Wait until the first lists are complete; kinds that are absent or refused are not waited for."""
        while not all(each.is_known or each.problem for each in self._caches.values()):
            await self.client.clock.sleep(_SYNC)

    def check(self) -> None:
        """Report the scale-downs that have ended since."""
        for key, found in list(self.open.items()):
            for each in list(found):
                record = self._ended(each)
                if record is not None:
                    found.remove(each)
                    self.report(record)
            if not found:
                del self.open[key]
        self._prune()

    async def _check_regularly(self) -> None:
        while True:
            await self.client.clock.sleep(_TICK)
            self.check()

    # Events.

    def _subscribe(self, kind: type[Any], cache: Cache[Any]) -> None:
        log, clock = self._logs[kind], self.client.clock
        cache.subscribe(
            added=lambda new: log.put(new, clock.monotonic()) if cache.synced else log.fill(new),
            updated=lambda old, new: self._updated(kind, old, new),
            deleted=lambda gone: log.drop(gone, clock.monotonic()),
        )

    def _updated(self, kind: type[Any], old: Any, new: Any) -> None:
        self._logs[kind].put(new, self.client.clock.monotonic())
        if kind is Pod or self._owners.resizes(new.metadata) or new.desired_replicas == old.desired_replicas:
            return
        key = (kind.__name__, new.metadata.namespace, new.metadata.name)
        version = versions.number(new.metadata.resource_version) or 0
        moment = self.client.clock.monotonic()
        for each in self.open.get(key, ()):
            if each.replaced is None:
                each.replaced, each.replaced_at = version, moment
        if new.desired_replicas < old.desired_replicas:
            time = self.client.server_time.now()
            opened = OpenScaleDown(old, version, time, moment, new.desired_replicas)
            self.open.setdefault(key, []).append(opened)

    def _prune(self) -> None:
        now = self.client.clock.monotonic()
        oldest = min((each.started for found in self.open.values() for each in found), default=now)
        for log in self._logs.values():
            log.prune(min(now, oldest) - _KEPT)

    # Results.

    def _ended(self, seen: OpenScaleDown) -> ObservedScaleDown | None:
        """The record of a scale-down that has ended; None while it has not."""
        namespace = seen.before.metadata.namespace
        then = self._cluster(namespace, seen.version, seen.time, seen.before)
        now = self._cluster(namespace, seen.replaced and seen.replaced - 1, seen.time)
        state = self._state(seen, controller_sizes(then, seen.before, seen.to), now)
        if state.keeps_costs and not self._is_over(seen):
            return None
        record = self._record(seen, then, now, _plans(then, seen, self.settings))
        if state is PlanState.DONE:
            return record
        ending = PlanState.SUPERSEDED if seen.replaced is not None else state
        return msgspec.structs.replace(record, result=ending.value)

    def _is_over(self, seen: OpenScaleDown) -> bool:
        """Whether the next size has come, and the watch of pods has shown everything up to then."""
        if seen.replaced is None:
            return False
        age = self.client.clock.monotonic() - seen.replaced_at
        return self._logs[Pod].latest >= seen.replaced or age >= _CATCH_UP

    def _state(self, seen: OpenScaleDown, sizes: Sequence[ControllerSize], now: Cluster) -> PlanState:
        workload = now.find(type(seen.before), seen.before.metadata.namespace, seen.before.metadata.name)
        age = (self.client.clock.monotonic() - seen.started) / SECOND
        size = None if workload is None else workload.desired_replicas
        return evaluate(to=seen.to, size=size, controllers=_controllers(seen, sizes, now), age=age)

    def _cluster(self, namespace: str, version: int | None, time: int, workload: Workload | None = None) -> Cluster:
        """The cluster as it was at a version, as far as one namespace's scale-downs look at it."""
        return PastCluster(
            time=time,
            objects={kind: list(cache.store) for kind, cache in self._caches.items() if kind not in self._logs},
            namespace=namespace,
            logs=self._logs,
            version=version,
            workload=workload,
            followed=self.snapshot,
        )

    def _record(self, seen: OpenScaleDown, then: Cluster, now: Cluster, made: PlanInput) -> ObservedScaleDown:
        metadata = seen.before.metadata
        self._numbers += 1
        expected = [ExpectedLevel(each.size.uid, each.constraints, each.plan.levelings) for each in made.plans]
        checks = check_levels(expected, now.snapshot)
        levelings = [leveling for each in made.plans for leveling in each.plan.levelings]
        pairs = zip(levelings, checks, strict=True)
        is_rolling = is_rolling_out(then, seen.before) or is_rolling_out(now, seen.before)
        return ObservedScaleDown(
            id=f"{seen.version}-{self._numbers}",
            time=times.format_time(seen.time),
            mode="Observe",
            kind=kind_of(seen.before),
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            policy=made.applied.name,
            policy_uid="",
            user="",
            from_=seen.before.desired_replicas,
            to=seen.to,
            generation=metadata.generation,
            resource_version=metadata.resource_version,
            outcome="observed",
            victims=tuple(key.partition("/")[2] for each in made.plans for key in each.plan.keys),
            distributions=tuple(Distribution.of(leveling).with_left(check) for leveling, check in pairs),
            result="rollout" if is_rolling else level_result(checks).value,
            ended=times.format_time(self.client.server_time.now()),
            deleted=tuple(_deleted(then, now, made))[:_MOST_DELETED],
            possible=tuple(key.partition("/")[2] for each in made.plans for key in each.plan.stock.possible),
        )


def _plans(then: Cluster, seen: OpenScaleDown, settings: Settings) -> PlanInput:
    """The plan for the moment of the request; without the policy's strategies where these cannot work."""
    try:
        return controller_plans(then, seen.before, seen.to, settings)
    except InvalidError:
        return controller_plans(then, seen.before, seen.to, Settings())


def _controllers(seen: OpenScaleDown, sizes: Sequence[ControllerSize], now: Cluster) -> Iterator[ControllerState]:
    kind: type[Workload] = ReplicaSet if isinstance(seen.before, ReplicaSetOwner) else type(seen.before)
    for each in sizes:
        found = now.find(kind, seen.before.metadata.namespace, each.name)
        size = found.desired_replicas if found is not None and found.metadata.uid == each.uid else None
        active = sum(pod.active for pod in now.pods_of(each.uid))
        yield ControllerState(each.before, each.after, size, active)


def _deleted(then: Cluster, now: Cluster, made: PlanInput) -> Iterator[str]:
    """The pods of the shrinking controllers that were active then and are not now."""
    for size in made.sizes:
        staying = {pod.metadata.uid for pod in now.pods_of(size.uid) if pod.active}
        for pod in then.pods_of(size.uid):
            if pod.active and pod.metadata.uid not in staying:
                yield pod.metadata.name
