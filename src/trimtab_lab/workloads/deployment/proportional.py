"""Scaling in the middle of a rollout, or of a pause: every ReplicaSet grows or shrinks in proportion to its size.

If only the new ReplicaSet grew, or only the old ones shrank, scaling would hasten a rollout that nobody knows the
outcome of.

1. One ReplicaSet with pods, or none: that one, or the youngest, gets the Deployment's size.
2. The new one has all its pods, and they are available: the old ones go to zero.
3. Else, where pods are replaced step by step: what is to be added (or taken, where it is negative) up to the
   Deployment's most is shared out, from the largest ReplicaSet to the smallest (of equal ones the youngest first when
   growing, the oldest when shrinking), each in the proportion that it had to the most of before, which its annotation
   tells. What rounding leaves goes to the first.

There is nothing to say about several ReplicaSets of a Deployment that recreates its pods: its strategy deals with them.
"""

from __future__ import annotations

from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment import revisions
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step, active, age_key, total


def next_step(limits: Limits, owned: OwnedReplicaSets, *, rolling: bool, reported: int) -> Step | None:
    """The sizes after scaling, those that stay included: their annotations tell the new proportions.

    `reported` is the number of pods in the Deployment's status: the proportion's base where an annotation is gone.
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
    """Whether a ReplicaSet is as large as its Deployment, knows it, and has all its pods available."""
    if new is None:
        return False
    told = revisions.annotated_number(new, revisions.DESIRED_REPLICAS)
    return {new.desired_replicas, told, new.status.available_replicas} == {limits.desired}


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
    """What its proportion comes to, as a difference to its size."""
    size = replicaset.desired_replicas
    if limits.desired == 0:
        return -size
    before = revisions.annotated_number(replicaset, revisions.MAX_REPLICAS) or reported
    if before == 0:
        return 0
    return (2 * size * limits.max_pods + before) // (2 * before) - size
