"""Rolling update: the new ReplicaSet grows as far as the surge allows, the old ones shrink as far as availability does.

A step either grows the new one or shrinks old ones, never both, except that a new ReplicaSet may be created and old
ones shrink in one step. How much the old ones may shrink:

1. No more than leaves the fewest that must be available, if all pods of the new ReplicaSet that are not available yet
   never become it: `all − fewest − (new − available of new)`.
2. First go pods of old ReplicaSets that are not available: they do nobody any good, and would block the update.
3. Then, from the oldest ReplicaSet on, as many as are available beyond the fewest.

An old ReplicaSet that reports more available pods than it is to have has been resized and not reported since. Nothing
more is decided on what is out of date.
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
    """How large the new ReplicaSet, which is so large now, may become."""
    room = limits.max_pods - total(owned.all)
    return size if room <= 0 else size + min(room, limits.desired - size)


def shrink(limits: Limits, owned: OwnedReplicaSets, new: int, new_available: int) -> Sizes:
    """The sizes that old ReplicaSets are to be shrunk to, given the size of the new one and how much of it is there."""
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
    """Old ReplicaSets without the pods that are not available; and whether all that was looked at is up to date."""
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
    """Old ReplicaSets, from the oldest on, without so many pods."""
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
    """The last size of each, in the order in which they first came up; of the objects, those that were read."""
    read = {each.metadata.name: each for each, _ in (*second, *first)}
    sizes = {each.metadata.name: size for each, size in (*first, *second)}
    return tuple((read[name], size) for name, size in sizes.items())
