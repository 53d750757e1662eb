"""What a policy says of itself: its status, from what was found. Pure.

| condition | when it is there |
|---|---|
| `Ready` | always: `False` with the reason, and what to do about it |
| `Overlapping` | other policies mean the same workloads: who speaks for which |
| `CarrierNotConsumed` | nothing that Trimtab knows of reads the chosen carrier for some workload |
| `TwoOwners` | another workload claims the same pods; they are left alone |

Reasons of `Ready`, the first that holds:

| reason | what it means |
|---|---|
| `Invalid` | the policy cannot work as it is written |
| `NoWorkload` | there is no such workload, or none whose pods the selector matches |
| `NotSupported` | the workload, or whatever the selector matches, does not choose its victims by cost |
| `SwitchedOff` | nobody speaks for it: the switch, an exempt namespace, an opt-out |
| `GivesWay` | other policies speak for all that it means |
| `TwoOwners` | as the condition, and for all workloads that it speaks for |
| `OfDeployment` | it is the Deployment of the ReplicaSet that is asked to shrink, and its policy that is heard then |
| `StrategyFailed` | a strategy does not work |
| `CarrierNotConsumed` | as the condition, and for all workloads that it speaks for |
| `Unranked` | some pods have no rank: whose, by which strategy, and what happens meanwhile |
| `WriteFailed` | costs could not be written |
| `Ranking`, `OnScaleIntent` | it works: all the time, or when a scale-down is asked for |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.api import times
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.scaledown import PlanStatus, ScaleDownPolicy, ScaleDownPolicySpec, ScaleDownPolicyStatus, SkewStatus
from trimtab.kube.clocks import SECOND
from trimtab.ranking.plan import Plan

READY = "Ready"
OVERLAPPING = "Overlapping"
NOT_CONSUMED = "CarrierNotConsumed"
TWO_OWNERS = "TwoOwners"

MOST_VICTIMS = 500
"""How many victims a status names."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found about one policy."""

    faults: Sequence[str] = ()
    speaks_for: Sequence[str] = ()
    """Workloads, as people call them."""
    silent: Sequence[str] = ()
    """Why nobody speaks for workloads that it means."""
    refused: Sequence[str] = ()
    """Workloads, or owners of pods, that do not choose by cost."""
    beats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other policies that mean its workloads, by workload."""
    yields_to: Mapping[str, str] = field(default_factory=dict)
    """Who speaks for workloads that it means, by workload."""
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Who else claims the pods of workloads that it speaks for, by workload."""
    unread: Sequence[str] = ()
    """Workloads for which nothing reads the carrier."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """ReplicaSets that are resized by their Deployments, whose scale-downs are not held; and the Deployments' names."""
    ranked: int = 0
    unranked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Pods without a rank, and the strategies that say nothing of them."""
    fallback: bool = False
    """Whether waiting for ranks is over, and costs were taken back."""
    strategy_fault: str = ""
    problem: str = ""
    """Why ranks are missing."""
    error: str = ""
    theirs: Sequence[str] = ()
    """Pods whose cost is somebody else's."""


def status(policy: ScaleDownPolicy, found: Findings, now: int) -> ScaleDownPolicyStatus:
    """The status that the findings make; what says the same as before keeps its time."""
    wanted = [_ready(policy.spec, found), *_others(found)]
    known = {condition.type: condition for condition in policy.status.conditions}
    generation = policy.metadata.generation
    conditions = tuple(_timed(each, known.get(each.type), generation, now) for each in wanted)
    return ScaleDownPolicyStatus(
        observed_generation=generation,
        conditions=conditions,
        ranked_pods=found.ranked,
        unranked_pods=len(found.unranked),
        last_plan=policy.status.last_plan,
        last_error=found.error or found.strategy_fault or found.problem or _planned_in_vain(policy),
    )


def _planned_in_vain(policy: ScaleDownPolicy) -> str:
    """What kept the last plan from being carried out."""
    last = policy.status.last_plan
    return last.error if last is not None else ""


def tree(new: ScaleDownPolicyStatus) -> JSON:
    """The part of a status that the controller keeps, as it is patched: the last plan is for who plans to write."""
    return {
        "observedGeneration": new.observed_generation,
        "conditions": [_condition_tree(each) for each in new.conditions],
        "rankedPods": new.ranked_pods,
        "unrankedPods": new.unranked_pods,
        "lastError": new.last_error,
    }


def _condition_tree(condition: Condition) -> JSON:
    moment = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": None if moment is None else times.format_time(times.to_ns(moment)),
        "observedGeneration": condition.observed_generation,
    }


def _timed(new: Condition, known: Condition | None, generation: int, now: int) -> Condition:
    same = known is not None and known.status == new.status
    since = known.last_transition_time if known is not None and same else times.from_ns(now // SECOND * SECOND)
    return Condition(
        type=new.type,
        status=new.status,
        reason=new.reason,
        message=new.message,
        last_transition_time=since,
        observed_generation=generation,
    )


# Ready.


def _ready(spec: ScaleDownPolicySpec, found: Findings) -> Condition:
    for reason, message in obstacles(spec, found):
        if message:
            return Condition(type=READY, status="False", reason=reason, message=message)
    kept = spec.delivery == "Continuous"
    told = "its costs are kept current" if kept else "costs are written when a scale-down is asked for"
    theirs = f"; {len(found.theirs)} pods keep costs that others have set" if found.theirs else ""
    message = f"speaks for {_listed(found.speaks_for)}: {found.ranked} pods are ranked, {told}{theirs}"
    return Condition(type=READY, status="True", reason="Ranking" if kept else "OnScaleIntent", message=message)


def obstacles(spec: ScaleDownPolicySpec, found: Findings) -> Iterable[tuple[str, str]]:
    """What could be in the way, in the order in which it is told; without a message it is not."""
    yield "Invalid", "; ".join(found.faults)
    nobody = not (found.speaks_for or found.yields_to or found.silent)
    yield "NotSupported", "; ".join(found.refused) if nobody else ""
    yield "NoWorkload", _missing(spec) if nobody else ""
    yield "SwitchedOff", "; ".join(found.silent) if not (found.speaks_for or found.yields_to) else ""
    yield "GivesWay", _told_yielding(found) if not found.speaks_for else ""
    yield "TwoOwners", _told_rivals(found) if set(found.speaks_for) <= set(found.rivals) else ""
    yield "OfDeployment", _told_unasked(found) if set(found.speaks_for) <= set(found.unasked) else ""
    yield "StrategyFailed", found.strategy_fault
    yield "CarrierNotConsumed", _told_unread(spec, found) if set(found.speaks_for) <= set(found.unread) else ""
    yield "Unranked", _told_unranked(spec, found)
    yield "WriteFailed", found.error


def _missing(spec: ScaleDownPolicySpec) -> str:
    if spec.target_ref is not None:
        kind, name = spec.target_ref.kind, spec.target_ref.name
        return f"there is no {kind} {name} in this namespace; create it, or write the name of one in spec.targetRef"
    return (
        "the selector matches the pods of no workload in this namespace; compare it with the labels in their templates"
    )


def _told_unasked(found: Findings) -> str:
    told = [f"{name} is resized by its Deployment {owner}" for name, owner in found.unasked.items()]
    advice = "name the Deployment in spec.targetRef, or write delivery: Continuous"
    return f"{'; '.join(_shortened(told))}, and a scale-down is asked of that; {advice}" if told else ""


def _told_unranked(spec: ScaleDownPolicySpec, found: Findings) -> str:
    if not found.unranked:
        return ""
    names = [f"{pod} (by {', '.join(by)})" for pod, by in list(found.unranked.items())[:_NAMED]]
    more = f" and {len(found.unranked) - _NAMED} more" if len(found.unranked) > _NAMED else ""
    why = f": {found.problem}" if found.problem else ""
    total = found.ranked + len(found.unranked)
    return (
        f"{len(found.unranked)} of {total} pods have no rank, {', '.join(names)}{more}{why}; {_meanwhile(spec, found)}"
    )


def _meanwhile(spec: ScaleDownPolicySpec, found: Findings) -> str:
    rule = spec.when_unranked
    if found.fallback or rule.action == "Fallback":
        return "until they have, the workload's controller chooses by itself"
    return f"a scale-down waits for them, up to {rule.timeout_seconds} s or what its controller allows"


# The other conditions.


def _others(found: Findings) -> Iterable[Condition]:
    if found.beats or found.yields_to:
        reason = "SpeaksFirst" if not found.yields_to else "GivesWay"
        yield Condition(type=OVERLAPPING, status="True", reason=reason, message=_told_overlaps(found))
    if found.unread:
        message = f"nothing reads this carrier for {_listed(found.unread)}; {_ADVICE}"
        yield Condition(type=NOT_CONSUMED, status="True", reason="NoReader", message=message)
    if found.rivals:
        yield Condition(type=TWO_OWNERS, status="True", reason="SelectorsOverlap", message=_told_rivals(found))


_ADVICE = "write carrier: Annotation, which its controller honours"


def _told_unread(spec: ScaleDownPolicySpec, found: Findings) -> str:
    if not found.unread:
        return ""
    return f"costs in {spec.carrier} have no effect on {_listed(found.unread)}; {_ADVICE}"


def _told_overlaps(found: Findings) -> str:
    beats = [f"speaks for {workload} before {_listed(others)}" for workload, others in found.beats.items()]
    yields = [f"gives way to {other} for {workload}" for workload, other in found.yields_to.items()]
    return "; ".join(_shortened([*beats, *yields]))


def _told_yielding(found: Findings) -> str:
    return "; ".join(_shortened([f"{other} speaks for {workload}" for workload, other in found.yields_to.items()]))


def _told_rivals(found: Findings) -> str:
    told = [f"{workload} and {_listed(others)} claim the same pods" for workload, others in found.rivals.items()]
    return "; ".join(_shortened(told)) + "; they are left alone: give each selector labels of its own" if told else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(_shortened(names))


def _shortened(names: Sequence[str]) -> list[str]:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [*names[:_NAMED], *more]


# The last plan.


def plan_status(plans: Sequence[Plan], before: int, after: int, now: int, error: str = "") -> PlanStatus:
    """A scale-down that was planned: one plan, or one for each ReplicaSet of a Deployment; what went wrong with it."""
    victims = tuple(key.partition("/")[2] for plan in plans for key in plan.keys)
    skews: dict[str, SkewStatus] = {}
    for leveling in (each for plan in plans for each in plan.levelings):
        known = skews.get(leveling.topology_key, SkewStatus(topology_key=leveling.topology_key))
        skews[leveling.topology_key] = SkewStatus(
            topology_key=leveling.topology_key,
            before=max(known.before, leveling.skew_before),
            after=max(known.after, leveling.skew_after),
            stock=max(known.stock, leveling.skew_stock),
        )
    return PlanStatus(
        time=times.from_ns(now // SECOND * SECOND),
        from_=before,
        to=after,
        victims=victims[:MOST_VICTIMS],
        skews=tuple(skews.values()),
        error=error,
    )


def plan_tree(plan: PlanStatus) -> JSON:
    """A plan as it is patched, zeros included."""
    return {
        "time": None if plan.time is None else times.format_time(times.to_ns(plan.time)),
        "from": plan.from_,
        "to": plan.to,
        "victims": list(plan.victims),
        "skews": [
            {"topologyKey": each.topology_key, "before": each.before, "after": each.after, "stock": each.stock}
            for each in plan.skews
        ],
        "error": plan.error,
    }
