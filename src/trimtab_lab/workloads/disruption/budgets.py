"""How many pods of a budget may be disrupted. Pure.

1. *Expected* are the pods that there should be: the wanted sizes of all owners of the budget's pods, each owner once.
   With a plain number as `minAvailable` they are simply the pods there are.
2. *Desired* to be healthy are `minAvailable` of the expected, or all but `maxUnavailable`; both are rounded up.
3. *Healthy* is a ready pod that is not going, and that nobody has been allowed to evict in the last two minutes. Who
   was allowed to and has not done it by then is not waited for any longer.
4. *Allowed* is the difference of healthy and desired; none, where no pods are expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trimtab.api import percent, times
from trimtab.api.documents import JSON
from trimtab.api.meta import Condition
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from trimtab.kube import conditions
from trimtab.kube.clocks import SECOND
from trimtab.kube.conditions import FALSE, TRUE

ALLOWED = "DisruptionAllowed"
SUFFICIENT, INSUFFICIENT, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"
EVICTION_TIMEOUT = 120 * SECOND


@dataclass(frozen=True, slots=True)
class Owner:
    """Who controls pods, and how many it wants."""

    uid: str
    replicas: int


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """The pods of a budget."""

    pods: int
    healthy: int
    """Those that are ready and not going."""
    noted: tuple[Pod, ...] = ()
    """Those that somebody was allowed to evict, and that are still there."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be reported, and what came up."""

    status: PodDisruptionBudgetStatus
    not_deleted: tuple[Pod, ...] = ()
    """Pods that were to be evicted and are still there."""
    recheck_in: float | None = None


def counts_owners(budget: PodDisruptionBudget) -> bool:
    """Whether it matters how many pods the owners want."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def decide(budget: PodDisruptionBudget, selected: SelectedPods, owners: Sequence[Owner], now: int) -> Decision:
    """The status of a budget that selects these pods, whose owners are these."""
    expected, desired = _expectation(budget, selected.pods, owners)
    going, overdue = _evicted(budget, selected.noted, now)
    disrupted = {pod.metadata.name: budget.status.disrupted_pods[pod.metadata.name] for pod in going}
    healthy = selected.healthy - sum(pod.ready for pod in going)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    verdict = (TRUE, SUFFICIENT) if allowed else (FALSE, INSUFFICIENT)
    status = PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_with(budget, *verdict, "", generation, now),
    )
    return Decision(status, overdue, _recheck_in(disrupted, now))


def failed(budget: PodDisruptionBudget, message: str, now: int) -> PodDisruptionBudgetStatus:
    """The status where nothing can be count_status: nothing is allowed then."""
    seen = budget.status.observed_generation
    return msgspec.structs.replace(
        budget.status,
        disruptions_allowed=0,
        conditions=_with(budget, FALSE, SYNC_FAILED, message, seen, now),
    )


def _expectation(budget: PodDisruptionBudget, pods: int, owners: Sequence[Owner]) -> tuple[int, int]:
    """How many pods are expected, and how many of them healthy."""
    spec = budget.spec
    wanted = sum({owner.uid: owner.replicas for owner in owners}.values())
    if spec.max_unavailable is not None:
        return wanted, max(0, wanted - percent.scaled(spec.max_unavailable, wanted, round_up=True))
    if isinstance(spec.min_available, str):
        return wanted, percent.scaled(spec.min_available, wanted, round_up=True)
    if spec.min_available is not None:
        return pods, spec.min_available
    return 0, 0


def _evicted(budget: PodDisruptionBudget, noted: Sequence[Pod], now: int) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Who is expected to go soon, and who was and has not. Who is on his way is expected no longer."""
    since = budget.status.disrupted_pods
    waiting = [pod for pod in noted if not pod.terminating]
    overdue = tuple(pod for pod in waiting if _deadline(since[pod.metadata.name]) < now)
    return tuple(pod for pod in waiting if pod not in overdue), overdue


def _recheck_in(disrupted: Mapping[str, str], now: int) -> float | None:
    """When the first of them will be waited for no longer."""
    if not disrupted:
        return None
    return (min(map(_deadline, disrupted.values())) - now) / SECOND + 1


def _deadline(since: str) -> int:
    return times.parse_ns(since) + EVICTION_TIMEOUT


def _with(
    budget: PodDisruptionBudget, status: str, reason: str, message: str, generation: int, now: int
) -> tuple[Condition, ...]:
    """The conditions with this one in its place; the time of the transition moves with the status only."""
    known = conditions.find(budget.status.conditions, ALLOWED)
    moved = known is None or known.status != status
    made = Condition(
        type=ALLOWED,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=conditions.moment(now) if known is None or moved else known.last_transition_time,
    )
    if known is None:
        return (*budget.status.conditions, made)
    return tuple(made if each is known else each for each in budget.status.conditions)


def status_patch(budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> JSON | None:
    """The merge patch of a status, or nothing if it is as it should be. Pods that are noted no more are unset."""
    if status == budget.status:
        return None
    gone = dict.fromkeys(name for name in budget.status.disrupted_pods if name not in status.disrupted_pods)
    return {
        "metadata": {"resourceVersion": budget.metadata.resource_version},
        "status": {
            "observedGeneration": status.observed_generation,
            "disruptedPods": {**gone, **status.disrupted_pods},
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "conditions": [{"message": "", **tree} for tree in conditions.trees(status.conditions)],
        },
    }
