"""What the node controllers of Kubernetes decide about nodes and their pods. Pure.

1. A node without heartbeats for the grace period is *Unknown*, in every condition that its kubelet reports.
2. Each condition that keeps pods away is a NoSchedule taint, and so is being cordoned, for as long as it holds.
3. A node that is not ready gets a NoExecute taint too, at a limited rate for each zone: slower where most of a zone is
   down, and not at all if that zone is small. If no node is ready anywhere, the control plane itself is probably cut
   off, and no pod is evicted.
4. A pod leaves a node with NoExecute taints at once if it does not tolerate them all, after the shortest of its
   `tolerationSeconds`, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from trimtab.api import times
from trimtab.api.nodes import Taint as PlainTaint
from trimtab.api.pods import Toleration
from trimtab.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from trimtab.kube.clocks import SECOND
from trimtab_lab.nodes.settings import NodeLifecycleSettings
from trimtab_lab.nodes.views import FALSE, TRUE, UNKNOWN, Node, NodeCondition, Taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

READINESS_TAINTS: dict[str, str] = {FALSE: NOT_READY, UNKNOWN: UNREACHABLE}
"""The taint for each status of the Ready condition other than True."""

CONDITION_TAINTS: dict[str, dict[str, str]] = {
    "Ready": READINESS_TAINTS,
    "MemoryPressure": {TRUE: "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {TRUE: "node.kubernetes.io/disk-pressure"},
    "NetworkUnavailable": {TRUE: "node.kubernetes.io/network-unavailable"},
    "PIDPressure": {TRUE: "node.kubernetes.io/pid-pressure"},
}
"""The NoSchedule taint for each condition and status."""

REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet reports, and that become Unknown without heartbeats."""

_OURS = frozenset(key for keys in CONDITION_TAINTS.values() for key in keys.values()) | {UNSCHEDULABLE}

NEVER = None


class ZoneState(Enum):
    """How much of a zone is ready."""

    NORMAL = auto()
    PARTIAL_DISRUPTION = auto()
    FULL_DISRUPTION = auto()


def unknown_conditions(node: Node, now: int) -> list[NodeCondition]:
    """The conditions to change on a node whose heartbeats have stopped."""
    at = times.format_time(now)
    changed = []
    for kind in REPORTED:
        old = node.condition(kind)
        if old is None:
            changed.append(_condition(kind, "NodeStatusNeverUpdated", "Kubelet never posted node status.", at))
        elif old.status != UNKNOWN:
            changed.append(_condition(kind, "NodeStatusUnknown", "Kubelet stopped posting node status.", at))
    return changed


def _condition(kind: str, reason: str, message: str, at: str) -> NodeCondition:
    return NodeCondition(type=kind, status=UNKNOWN, reason=reason, message=message, last_transition_time=at)


def zone_state(ready: int, total: int, settings: NodeLifecycleSettings) -> ZoneState:
    """The state of a zone in which this many nodes are ready."""
    down = total - ready
    if ready == 0 and down > 0:
        return ZoneState.FULL_DISRUPTION
    if down > 2 and down / total >= settings.unhealthy_zone_threshold:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


def eviction_rate_of(state: ZoneState, total: int, settings: NodeLifecycleSettings) -> float:
    """How many nodes of a zone may get a NoExecute taint per second."""
    if state is not ZoneState.PARTIAL_DISRUPTION:
        return settings.eviction_rate
    return settings.secondary_eviction_rate if total > settings.large_cluster_size else 0.0


def is_all_disrupted(states: Iterable[ZoneState]) -> bool:
    """Whether no zone has a ready node."""
    return all(state is ZoneState.FULL_DISRUPTION for state in states)


def taints(node: Node, *, evicts: bool, now: int) -> tuple[Taint, ...]:
    """The taints that a node should have: those from elsewhere, and those that its conditions require.

    `evicts` allows the NoExecute taint on a node that is not ready. A node that already has it keeps it.
    """
    wanted = _wanted(node, evicts=evicts)
    kept = [taint for taint in node.spec.taints if not _is_ours(taint) or (taint.key, taint.effect) in wanted]
    held = {(taint.key, taint.effect) for taint in kept}
    at = times.format_time(now)
    added = [Taint(key=key, effect=effect, time_added=at) for key, effect in wanted if (key, effect) not in held]
    return (*kept, *added)


def _wanted(node: Node, *, evicts: bool) -> dict[tuple[str, str], None]:
    statuses = {each.type: each.status for each in node.status.conditions}
    keys = [by_status.get(statuses.get(kind, "")) for kind, by_status in CONDITION_TAINTS.items()]
    wanted = {(key, NO_SCHEDULE): None for key in keys if key}
    if node.spec.unschedulable:
        wanted[UNSCHEDULABLE, NO_SCHEDULE] = None
    down = READINESS_TAINTS.get(statuses.get("Ready", ""))
    if down and evicts:
        wanted[down, NO_EXECUTE] = None
    return wanted


def _is_ours(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in (NOT_READY, UNREACHABLE)
    return taint.effect == NO_SCHEDULE and taint.key in _OURS


def has_eviction_taint(node: Node) -> bool:
    """Whether a node has a NoExecute taint for not being ready."""
    return any(taint.effect == NO_EXECUTE and taint.key in (NOT_READY, UNREACHABLE) for taint in node.spec.taints)


def no_execute_taints(node: Node) -> tuple[Taint, ...]:
    """The NoExecute taints of a node."""
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def eviction_time(tolerations: Sequence[Toleration], taints: Mapping[Taint, int], arrived: int) -> int | None:
    """When a pod leaves a node with these NoExecute taints, given when each was added and when the pod arrived.

    The time that a pod tolerates begins with the first taint; later taints do not extend it. `NEVER` if it tolerates
    all of them without a limit.
    """
    if not taints:
        return NEVER
    since = max(arrived, min(taints.values()))
    used: list[Toleration] = []
    for taint in taints:
        plain = PlainTaint(key=taint.key, value=taint.value, effect=taint.effect)
        match = next((each for each in tolerations if tolerates(each, plain)), None)
        if match is None:
            return since
        used.append(match)
    seconds = [max(each.toleration_seconds, 0) for each in used if each.toleration_seconds is not None]
    return since + min(seconds) * SECOND if seconds else NEVER
