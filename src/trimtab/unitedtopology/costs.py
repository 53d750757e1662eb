"""What a pod carries because of its subset, as patches: its mark, and its deletion cost. Pure.

**Whose cost is it?** A cost counts as ours while it is exactly what we wrote, which stands beside it in an annotation
of its own. Whoever changes it afterwards has made it theirs; a cost that was there before us is theirs too. Theirs
stay.

| who wrote the cost                                             | then                                             |
|----------------------------------------------------------------|--------------------------------------------------|
| nobody                                                         | it is written, unless the pod is BestEffort      |
| we did                                                         | it follows the pod's level, and goes with it     |
| a scale-down that is under way (`trimtab.dev/scale-plan`)      | it is left alone until that is over              |
| a policy that keeps costs current (`trimtab.dev/policy-cost`)  | it is left alone: the policy keeps to the bands  |
| somebody else                                                  | it is left alone                                 |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.api import annotations as keys
from trimtab.api.annotations import AIMED_SIZE, DELETION_COST, POLICY_COST, SCALE_PLAN, SUBSET_COST, SubsetAnnotations
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.ranking.costs import SPACING, Band

_AIM = re.compile(r"([0-9]{1,10})@([0-9]{1,12})")
_COST = re.compile(r"-?[0-9]{1,10}")

Annotations = Mapping[str, str]
Change = dict[str, str | None]
"""Annotations of a merge patch; None removes one."""


def ours(annotations: Annotations) -> bool:
    """Whether the cost is as it was written because of a subset."""
    return SUBSET_COST in annotations and annotations.get(DELETION_COST) == annotations[SUBSET_COST]


def authored(annotations: Annotations) -> bool:
    """Whether another part of Trimtab keeps the cost at the moment."""
    return SCALE_PLAN in annotations or POLICY_COST in annotations


def theirs(annotations: Annotations) -> bool:
    """Whether somebody outside of Trimtab has given the pod its cost."""
    return DELETION_COST in annotations and not ours(annotations) and not authored(annotations)


@dataclass(frozen=True, slots=True)
class Aim:
    """The size that a cost was written for ahead of a scale-down, and until when (seconds since 1970) to believe it."""

    replicas: int
    until: int


def aim(annotations: Annotations) -> Aim | None:
    """What a cost was written ahead for; what cannot be read is not believed."""
    found = _AIM.fullmatch(annotations.get(AIMED_SIZE, ""))
    return Aim(int(found[1]), int(found[2])) if found is not None else None


def noted(replicas: int, until: int) -> str:
    """An aim as it is written."""
    return f"{replicas}@{until}"


def aimed_change(annotations: Annotations, band: Band) -> Change:
    """What brings a cost in line with the level of a size to come.

    A cost that a policy keeps current is moved as it is from its band into the other one; the policy finds it there.
    """
    if POLICY_COST not in annotations or SCALE_PLAN in annotations:
        return cost_change(annotations, band)
    text = annotations.get(DELETION_COST, "0")
    before = int(text) if _COST.fullmatch(text) else 0
    moved = str(band.place(before - SPACING * round(before / SPACING)))
    return {DELETION_COST: moved, SUBSET_COST: moved} if moved != text else {}


def cost_change(annotations: Annotations, band: Band | None) -> Change:
    """What brings the cost in line with a level; without a band there is none to have."""
    if authored(annotations):
        return {}
    if theirs(annotations):
        return {SUBSET_COST: None} if SUBSET_COST in annotations else {}
    centre = band.centre if band is not None else 0
    wanted = str(centre) if centre else None
    before = {name: annotations.get(name) for name in (DELETION_COST, SUBSET_COST)}
    return {name: wanted for name, value in before.items() if value != wanted}


def mark_change(annotations: Annotations, mark: SubsetAnnotations | None) -> Change:
    """What gives a pod this mark, or takes off the one it has."""
    if mark is None:
        return {name: None for name in dict.fromkeys(keys.SUBSET_KEYS) if name in annotations}
    return {name: value for name, value in mark.written().items() if annotations.get(name) != value}


def patch(pod: Pod, change: Change) -> JSON | None:
    """The merge patch for this version of the pod alone: whoever writes a cost meanwhile is not overwritten."""
    if not change:
        return None
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": dict(change)}}


def taken_back(pod: Pod) -> Change:
    """What removes everything that a UnitedTopology wrote."""
    annotations = pod.metadata.annotations
    aimed: Change = {AIMED_SIZE: None} if AIMED_SIZE in annotations else {}
    return mark_change(annotations, None) | cost_change(annotations, None) | aimed
