"""The levels of a workload's pods, as bands of deletion costs. Pure, except for `Levels`, which reads a `View`.

| level      | pods                                                                                | cost     |
|------------|-------------------------------------------------------------------------------------|----------|
| Guaranteed | of the newest revision, within the minimum or maximum of their subset               | above 0  |
| BestEffort | in a subset without a maximum                                                       | none     |
| Redundant  | above the maximum of their subset; of an older revision, in one that has a maximum  | below 0  |

**Later subsets are emptied before earlier ones**, inside a level. BestEffort pods have no cost while nothing shrinks:
their tiers (`Levels.tiers`) say in which order they go, and what is needed of that is written on a scale-down.

**Older revisions are emptied in the reverse order**, earlier subsets first: the newest revision fills the subsets from
the first one on, so that is where capacity is needed. Otherwise a rollout into a full subset would end in the next one,
and not in the same subsets as a fresh start.

**Computed for the target size.** Of 9 pods in three thirds, scaled to 3, one in each third is Guaranteed and two are
Redundant, so that 3 stay in three thirds. With the current size all would be Guaranteed, and only the first third would
stay.

**Pods are matched before.** To find the subsets of thousands of pods without a reservation takes seconds where there
are many subsets. What needs levels first awaits `Levels.match_pods`, between the steps of which other tasks run; the
members are then cached.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import Level, UnitedTopology
from trimtab.kube.clocks import SECOND
from trimtab.kube.resources import object_key
from trimtab.ranking.costs import Band
from trimtab.subsets.levels import PodLevel, pod_levels
from trimtab.subsets.members import Member, is_quick, slices
from trimtab.unitedtopology import costs
from trimtab.unitedtopology.readiness import Evaluate
from trimtab.unitedtopology.targets import Target
from trimtab.unitedtopology.validation import BackgroundValidation
from trimtab.unitedtopology.view import BY_CONTROLLER, View

_PASSES = 10
"""How often a workload's pods are matched with subsets, while they change, before levels are computed all the same."""


def bands(topology: UnitedTopology, members: Iterable[Member], *, replicas: int, revision: str) -> dict[str, Band]:
    """The band of each active pod in a subset, by name, for a size and the newest revision."""
    known = {member.name: member for member in members}
    subsets = topology.spec.subsets
    levels = pod_levels(subsets, known.values(), replicas)
    old = {name for name, member in known.items() if revision and member.revision != revision}
    floored = [index for index, subset in enumerate(subsets) if subset.min_replicas]
    places = {index: place for place, index in enumerate(reversed(floored), 1)}
    return {
        name: _band(level, len(subsets), places[level.subset] if level.in_floor else 0, is_old=name in old)
        for name, level in levels.items()
    }


def all_bands(topology: UnitedTopology, members: Sequence[Member], *, replicas: int, revision: str) -> Iterator[Band]:
    """The band of each of these pods: one in no subset is BestEffort, as if in the last one."""
    found = bands(topology, members, replicas=replicas, revision=revision)
    subsets = len(topology.spec.subsets)
    outside = Band(Level.BEST_EFFORT, subsets - 1, subsets)
    return (found.get(member.name, outside) for member in members)


@functools.lru_cache(maxsize=4096)
def _band(pod: PodLevel, subsets: int, floor: int, *, is_old: bool) -> Band:
    if not is_old:
        return Band(pod.level, pod.subset, subsets, floor)
    level = Level.BEST_EFFORT if pod.level is Level.BEST_EFFORT else Level.REDUNDANT
    return Band(level, subsets - 1 - pod.subset, subsets)


@dataclass(frozen=True, slots=True)
class _TargetPods:
    """The active pods of a UnitedTopology's target, and the target size, where it is given."""

    topology: UnitedTopology
    target: Target
    pods: list[Pod]
    replicas: int | None


class Levels:
    """The bands of pods, for scale-down plans and policies, which must keep to them."""

    def __init__(self, view: View, *, evaluate: Evaluate, validation: BackgroundValidation | None = None) -> None:
        """`validation` is that of large UnitedTopologies, which do not apply before its end."""
        self._view = view
        self._evaluate = evaluate
        self._validation = validation

    def __call__(
        self, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Mapping[str, Band] | None:
        """The bands of a workload's active pods, by `namespace/name`; None if no UnitedTopology applies to it.

        `replicas` is the target size; without it, the size that costs were written ahead for, or else the workload's
        current size. For a ReplicaSet, the UnitedTopology of its owner applies, if there is one. A pod in no
        subset is BestEffort, as if in the last one. A pod with a foreign cost is left out, because that cost stays.
        """
        found = self._target_pods(kind, namespace, name, replicas)
        if found is None:
            return None
        return {
            pod.key: band for pod, band in self._bands(found) if not costs.has_foreign_cost(pod.metadata.annotations)
        }

    def tiers(self, kind: str, namespace: str, name: str, replicas: int) -> Mapping[str, int] | None:
        """The tiers of a workload's active pods at a target size, by `namespace/name`, those of pods with foreign costs
        included; None if no UnitedTopology applies to it. They are empty while one that may apply is validated, and
        while many pods have to be matched with its subsets."""
        found = self._target_pods(kind, namespace, name, replicas)
        if found is None:
            return {} if self._in_validation(kind, namespace, name) else None
        if not is_quick(self._view.unmatched(found.pods, found.topology), found.topology):
            return {}
        return {pod.key: band.tier for pod, band in self._bands(found)}

    async def wait_validated(self, kind: str, namespace: str, name: str) -> None:
        """Wait until the UnitedTopologies that may apply to a workload have been validated."""
        while self._validation is not None and (waiting := self._in_validation(kind, namespace, name)):
            await self._validation.wait(waiting[0])

    async def match_pods(self, kind: str, namespace: str, name: str) -> None:
        """Match a workload's pods with the subsets; other tasks run in between, and the result is cached.

        Pods that were created or changed meanwhile are matched too, and all pods again if the spec has changed.
        """
        for _ in range(_PASSES):
            found = self._target_pods(kind, namespace, name, None)
            if found is None:
                return
            unmatched = self._view.unmatched(found.pods, found.topology)
            if not unmatched:
                return
            for part in slices(unmatched, found.topology):
                for pod in part:
                    self._view.member(pod, found.topology)
                await asyncio.sleep(0)

    async def matched_bands(
        self, kind: str, namespace: str, name: str, *, replicas: int | None = None
    ) -> Mapping[str, Band] | None:
        """The bands of a workload's active pods, once these are matched with the subsets."""
        await self.match_pods(kind, namespace, name)
        return self(kind, namespace, name, replicas=replicas)

    def _target_pods(self, kind: str, namespace: str, name: str, replicas: int | None) -> _TargetPods | None:
        topology, size = self._topology(kind, namespace, name, replicas)
        target = None if topology is None else self._view.target(topology)
        if topology is None or target is None:
            return None
        return _TargetPods(topology, target, [pod for pod in self._view.pods_of(topology, target) if pod.active], size)

    def _bands(self, found: _TargetPods) -> Iterator[tuple[Pod, Band]]:
        topology, target, pods = found.topology, found.target, found.pods
        size = self._expected_size(target, pods) if found.replicas is None else found.replicas
        members = [self._view.member(pod, topology) for pod in pods]
        return zip(pods, all_bands(topology, members, replicas=size, revision=target.revision), strict=True)

    def _expected_size(self, target: Target, pods: Iterable[Pod]) -> int:
        now = self._view.now() // SECOND
        sizes = (costs.target_size(pod.metadata.annotations) for pod in pods)
        valid = [size for size in sizes if size is not None and size.until > now]
        return max(valid, key=lambda size: size.until).replicas if valid else target.replicas

    def _topology(
        self, kind: str, namespace: str, name: str, replicas: int | None
    ) -> tuple[UnitedTopology | None, int | None]:
        """The UnitedTopology that applies to a workload, and the target size if it is that of all its pods."""
        found = self._first(kind, namespace, name)
        if found is not None or kind != "ReplicaSet":
            return found, replicas
        replicaset = self._view.sets.get(object_key(namespace, name))
        owner = replicaset.metadata.controller if replicaset is not None else None
        if replicaset is None or owner is None:
            return None, None
        found = self._first(owner.kind, namespace, owner.name)
        return found, replicas if found is not None and self._has_all_pods(replicaset) else None

    def _in_validation(self, kind: str, namespace: str, name: str) -> list[UnitedTopology]:
        """The UnitedTopologies of a workload, and of the owner of a ReplicaSet, that are being validated."""
        if self._validation is None:
            return []
        topologies = list(self._view.topologies_of(kind, namespace, name))
        replicaset = self._view.sets.get(object_key(namespace, name)) if kind == "ReplicaSet" else None
        if replicaset is not None and (owner := replicaset.metadata.controller) is not None:
            topologies += self._view.topologies_of(owner.kind, namespace, owner.name)
        return list(filter(self._validation.is_running, topologies))

    def _first(self, kind: str, namespace: str, name: str) -> UnitedTopology | None:
        topologies = self._view.topologies_of(kind, namespace, name)
        return next(filter(self._is_effective, topologies), None)

    def _is_effective(self, topology: UnitedTopology) -> bool:
        if self._validation is not None and self._validation.is_running(topology):
            return False
        return self._evaluate(topology, self._view).is_effective

    def _has_all_pods(self, replicaset: ReplicaSet) -> bool:
        """Whether a ReplicaSet has all pods of its owner: its size then is the owner's."""
        owner = replicaset.metadata.controller
        siblings = self._view.sets.store.by(BY_CONTROLLER, owner.uid) if owner is not None else []
        others = [each for each in siblings if each.metadata.uid != replicaset.metadata.uid]
        return not any(self._view.pods.store.by(BY_CONTROLLER, each.metadata.uid) for each in others)
