"""The ReplicaSets of a Deployment, and its limits for the number of pods. Pure.

The *new* ReplicaSet has the Deployment's template; of several, it is the oldest. All others are *old*.
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
    """The number of pods that a Deployment wants, its maximum, and how many must be available."""

    desired: int
    surge: int
    unavailable: int

    @property
    def max_pods(self) -> int:
        """The maximum number of pods."""
        return self.desired + self.surge

    @property
    def min_available(self) -> int:
        """The minimum number of available pods."""
        return self.desired - self.unavailable


@dataclass(frozen=True, slots=True)
class OwnedReplicaSets:
    """The new and the old ReplicaSets of a Deployment; the old ones from the oldest to the youngest."""

    new: ReplicaSet | None = None
    old: tuple[ReplicaSet, ...] = ()

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """The old ones and the new one."""
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def active(self) -> tuple[ReplicaSet, ...]:
        """Those whose size is not zero."""
        return active(self.all)

    def with_new(self, new: ReplicaSet) -> OwnedReplicaSets:
        """The same with this new ReplicaSet."""
        return OwnedReplicaSets(new, self.old)

    def with_sizes(self, sizes: Iterable[tuple[ReplicaSet, int]]) -> OwnedReplicaSets:
        """The same with some sizes changed."""
        by_name = {replicaset.metadata.name: size for replicaset, size in sizes}
        old = tuple(resized(each, by_name.get(each.metadata.name, each.desired_replicas)) for each in self.old)
        new = self.new and resized(self.new, by_name.get(self.new.metadata.name, self.new.desired_replicas))
        return OwnedReplicaSets(new, old)


@dataclass(frozen=True, slots=True)
class Step:
    """The sizes that one reconcile sets."""

    sizes: tuple[tuple[ReplicaSet, int], ...] = ()
    """The sizes to set, in this order."""
    creation: int | None = None
    """The size to create the new ReplicaSet with, before anything else, if there is none."""
    settled: bool = False
    """Whether there is nothing else to do, so that old revisions can be deleted."""


class Strategy(Protocol):
    """Moves pods from the old ReplicaSets to the new one, a step at a time."""

    def __call__(self, limits: Limits, owned: OwnedReplicaSets, *, old_pods: bool) -> Step:
        """The next step; `old_pods` is whether any pod of an old ReplicaSet still exists."""
        ...


def classify(deployment: Deployment, sets: Iterable[ReplicaSet]) -> OwnedReplicaSets:
    """Sort the ReplicaSets of a Deployment into new and old."""
    ordered = sorted(sets, key=age_key)
    new = next((each for each in ordered if templates.same(each.spec.template, deployment.spec.template)), None)
    return OwnedReplicaSets(new, tuple(each for each in ordered if each is not new))


def limits_of(deployment: Deployment) -> Limits:
    """The limits of a Deployment: surge is rounded up, unavailable down.

    If both are zero, one pod may be unavailable: nothing could change otherwise.
    """
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
    """The sort key from the oldest to the youngest."""
    return nanoseconds(replicaset.metadata.creation_timestamp), replicaset.metadata.name


def active(sets: Iterable[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The ReplicaSets whose size is not zero."""
    return tuple(each for each in sets if each.desired_replicas > 0)


def total(sets: Sequence[ReplicaSet]) -> int:
    """The sum of their sizes."""
    return sum(each.desired_replicas for each in sets)


def resized(replicaset: ReplicaSet, size: int) -> ReplicaSet:
    """The ReplicaSet with another size."""
    if replicaset.desired_replicas == size:
        return replicaset
    return msgspec.structs.replace(replicaset, spec=msgspec.structs.replace(replicaset.spec, replicas=size))


def _given(value: int | str | None) -> int | str:
    return 0 if value is None else value
