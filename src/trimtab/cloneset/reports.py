"""The status of a CloneSet: what there is, and what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from trimtab.api import times
from trimtab.api.cloneset import CloneSet, CloneSetStatus, RankWait
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition
from trimtab.api.selectors import Selector
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Plan, Step
from trimtab.kube import conditions

FAILED_SCALE, FAILED_UPDATE = "FailedScale", "FailedUpdate"
"""Making or deleting pods failed, for the sake of the number or of an update, or what comes before it: adopting them,
letting them go, writing down the template."""
REFUSED = "Refused"
"""The spec asks for something that is not supported."""
SELECTOR_OVERLAP = "SelectorOverlap"
"""Another CloneSet selects the same pods."""
RANKS_AWAITED = "RanksAwaited"
"""A scale-down waits for ranks."""

_OURS = (FAILED_SCALE, FAILED_UPDATE, REFUSED, SELECTOR_OVERLAP, RANKS_AWAITED)


class Finding(msgspec.Struct, frozen=True):
    """Something that stands in the way."""

    type: str
    reason: str
    message: str


def status(
    cloneset: CloneSet, group: Group, selector: Selector, revision: str, next_instance: int, wait: RankWait | None
) -> CloneSetStatus:
    """What there is; conditions stay as they are."""
    before, wanted = cloneset.status, cloneset.spec.replicas
    updated = int(group.updated.sum())
    done = updated == len(group) == wanted
    return msgspec.structs.replace(
        before,
        observed_generation=cloneset.metadata.generation,
        replicas=len(group),
        ready_replicas=int(group.ready.sum()),
        available_replicas=int(group.available.sum()),
        updated_replicas=updated,
        updated_ready_replicas=int((group.updated & group.ready).sum()),
        updated_available_replicas=int((group.updated & group.available).sum()),
        expected_updated_replicas=wanted,
        next_instance=next_instance,
        rank_wait=wait,
        update_revision=revision,
        current_revision=revision if done or not before.current_revision else before.current_revision,
        label_selector=str(selector),
    )


def failure(step: Step, message: str) -> Finding:
    """A step that could not be done, for the sake of the number or of an update."""
    return Finding(FAILED_UPDATE if step is Step.REPLACE else FAILED_SCALE, "Error", message)


def findings(plan: Plan, rivals: Sequence[CloneSet], failed: Finding | None) -> list[Finding]:
    """What stands in the way of a CloneSet that can be understood."""
    found = [] if failed is None else [failed]
    if rivals:
        found.append(Finding(SELECTOR_OVERLAP, "Overlap", overlap(rivals)))
    if plan.wait is not None and plan.waits_for:
        found.append(Finding(RANKS_AWAITED, "Unranked", f"the scale-down waits: {plan.waits_for}"))
    return found


def overlap(rivals: Sequence[CloneSet]) -> str:
    """Who selects the same pods."""
    names = ", ".join(rival.metadata.name for rival in rivals)
    return f"CloneSet {names} selects the same pods; give each CloneSet labels of its own"


def refusal(problems: Iterable[InvalidError]) -> Finding:
    """What is not supported, field by field."""
    return Finding(REFUSED, "Unsupported", "; ".join(str(problem) for problem in problems))


def with_findings(status: CloneSetStatus, found: Sequence[Finding], now: int) -> CloneSetStatus:
    """The status with these conditions, and those of others; what is said again keeps its time."""
    kept = tuple(each for each in status.conditions if each.type not in _OURS)
    known = {each.type: each for each in status.conditions}
    ours = tuple(_condition(finding, known.get(finding.type), now) for finding in found)
    return msgspec.structs.replace(status, conditions=(*kept, *ours))


def _condition(finding: Finding, before: Condition | None, now: int) -> Condition:
    since: datetime = conditions.moment(now)
    if before is not None and before.last_transition_time is not None:
        since = before.last_transition_time
    return Condition(
        type=finding.type,
        status=conditions.TRUE,
        reason=finding.reason,
        message=finding.message,
        last_transition_time=since,
    )


def tree(status: CloneSetStatus) -> JSON:
    """A status as it is written: every field, so that nothing of before is left."""
    wait = status.rank_wait
    return {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "updatedReplicas": status.updated_replicas,
        "updatedReadyReplicas": status.updated_ready_replicas,
        "updatedAvailableReplicas": status.updated_available_replicas,
        "expectedUpdatedReplicas": status.expected_updated_replicas,
        "nextInstance": status.next_instance,
        "rankWait": None
        if wait is None
        else {"since": times.format_time(times.to_ns(wait.since)), "among": wait.among},
        "updateRevision": status.update_revision,
        "currentRevision": status.current_revision,
        "collisionCount": status.collision_count,
        "labelSelector": status.label_selector,
        "conditions": conditions.trees(status.conditions),
    }
