"""The status of a CloneSet: its counts, and conditions for what is in the way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from trimtab.api import times
from trimtab.api.annotations import Reason
from trimtab.api.cloneset import CloneSet, CloneSetStatus, RankWait
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Condition
from trimtab.api.selectors import Selector
from trimtab.cloneset.observation import Group
from trimtab.cloneset.plan import Plan, Step
from trimtab.kube import conditions

UNDECIDED = frozenset[str]({Reason.FAILED_SCALE, Reason.FAILED_UPDATE, Reason.WAITING_FOR_RANKS})
"""The conditions for failures and waits: they stay while nothing new is decided."""
_TYPES = frozenset[str]({*UNDECIDED, Reason.INVALID_SPEC, Reason.SELECTOR_OVERLAP})
"""All condition types that this controller writes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The observed pods of a CloneSet, and the plan for them."""

    group: Group
    plan: Plan
    next_instance: int
    is_current: bool
    """Whether everything that was written had been observed; if not, the plan is to do nothing."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is in the way: the content of a condition."""

    type: str
    reason: str
    message: str


def status(
    cloneset: CloneSet, group: Group, selector: Selector, revision: str, next_instance: int, wait: RankWait | None
) -> CloneSetStatus:
    """The counts of these pods; conditions stay as they are."""
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


def after(
    cloneset: CloneSet,
    selector: Selector,
    revision: str,
    decision: Decision,
    conflicting: Sequence[CloneSet],
    failure: Finding | None,
    now: int,
) -> CloneSetStatus:
    """The whole status after a decision, and the failure of its step if it failed."""
    plan = decision.plan
    counted = status(cloneset, decision.group, selector, revision, decision.next_instance, plan.wait)
    current = findings(plan, conflicting, failure)
    if not decision.is_current and failure is None:
        current += standing(cloneset, current, UNDECIDED)
    elif plan.step is Step.SPECIFIED and plan.wait is not None:
        current += standing(cloneset, current, frozenset({Reason.WAITING_FOR_RANKS}))
    return with_findings(counted, current, now)


def is_soon_outdated(cloneset: CloneSet, decision: Decision) -> bool:
    """Whether a status written now would only have counts that change as soon as the pods are observed."""
    plan, before = decision.plan, cloneset.status
    acted = bool(plan.creations or plan.victims)
    return acted and before.observed_generation == cloneset.metadata.generation and before.rank_wait == plan.wait


def failure(step: Step, message: str) -> Finding:
    """A step that failed, on behalf of an update or of the number of replicas."""
    kind = Reason.FAILED_UPDATE if step is Step.UPDATE else Reason.FAILED_SCALE
    return Finding(kind, Reason.ERROR, message)


def findings(plan: Plan, conflicting: Sequence[CloneSet], failure: Finding | None) -> list[Finding]:
    """What is in the way of a CloneSet whose spec is valid."""
    current = [] if failure is None else [failure]
    if conflicting:
        current.append(overlap(conflicting))
    if plan.wait is not None and plan.wait_reason:
        message = f"the scale-down waits: {plan.wait_reason}"
        current.append(Finding(Reason.WAITING_FOR_RANKS, Reason.UNRANKED, message))
    return current


def overlap(conflicting: Sequence[CloneSet]) -> Finding:
    """Other CloneSets that select the same pods."""
    names = ", ".join(each.metadata.name for each in conflicting)
    message = f"CloneSet {names} selects the same pods; give each CloneSet labels of its own"
    return Finding(Reason.SELECTOR_OVERLAP, Reason.OVERLAP, message)


def invalid_spec(problems: Iterable[InvalidError]) -> Finding:
    """What is not supported, field by field."""
    return Finding(Reason.INVALID_SPEC, Reason.UNSUPPORTED, "; ".join(str(problem) for problem in problems))


def standing(cloneset: CloneSet, current: Sequence[Finding], types: frozenset[str]) -> list[Finding]:
    """Conditions of these types that were reported before and still hold, as nothing new was decided about them."""
    left = types - {finding.type for finding in current}
    return [Finding(each.type, each.reason, each.message) for each in cloneset.status.conditions if each.type in left]


def with_findings(status: CloneSetStatus, current: Sequence[Finding], now: int) -> CloneSetStatus:
    """The status with these conditions, and those of others; a condition that stays keeps its transition time."""
    kept = tuple(each for each in status.conditions if each.type not in _TYPES)
    known = {each.type: each for each in status.conditions}
    ours = tuple(_condition(finding, known.get(finding.type), now) for finding in current)
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
    """A status as JSON with every field, so that a merge patch replaces all of it."""
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
