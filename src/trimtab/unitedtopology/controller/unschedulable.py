"""Adaptive: pods that have been unschedulable for too long, and autoscalers that may add a node for them.

A pod that has been unschedulable for `rescheduleCriticalSeconds` is deleted, and its successor is expected in the next
subset. If a cluster autoscaler has recorded an event that it adds a node for that pod, it gets time for that first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.api.core import Event
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.subsets import rescheduling

AUTOSCALER_REASONS = frozenset({"TriggeredScaleUp", "Nominated"})
"""The events of the Cluster Autoscaler and of Karpenter on a pod that they add a node for."""


@dataclass(frozen=True, slots=True)
class UnschedulablePods:
    """Pods that are due to be rescheduled, and in how many seconds the next one will be."""

    due: tuple[Pod, ...] = ()
    next_in: float | None = None


def time_limit(topology: UnitedTopology) -> timedelta | None:
    """How long a pod may be unschedulable; None where pods are not rescheduled."""
    strategy = topology.spec.schedule_strategy
    seconds = strategy.adaptive.reschedule_critical_seconds if strategy.adaptive is not None else None
    return timedelta(seconds=seconds) if strategy.type == "Adaptive" and seconds is not None else None


def unschedulable_pods(topology: UnitedTopology, pods: Iterable[Pod], now: datetime) -> UnschedulablePods:
    """Which of these have been unschedulable for too long, the longest first."""
    limit = time_limit(topology)
    if limit is None:
        return UnschedulablePods()
    since = {pod.key: (moment, pod) for pod in pods if (moment := rescheduling.unschedulable_since(pod)) is not None}
    ordered = sorted(since.values(), key=lambda entry: (entry[0], entry[1].key))
    due = tuple(pod for moment, pod in ordered if moment + limit <= now)
    left = [(moment + limit - now).total_seconds() for moment, _ in ordered[len(due) :]]
    return UnschedulablePods(due, min(left, default=None))


def node_expected_until(events: Iterable[Event], allowed: timedelta) -> datetime | None:
    """Until when an autoscaler may add a node for a pod, by the events on it; None if there is none."""
    moments = [
        moment
        for event in events
        if event.reason in AUTOSCALER_REASONS
        and (moment := event.last_timestamp or event.event_time or event.first_timestamp) is not None
    ]
    return max(moments) + allowed if moments else None
