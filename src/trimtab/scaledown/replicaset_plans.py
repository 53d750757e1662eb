"""The plan for one controller of pods when its workload shrinks, and the costs that bring it about. Pure.

A workload has one such plan, unless it owns several ReplicaSets: those are planned one by one, each for
the size that it will have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from trimtab.api.annotations import plan_annotation
from trimtab.api.cloneset import CloneSet
from trimtab.api.pods import Pod
from trimtab.ranking import plan as make_plan
from trimtab.ranking.certainty import Window
from trimtab.ranking.costs import Side
from trimtab.ranking.delivery import Delivery, Expectation, PodCost, deliver, is_settled
from trimtab.ranking.delivery import expectations as delivery_expectations
from trimtab.ranking.explicit import Explicit
from trimtab.ranking.hedges import Unhedged
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.plan import Plan, Policy, Victim
from trimtab.ranking.plan import Workload as RankedWorkload
from trimtab.ranking.rankers import Constraint, RankSettings
from trimtab.ranking.victims import STOCK, Options
from trimtab.scaledown import clonesets, plan_costs
from trimtab.scaledown.constraints import constraints_for, excess, stated_constraints
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.pod_costs import plan_cost
from trimtab.scaledown.proportional import ControllerSize
from trimtab.scaledown.view import Workload
from trimtab.snapshot import Snapshot

ForeignCosts = Literal["Obey", "TieBreak"]
_UNHEDGED = (
    "some pods are starting; if they become ready before the controller acts, a better result than the plan's may be "
    "possible, for which no costs are written"
)
_UNHEDGED_CAUSES: Mapping[Unhedged, str] = {
    Unhedged.TOO_MANY_COSTS: "they would be too many",
    Unhedged.RANKS_FOR_ONE_STEP: "a strategy of the policy ranks pods for one deletion at a time",
    Unhedged.NOT_CERTAIN: "the plan's own result would not be certain with them",
}


@dataclass(frozen=True, slots=True)
class ControllerModel:
    """What is assumed about the controller that deletes pods."""

    now: int
    """The time of day in nanoseconds by the clocks of the control plane, as far as it is known."""
    window: Window
    """When it may act."""
    is_stable: bool = True
    """Whether nothing else changes its pods: no rollout, no orphan to adopt, as many pods as it is to have."""
    options: Options = STOCK
    rank: RankSettings = field(default_factory=RankSettings)
    """How a CloneSet's controller ranks pods."""


@dataclass(frozen=True, slots=True)
class ControllerPlan:
    """Which pods one controller is to delete, and the costs that make that certain."""

    size: ControllerSize
    plan: Plan
    delivery: Delivery | None = None
    """The costs; empty where the result is certain without any, None where no costs can bring it about."""
    changes: tuple[tuple[Pod, int], ...] = ()
    """Those of the costs that pods do not have yet."""
    victims: Mapping[str, str] = field(default_factory=dict)
    """The UIDs of the victims, and what decided each; victims of earlier requests that still exist are included."""
    survivors: frozenset[str] = frozenset()
    relied_on: tuple[Pod, ...] = ()
    """Pods whose costs of earlier plans it relies on, those included that earlier plans are still deleting."""
    constraints: tuple[Constraint, ...] = ()
    ignored: str = ""
    """Which constraints of the workload are ignored, because there are too many."""
    is_relying: bool = False
    """Whether the result depends on the controller's other criteria, and so on when it acts."""
    replaces_foreign: bool = False
    """Whether costs of other writers are replaced."""
    assumed: tuple[str, ...] = ()
    """Victims of earlier requests, which count as gone."""
    ranked: RankedWorkload | None = None
    """Its rows are those of the time of planning."""
    window: Window | None = None


def plan_controller(
    workload: Workload,
    size: ControllerSize,
    pods: Sequence[Pod],
    snapshot: Snapshot,
    policy: Policy,
    *,
    defaults: Sequence[Constraint],
    model: ControllerModel,
    foreign_costs: ForeignCosts = "Obey",
    tiers: Mapping[str, int] | None = None,
) -> ControllerPlan | None:
    """The plan for a controller with these pods that shrinks to its new size; None if it loses no pod.

    `tiers` are those of pods in subsets, by name.
    """
    named = [pod for pod in pods if pod.active and clonesets.is_named(workload, pod)]
    leaving = earlier_victims(pods, workload.desired_replicas, uids=_owners(workload, size))
    assumed = list({pod.key: pod for pod in (*leaving, *named)}.values())
    active = {pod.key: pod for pod in pods if pod.active}
    labels = next((pod.metadata.labels for pod in active.values()), {})
    constraints = constraints_for(workload.spec.template, snapshot, defaults, labels, active.values())
    ignored = excess(stated_constraints(workload.spec.template, active.values()))
    costs = {key: plan_costs.pod_cost(pod, replace_foreign=foreign_costs == "TieBreak") for key, pod in active.items()}
    with snapshot.with_assumed(gone=[pod.key for pod in assumed]):
        ranked = replace(_ranked(size, snapshot, constraints, costs, model, foreign_costs), tiers=tiers or {})
        if isinstance(workload, CloneSet):
            ranked = clonesets.ranked(workload, ranked, model.rank, active.values())
        if len(ranked.rows) <= size.after:
            return None
        plan = make_plan(ranked, snapshot, policy, replicas=size.after, now=model.now, window=model.window)
        is_stable = model.is_stable and not assumed and is_settled(ranked, snapshot, len(plan.victims))
        delivery = deliver(
            *(plan, ranked, snapshot, policy),
            costs={key: cost for key, cost in costs.items() if key not in {pod.key for pod in assumed}},
            window=model.window,
            rely=is_stable,
            now=model.now,
        )
        if delivery is None:
            return ControllerPlan(
                size,
                plan,
                constraints=constraints,
                ignored=ignored,
                assumed=tuple(pod.key for pod in assumed),
                ranked=ranked,
            )
        uids = {key: pod.metadata.uid for key, pod in active.items()}
        victims = {uids[victim.key]: _decision(victim) for victim in plan.victims}
        earlier = dict.fromkeys((pod.metadata.uid for pod in assumed), "earlier")
        return ControllerPlan(
            size,
            plan,
            delivery,
            plan_costs.missing_costs(delivery, snapshot),
            {**earlier, **victims},
            frozenset(uids.values()) - victims.keys() - earlier.keys(),
            relied_on=_relied_on(delivery, pods, assumed),
            constraints=constraints,
            ignored=ignored,
            is_relying=not delivery.is_exact,
            replaces_foreign=foreign_costs == "TieBreak",
            assumed=tuple(pod.key for pod in assumed),
            ranked=ranked,
            window=model.window,
        )


def _relied_on(delivery: Delivery, pods: Sequence[Pod], assumed: Sequence[Pod]) -> tuple[Pod, ...]:
    leaving = [pod for pod in assumed if plan_cost(pod) is not None]
    return tuple({pod.key: pod for pod in (*plan_costs.pods_relied_on(delivery, pods), *leaving)}.values())


def _ranked(
    size: ControllerSize,
    snapshot: Snapshot,
    constraints: tuple[Constraint, ...],
    costs: Mapping[str, PodCost],
    model: ControllerModel,
    foreign_costs: ForeignCosts,
) -> RankedWorkload:
    owned = RankedWorkload.owned_by(snapshot, size.uid, related=size.siblings)
    return RankedWorkload(
        owned.rows,
        owned.related,
        constraints,
        options=model.options,
        base_costs={key: cost.base for key, cost in costs.items() if cost.own is not None},
        foreign_costs=foreign_costs,
    )


def expectations(plan: ControllerPlan, snapshot: Snapshot, written: Set[str]) -> tuple[Expectation, ...]:
    """The least level result of a plan of whose costs only some were written, for the pods that there are now."""
    if plan.delivery is None or plan.ranked is None:
        return ()
    costs = {key: cost for key, cost in plan.delivery.costs if key in written}
    with snapshot.with_assumed(gone=plan.assumed):
        current = RankedWorkload.owned_by(snapshot, plan.size.uid, related=plan.size.siblings)
        ranked = replace(plan.ranked, rows=current.rows, related=current.related)
        count = len(ranked.rows) - plan.size.after
        return delivery_expectations(ranked, snapshot, count, costs, plan.window) if count > 0 else ()


def _owners(workload: Workload, size: ControllerSize) -> Set[str]:
    """The UIDs of the workloads whose scale-downs resize a controller: itself, the workload, and its owner."""
    owner = workload.metadata.controller
    return {size.uid, workload.metadata.uid, *([owner.uid] if owner is not None else [])}


def earlier_victims(pods: Sequence[Pod], replicas: int, *, uids: Set[str]) -> list[Pod]:
    """Victims of earlier requests that still exist; `replicas` is the workload's present size.

    `uids` are those of the workloads that own the pods: an annotation that names another one counts for nothing.

    A request has taken effect if the workload is no larger than it asked for. Where costs were written to its victims,
    they are those; where they were written to its survivors, all others. This is relied on only as far as it leaves as
    many pods as were to stay. A cost that another writer has replaced counts for nothing.
    """
    active = [pod for pod in pods if pod.active]
    annotated = ((pod.key, plan_annotation(pod.metadata.annotations)) for pod in active if plan_cost(pod) is not None)
    plans = {key: plan for key, plan in annotated if plan is not None and plan.uid in uids and plan.to >= replicas}
    if not plans:
        return []
    by_survivors = any(plan.side == Side.SURVIVORS.value for plan in plans.values())
    gone = [pod for pod in active if (plans[pod.key].side == Side.VICTIMS.value if pod.key in plans else by_survivors)]
    share = max(plans.values(), key=lambda plan: plan.at).share
    return gone if len(active) - len(gone) >= share else []


# Reports.


def reason_without_costs(plans: Sequence[ControllerPlan]) -> HoldOutcome:
    """Why there is no cost to write."""
    if any(each.delivery is None for each in plans):
        return HoldOutcome.FOREIGN_COSTS
    return HoldOutcome.REPEATED if any(each.relied_on for each in plans) else HoldOutcome.AS_STOCK


def warnings(plans: Sequence[ControllerPlan], *, is_complete: bool = True) -> tuple[str, ...]:
    """The warnings for the user: what the plan leaves, what may be left without it, and why it may not be the best."""
    several = len(plans) > 1
    texts = (
        (each, text)
        for each in plans
        for text in (_outlook(each, is_complete), *_obstacles(each), *hedge_warnings(each), each.ignored)
        if text
    )
    return tuple(f"{each.size.name}: {text}" if several else text for each, text in texts)


def hedge_warnings(plan: ControllerPlan) -> tuple[str, ...]:
    """Why the plan has no costs for the case that starting pods become ready, where it should have them."""
    reason = None if plan.delivery is None else plan.delivery.unhedged
    return () if reason is None else (f"{_UNHEDGED}: {_UNHEDGED_CAUSES[reason]}",)


def _obstacles(plan: ControllerPlan) -> tuple[str, ...]:
    """Why the plan leaves a constraint unlevel, where that is what its summary is about."""
    leveling = decisive_leveling(plan.plan)
    if plan.delivery is None or leveling is None or leveling.skew_after <= 1:
        return ()
    return tuple(str(each) for each in plan.plan.obstacles if each.topology_key == leveling.topology_key)


def _outlook(plan: ControllerPlan, is_complete: bool) -> str:
    if plan.delivery is None:
        return "not planned, because deletion costs of other writers prevent it"
    return summary(plan.plan, "kept" if is_complete else "planned")


def summary(plan: Plan, verb: str = "kept") -> str:
    """What a plan keeps, and what may be left without it."""
    emptied = sum(victim.by_subset for victim in plan.victims)
    if emptied:
        return f"{verb} subsets in order: {emptied} of {len(plan.victims)} pods go from those that are emptied first"
    leveling = decisive_leveling(plan)
    if leveling is not None:
        return leveling.sentence(verb)
    chosen = len(set(plan.keys) - set(plan.stock.always))
    auxiliary = "would" if plan.stock.is_unique else "may"
    are_explicit = any(part.strategy == Explicit.name for victim in plan.victims for part in victim.parts)
    by = "explicit ranks" if are_explicit else "the policy's strategies"
    return f"{by} chose {chosen} of {len(plan.victims)} pods that stock {auxiliary} have kept"


def decisive_leveling(plan: Plan) -> Leveling | None:
    """The constraint that a summary of the plan is about; None where subsets or strategies decided."""
    if any(victim.by_subset for victim in plan.victims):
        return None
    improved = next((each for each in plan.levelings if not each.is_matched_by_stock), None)
    is_ranked = any(victim.parts for victim in plan.victims)
    return improved or (plan.levelings[0] if plan.levelings and not is_ranked else None)


def _decision(victim: Victim) -> str:
    """What decided that a pod is deleted, in a word."""
    if victim.topology_key is not None:
        return victim.topology_key
    if victim.by_subset:
        return "subset"
    if victim.criterion is not None:
        return victim.criterion.name.lower()
    return "strategies" if victim.parts else "all"
