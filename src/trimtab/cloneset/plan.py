"""The next step for the pods of a CloneSet, as one value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from trimtab.api.cloneset import CloneSet, RankWait
from trimtab.api.pods import Pod
from trimtab.cloneset import instances, ranks, sizes, victims
from trimtab.cloneset.instances import Instance
from trimtab.cloneset.observation import Group
from trimtab.cloneset.ranks import ByRank, OriginalOrder, RankDecision, Terms, Wait
from trimtab.cloneset.settings import Settings
from trimtab.cloneset.sizes import Sizes
from trimtab.kube.resources import object_key
from trimtab.ranking.costs import Carrier
from trimtab.ranking.explicit import NO_COSTS, GroupCosts
from trimtab.ranking.rankers import Constraint, Scale
from trimtab.snapshot import Snapshot


class Step(StrEnum):
    """The kinds of steps; also a label of metrics."""

    NOTHING = "nothing"
    CREATE = "create"
    SPECIFIED = "delete-specified"
    SCALE_DOWN = "scale-down"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: pods to create, or pods to delete, in order."""

    step: Step = Step.NOTHING
    creations: tuple[Instance, ...] = ()
    victims: tuple[Pod, ...] = ()
    delayed: int = 0
    """How many more pods would be created without scaleStrategy.maxUnavailable."""
    wait: RankWait | None = None
    """The wait for ranks that delays the scale-down."""
    wait_reason: str = ""
    fallback_reason: str = ""
    """Why ranks were ignored, if there should have been some."""
    recheck_in: float | None = None
    age_ratios: Mapping[str, float] = field(default_factory=dict)
    """The age ratios of the victims that go because of their age, by UID."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan depends on besides the pods."""

    cloneset: CloneSet
    snapshot: Snapshot
    now: int
    settings: Settings
    terms: Terms | None = None
    """How ranks are honoured; None if they are not."""
    costs: GroupCosts = NO_COSTS
    """The PodGroupCosts that name the CloneSet."""
    previous_wait: RankWait | None = field(default=None)
    failed: frozenset[Step] = frozenset()
    """Steps that have just failed: the plan is another one."""

    def on(self, snapshot: Snapshot) -> PlanContext:
        """The same with another snapshot."""
        return replace(self, snapshot=snapshot)

    def is_taken(self, name: str) -> bool:
        """Whether there is a pod of that name."""
        return self.snapshot.pod(object_key(self.cloneset.metadata.namespace, name)) is not None

    def rules(self, group: Group) -> tuple[Constraint, ...]:
        """The constraints by which the pods are kept level."""
        return victims.constraints(self.cloneset.spec.template, self.settings.rank.defaults, group.pods)

    @property
    def scale(self) -> Scale:
        """How the number of pods in a domain becomes a rank."""
        return self.settings.rank.scale_for(self.cloneset.metadata.annotations)


def plan(context: PlanContext, group: Group) -> Plan:
    """The first step that is needed."""
    needed = sizes.sizes(sizes.bounds(context.cloneset.spec), sizes.count(group))
    first = _first(context, group, needed) or Plan(delayed=needed.delayed)
    if Step.SCALE_DOWN in context.failed:  # the wait that it had is over, and must not begin again
        return replace(first, wait=context.previous_wait)
    return first


def _first(context: PlanContext, group: Group, needed: Sizes) -> Plan | None:
    for step, plan_step in _STEPS.items():
        plan = None if step in context.failed else plan_step(context, group, needed)
        if plan is not None:
            return plan
    return None


def _creation(context: PlanContext, _: Group, needed: Sizes) -> Plan | None:
    count = min(needed.create, context.settings.burst)
    if not count:
        return None
    metadata, used_up = context.cloneset.metadata, context.cloneset.status.next_instance
    creations = instances.free(metadata, used_up, context.is_taken, count)
    return Plan(Step.CREATE, creations=creations, delayed=needed.delayed)


def _specified(context: PlanContext, group: Group, needed: Sizes) -> Plan | None:
    if not needed.specified:
        return None
    order = victims.in_order(context.snapshot, group, group.specified, context.rules(group), scale=context.scale)
    wait = context.previous_wait if needed.shrink else None  # it continues meanwhile
    return _deletion(Step.SPECIFIED, group, victims.deletable(group, order.positions, needed.spare), wait)


def _scale_down(context: PlanContext, group: Group, needed: Sizes) -> Plan | None:
    if not needed.shrink:
        return None
    decision = _rank_decision(context, group)
    if isinstance(decision, Wait):
        return Plan(wait=decision.wait, wait_reason=decision.reason, recheck_in=decision.seconds)
    count, costs = needed.shrink, None
    if isinstance(decision, ByRank):
        count, costs = min(count, decision.allowance), victims.as_costs(decision.ranks)
    elif context.terms is not None and context.terms.carrier is Carrier.ANNOTATION:
        costs = np.array(ranks.costs_without_policy(group.pods), dtype=np.int64)
    orders = victims.old_first(context.snapshot, group, context.rules(group), scale=context.scale, costs=costs)
    fallback_reason = decision.reason if isinstance(decision, OriginalOrder) else ""
    wait = context.previous_wait if fallback_reason else None  # it is over until all have gone
    positions = [position for each in orders for position in each.positions]
    chosen = victims.deletable(group, positions, needed.spare, needed.shrink_new)[:count]
    ratios = victims.age_ratios(group, orders, set(chosen), context.now)
    return _deletion(Step.SCALE_DOWN, group, chosen, wait, fallback_reason, ratios)


def _rank_decision(context: PlanContext, group: Group) -> RankDecision:
    if context.terms is None:
        return OriginalOrder()
    known = ranks.known_ranks(context.terms, group.pods, context.costs)
    return ranks.evaluate(context.terms, known, group.names, context.previous_wait, context.now)


def _update(context: PlanContext, group: Group, needed: Sizes) -> Plan | None:
    """Old pods are replaced in the victim order; ranks are for scale-downs only."""
    if not needed.replace:
        return None
    old = ~group.updated & ~group.specified
    order = victims.in_order(context.snapshot, group, old, context.rules(group), scale=context.scale)
    return _deletion(Step.UPDATE, group, victims.deletable(group, order.positions, needed.spare)[: needed.replace])


def _deletion(
    step: Step,
    group: Group,
    positions: Sequence[int],
    wait: RankWait | None = None,
    fallback_reason: str = "",
    age_ratios: Mapping[str, float] | None = None,
) -> Plan | None:
    if not positions:
        return None
    return Plan(
        step,
        victims=tuple(group.pods[position] for position in positions),
        wait=wait,
        fallback_reason=fallback_reason,
        age_ratios=age_ratios or {},
    )


_STEPS: Mapping[Step, Callable[[PlanContext, Group, Sizes], Plan | None]] = {
    Step.CREATE: _creation,
    Step.SPECIFIED: _specified,
    Step.SCALE_DOWN: _scale_down,
    Step.UPDATE: _update,
}
"""All steps, in the order in which they are considered."""
