"""Which controllers shrink to what when a workload shrinks. Pure.

A ReplicaSet, a ReplicationController or a CloneSet owns its pods, and its size is its own. A Deployment owns
ReplicaSets, and its controller sizes them:

1. One ReplicaSet with pods gets the Deployment's size.
2. Several, as in the middle of a rollout or of a pause, shrink in proportion, where the Deployment replaces its pods
   step by step. What is to go, down to the Deployment's size and its surge, is shared out from the largest ReplicaSet
   to the smallest, of equal ones the oldest first (where the surge leaves room to grow, the youngest); each in the
   proportion that it had to the most of before, which its annotation tells. What rounding leaves goes to the first.
3. Several of a Deployment that recreates its pods are its rollout's matter, and nobody else's.

Only those that lose pods are listed.
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
from trimtab.snapshot.pods import nanoseconds

MOST = "deployment.kubernetes.io/max-replicas"
"""On each ReplicaSet of a Deployment: how many pods that could have, at most, when the ReplicaSet was last sized."""

_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Share:
    """A controller of pods, the size that it will have, and its siblings, itself included."""

    uid: str
    name: str
    before: int
    size: int
    siblings: tuple[str, ...] = ()


def of_workload(
    workload: Deployment | ReplicaSet | ReplicationController | CloneSet,
    size: int,
    sets: Iterable[ReplicaSet] = (),
    *,
    siblings: Iterable[str] = (),
) -> tuple[Share, ...]:
    """Who shrinks to what when a workload goes to `size`; `sets` are a Deployment's ReplicaSets."""
    metadata = workload.metadata
    if isinstance(workload, Deployment):
        return _of_deployment(workload, size, tuple(sets))
    family = tuple(dict.fromkeys((metadata.uid, *siblings)))
    return (Share(metadata.uid, metadata.name, workload.desired_replicas, size, family),)


def _of_deployment(deployment: Deployment, size: int, sets: Sequence[ReplicaSet]) -> tuple[Share, ...]:
    active = [each for each in sets if each.desired_replicas > 0]
    family = tuple(each.metadata.uid for each in sets)
    if len(active) == 1:
        sizes = [(active[0], size)]
    elif (deployment.spec.strategy.type or "RollingUpdate") == "RollingUpdate":
        sizes = _in_proportion(deployment, size, active)
    else:
        return ()
    return tuple(
        Share(each.metadata.uid, each.metadata.name, each.desired_replicas, new, family)
        for each, new in sizes
        if new < each.desired_replicas
    )


def _in_proportion(deployment: Deployment, size: int, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    most = size + _surge(deployment, size) if size > 0 else 0
    to_add = most - sum(each.desired_replicas for each in sets)
    ordered = sorted(
        sorted(sets, key=_seniority, reverse=to_add > 0), key=lambda each: each.desired_replicas, reverse=True
    )
    given: list[int] = []
    for each in ordered:
        left = to_add - sum(given)
        fraction = _fraction(deployment, each, size, most) if left else 0
        given.append(max(fraction, left) if to_add < 0 else min(fraction, left))
    if given:
        given[0] += to_add - sum(given)
    return [(each, max(0, each.desired_replicas + share)) for each, share in zip(ordered, given, strict=True)]


def _fraction(deployment: Deployment, replicaset: ReplicaSet, size: int, most: int) -> int:
    has = replicaset.desired_replicas
    if size == 0:
        return -has
    text = replicaset.metadata.annotations.get(MOST, "")
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
