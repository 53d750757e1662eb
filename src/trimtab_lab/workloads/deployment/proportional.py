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
from trimtab_lab.workloads.deployment.fleets import Fleet, Limits, Move, active, seniority, total


def move(limits: Limits, fleet: Fleet, *, rolling: bool, reported: int) -> Move | None:
    """The sizes after scaling, those that stay included: their annotations tell the new proportions.

    `reported` is the number of pods in the Deployment's status: the proportion's base where an annotation is gone.
    """
    lone = _active_or_latest(fleet)
    if lone is not None:
        return Move(((lone, limits.desired),))
    if is_saturated(limits, fleet.new):
        return Move(tuple((each, 0) for each in active(fleet.old)))
    if rolling:
        return Move(_shares(limits, fleet.active, reported))
    return Move() if not fleet.all else None


def is_saturated(limits: Limits, new: ReplicaSet | None) -> bool:
    """Whether a ReplicaSet is as large as its Deployment, knows it, and has all its pods available."""
    if new is None:
        return False
    told = revisions.annotated_number(new, revisions.DESIRED)
    return {new.desired_replicas, told, new.status.available_replicas} == {limits.desired}


def _active_or_latest(fleet: Fleet) -> ReplicaSet | None:
    if len(fleet.active) > 1 or not fleet.all:
        return None
    if fleet.active:
        return fleet.active[0]
    return fleet.new or fleet.old[-1]


def _shares(limits: Limits, sets: tuple[ReplicaSet, ...], reported: int) -> tuple[tuple[ReplicaSet, int], ...]:
    allowed = limits.most if limits.desired > 0 else 0
    to_add = allowed - total(sets)
    ordered = sorted(
        sorted(sets, key=seniority, reverse=to_add > 0), key=lambda each: each.desired_replicas, reverse=True
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
    before = revisions.annotated_number(replicaset, revisions.MOST) or reported
    if before == 0:
        return 0
    return (2 * size * limits.most + before) // (2 * before) - size
