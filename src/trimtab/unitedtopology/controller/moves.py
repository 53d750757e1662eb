"""Adaptive: pods that wait too long for a node, and who may be about to bring one.

A pod that a scheduler has found no node for in `rescheduleCriticalSeconds` is deleted, and its successor is expected in
the next subset. But a cluster autoscaler that was moved to add a node by that very pod tells so in an event; it is
given its time first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets import rescheduling

NODES_COMING = frozenset({"TriggeredScaleUp", "Nominated"})
"""What the Cluster Autoscaler and Karpenter say of a pod that they bring a node for."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods that have waited long enough, and in how many seconds the next one will have."""

    due: tuple[Pod, ...] = ()
    next_in: float | None = None


def patience(topology: UnitedTopology) -> timedelta | None:
    """How long a pod may wait for a node; None where pods are not moved."""
    strategy = topology.spec.schedule_strategy
    seconds = strategy.adaptive.reschedule_critical_seconds if strategy.adaptive is not None else None
    return timedelta(seconds=seconds) if strategy.type == "Adaptive" and seconds is not None else None


def waiting(topology: UnitedTopology, pods: Iterable[Pod], now: datetime) -> Waiting:
    """Who of these has found no node for too long, the longest first."""
    limit = patience(topology)
    if limit is None:
        return Waiting()
    since = {pod.key: (moment, pod) for pod in pods if (moment := rescheduling.unschedulable_since(pod)) is not None}
    ordered = sorted(since.values(), key=lambda entry: (entry[0], entry[1].key))
    due = tuple(pod for moment, pod in ordered if moment + limit <= now)
    left = [(moment + limit - now).total_seconds() for moment, _ in ordered[len(due) :]]
    return Waiting(due, min(left, default=None))


def promised_until(events: Iterable[Event], given: timedelta) -> datetime | None:
    """Until when a node may still come for a pod, by the events about it; None if nobody brings one."""
    moments = [
        moment
        for event in events
        if event.reason in NODES_COMING
        and (moment := event.last_timestamp or event.event_time or event.first_timestamp) is not None
    ]
    return max(moments) + given if moments else None
