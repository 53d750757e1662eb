"""The costs of a plan on pods: what may be written, what is missing, and what is relied on. Pure.

Which costs make a plan certain is decided in `ranking.delivery`; here its values are read from pods. Only costs that a
plan may replace are written (`trimtab.api.annotations.REPLACEABLE`). A pod of a subset has the cost of its band, and a
plan moves it inside the band only. Costs of other writers are replaced where the policy says that they are a tie-break.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api.annotations import REPLACEABLE, CostOwner
from trimtab.api.pods import Pod
from trimtab.ranking.costs import level_of
from trimtab.ranking.delivery import Delivery, PodCost
from trimtab.scaledown.pod_costs import cost_without_plan, owner_without_plan, plan_cost
from trimtab.snapshot import Snapshot


def pod_cost(pod: Pod, *, replace_foreign: bool = False) -> PodCost:
    """The cost of a pod as `ranking.delivery` takes it."""
    owner, base = owner_without_plan(pod), _number(cost_without_plan(pod))
    is_banded = owner is CostOwner.SUBSET and level_of(base) is not None
    is_writable = is_banded if owner is CostOwner.SUBSET else owner in REPLACEABLE[CostOwner.PLAN]
    is_replaced = replace_foreign and owner is CostOwner.OTHER
    return PodCost(base, is_writable or is_replaced, plan_cost(pod), is_banded)


def missing_costs(delivery: Delivery, snapshot: Snapshot) -> tuple[tuple[Pod, int], ...]:
    """The costs that pods do not have yet, each with its pod."""
    pods = ((snapshot.pod(key), cost) for key, cost in delivery.costs)
    return tuple((pod, cost) for pod, cost in pods if pod is not None and plan_cost(pod) != cost)


def pods_relied_on(delivery: Delivery, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods whose cost of an earlier plan this delivery relies on: it must not be reverted with that plan."""
    costs = dict(delivery.costs)
    written = ((pod, plan_cost(pod)) for pod in pods if pod.active)
    return tuple(pod for pod, cost in written if cost is not None and (not costs or costs.get(pod.key) == cost))


def _number(text: str | None) -> int:
    try:
        return 0 if text is None else int(text)
    except ValueError:
        return 0
