"""From a plan to the fewest costs that make a controller follow it. Pure.

**Which side.** The victims get costs below zero, or the survivors costs above it: whichever are fewer. The other side
is not written to.

**Which order.** The first victims of a plan are the best plan for a smaller scale-down, and the last survivors the best
for a larger one. So victims are written first one first, and survivors last one first: wherever writing stops, what was
written is the best that so many costs can do.

**Which numbers.** Victims count up from minus the number of all pods. A further plan, made among the survivors, then
begins above the last victim of the one before it: where both are carried out at once, the earlier victims are deleted
first, and every intermediate state is as level as the end.

**Which pods.** Only costs that a plan may replace are written (`trimtab.api.annotations.REPLACEABLE`); all others
take precedence. A pod of a subset has the cost of its band; a plan moves it inside the band only. A cost of an earlier
plan that has not been reverted yet may be on the other side: the new costs go beyond it.

**Whether it works** is tried: the controller's own order, with these costs in place, must choose the victims. If it
does so with the present costs, as after an earlier plan, nothing is written. If neither side can bring it about,
because foreign costs prevent it, there are no costs to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.api.annotations import REPLACEABLE, CostOwner
from trimtab.api.pods import Pod
from trimtab.ranking.costs import LIMIT, Side, level_of, smaller_side
from trimtab.ranking.plan import Plan, Policy, Workload
from trimtab.ranking.plan import plan as make_plan
from trimtab.ranking.rankers import ranker_for
from trimtab.ranking.victims import Contenders, order_contenders, order_replicas
from trimtab.scaledown.pod_costs import cost_without_plan, owner_without_plan, plan_cost
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn


@dataclass(frozen=True, slots=True)
class CostAssignment:
    """Costs for pods (`namespace/name`), the most useful one first, and the side that they are on."""

    side: Side
    costs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _PresentCost:
    """A pod's cost without any plan, whether a plan may replace it, and how far an earlier plan moved it."""

    base: int
    is_writable: bool
    moved: int = 0


def assign_costs(
    plan: Plan, workload: Workload, snapshot: Snapshot, policy: Policy | None = None, *, now: int
) -> CostAssignment | None:
    """The costs that make the controller choose the plan's victims; None if no costs that may be written can."""
    victims = plan.keys
    survivors = _survivors(plan, workload, snapshot, policy, now)
    smaller = smaller_side(victims, survivors).side
    if _predicted(workload, snapshot, {}, len(victims), now) == set(victims):
        return CostAssignment(smaller, ())
    present = {key: _present_cost(snapshot, key) for key in (*victims, *survivors)}
    sides = (smaller, Side.SURVIVORS if smaller is Side.VICTIMS else Side.VICTIMS)
    for side in sides:
        costs = _costs(side, victims, survivors, present)
        if _predicted(workload, snapshot, costs, len(victims), now) == set(victims):
            order = costs if side is Side.VICTIMS else dict(reversed(costs.items()))
            return CostAssignment(side, tuple(order.items()))
    return None


def missing_costs(assignment: CostAssignment, snapshot: Snapshot) -> tuple[tuple[Pod, int], ...]:
    """The costs that pods do not have yet, each with its pod."""
    pods = ((snapshot.pod(key), cost) for key, cost in assignment.costs)
    return tuple((pod, cost) for pod, cost in pods if pod is not None and plan_cost(pod) != cost)


def pods_relied_on(assignment: CostAssignment, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods whose cost of an earlier plan this assignment relies on: it must not be reverted with that plan."""
    costs = dict(assignment.costs)
    written = ((pod, plan_cost(pod)) for pod in pods if pod.active)
    return tuple(pod for pod, cost in written if cost is not None and (not costs or costs.get(pod.key) == cost))


def _survivors(plan: Plan, workload: Workload, snapshot: Snapshot, policy: Policy | None, now: int) -> tuple[str, ...]:
    """The pods that stay, in the order in which they would be deleted next.

    Ranks that hold for one removal only do not order the pods after the victims; levels do.
    """
    if policy is not None and any(strategy.recompute for strategy in policy.combination.strategies):
        policy = None
    gone = set(plan.keys)
    return tuple(key for key in make_plan(workload, snapshot, policy, replicas=0, now=now).keys if key not in gone)


def _present_cost(snapshot: Snapshot, key: str) -> _PresentCost:
    pod = snapshot.pod(key)
    if pod is None:
        return _PresentCost(0, is_writable=False)
    base, written = _number(cost_without_plan(pod)), plan_cost(pod)
    moved = 0 if written is None else written - base
    return _PresentCost(base, _is_writable(owner_without_plan(pod), base), moved)


def _is_writable(owner: CostOwner, base: int) -> bool:
    """Whether a plan may replace a cost; one of a subset only if it is in a band."""
    in_band = owner is not CostOwner.SUBSET or level_of(base) is not None
    return owner in REPLACEABLE[CostOwner.PLAN] and in_band


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0


def _costs(
    side: Side, victims: Sequence[str], survivors: Sequence[str], present: Mapping[str, _PresentCost]
) -> dict[str, int]:
    """The costs of one side, in the order in which its pods are deleted."""
    written = [key for key in (victims if side is Side.VICTIMS else survivors) if present[key].is_writable]
    if side is Side.VICTIMS:
        beyond = min((0, *(present[key].moved for key in survivors)))
        steps = {key: beyond + at - len(present) for at, key in enumerate(written)}
    else:
        beyond = max((0, *(present[key].moved for key in victims)))
        steps = {key: beyond + at + 1 for at, key in enumerate(written)}
    return {key: present[key].base + max(-LIMIT, min(step, LIMIT)) for key, step in steps.items()}


def _predicted(workload: Workload, snapshot: Snapshot, costs: Mapping[str, int], count: int, now: int) -> set[str]:
    """The pods that the controller would choose with these costs in place."""
    names = snapshot.pods.rows.names
    present = snapshot.pods.column("cost")[workload.rows].tolist()
    keys = [names[row] or "" for row in workload.rows.tolist()]
    column: IntColumn = np.array(
        [costs.get(key, cost) for key, cost in zip(keys, present, strict=True)], dtype=np.int64
    )
    contenders = Contenders(snapshot.pods, workload.rows, column)
    if workload.kind == "CloneSet":
        ranks = ranker_for(workload.constraints).ranks(contenders, snapshot.nodes)
        order = order_contenders(contenders, ranks, workload.available)
    else:
        order = order_replicas(contenders, workload.related, now, workload.options)
    return {names[row] or "" for row in order.rows[:count].tolist()}
