"""Costs on pods: reading them, and the patches that apply and revert them.

Two parts of Trimtab write costs here: a *plan*, for one scale-down, and a *policy* with `delivery: Continuous`. Each
writes the cost and, in the same patch, an annotation that says what was written and what the previous cost was. So any
process can revert a cost from what the pod carries, and nothing about it has to survive a crash.

Who owns a cost, and which of the two may replace it, is defined in `trimtab.api.annotations`. All patches hold for the
version of the pod that they were computed from: after a conflict the pod is read again and the patch computed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from trimtab.api import codec
from trimtab.api.annotations import (
    CARRIER_KEYS,
    DELETION_COST,
    POLICY_COST,
    RANKED_AMONG,
    REPLACEABLE,
    SCALE_PLAN,
    CostOwner,
    PlanAnnotation,
    PolicyCostAnnotation,
    cost_owner,
    plan_annotation,
    policy_cost_annotation,
    previous_cost,
)
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.ranking.costs import Carrier

POLICY_KEYS = frozenset({POLICY_COST, RANKED_AMONG, *CARRIER_KEYS.values()})
"""The annotations that policies write."""

# Costs of a plan.


def by_plan(pod: Pod) -> Iterable[str]:
    """An index: pods that a plan wrote to, by `namespace/Kind/name` of the workload that it is for."""
    annotations = pod.metadata.annotations
    if SCALE_PLAN not in annotations:
        return ()
    plan = plan_annotation(annotations)
    return () if plan is None else (f"{pod.metadata.namespace}/{plan.workload}",)


def plan_cost(pod: Pod) -> int | None:
    """The cost that a plan wrote, if it has not been changed since."""
    plan = plan_annotation(pod.metadata.annotations)
    if plan is None or pod.metadata.annotations.get(DELETION_COST) != str(plan.cost):
        return None
    return plan.cost


def cost_without_plan(pod: Pod) -> str | None:
    """The cost that a pod has without any plan: its present cost, or the one before a plan's."""
    return _without_plan(pod).get(DELETION_COST)


def owner_without_plan(pod: Pod) -> CostOwner:
    """Who owns the cost that a pod has without any plan."""
    return cost_owner(_without_plan(pod))


def _without_plan(pod: Pod) -> Mapping[str, str]:
    annotations = pod.metadata.annotations
    if SCALE_PLAN not in annotations:
        return annotations
    kept = {name: text for name, text in annotations.items() if name != SCALE_PLAN}
    plan = plan_annotation(annotations)
    if plan is not None and plan_cost(pod) is not None:
        del kept[DELETION_COST]
        before = previous_cost(plan)
        return kept if before is None else {**kept, DELETION_COST: before}
    return kept


def annotation_for(plan: PlanAnnotation, pod: Pod, *, share: int, was: int, side: str, cost: int) -> PlanAnnotation:
    """The plan's annotation for one of its pods."""
    before = cost_without_plan(pod)
    return msgspec.structs.replace(plan, share=share, was=was, side=side, cost=cost, before=before)


def apply_plan_patch(pod: Pod, plan: PlanAnnotation) -> JSON:
    """The patch that writes the cost of a plan."""
    return _patch(pod, {DELETION_COST: str(plan.cost), SCALE_PLAN: codec.encode(plan).decode()})


def revert_plan_patch(pod: Pod) -> JSON | None:
    """The patch that restores what a pod had before any plan; None where no plan wrote to it."""
    if SCALE_PLAN not in pod.metadata.annotations:
        return None
    changes: dict[str, str | None] = {SCALE_PLAN: None}
    if plan_cost(pod) is not None:
        changes[DELETION_COST] = cost_without_plan(pod)
    return _patch(pod, changes)


# Costs that a policy keeps current.


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """The cost that a pod is to have by a policy."""

    pod: Pod
    policy: str
    carrier: Carrier
    cost: int
    among: str | None = None
    """The fingerprint of the pods that it was computed among, where a removal makes it out of date."""


def policy_cost(pod: Pod) -> int | None:
    """The cost that a policy wrote, if it has not been changed since."""
    written = policy_cost_annotation(pod.metadata.annotations)
    if written is None or written.carrier not in CARRIER_KEYS:
        return None
    present = pod.metadata.annotations.get(CARRIER_KEYS[written.carrier])
    return written.cost if present == str(written.cost) else None


def apply_policy_patch(wanted: PolicyCost) -> JSON | None:
    """The patch that gives a pod its cost; None where the pod has it already, or a policy may not replace its cost."""
    pod, key = wanted.pod, CARRIER_KEYS[wanted.carrier]
    annotations = pod.metadata.annotations
    owner = cost_owner(annotations, key)
    if owner not in REPLACEABLE[CostOwner.POLICY]:
        return None
    is_own = owner is CostOwner.POLICY
    if is_own and policy_cost(pod) == wanted.cost and annotations.get(RANKED_AMONG) == wanted.among:
        return None
    written = policy_cost_annotation(annotations)
    before = written.before if written is not None and is_own else annotations.get(key)
    annotation = PolicyCostAnnotation(
        policy=wanted.policy, carrier=wanted.carrier.value, cost=wanted.cost, before=before
    )
    changes: dict[str, str | None] = {key: str(wanted.cost), POLICY_COST: codec.encode(annotation).decode()}
    if annotations.get(RANKED_AMONG) != wanted.among:
        changes[RANKED_AMONG] = wanted.among
    return _patch(pod, changes)


def has_policy_annotation(pod: Pod) -> bool:
    """Whether a policy wrote to a pod."""
    annotations = pod.metadata.annotations
    return POLICY_COST in annotations or RANKED_AMONG in annotations


def by_policy_annotation(pod: Pod) -> Iterable[str]:
    """An index: pods that a policy wrote to, by namespace."""
    return (pod.metadata.namespace,) if has_policy_annotation(pod) else ()


def revert_policy_patch(pod: Pod) -> JSON | None:
    """The patch that restores what a pod had before any policy; None where no policy wrote to it."""
    annotations = pod.metadata.annotations
    if not has_policy_annotation(pod):
        return None
    changes: dict[str, str | None] = {name: None for name in (POLICY_COST, RANKED_AMONG) if name in annotations}
    written = policy_cost_annotation(annotations)
    if written is not None and policy_cost(pod) is not None:
        changes[CARRIER_KEYS[written.carrier]] = previous_cost(written)
    return _patch(pod, changes)


def _patch(pod: Pod, changes: Mapping[str, str | None]) -> JSON:
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": dict(changes)}}
