"""The plan for one controller of pods when its workload shrinks, and the costs that bring it about. Pure.

A workload has one such plan, unless it is a Deployment with several ReplicaSets: those are planned one by one, each for
the size that it will have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.api import codec
from trimtab.api.annotations import plan_annotation
from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.ranking import plan as make_plan
from trimtab.ranking.costs import Side
from trimtab.ranking.plan import Plan, Policy, Victim
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown import clonesets, plan_costs
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.plan_costs import CostAssignment
from trimtab.scaledown.pod_costs import cost_without_plan, plan_cost
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.view import Workload
from trimtab.snapshot import Snapshot
from trimtab.snapshot.nodes import ABSENT

_NAMED = 6
"""How many domains a warning counts one by one."""


@dataclass(frozen=True, slots=True)
class ControllerPlan:
    """Which pods one controller is to delete, and the costs for that."""

    size: ControllerSize
    plan: Plan
    costs: CostAssignment | None = None
    """The costs that bring the plan about; None where none are needed, or none could."""
    changes: tuple[tuple[Pod, int], ...] = ()
    """Those of the costs that pods do not have yet."""
    victims: Mapping[str, str] = field(default_factory=dict)
    """The UIDs of the victims, and what decided each; victims of earlier requests that still exist are included."""
    survivors: frozenset[str] = frozenset()
    relied_on: tuple[Pod, ...] = ()
    """Pods whose costs of earlier plans it relies on, those included that earlier plans are still deleting."""


def plan_controller(
    workload: Workload,
    size: ControllerSize,
    pods: Sequence[Pod],
    snapshot: Snapshot,
    policy: Policy,
    *,
    defaults: Sequence[Constraint],
    now: int,
) -> ControllerPlan | None:
    """The plan for a controller with these pods that shrinks to its new size; None if it loses no pod.

    Where its own choice is as good no cost is needed, unless there are costs of a plan that was not carried out.
    """
    named = [pod for pod in pods if pod.active and clonesets.is_named(workload, pod)]
    assumed = list({pod.key: pod for pod in (*earlier_victims(pods, workload.desired_replicas), *named)}.values())
    with snapshot.with_assumed(gone=[pod.key for pod in assumed]):
        ranked = _ranked(workload, size, snapshot, constraints_for(workload.spec.template, snapshot, defaults))
        if len(ranked.rows) <= size.after:
            return None
        plan = make_plan(ranked, snapshot, policy, replicas=size.after, now=now)
        if not improves(plan, policy) and not ranked.own_costs:
            return ControllerPlan(size, plan)
        costs = plan_costs.assign_costs(plan, ranked, snapshot, policy, now=now)
        if costs is None:
            return ControllerPlan(size, plan)
        uids = {pod.key: pod.metadata.uid for pod in pods if pod.active}
        victims = {uids[victim.key]: _decision(victim) for victim in plan.victims}
        earlier = dict.fromkeys((pod.metadata.uid for pod in assumed), "earlier")
        survivors = frozenset(uids.values()) - victims.keys() - earlier.keys()
        return ControllerPlan(
            size,
            plan,
            costs,
            plan_costs.missing_costs(costs, snapshot),
            {**earlier, **victims},
            survivors,
            relied_on=_relied_on(costs, pods, assumed),
        )


def _relied_on(costs: CostAssignment, pods: Sequence[Pod], assumed: Sequence[Pod]) -> tuple[Pod, ...]:
    leaving = [pod for pod in assumed if plan_cost(pod) is not None]
    return tuple({pod.key: pod for pod in (*plan_costs.pods_relied_on(costs, pods), *leaving)}.values())


def _ranked(
    workload: Workload, size: ControllerSize, snapshot: Snapshot, constraints: tuple[Constraint, ...]
) -> RankedWorkload:
    owned = RankedWorkload.owned_by(snapshot, size.uid, related=size.siblings)
    objects = (snapshot.pods.objects[row] for row in owned.rows.tolist())
    ours = frozenset(pod.key for pod in objects if pod is not None and _is_plan_cost_alone(pod))
    if isinstance(workload, CloneSet):
        return RankedWorkload(owned.rows, owned.related, constraints, kind="CloneSet", own_costs=ours)
    return RankedWorkload(owned.rows, owned.related, constraints, own_costs=ours)


def _is_plan_cost_alone(pod: Pod) -> bool:
    """Whether a pod has no cost but a plan's. One that a plan moved inside a subset's band still says which band."""
    return plan_cost(pod) is not None and cost_without_plan(pod) is None


def improves(plan: Plan, policy: Policy) -> bool:
    """Whether a plan is better than the controller's own choice."""
    if policy.combination.strategies:
        return set(plan.keys) != set(plan.stock)
    return not plan.as_stock


def earlier_victims(pods: Sequence[Pod], replicas: int) -> list[Pod]:
    """Victims of earlier requests that still exist; `replicas` is the workload's present size.

    A request has taken effect if the workload is no larger than it asked for. Where costs were written to its victims,
    they are those; where they were written to its survivors, all others. This is relied on only as far as it leaves as
    many pods as were to stay.
    """
    active = [pod for pod in pods if pod.active]
    annotated = ((pod.key, plan_annotation(pod.metadata.annotations)) for pod in active)
    plans = {key: plan for key, plan in annotated if plan is not None and plan.to >= replicas}
    if not plans:
        return []
    by_survivors = any(plan.side == Side.SURVIVORS.value for plan in plans.values())
    gone = [pod for pod in active if (plans[pod.key].side == Side.VICTIMS.value if pod.key in plans else by_survivors)]
    share = max(plans.values(), key=lambda plan: plan.at).share
    return gone if len(active) - len(gone) >= share else []


# Topology constraints.


class _TemplateSpec(Model):
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class _Template(Model):
    spec: _TemplateSpec = _TemplateSpec()


def constraints_for(
    template: Document | None, snapshot: Snapshot, defaults: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """The constraints by which a workload is kept level: those of its template, or else the defaults.

    The first one is never traded for a later one, so hard constraints come before soft ones, and of those, coarse ones
    (zones) before fine ones (nodes). A key that no node has is left out.
    """
    stated = _template_constraints(template)
    soft = {each.topology_key: each.when_unsatisfiable != "DoNotSchedule" for each in stated}
    soft |= {each.topology_key: False for each in stated if each.when_unsatisfiable == "DoNotSchedule"}
    keys = dict.fromkeys([Constraint(each.topology_key) for each in stated] or defaults)
    domains = {each: _domains(snapshot, each.topology_key) for each in keys}
    known = [each for each in keys if domains[each]]
    return tuple(sorted(known, key=lambda each: (soft.get(each.topology_key, True), domains[each])))


def _template_constraints(template: Document | None) -> tuple[TopologySpreadConstraint, ...]:
    try:
        return () if template is None else codec.view(template, _Template).spec.topology_spread_constraints
    except InvalidError:
        return ()


def _domains(snapshot: Snapshot, topology_key: str) -> int:
    codes = set(snapshot.nodes.codes(topology_key)[snapshot.nodes.known].tolist())
    return len(codes - {ABSENT})


# Reports.


def reason_without_costs(plans: Sequence[ControllerPlan], policy: Policy) -> HoldOutcome:
    """Why there is no cost to write."""
    if any(each.costs is not None for each in plans):
        return HoldOutcome.REPEATED
    is_prevented = any(improves(each.plan, policy) for each in plans)
    return HoldOutcome.FOREIGN_COSTS if is_prevented else HoldOutcome.AS_STOCK


def warnings(plans: Sequence[ControllerPlan]) -> tuple[str, ...]:
    """The warnings for the user: the result of the plan, and what would be left without it."""
    several = len(plans) > 1
    return tuple(f"{each.size.name}: {_warning(each.plan)}" if several else _warning(each.plan) for each in plans)


def _warning(plan: Plan) -> str:
    for each in plan.levelings:
        if sorted(each.after) == sorted(each.stock):
            continue
        if each.skew_after > each.skew_stock:  # then it was not levels that decided
            break
        if len(each.domains) <= _NAMED:
            kept, stock = ("/".join(map(str, counts)) for counts in (each.after, each.stock))
            return f"kept {kept}; stock would leave {stock}"
        skews = f"a skew of {each.skew_after} over {len(each.domains)} values of {each.topology_key}"
        return f"kept {skews}; stock would leave {each.skew_stock}"
    chosen = len(set(plan.keys) - set(plan.stock))
    return f"the policy's strategies chose {chosen} of {len(plan.victims)} pods that stock would have kept"


def _decision(victim: Victim) -> str:
    """What decided that a pod is deleted, in a word."""
    if victim.topology_key is not None:
        return victim.topology_key
    if victim.criterion is not None:
        return victim.criterion.name.lower()
    return "strategies" if victim.parts else "all"
