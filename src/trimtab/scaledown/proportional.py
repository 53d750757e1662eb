"""The new size of each controller of pods when a workload shrinks. Pure.

A ReplicaSet, a ReplicationController or a CloneSet owns its pods and has a size of its own. A Deployment owns
ReplicaSets, and its controller sizes them:

1. A single ReplicaSet with pods gets the Deployment's size.
2. Several, as during a rollout or a pause, shrink in proportion where the strategy is RollingUpdate. The pods to
   remove, down to the Deployment's size and its surge, are distributed from the largest ReplicaSet to the smallest, of
   equal ones the oldest first (where the surge leaves room to grow, the youngest); each in the proportion that it had
   to the previous maximum, which is in its annotation. The remainder of rounding goes to the first.
3. Several with the strategy Recreate are left to the rollout. So are several whose sum the surge covers: none of them
   shrinks because of the new size, and the rollout deletes pods until it is reached.

Other workloads that own ReplicaSets follow 1; how their controllers divide a size among several is not known, so these
are left to the rollout too.

Only controllers that lose pods are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trimtab.api import percent
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwner
from trimtab.snapshot.pods import nanoseconds

MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
"""On each ReplicaSet of a Deployment: the Deployment's maximum number of pods when the ReplicaSet was last sized."""

_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class ControllerSize:
    """A controller of pods, and its size before and after.

    `siblings` are the UIDs of all ReplicaSets with the same owner, its own included; none for one without an owner.
    """

    uid: str
    name: str
    before: int
    after: int
    siblings: tuple[str, ...] = ()


def controller_sizes(
    workload: Deployment | ReplicaSet | ReplicationController | CloneSet | CustomWorkload,
    size: int,
    sets: Iterable[ReplicaSet] = (),
    *,
    siblings: Iterable[str] = (),
) -> tuple[ControllerSize, ...]:
    """The controllers that shrink when a workload is scaled to `size`; `sets` are its ReplicaSets."""
    metadata = workload.metadata
    if isinstance(workload, ReplicaSetOwner):
        return _of_replicasets(workload, size, tuple(sets))
    has_owner = metadata.controller is not None
    family = tuple(dict.fromkeys((metadata.uid, *siblings))) if has_owner else ()
    return (ControllerSize(metadata.uid, metadata.name, workload.desired_replicas, size, family),)


def is_left_to_rollout(workload: object, size: int, sets: Sequence[ReplicaSet]) -> bool:
    """Whether a rollout decides which pods of a workload are deleted until it has `size` (3)."""
    active = [each.desired_replicas for each in sets if each.desired_replicas > 0]
    if not isinstance(workload, ReplicaSetOwner) or len(active) <= 1:
        return False
    return isinstance(workload, CustomWorkload) or (sum(active) > size and not _of_replicasets(workload, size, sets))


def _of_replicasets(owner: ReplicaSetOwner, size: int, sets: Sequence[ReplicaSet]) -> tuple[ControllerSize, ...]:
    active = [each for each in sets if each.desired_replicas > 0]
    family = tuple(each.metadata.uid for each in sets)
    if len(active) == 1:
        sizes = [(active[0], size)]
    elif isinstance(owner, Deployment) and (owner.spec.strategy.type or "RollingUpdate") == "RollingUpdate":
        sizes = _in_proportion(owner, size, active)
    else:
        return ()
    return tuple(
        ControllerSize(each.metadata.uid, each.metadata.name, each.desired_replicas, new, family)
        for each, new in sizes
        if new < each.desired_replicas
    )


def _in_proportion(deployment: Deployment, size: int, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    most = size + _surge(deployment, size) if size > 0 else 0
    to_add = most - sum(each.desired_replicas for each in sets)
    ordered = sorted(
        sorted(sets, key=_seniority, reverse=to_add > 0), key=lambda each: each.desired_replicas, reverse=True
    )
    added: list[int] = []
    for each in ordered:
        left = to_add - sum(added)
        fraction = _fraction(deployment, each, size, most) if left else 0
        added.append(max(fraction, left) if to_add < 0 else min(fraction, left))
    if added:
        added[0] += to_add - sum(added)
    return [(each, max(0, each.desired_replicas + count)) for each, count in zip(ordered, added, strict=True)]


def _fraction(deployment: Deployment, replicaset: ReplicaSet, size: int, most: int) -> int:
    has = replicaset.desired_replicas
    if size == 0:
        return -has
    text = replicaset.metadata.annotations.get(MAX_REPLICAS, "")
    before = int(text) if _NUMBER.fullmatch(text) else 0
    before = before or deployment.status.replicas
    if before == 0:
        return 0
    return (2 * has * most + before) // (2 * before) - has


def _surge(deployment: Deployment, size: int) -> int:
    rolling = deployment.spec.strategy.rolling_update
    given = None if rolling is None else rolling.max_surge
    try:
        return 0 if given is None else percent.scaled(given, size, round_up=True)
    except InvalidError:
        return 0


def _seniority(replicaset: ReplicaSet) -> tuple[int, str]:
    return nanoseconds(replicaset.metadata.creation_timestamp), replicaset.metadata.name
