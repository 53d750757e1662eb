"""Recreate: all old pods go before the first new one is made. Old and new never run side by side."""

from __future__ import annotations

from trimtab_lab.workloads.deployment.fleets import Fleet, Limits, Move, active


def move(limits: Limits, fleet: Fleet, *, old_pods: bool) -> Move:
    """The next step."""
    running = active(fleet.old)
    if running:
        return Move(tuple((each, 0) for each in running))
    if old_pods or any(each.status.replicas for each in fleet.old):
        return Move()
    if fleet.new is None:
        return Move(birth=limits.desired, settled=True)
    grown = () if fleet.new.desired_replicas == limits.desired else ((fleet.new, limits.desired),)
    return Move(grown, settled=True)
