"""The status of a policy, from what was found about it. Pure.

| condition | present when |
|---|---|
| `Ready` | always: `False` with the reason, and what to do about it |
| `Overlapping` | other policies refer to the same workloads |
| `CarrierNotConsumed` | no controller that Trimtab knows of reads the chosen carrier for some workload |
| `OverlappingSelectors` | another workload selects the same pods, which are not ranked |
| `RivalCosts` | another component ranks the same pods; its ranks do not count |

The reasons are members of `trimtab.api.annotations.Reason`; `obstacles` says which one `Ready` reports first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.api import times
from trimtab.api.annotations import ALPHA_COST, Reason
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.scaledown import (
    MAX_VICTIMS,
    PlanStatus,
    ScaleDownPolicy,
    ScaleDownPolicySpec,
    ScaleDownPolicyStatus,
    SkewStatus,
)
from trimtab.kube.clocks import SECOND
from trimtab.ranking.plan import Plan
from trimtab.scaledown.policy.conflicts import MOST

READY = "Ready"
CONDITIONS = (
    READY,
    Reason.OVERLAPPING,
    Reason.CARRIER_NOT_CONSUMED,
    Reason.OVERLAPPING_SELECTORS,
    Reason.RIVAL_COSTS,
)
"""The types of all conditions."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found about one policy."""

    faults: Sequence[str] = ()
    applies_to: Sequence[str] = ()
    """Workloads that users scale (`Deployment web`)."""
    is_kind_absent: bool = False
    """Whether the cluster does not have the kind of its target."""
    exemptions: Sequence[str] = ()
    """Why no policy applies to workloads that it refers to."""
    unsupported: Sequence[str] = ()
    """Workloads, or owners of pods, that do not choose their victims by cost."""
    overrides: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other policies that refer to its workloads, by workload."""
    overridden_by: Mapping[str, str] = field(default_factory=dict)
    """The policies that apply to workloads that it refers to, by workload."""
    conflicts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other workloads that select the pods of its workloads, by workload; of many, some (`conflicts.MOST`)."""
    unread: Sequence[str] = ()
    """Workloads whose controllers do not read the carrier."""
    managed: Mapping[str, str] = field(default_factory=dict)
    """ReplicaSets that are resized by their owners, whose scale-downs are not held; and these (`Deployment web`)."""
    ranked: int = 0
    unranked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Pods without a rank, and the strategies that do not rank them."""
    fallback: bool = False
    """Whether the time to wait for ranks has passed, and costs were reverted."""
    strategy_fault: str = ""
    problem: str = ""
    """Why ranks are missing."""
    error: str = ""
    foreign: Sequence[str] = ()
    """Pods whose cost belongs to another program."""
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """PodGroupCosts that rank the pods of its workloads and do not count, by workload."""
    annotated: Sequence[str] = ()
    """Pods with a rank of another component, in an annotation that does not count."""
    blocked: Sequence[str] = ()
    """Names of its own PodGroupCosts that objects of other writers have."""


def status(policy: ScaleDownPolicy, findings: Findings, now: int) -> ScaleDownPolicyStatus:
    """The status for these findings; a condition whose status does not change keeps its transition time."""
    wanted = [_ready(policy.spec, findings), *_others(findings)]
    known = {condition.type: condition for condition in policy.status.conditions}
    generation = policy.metadata.generation
    conditions = tuple(_timed(each, known.get(each.type), generation, now) for each in wanted)
    return ScaleDownPolicyStatus(
        observed_generation=generation,
        conditions=conditions,
        ranked_pods=findings.ranked,
        unranked_pods=len(findings.unranked),
        last_plan=policy.status.last_plan,
        counts=policy.status.counts,
        recent=policy.status.recent,
        last_error=findings.error or findings.strategy_fault or findings.problem or _last_plan_error(policy),
    )


def _last_plan_error(policy: ScaleDownPolicy) -> str:
    """Why costs of the last plan could not be written."""
    last = policy.status.last_plan
    return last.error if last is not None else ""


def tree(new: ScaleDownPolicyStatus) -> JSON:
    """The part of a status that the controller writes, as it is patched: `plan_reports` writes the rest."""
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


def _ready(spec: ScaleDownPolicySpec, findings: Findings) -> Condition:
    for reason, message in obstacles(spec, findings):
        if message:
            return Condition(type=READY, status="False", reason=reason, message=message)
    is_continuous = spec.delivery == "Continuous"
    delivery = "costs are kept current" if is_continuous else "costs are written on each scale-down"
    if spec.mode == "Observe":
        message = f"applies to {_listed(findings.applies_to)}: scale-downs are observed, and nothing is written to pods"
        return Condition(type=READY, status="True", reason=Reason.OBSERVING, message=message)
    foreign = f"; {len(findings.foreign)} pods keep costs of other programs" if findings.foreign else ""
    message = f"applies to {_listed(findings.applies_to)}: {findings.ranked} pods are ranked, {delivery}{foreign}"
    reason = Reason.RANKING if is_continuous else Reason.ON_SCALE_INTENT
    return Condition(type=READY, status="True", reason=reason, message=message)


def obstacles(spec: ScaleDownPolicySpec, findings: Findings) -> Iterable[tuple[Reason, str]]:
    """What may keep a policy from working, in the order in which it is reported; what does not has no message."""
    yield Reason.INVALID, "; ".join(findings.faults)
    applies_to = set(findings.applies_to)
    has_no_workload = not (applies_to or findings.overridden_by or findings.exemptions)
    yield Reason.NOT_SUPPORTED, "; ".join(findings.unsupported) if has_no_workload else ""
    yield Reason.WORKLOAD_NOT_FOUND, _missing(spec, findings) if has_no_workload else ""
    yield Reason.DISABLED, "; ".join(findings.exemptions) if not (applies_to or findings.overridden_by) else ""
    yield Reason.OVERRIDDEN, _overridden_message(findings) if not applies_to else ""
    yield Reason.OVERLAPPING_SELECTORS, _conflicts_message(findings) if applies_to <= set(findings.conflicts) else ""
    yield Reason.MANAGED_BY_DEPLOYMENT, _managed_message(findings) if applies_to <= set(findings.managed) else ""
    yield Reason.STRATEGY_FAILED, findings.strategy_fault
    yield Reason.CARRIER_NOT_CONSUMED, _unread_message(spec, findings) if applies_to <= set(findings.unread) else ""
    yield Reason.RIVAL_COSTS, _blocked_message(findings)
    yield Reason.UNRANKED, _unranked_message(spec, findings)
    yield Reason.WRITE_FAILED, findings.error


def _missing(spec: ScaleDownPolicySpec, findings: Findings) -> str:
    if spec.target_ref is not None:
        kind, name = spec.target_ref.kind, spec.target_ref.name
        if findings.is_kind_absent:
            return f"the cluster does not serve {spec.target_ref.api_version} {kind}; install its definition"
        return f"there is no {kind} {name} in this namespace; create it, or name an existing one in spec.targetRef"
    return (
        "the selector matches the pods of no workload in this namespace; compare it with the labels in their templates"
    )


def _managed_message(findings: Findings) -> str:
    managed = [f"{name} is resized by its {owner}" for name, owner in findings.managed.items()]
    kind = " or ".join(dict.fromkeys(owner.partition(" ")[0] for owner in findings.managed.values()))
    advice = f"name the {kind} in spec.targetRef, or use delivery: Continuous"
    return f"{'; '.join(_shortened(managed))}; only requests to the {kind} are held; {advice}" if managed else ""


def _unranked_message(spec: ScaleDownPolicySpec, findings: Findings) -> str:
    if not findings.unranked:
        return ""
    names = [f"{pod} (by {', '.join(by)})" for pod, by in list(findings.unranked.items())[:_NAMED]]
    more = f" and {len(findings.unranked) - _NAMED} more" if len(findings.unranked) > _NAMED else ""
    why = f": {findings.problem}" if findings.problem else ""
    total = findings.ranked + len(findings.unranked)
    pods = f"{', '.join(names)}{more}{why}"
    return f"{len(findings.unranked)} of {total} pods have no rank, {pods}; {_meanwhile(spec, findings)}"


def _meanwhile(spec: ScaleDownPolicySpec, findings: Findings) -> str:
    rule = spec.when_unranked
    if findings.fallback or rule.action == "Fallback":
        return "until they have one, the controller's own order decides"
    return f"a scale-down waits for them, up to {rule.timeout_seconds} s, or as long as its controller allows"


# The other conditions.


def _others(findings: Findings) -> Iterable[Condition]:
    if findings.overrides or findings.overridden_by:
        reason = Reason.OVERRIDDEN if findings.overridden_by else Reason.OVERRIDES
        yield _true(Reason.OVERLAPPING, reason, _overlaps_message(findings))
    if findings.unread:
        message = f"no controller reads this carrier for {_listed(findings.unread)}; {_ADVICE}"
        yield _true(Reason.CARRIER_NOT_CONSUMED, Reason.CARRIER_NOT_CONSUMED, message)
    if findings.conflicts:
        yield _true(Reason.OVERLAPPING_SELECTORS, Reason.OVERLAPPING_SELECTORS, _conflicts_message(findings))
    if findings.rivals or findings.annotated:
        yield _true(Reason.RIVAL_COSTS, Reason.RIVAL_COSTS, _rivals_message(findings))


def _true(condition: Reason, reason: Reason, message: str) -> Condition:
    return Condition(type=condition, status="True", reason=reason, message=message)


_ADVICE = "use carrier: Annotation, which its controller reads"


def _unread_message(spec: ScaleDownPolicySpec, findings: Findings) -> str:
    if not findings.unread:
        return ""
    return f"costs in {spec.carrier} have no effect on {_listed(findings.unread)}; {_ADVICE}"


def _blocked_message(findings: Findings) -> str:
    if not findings.blocked:
        return ""
    names = _listed(findings.blocked)
    return f"PodGroupCost {names} is not Trimtab's, and the costs of this policy need that name; delete it"


def _rivals_message(findings: Findings) -> str:
    rivals = [f"PodGroupCost {_listed(names)} for {workload}" for workload, names in findings.rivals.items()]
    pods = [f"{ALPHA_COST} of {len(findings.annotated)} pods"] if findings.annotated else []
    advice = "only this policy's ranks do: delete them, or delete this policy to be ranked by them"
    return f"{'; '.join(_shortened([*rivals, *pods]))}: these ranks of other writers do not count, {advice}"


def _overlaps_message(findings: Findings) -> str:
    overrides = [f"overrides {_listed(others)} for {workload}" for workload, others in findings.overrides.items()]
    overridden = [f"is overridden by {other} for {workload}" for workload, other in findings.overridden_by.items()]
    return "; ".join(_shortened([*overrides, *overridden]))


def _overridden_message(findings: Findings) -> str:
    return "; ".join(
        _shortened([f"{other} applies to {workload}" for workload, other in findings.overridden_by.items()])
    )


def _conflicts_message(findings: Findings) -> str:
    conflicts = [
        f"{workload} and {_listed(others, most=MOST)} select the same pods"
        for workload, others in findings.conflicts.items()
    ]
    advice = "these are not ranked: give each selector labels of its own"
    return f"{'; '.join(_shortened(conflicts))}; {advice}" if conflicts else ""


def _listed(names: Sequence[str], most: int | None = None) -> str:
    return ", ".join(_shortened(names, most))


def _shortened(names: Sequence[str], most: int | None = None) -> list[str]:
    """The first names, and how many more there are: at least so many, where no more than `most` were looked for."""
    count = "at least " if most is not None and len(names) >= most else ""
    more = [f"{count}{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return [*names[:_NAMED], *more]


# The last plan.


def plan_status(plans: Sequence[Plan], before: int, after: int, now: int, error: str = "") -> PlanStatus:
    """The status of a plan: one for the workload, or one for each of its ReplicaSets; and its error."""
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
        victims=victims[:MAX_VICTIMS],
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
