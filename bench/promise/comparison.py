"""The order in which upstream's ReplicaSet controller deletes pods, written slowly and plainly.

The criteria, in upstream's order. A pod for which one of them is true, compared with a pod for which it is not, goes
first:

1. it has no node;
2. its phase is Pending, then Unknown, then Running;
3. it is not ready;
4. its deletion cost is lower;
5. more related pods are on its node (none for a ReplicaSet without an owner and for a ReplicationController);
6. both are ready, and it became ready later: ages are compared as whole binary logarithms of nanoseconds at the moment
   of the comparison; the same logarithm and different times: the smaller UID goes first; equal times decide nothing;
7. its containers restarted more often, then its sidecars;
8. it was created later, compared as in 6.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

JSON = dict[str, Any]

COST = "controller.kubernetes.io/pod-deletion-cost"
SECOND = 1_000_000_000
_PHASES = {"Unknown": 1, "Running": 2}
_INTEGER = re.compile(r"-?[0-9]+")
_LEADING_ZERO = re.compile(r"0[0-9]+")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the comparison reads of a pod. Times are nanoseconds since 1970; None where the pod has no such time."""

    name: str
    uid: str
    node: str
    phase: int
    ready: bool
    cost: int
    related_on_node: int
    ready_at: int | None
    restarts: int
    sidecar_restarts: int
    created_at: int | None


def read_pods(pods: Sequence[JSON], *, has_related: bool) -> list[PodFacts]:
    """The facts of a workload's pods; with `has_related` they are their own related pods, as a Deployment's are."""
    on_node = Counter(_node(pod) for pod in pods if is_active(pod)) if has_related else Counter[str]()
    return [_facts(pod, on_node[_node(pod)]) for pod in pods]


def goes_before(one: PodFacts, other: PodFacts, now: int) -> bool:
    """Whether one pod is deleted before the other, if the controller compares them at that moment."""
    for mine, theirs in zip(_static_criteria(one), _static_criteria(other), strict=True):
        if mine != theirs:
            return mine < theirs
    if one.ready and other.ready and one.ready_at != other.ready_at:
        return _is_younger(one, other, one.ready_at, other.ready_at, now)
    if one.restarts != other.restarts:
        return one.restarts > other.restarts
    if one.sidecar_restarts != other.sidecar_restarts:
        return one.sidecar_restarts > other.sidecar_restarts
    if one.created_at != other.created_at:
        return _is_younger(one, other, one.created_at, other.created_at, now)
    return False


def age_scale(time: int, now: int) -> int:
    """The whole binary logarithm of an age in nanoseconds; -1 for a time that is not past."""
    return (now - time).bit_length() - 1 if now > time else -1


def is_active(pod: JSON) -> bool:
    """Whether a controller counts the pod: neither finished nor being deleted."""
    finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not finished and not pod["metadata"].get("deletionTimestamp")


def is_ready(pod: JSON) -> bool:
    """Whether the pod's condition Ready is true."""
    return _ready_condition(pod).get("status") == "True"


def deletion_cost(pod: JSON) -> int:
    """The pod's cost as the controller reads it: 0 where it is missing or not a plain 32-bit integer."""
    text = str(pod["metadata"].get("annotations", {}).get(COST, ""))
    if not _INTEGER.fullmatch(text) or _LEADING_ZERO.fullmatch(text):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def nanoseconds(timestamp: str | None) -> int | None:
    """A timestamp of the API in nanoseconds since 1970; the API has whole seconds."""
    if not timestamp:
        return None
    return round(datetime.fromisoformat(timestamp).timestamp()) * SECOND


def _static_criteria(pod: PodFacts) -> tuple[bool, int, bool, int, int]:
    """Criteria 1 to 5, which do not depend on the moment; the lower goes first."""
    return bool(pod.node), pod.phase, pod.ready, pod.cost, -pod.related_on_node


def _is_younger(one: PodFacts, other: PodFacts, mine: int | None, theirs: int | None, now: int) -> bool:
    if mine is None or theirs is None:
        return mine is None
    my_scale, their_scale = age_scale(mine, now), age_scale(theirs, now)
    if my_scale == their_scale:
        return one.uid < other.uid
    return my_scale < their_scale


def _facts(pod: JSON, related_on_node: int) -> PodFacts:
    metadata, status = pod["metadata"], pod.get("status", {})
    sidecars = {each["name"] for each in pod["spec"].get("initContainers", ()) if each.get("restartPolicy") == "Always"}
    of_sidecars = [each for each in status.get("initContainerStatuses", ()) if each["name"] in sidecars]
    return PodFacts(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        node=_node(pod),
        phase=_PHASES.get(status.get("phase", ""), 0),
        ready=is_ready(pod),
        cost=deletion_cost(pod),
        related_on_node=related_on_node,
        ready_at=nanoseconds(_ready_condition(pod).get("lastTransitionTime")),
        restarts=_most_restarts(status.get("containerStatuses", ())),
        sidecar_restarts=_most_restarts(of_sidecars),
        created_at=nanoseconds(metadata.get("creationTimestamp")),
    )


def _most_restarts(statuses: Iterable[JSON]) -> int:
    return max((int(each.get("restartCount", 0)) for each in statuses), default=0)


def _ready_condition(pod: JSON) -> JSON:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Ready"), {})


def _node(pod: JSON) -> str:
    return str(pod["spec"].get("nodeName", ""))
