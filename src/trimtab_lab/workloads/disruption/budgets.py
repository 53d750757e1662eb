"""How many pods of a budget may be disrupted. Pure.

1. *Expected* pods: the sizes of all owners of the budget's pods, each owner once. With a plain number as
   `minAvailable`, the pods that exist.
2. *Desired* healthy pods: `minAvailable` of the expected, or all but `maxUnavailable`; both are rounded up.
3. *Healthy* pods are ready, not terminating, and not in `disruptedPods` for less than two minutes. An eviction that was
   allowed and did not happen within that time no longer counts.
4. *Allowed* disruptions: healthy minus desired; none if no pods are expected.
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
    """A controller of pods, and its size."""

    uid: str
    replicas: int


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """The pods that a budget selects."""

    pods: int
    healthy: int
    """Those that are ready and not terminating."""
    disrupted_pods: tuple[Pod, ...] = ()
    """Those in `disruptedPods` that still exist."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The status to report, and what else was found."""

    status: PodDisruptionBudgetStatus
    not_deleted: tuple[Pod, ...] = ()
    """Pods whose eviction was allowed and did not happen."""
    recheck_in: float | None = None


def counts_owners(budget: PodDisruptionBudget) -> bool:
    """Whether the sizes of the owners matter."""
    spec = budget.spec
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def decide(budget: PodDisruptionBudget, selected: SelectedPods, owners: Sequence[Owner], now: int) -> Decision:
    """The status of a budget that selects these pods with these owners."""
    expected, desired = _expectation(budget, selected.pods, owners)
    pending, overdue = _evicted(budget, selected.disrupted_pods, now)
    disrupted = {pod.metadata.name: budget.status.disrupted_pods[pod.metadata.name] for pod in pending}
    healthy = selected.healthy - sum(pod.ready for pod in pending)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    outcome = (TRUE, SUFFICIENT) if allowed else (FALSE, INSUFFICIENT)
    status = PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_with(budget, *outcome, "", generation, now),
    )
    return Decision(status, overdue, _recheck_in(disrupted, now))


def failed(budget: PodDisruptionBudget, message: str, now: int) -> PodDisruptionBudgetStatus:
    """The status if nothing can be counted: no disruption is allowed."""
    observed = budget.status.observed_generation
    return msgspec.structs.replace(
        budget.status,
        disruptions_allowed=0,
        conditions=_with(budget, FALSE, SYNC_FAILED, message, observed, now),
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


def _evicted(
    budget: PodDisruptionBudget, disrupted_pods: Sequence[Pod], now: int
) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """The evicted pods that are not terminating yet: those still expected to go, and those overdue."""
    since = budget.status.disrupted_pods
    waiting = [pod for pod in disrupted_pods if not pod.terminating]
    overdue = tuple(pod for pod in waiting if _deadline(since[pod.metadata.name]) < now)
    return tuple(pod for pod in waiting if pod not in overdue), overdue


def _recheck_in(disrupted: Mapping[str, str], now: int) -> float | None:
    """Seconds until the first of them is overdue."""
    if not disrupted:
        return None
    return (min(map(_deadline, disrupted.values())) - now) / SECOND + 1


def _deadline(since: str) -> int:
    return times.parse_ns(since) + EVICTION_TIMEOUT


def _with(
    budget: PodDisruptionBudget, status: str, reason: str, message: str, generation: int, now: int
) -> tuple[Condition, ...]:
    """The conditions with this one; the transition time changes only with the status."""
    known = conditions.find(budget.status.conditions, ALLOWED)
    moved = known is None or known.status != status
    condition = Condition(
        type=ALLOWED,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=conditions.moment(now) if known is None or moved else known.last_transition_time,
    )
    if known is None:
        return (*budget.status.conditions, condition)
    return tuple(condition if each is known else each for each in budget.status.conditions)


def status_patch(budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> JSON | None:
    """The merge patch of a status, or None if it is current. Pods that are no longer listed are unset."""
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
