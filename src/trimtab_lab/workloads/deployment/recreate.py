"""Recreate: all old pods are deleted before the first new one is created."""

from __future__ import annotations

from trimtab_lab.workloads.deployment.replicasets import Limits, OwnedReplicaSets, Step, active


def next_step(limits: Limits, owned: OwnedReplicaSets, *, old_pods: bool) -> Step:
    """The next step."""
    running = active(owned.old)
    if running:
        return Step(tuple((each, 0) for each in running))
    if old_pods or any(each.status.replicas for each in owned.old):
        return Step()
    if owned.new is None:
        return Step(creation=limits.desired, settled=True)
    grown = () if owned.new.desired_replicas == limits.desired else ((owned.new, limits.desired),)
    return Step(grown, settled=True)
