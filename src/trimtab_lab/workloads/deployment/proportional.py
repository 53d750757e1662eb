"""Scaling during a rollout or a pause: every ReplicaSet grows or shrinks in proportion to its size.

If only the new ReplicaSet grew, or only the old ones shrank, scaling would hasten a rollout whose outcome is not known.

1. At most one ReplicaSet with pods: that one, or the youngest, gets the Deployment's size.
2. The new one has all its pods, and they are available: the old ones are scaled to zero.
3. Else, for a rolling update: what is to be added (or removed, if negative) up to the Deployment's maximum is divided,
   from the largest ReplicaSet to the smallest (of equal ones the youngest first when growing, the oldest when
   shrinking), each in its proportion to the previous maximum, which its annotation has. The rounding remainder goes to
   the first.

Several ReplicaSets of a Deployment that recreates its pods are left to its strategy.
"""

from __future__ import annotations

from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment import revisions
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step, active, age_key, total


def next_step(limits: Limits, owned: OwnedReplicaSets, *, rolling: bool, reported: int) -> Step | None:
    """The sizes after scaling, unchanged ones included: their annotations need the new proportions.

    `reported` is the number of pods in the Deployment's status: the base of the proportion if an annotation is missing.
    """
    lone = _active_or_latest(owned)
    if lone is not None:
        return Step(((lone, limits.desired),))
    if is_saturated(limits, owned.new):
        return Step(tuple((each, 0) for each in active(owned.old)))
    if rolling:
        return Step(_shares(limits, owned.active, reported))
    return Step() if not owned.all else None


def is_saturated(limits: Limits, new: ReplicaSet | None) -> bool:
    """Whether a ReplicaSet has the size of its Deployment, also in its annotation, and all its pods are available."""
    if new is None:
        return False
    annotated = revisions.annotated_number(new, revisions.DESIRED_REPLICAS)
    return {new.desired_replicas, annotated, new.status.available_replicas} == {limits.desired}


def _active_or_latest(owned: OwnedReplicaSets) -> ReplicaSet | None:
    if len(owned.active) > 1 or not owned.all:
        return None
    if owned.active:
        return owned.active[0]
    return owned.new or owned.old[-1]


def _shares(limits: Limits, sets: tuple[ReplicaSet, ...], reported: int) -> tuple[tuple[ReplicaSet, int], ...]:
    allowed = limits.max_pods if limits.desired > 0 else 0
    to_add = allowed - total(sets)
    ordered = sorted(
        sorted(sets, key=age_key, reverse=to_add > 0), key=lambda each: each.desired_replicas, reverse=True
    )
    shares: list[int] = []
    for each in ordered:
        left = to_add - sum(shares)
        fraction = _fraction(limits, each, reported) if left else 0
        shares.append(min(fraction, left) if to_add > 0 else max(fraction, left))
    if shares:
        shares[0] += to_add - sum(shares)
    return tuple((each, max(0, each.desired_replicas + share)) for each, share in zip(ordered, shares, strict=True))


def _fraction(limits: Limits, replicaset: ReplicaSet, reported: int) -> int:
    """The change of its size that its proportion gives."""
    size = replicaset.desired_replicas
    if limits.desired == 0:
        return -size
    before = revisions.annotated_number(replicaset, revisions.MAX_REPLICAS) or reported
    if before == 0:
        return 0
    return (2 * size * limits.max_pods + before) // (2 * before) - size
