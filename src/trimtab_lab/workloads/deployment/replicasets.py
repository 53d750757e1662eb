"""The ReplicaSets of a Deployment, and how far it may stray from the wanted number of pods. Pure.

The *new* ReplicaSet has the Deployment's template; where several have it, the oldest counts. All others are *old*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from trimtab.api import percent
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.snapshot.pods import nanoseconds
from trimtab_lab.workloads.deployment import templates

ROLLING_UPDATE, RECREATE = "RollingUpdate", "Recreate"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many pods a Deployment wants, may have at most, and must have available at least."""

    desired: int
    surge: int
    unavailable: int

    @property
    def max_pods(self) -> int:
        """Pods at any time."""
        return self.desired + self.surge

    @property
    def min_available(self) -> int:
        """Pods that are available at any time, unless they fail by themselves."""
        return self.desired - self.unavailable


@dataclass(frozen=True, slots=True)
class OwnedReplicaSets:
    """A Deployment's ReplicaSets; the old ones from the oldest to the youngest."""

    new: ReplicaSet | None = None
    old: tuple[ReplicaSet, ...] = ()

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """The old ones and the new one."""
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def active(self) -> tuple[ReplicaSet, ...]:
        """Those that are to have pods."""
        return active(self.all)

    def with_new(self, new: ReplicaSet) -> OwnedReplicaSets:
        """The same with this as the new one."""
        return OwnedReplicaSets(new, self.old)

    def with_sizes(self, sizes: Iterable[tuple[ReplicaSet, int]]) -> OwnedReplicaSets:
        """The same after some have been resized."""
        by_name = {replicaset.metadata.name: size for replicaset, size in sizes}
        old = tuple(resized(each, by_name.get(each.metadata.name, each.desired_replicas)) for each in self.old)
        new = self.new and resized(self.new, by_name.get(self.new.metadata.name, self.new.desired_replicas))
        return OwnedReplicaSets(new, old)


@dataclass(frozen=True, slots=True)
class Step:
    """What one reconcile does to the sizes."""

    sizes: tuple[tuple[ReplicaSet, int], ...] = ()
    """The sizes to set, in this order."""
    creation: int | None = None
    """The size to create the new ReplicaSet with, where there is none; before anything else."""
    settled: bool = False
    """Whether there was nothing else to do, so that there is time to forget old revisions."""


class Strategy(Protocol):
    """How pods move from the old ReplicaSets to the new one, a step at a time."""

    def __call__(self, limits: Limits, owned: OwnedReplicaSets, *, old_pods: bool) -> Step:
        """The next step; `old_pods` says whether any pod of an old ReplicaSet is still there."""
        ...


def classify(deployment: Deployment, sets: Iterable[ReplicaSet]) -> OwnedReplicaSets:
    """The ReplicaSets of a Deployment, sorted out."""
    ordered = sorted(sets, key=age_key)
    new = next((each for each in ordered if templates.same(each.spec.template, deployment.spec.template)), None)
    return OwnedReplicaSets(new, tuple(each for each in ordered if each is not new))


def limits_of(deployment: Deployment) -> Limits:
    """A Deployment's limits: surge is rounded up, unavailable down. Where both come to nothing, one pod may be
    unavailable, for nothing could move otherwise."""
    desired = deployment.desired_replicas
    rolling = deployment.spec.strategy.rolling_update
    if deployment.spec.strategy.type != ROLLING_UPDATE or rolling is None:
        return Limits(desired, 0, 0)
    surge = percent.scaled(_given(rolling.max_surge), desired, round_up=True)
    unavailable = percent.scaled(_given(rolling.max_unavailable), desired, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(desired, surge, min(unavailable, desired))


def age_key(replicaset: ReplicaSet) -> tuple[int, str]:
    """Sorts from the oldest to the youngest."""
    return nanoseconds(replicaset.metadata.creation_timestamp), replicaset.metadata.name


def active(sets: Iterable[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """Those that are to have pods."""
    return tuple(each for each in sets if each.desired_replicas > 0)


def total(sets: Sequence[ReplicaSet]) -> int:
    """How many pods they are to have together."""
    return sum(each.desired_replicas for each in sets)


def resized(replicaset: ReplicaSet, size: int) -> ReplicaSet:
    """The same with another size."""
    if replicaset.desired_replicas == size:
        return replicaset
    return msgspec.structs.replace(replicaset, spec=msgspec.structs.replace(replicaset.spec, replicas=size))


def _given(value: int | str | None) -> int | str:
    return 0 if value is None else value
