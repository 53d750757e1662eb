"""Rolling update: the new ReplicaSet grows as far as the surge allows, the old ones shrink as far as availability does.

A step either grows the new one or shrinks old ones, except that creating the new one and shrinking old ones may be one
step. How much the old ones may shrink:

1. So many that the minimum stays available even if the unavailable pods of the new ReplicaSet never become available:
   `all − min_available − (new − available of new)`.
2. First pods of old ReplicaSets that are not available: they serve nothing and would block the update.
3. Then, from the oldest ReplicaSet on, as many as are available beyond the minimum.

An old ReplicaSet that reports more available pods than its size has been resized since its last report. Nothing more is
decided on outdated numbers.
"""

from __future__ import annotations

from trimtab.api.apps import ReplicaSet
from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step, active, resized, total

Sizes = tuple[tuple[ReplicaSet, int], ...]


def next_step(limits: Limits, owned: OwnedReplicaSets, *, old_pods: bool = False) -> Step:  # noqa: ARG001 - a Strategy
    """The next step."""
    if owned.new is None:
        creation = new_size(limits, owned, 0)
        return Step(shrink(limits, owned, creation, 0), creation=creation, settled=False)
    size, available = owned.new.desired_replicas, owned.new.status.available_replicas
    target = limits.desired if size > limits.desired else new_size(limits, owned, size)
    if target != size:
        return Step(((owned.new, target),))
    sizes = shrink(limits, owned, size, available)
    return Step(sizes, settled=not sizes)


def new_size(limits: Limits, owned: OwnedReplicaSets, size: int) -> int:
    """The size that the new ReplicaSet may grow to."""
    room = limits.max_pods - total(owned.all)
    return size if room <= 0 else size + min(room, limits.desired - size)


def shrink(limits: Limits, owned: OwnedReplicaSets, new: int, new_available: int) -> Sizes:
    """The sizes to shrink old ReplicaSets to, given the size and the available pods of the new one."""
    old = active(owned.old)
    most = total(old) + new - limits.min_available - (new - new_available)
    if most <= 0:
        return ()
    sizes, reliable = _without_unavailable(old, most)
    if not reliable:
        return sizes
    available = sum(each.status.available_replicas for each in old) + new_available
    return _merged(sizes, _without_surplus(_after(old, sizes), available - limits.min_available))


def _without_unavailable(old: tuple[ReplicaSet, ...], most: int) -> tuple[Sizes, bool]:
    """Old ReplicaSets without their unavailable pods; and whether all their reports are current."""
    sizes: list[tuple[ReplicaSet, int]] = []
    for each in old:
        if most <= 0:
            break
        gone = min(most, each.desired_replicas - each.status.available_replicas)
        if gone < 0:
            return tuple(sizes), False
        if gone > 0:
            sizes.append((each, each.desired_replicas - gone))
        most -= gone
    return tuple(sizes), True


def _without_surplus(old: tuple[ReplicaSet, ...], surplus: int) -> Sizes:
    """Old ReplicaSets, from the oldest on, without this many pods."""
    sizes: list[tuple[ReplicaSet, int]] = []
    for each in old:
        gone = min(each.desired_replicas, surplus)
        if gone > 0:
            sizes.append((each, each.desired_replicas - gone))
            surplus -= gone
    return tuple(sizes)


def _after(old: tuple[ReplicaSet, ...], sizes: Sizes) -> tuple[ReplicaSet, ...]:
    by_name = {each.metadata.name: size for each, size in sizes}
    return tuple(resized(each, by_name.get(each.metadata.name, each.desired_replicas)) for each in old)


def _merged(first: Sizes, second: Sizes) -> Sizes:
    """The last size of each, in order of first appearance, with the objects as they were read."""
    read = {each.metadata.name: each for each, _ in (*second, *first)}
    sizes = {each.metadata.name: size for each, size in (*first, *second)}
    return tuple((read[name], size) for name, size in sizes.items())
