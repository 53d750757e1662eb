"""Plans that have been answered or are being delivered, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.api.annotations import PlanAnnotation
from trimtab.api.pods import Pod
from trimtab.scaledown import clonesets
from trimtab.scaledown.intent.requests import CheckedRequest
from trimtab.scaledown.metrics import HoldOutcome, MissCause
from trimtab.scaledown.results.evaluation import PlanState, count_misses
from trimtab.scaledown.results.levels import ExpectedLevel, LevelCheck, LevelResult

ROLLOUT = "a rollout is in progress, which replaces pods and decides how level they are in the end"


class Resize(NamedTuple):
    """The size of a controller of pods before a plan, and by the plan."""

    before: int
    after: int


@dataclass(slots=True)
class OpenPlan:
    """A plan of this process that has not come to an end."""

    plan: str
    uid: str
    to: int
    resizes: Mapping[str, Resize]
    """The sizes of each controller of pods, by its UID."""
    victims: Mapping[str, str]
    """The UIDs of the victims, and what decided each."""
    survivors: frozenset[str]
    expected: tuple[ExpectedLevel, ...] = ()
    """What the plan leaves."""
    is_exact: bool = True
    """Whether its costs determine the very pods that are deleted, and not only a result that is as level."""
    with_costs: frozenset[str] = frozenset()
    """The UIDs of the pods that have a cost of this plan."""
    request: CheckedRequest | None = None
    """The request that it is for, if it may have to be planned again."""
    decision: str = ""
    """The request's record in the history, if it has one."""
    relies_until: int | None = None
    """Until when the result is certain without further costs, on the monotonic clock; None: at all times."""
    skipped: HoldOutcome | None = None
    """Why it was not delivered, or not for every controller, where it was not."""
    supersedes: frozenset[str] = frozenset()
    """Earlier plans of this process for the same workload."""
    replaced: Mapping[int, tuple[ExpectedLevel, ...]] = field(default_factory=dict)
    """What these plans would have left, by the size of the workload."""
    is_complete: bool = False
    """Whether all costs were written and seen."""
    is_rolling: bool = False
    """Whether a rollout was in progress when it was made, or when it ended."""
    answered: int | None = None
    """When the request was answered, on the monotonic clock."""
    overwritten: int = 0
    """How many of its costs another writer has replaced since the last evaluation."""
    rewrites: int = 0
    """How often its costs were replaced by another writer."""
    ready: dict[str, bool] = field(default_factory=dict)
    """Pods that have been deleted, and whether they were ready."""
    deleted_elsewhere: set[str] = field(default_factory=set)
    """Those of them that their controller did not choose: drained, named by a user, or by a plan of another process."""
    revisions: set[str] = field(default_factory=set)
    """The revisions of pods that a CloneSet deleted."""

    def covers(self, annotation: PlanAnnotation | None) -> bool:
        """Whether an annotation is of this plan or one that it supersedes."""
        return annotation is not None and (annotation.plan == self.plan or annotation.plan in self.supersedes)

    def is_for(self, checked: CheckedRequest) -> bool:
        """Whether it is for this very request, or one that is repeated by it."""
        return self.request is not None and self.request.identity == checked.identity

    def is_answer_to(self, checked: CheckedRequest) -> bool:
        """Whether this request was answered before, with all costs in place."""
        return self.is_for(checked) and self.answered is not None and self.is_complete

    def may_be_stored_before(self, checked: CheckedRequest) -> bool:
        """Whether its request was answered, is for the same version of the workload and for another size."""
        if self.request is None or self.answered is None or self.to == checked.request.after:
            return False
        return self.request.workload.metadata.generation == checked.workload.metadata.generation

    def supersede(self, earlier: OpenPlan) -> None:
        """Take over what an earlier plan for the same workload has not finished."""
        unfinished = {uid: why for uid, why in earlier.victims.items() if uid not in self.survivors}
        self.victims = {**unfinished, **self.victims}
        self.ready |= earlier.ready
        self.deleted_elsewhere |= earlier.deleted_elsewhere
        self.revisions |= earlier.revisions
        self.rewrites += earlier.rewrites
        self.is_rolling |= earlier.is_rolling
        self.resizes = {**earlier.resizes, **self.resizes}
        self.supersedes |= earlier.supersedes | {earlier.plan}
        self.replaced = {**earlier.replaced, earlier.to: earlier.expected}

    def misses(self, remaining: Sequence[Pod]) -> Mapping[MissCause, int]:
        """How many pods were deleted that were to stay, by cause; `remaining` are the active pods.

        Where only the level was determined, other pods may go as well as the planned ones: then only pods with a cost
        count.
        """
        if not self.is_exact:
            return self._cost_misses({pod.metadata.uid for pod in remaining})
        revisions = self.revisions.union(map(clonesets.revision, remaining))
        return count_misses(
            self.victims.keys(),
            self.survivors,
            {pod.metadata.uid for pod in remaining},
            self.ready,
            is_complete=self.is_complete,
            deleted_elsewhere=self.deleted_elsewhere,
            is_rolling=bool(self.revisions) and len(revisions) > 1,
        )

    def _cost_misses(self, active: Set[str]) -> Mapping[MissCause, int]:
        """How many costs the controller did not follow, by cause."""
        spared = len(self.with_costs & self.victims.keys() & active)
        lost = (self.with_costs & self.survivors) - active - self.deleted_elsewhere
        causes = dict.fromkeys(MissCause, 0)
        is_unready = not all(self.ready.get(uid, True) for uid in self.survivors - active)
        cause = MissCause.LAG if self.is_complete else MissCause.UNWRITTEN
        causes[MissCause.EARLIER_CRITERION if is_unready else cause] = max(spared, len(lost))
        return causes


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The end of a plan."""

    workload: str
    plan: str
    state: PlanState
    followed: int
    """How many victims were deleted as planned."""
    misses: Mapping[MissCause, int]
    result: LevelResult | None = None
    """How level the workload is at the end; None for a plan that was not applied."""
    cause: str = ""
    """Why it is less level than was possible, where it is."""
    checks: tuple[LevelCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """What a plan was to bring about, and since when."""

    uid: str
    to: int
    resizes: Mapping[str, Resize]
    age: float
    """Seconds since it was answered, or since it was first seen."""
    patience: float


def resizes_of(annotated: Sequence[tuple[Pod, PlanAnnotation]]) -> dict[str, Resize]:
    """The sizes of each controller of annotated pods, by the latest annotation."""
    latest: dict[str, PlanAnnotation] = {}
    for pod, plan in annotated:
        owner = pod.metadata.controller
        if owner is not None and (owner.uid not in latest or latest[owner.uid].at < plan.at):
            latest[owner.uid] = plan
    return {uid: Resize(plan.was, plan.share) for uid, plan in latest.items()}
