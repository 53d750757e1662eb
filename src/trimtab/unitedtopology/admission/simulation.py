"""Whether a node can take a pod: called for each subset that an Adaptive UnitedTopology could assign it to.

The placement core decides, on a snapshot of the cluster. Pods that were admitted a moment ago run nowhere yet, and many
are admitted at the same time; so a pod that fits is assumed on the node that was found until it is seen there, is seen
to be unschedulable, or half a minute has passed. Pods that other processes admitted are recognized by their annotations
once they are seen, and are assumed in the same way with the next simulation.

**A terminating pod counts as gone.** Its successor may have to wait until it has ended; but a rollout finds the
capacity that the old pods free, and ends in the same subsets as a fresh start.

**In doubt, the pod takes the subset**: for what the core does not evaluate (volumes, devices), pods that cannot be
decoded, and caches that are not filled yet. A metric counts these by reason; if it was wrong, the controller
reschedules the pod.

Preemption is not considered: a subset has a node only if no pod must be evicted for it.

**A snapshot of its own** takes as long to fill as the one of the process, and most clusters have no Adaptive
UnitedTopology. `SimulationOnDemand` fills one when the first is seen.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.annotations import subset_annotations
from trimtab.api.core import Service
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.caches import Cache
from trimtab.kube.clocks import SECOND, Clock
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import place
from trimtab.placement.profiles import Profile, default_profile
from trimtab.snapshot import Snapshot
from trimtab.unitedtopology.metrics import Doubt
from trimtab.unitedtopology.view import View

ASSUMED_SECONDS = 30.0
"""How long a pod is assumed on the node that was found for it."""
_CATCH_UP = 20
"""How many pods of other processes are assumed before a simulation; there is no time for hundreds of them."""
_CATCH_UP_TIME = 0.005
"""Seconds after which no further one is, because those with many constraints take longer."""

ProfileOf = Callable[[str], Profile]
"""The profile that places pods with this `schedulerName`."""

log = logging.getLogger(__name__)


@functools.cache
def stock_profile(_: str) -> Profile:
    """The profile of an unconfigured kube-scheduler, whatever the scheduler."""
    return default_profile()


@dataclass(frozen=True, slots=True)
class _AssumedPod:
    """The name under which a pod is in the snapshot, and until when."""

    namespace: str
    name: str
    until: int


class Simulation:
    """Simulates the placement of new pods; every process that serves webhooks has one."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        *,
        profile_of: ProfileOf = stock_profile,
        services: Cache[Service] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Uses the caches of the view: a process has no memory for two copies of all pods.

        Default constraints group pods by workload and by service, where there is a cache of `services`.
        """
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        self._profile_of = profile_of
        self.snapshot = Snapshot(view.pool)
        self._assumed: dict[str, _AssumedPod] = {}
        self._waiting: dict[str, Pod] = {}
        self._required: tuple[Cache[Any], ...] = (view.nodes, view.namespaces, view.pods, view.sets)
        if services is not None:
            self._required = (*self._required, services)
        self._followed: tuple[Cache[Any], ...] = (*self._required, view.clonesets)

    def follow(self) -> None:
        """Keep the snapshot current from now on; see `wait_filled`."""
        for cache in self._followed:
            cache.subscribe(added=self.seen, updated=lambda _, new: self.seen(new), deleted=self.gone)

    async def wait_filled(self) -> None:
        """Wait until the snapshot has all objects that there were: many are put into it in parts."""
        for cache in self._followed:
            await cache.wait_reported()

    @property
    def synced(self) -> bool:
        """Whether every cache has been filled."""
        return all(cache.synced for cache in self._required)

    def __call__(self, pod: JSON, namespace: str) -> bool | Doubt:
        """Whether a node can take this shaped pod, or why that is not known; then it is assumed there for a while."""
        if not self.synced:
            return Doubt.NOT_FILLED
        try:
            new = in_namespace(codec.convert(pod, Pod), namespace)
            reservation = _reservation(new)
            self.forget(reservation)
            self._catch_up()
            return self._find(new, reservation)
        except InvalidError as error:
            log.debug("%s/%s is not simulated: %s", namespace, pod.get("metadata", {}).get("generateName", ""), error)
            return Doubt.UNREADABLE

    def is_certain(self, pod: Pod, reservation: str) -> bool:
        """The same for a decoded pod with its namespace, but false in doubt: for a pod that runs, and would be evicted.
        If a node can take it, it is assumed there under this reservation."""
        if not self.synced:
            return False
        self._catch_up()
        try:
            return self._find(pod, reservation) is True
        except InvalidError:
            return False

    def forget(self, reservation: str) -> None:
        """Do not assume a pod any longer."""
        assumed = self._assumed.pop(reservation, None)
        if assumed is not None:
            self.snapshot.drop(Pod, assumed.namespace, assumed.name)

    # Assumed pods.

    def _find(self, pod: Pod, reservation: str) -> bool | Doubt:
        # The best node does not matter here, only whether there is one.
        profile = replace(self._profile_of(pod.spec.scheduler_name), scores=())
        decision = place(pod, self.snapshot, profile, self._rng)
        if decision.node is not None and reservation:
            name = f"~{reservation}"
            metadata = msgspec.structs.replace(pod.metadata, name=name)
            self.snapshot.assume(msgspec.structs.replace(pod, metadata=metadata), decision.node)
            until = self._clock.monotonic() + round(ASSUMED_SECONDS * SECOND)
            self._assumed[reservation] = _AssumedPod(pod.metadata.namespace, name, until)
        if decision.node is not None or decision.outcome is Outcome.UNSCHEDULABLE:
            return decision.node is not None
        return Doubt.NOT_EVALUATED

    def _catch_up(self) -> None:
        """Drop assumed pods that have expired, and assume pods of other processes that have no node yet."""
        now = self._clock.monotonic()
        for reservation in [name for name, assumed in self._assumed.items() if assumed.until <= now]:
            self.forget(reservation)
        until = now + round(_CATCH_UP_TIME * SECOND)
        for reservation in list(islice(self._waiting, _CATCH_UP)):
            if self._clock.monotonic() >= until:
                break
            pod = self._waiting.pop(reservation)
            if reservation not in self._assumed:
                self._find(pod, reservation)

    # Events.

    def seen(self, an_object: Any) -> None:
        """Update the snapshot with an object that was added or changed."""
        if isinstance(an_object, Pod):
            self._pod_seen(an_object)
        else:
            self.snapshot.put(an_object)

    def gone(self, an_object: Any) -> None:
        """Remove an object that was deleted."""
        metadata = an_object.metadata
        if isinstance(an_object, Pod):
            self._settle(_reservation(an_object))
        self.snapshot.drop(type(an_object), metadata.namespace, metadata.name)

    def _pod_seen(self, pod: Pod) -> None:
        reservation = _reservation(pod)
        if not pod.active:
            self.gone(pod)
        elif pod.spec.node_name:
            self._settle(reservation)
            self.snapshot.put(pod)
        elif _is_unschedulable(pod):
            self._settle(reservation)
        elif reservation and reservation not in self._assumed:
            self._waiting[reservation] = pod

    def _settle(self, reservation: str) -> None:
        self._waiting.pop(reservation, None)
        self.forget(reservation)


class SimulationOnDemand:
    """A component with a simulation, which is filled when the first UnitedTopology needs it."""

    def __init__(self, simulation: Simulation, topologies: Cache[UnitedTopology]) -> None:
        self.simulation = simulation
        self._needed, self._is_filled = asyncio.Event(), False
        topologies.subscribe(added=self._seen, updated=lambda _, new: self._seen(new))

    @property
    def synced(self) -> bool:
        """Whether it is filled, or not needed."""
        return self._is_filled or not self._needed.is_set()

    @property
    def problems(self) -> list[str]:
        """None of its own: its caches are those of the view."""
        return []

    async def run(self) -> None:
        """Fill the snapshot once it is needed; the caches keep it current."""
        await self._needed.wait()
        self.simulation.follow()
        await self.simulation.wait_filled()
        self._is_filled = True
        await asyncio.Event().wait()

    def __call__(self, pod: JSON, namespace: str) -> bool | Doubt:
        """Whether a node can take this shaped pod, or why that is not known."""
        return self.simulation(pod, namespace) if self._is_filled else Doubt.NOT_FILLED

    def _seen(self, topology: UnitedTopology) -> None:
        if simulates(topology):
            self._needed.set()


def simulates(topology: UnitedTopology) -> bool:
    """Whether new pods of a UnitedTopology are simulated."""
    strategy = topology.spec.schedule_strategy
    disabled = strategy.adaptive is not None and strategy.adaptive.disable_simulation_schedule
    return strategy.type == "Adaptive" and not disabled


def in_namespace(pod: Pod, namespace: str) -> Pod:
    """The pod with its namespace, which its document may leave out at admission."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def _reservation(pod: Pod) -> str:
    annotations = subset_annotations(pod.metadata.annotations)
    return annotations.reservation if annotations is not None else ""


def _is_unschedulable(pod: Pod) -> bool:
    condition = pod.status.condition("PodScheduled")
    return condition is not None and condition.status == "False" and condition.reason == "Unschedulable"
