"""The annotations of a pod that come from its subset, as patches: the subset itself, and a deletion cost. Pure.

Who owns a cost, and which costs a subset may replace, is defined in `trimtab.api.annotations`. One rule is added here:
while a pod has a policy's annotation (`trimtab.dev/policy-cost`), its cost is left to the policy, even if the two do
not agree at the moment, because the policy keeps to the band of the pod's level by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.api.annotations import (
    AIMED_SIZE,
    DELETION_COST,
    POLICY_COST,
    REPLACEABLE,
    SCALE_PLAN,
    SUBSET_COST,
    SUBSET_KEYS,
    CostOwner,
    SubsetAnnotations,
    cost_owner,
)
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.ranking.costs import SPACING, Band

_TARGET_SIZE = re.compile(r"([0-9]{1,10})@([0-9]{1,12})")
_COST = re.compile(r"-?[0-9]{1,10}")

Annotations = Mapping[str, str]
Change = dict[str, str | None]
"""Annotations of a merge patch; None removes one."""


def owner_of(annotations: Annotations) -> CostOwner:
    """The owner of a pod's deletion cost; a policy's annotation makes it the policy's."""
    owner = cost_owner(annotations)
    return CostOwner.POLICY if owner is not CostOwner.PLAN and POLICY_COST in annotations else owner


def has_foreign_cost(annotations: Annotations) -> bool:
    """Whether the cost was written from outside of Trimtab."""
    return owner_of(annotations) is CostOwner.OTHER


@dataclass(frozen=True, slots=True)
class TargetSize:
    """The size that a cost was written for ahead of a scale-down, and when (seconds since 1970) that expires."""

    replicas: int
    until: int


def target_size(annotations: Annotations) -> TargetSize | None:
    """The size that a cost was written ahead for; None without one, or if it is malformed."""
    match = _TARGET_SIZE.fullmatch(annotations.get(AIMED_SIZE, ""))
    return TargetSize(int(match[1]), int(match[2])) if match is not None else None


def target_size_text(replicas: int, until: int) -> str:
    """The value of the annotation for a target size."""
    return f"{replicas}@{until}"


def target_size_change(annotations: Annotations, band: Band) -> Change:
    """The change that brings a cost in line with the level at a target size.

    A policy's cost is moved from its band into the other one, at the same distance from the middle, where the policy
    finds it.
    """
    if POLICY_COST not in annotations or SCALE_PLAN in annotations:
        return cost_change(annotations, band)
    text = annotations.get(DELETION_COST, "0")
    before = int(text) if _COST.fullmatch(text) else 0
    moved = str(band.place(before - SPACING * round(before / SPACING)))
    return {DELETION_COST: moved, SUBSET_COST: moved} if moved != text else {}


def cost_change(annotations: Annotations, band: Band | None) -> Change:
    """The change that brings a cost in line with a level; None removes the cost."""
    owner = owner_of(annotations)
    if owner is CostOwner.OTHER:
        return {SUBSET_COST: None} if SUBSET_COST in annotations else {}
    if owner not in REPLACEABLE[CostOwner.SUBSET]:
        return {}
    centre = band.centre if band is not None else 0
    wanted = str(centre) if centre else None
    before = {name: annotations.get(name) for name in (DELETION_COST, SUBSET_COST)}
    return {name: wanted for name, value in before.items() if value != wanted}


def subset_change(annotations: Annotations, subset: SubsetAnnotations | None) -> Change:
    """The change that gives a pod these annotations, or removes those that it has."""
    if subset is None:
        return {name: None for name in SUBSET_KEYS if name in annotations}
    return {name: value for name, value in subset.written().items() if annotations.get(name) != value}


def patch(pod: Pod, change: Change) -> JSON | None:
    """The merge patch for this version of the pod only, so that a cost written meanwhile is not overwritten."""
    if not change:
        return None
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": dict(change)}}


def revert_change(pod: Pod) -> Change:
    """The change that removes everything that a UnitedTopology wrote."""
    annotations = pod.metadata.annotations
    size: Change = {AIMED_SIZE: None} if AIMED_SIZE in annotations else {}
    return subset_change(annotations, None) | cost_change(annotations, None) | size
