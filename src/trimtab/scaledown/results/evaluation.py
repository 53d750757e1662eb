"""What became of a plan, from the state of the cluster alone. Pure.

A plan is for a workload that was to have `to` pods. Its costs are needed until that has happened:

| the workload | the plan | its costs |
|---|---|---|
| is gone, or another has its name | is not applied | are reverted |
| is larger, and the request was answered a moment ago | is not stored yet | stay |
| is larger | is not applied: the request was refused, lost, or changed again | are reverted |
| is no larger, and some controller has more pods than its size | is in progress | stay, however long it takes |
| is as small, and no controller has more | is done | are reverted on the remaining pods |
| is smaller, and no controller has more | is superseded: what is left is the result of another request | are reverted |

A Deployment's ReplicaSet shrinks a moment after the Deployment: while it has its previous size, that is still to come.
One that has not been resized after ten minutes will not be. One that has another size than was planned when the
patience is over was resized for another reason, as in a rollout, and is evaluated by its present size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum

from trimtab.scaledown.metrics import MissCause

PATIENCE = 10.0
"""Seconds that an answered request may take to be stored."""
STUCK = 600.0
"""Seconds that a ReplicaSet may take to be resized after its Deployment."""


class PlanState(Enum):
    """What became of a plan."""

    WAITING = "waiting"
    IN_PROGRESS = "in-progress"
    DONE = "done"
    NOT_APPLIED = "not-applied"
    SUPERSEDED = "superseded"
    """Another request for the workload followed before the controller was done, or before that was seen."""

    @property
    def keeps_costs(self) -> bool:
        """Whether its costs stay."""
        return self in (PlanState.WAITING, PlanState.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class ControllerState:
    """A controller of pods: its size before the plan, by the plan and now (None: it is gone), and its active pods."""

    before: int
    after: int
    size: int | None
    active: int


def evaluate(
    *, to: int, size: int | None, controllers: Iterable[ControllerState], age: float, patience: float = PATIENCE
) -> PlanState:
    """What became of a plan for `to` pods; `size` is the workload's size now, None where it is gone."""
    if size is None:
        return PlanState.NOT_APPLIED
    if size > to:
        return PlanState.WAITING if age < patience else PlanState.NOT_APPLIED
    if any(_is_shrinking(each, age) for each in controllers):
        return PlanState.IN_PROGRESS
    return PlanState.DONE if size == to else PlanState.SUPERSEDED


def _is_shrinking(controller: ControllerState, age: float) -> bool:
    size = controller.size
    if size is None:
        return False
    if size > controller.after and age < (STUCK if size == controller.before else PATIENCE):
        return True
    return controller.active > size


def count_misses(
    victims: Set[str],
    survivors: Set[str],
    active: Set[str],
    ready: Mapping[str, bool],
    *,
    is_complete: bool,
    deleted_elsewhere: Set[str] = frozenset(),
    is_rolling: bool = False,
) -> Mapping[MissCause, int]:
    """How many pods were deleted that were to stay, by cause. All pods are named by their UIDs.

    `ready` says whether pods were ready when they were deleted; `is_complete` whether all costs were in place;
    `deleted_elsewhere` are pods whose own state shows that their controller did not choose them: for each of them one
    victim fewer was needed. `is_rolling` says that pods were of several revisions, of which the older are deleted
    first.
    """
    gone = survivors - active
    elsewhere = len(gone & deleted_elsewhere)
    spared = max(0, len(victims & active) - elsewhere)
    causes = dict.fromkeys(MissCause, 0)
    causes[MissCause.DELETED] = elsewhere
    for uid in gone - deleted_elsewhere:
        if spared == 0:
            causes[MissCause.DELETED] += 1
            continue
        spared -= 1
        if is_rolling or not ready.get(uid, True):
            causes[MissCause.EARLIER_CRITERION] += 1
        else:
            causes[MissCause.LAG if is_complete else MissCause.UNWRITTEN] += 1
    return causes
