"""Reports each scale-down to the people concerned: events on the workload, and the texts of warnings.

An outcome that leaves a scale-down unplanned although a policy applies is never silent: the caller gets a warning, the
workload an event, and `trimtab_scaledown_fallbacks_total` counts it by reason.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from trimtab.api.annotations import Reason
from trimtab.api.meta import ObjectReference
from trimtab.kube.events import NORMAL, WARNING
from trimtab.kube.resources import Resource
from trimtab.scaledown import replicaset_plans
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest
from trimtab.scaledown.metrics import HoldOutcome, MissCause
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.scaledown.results.history import History
from trimtab.scaledown.results.levels import LevelCheck, LevelResult, counted
from trimtab.scaledown.results.open_plans import ROLLOUT, OpenPlan, PlanResult
from trimtab.scaledown.view import KINDS, Workload

_REASONS: Mapping[HoldOutcome, str] = {
    HoldOutcome.RATE_LIMITED: "there were too many scale requests in a short time",
    HoldOutcome.BUSY: "earlier scale requests for the same workload were still being served",
    HoldOutcome.NOT_SYNCED: "Trimtab's caches are not up to date yet",
    HoldOutcome.UNRANKED: "a strategy could not rank every pod in time",
    HoldOutcome.FAILED: "planning failed; see Trimtab's log",
    HoldOutcome.LATE: "Trimtab did not decide in time",
    HoldOutcome.FOREIGN_COSTS: "deletion costs of other writers prevent it",
    HoldOutcome.ROLLOUT: "its pods are of several revisions, and which of them are deleted first is not known yet",
    HoldOutcome.CREATING: "its pods are still being created, and which of them are deleted first is not known yet",
    HoldOutcome.CONFLICT: "another workload selects the same pods",
}
"""Why a scale-down was not planned although a policy applies."""
_CAUSES: Mapping[str, str] = {
    MissCause.LAG: "the controller acted before it saw the costs; Trimtab waits longer from now on",
    MissCause.EARLIER_CRITERION: "pods that were to stay were not ready, or of an older revision, which controllers "
    "compare before costs",
    MissCause.DELETED: "another program deleted pods that were to stay",
    MissCause.OVERLAP: "two requests for the workload overlapped, and one was carried out with the costs for "
    "the other; send one after the other",
    MissCause.UNWRITTEN: "not all costs were written in time; raise scaleDown.budgetSeconds, or relieve the API server",
    **{outcome: f"the scale-down was not planned: {reason}" for outcome, reason in _REASONS.items()},
    HoldOutcome.ROLLOUT: "a rollout was in progress, which decides how level the pods are in the end",
}
"""Why a scale-down ended less level than was possible."""

log = logging.getLogger(__name__)


class EventRecorder(Protocol):
    """Writes events."""

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Record an event about an object."""
        ...


class ScaleDownReporter:
    """Writes events about scale-downs; without a recorder, only the texts of warnings."""

    def __init__(
        self, recorder: EventRecorder | None, history: History, kinds: Mapping[str, type[Workload]] = KINDS
    ) -> None:
        """`kinds` are those of the workloads that requests are about."""
        self._recorder = recorder
        self._history = history
        self._kinds = kinds

    def answered(self, checked: CheckedRequest, result: HoldResult, plans: Sequence[ControllerPlan]) -> None:
        """Record a request that has been answered, and the plans for it."""
        levelings = [each for plan in plans for each in plan.plan.levelings]
        victims = [key.partition("/")[2] for plan in plans for key in plan.plan.keys]
        decision = self._history.open(checked, result, levelings, victims)
        if result.plan is None:
            self._history.close(decision, "")
        else:
            result.plan.decision = decision
        self._record_plan(checked.request, result, plans)

    def _record_plan(self, request: ScaleDownRequest, result: HoldResult, plans: Sequence[ControllerPlan]) -> None:
        if result.outcome is HoldOutcome.PARTIAL:
            self._record(request, WARNING, Reason.SCALE_DOWN_PARTIAL, _about_plans(result.warnings, plans))
        elif result.outcome is HoldOutcome.PLANNED:
            self._record(request, NORMAL, Reason.SCALE_DOWN_PLANNED, _about_plans(result.warnings, plans))
        elif result.outcome in (HoldOutcome.AS_STOCK, HoldOutcome.REPEATED):
            texts = (*replicaset_plans.warnings(plans), "no further costs are needed")
            self._record(request, NORMAL, Reason.SCALE_DOWN_PLANNED, _about_plans(texts, plans))

    def skipped(
        self, request: ScaleDownRequest, outcome: HoldOutcome, *, details: Sequence[str] = (), verified: bool = True
    ) -> str:
        """Record a scale-down that was admitted without a plan; the warning for its user.

        The event has the details too, which the user gets as further warnings. None is written about a workload that
        was not verified to exist.
        """
        cause = _REASONS.get(outcome, outcome.value)
        message = f"Trimtab did not plan this scale-down: {cause}; the controller's own order decides"
        if verified:
            added = f" ({'; '.join(details)})" if details else ""
            self._record(request, WARNING, Reason.SCALE_DOWN_SKIPPED, f"{message}{added}")
        log.warning("%s: %s", request.key, message)
        return message

    def ended(self, result: PlanResult, plan: OpenPlan) -> None:
        """Record how a scale-down ended: an event if it was observed, or is less level than was possible."""
        ending = result.state.value if result.result is None else result.result.value
        self._history.close(plan.decision, ending, result.cause, result.checks)
        if plan.request is None or result.result is None:
            return
        request = plan.request.request
        if plan.skipped is HoldOutcome.OBSERVED:
            self._record(request, NORMAL, Reason.SCALE_DOWN_OBSERVED, _observation(result.checks, plan))
        elif result.result is LevelResult.MISSED:
            self._record_miss(request, result)
        elif plan.is_rolling:
            self._record(request, NORMAL, Reason.SCALE_DOWN_DURING_ROLLOUT, ROLLOUT)

    def _record_miss(self, request: ScaleDownRequest, result: PlanResult) -> None:
        left = "; ".join(check.sentence() for check in result.checks if check.is_missed)
        why = _CAUSES.get(result.cause, "Trimtab does not know why; its log has the plan")
        message = f"{left}; cause: {result.cause}, {why}"
        self._record(request, WARNING, Reason.SCALE_DOWN_MISSED, message)
        log.warning("%s: %s", result.workload, message)

    def overwritten(self, plan: OpenPlan, count: int) -> None:
        """Record that another writer replaced costs of a plan that is under way."""
        if plan.request is not None:
            message = f"another writer replaced the deletion costs of {count} pods during the scale-down"
            self._record(plan.request.request, WARNING, Reason.COSTS_OVERWRITTEN, message)
            log.warning("%s: %s", plan.request.key, message)

    def not_reverted(self, request: ScaleDownRequest, *, late: int, failed: int) -> str:
        """Record that costs were not reverted before a request was admitted that is to do without them; the warning for
        its user."""
        causes = {"not in time": late, "failed": failed}
        listed = ", ".join(f"{count} {cause}" for cause, count in causes.items() if count)
        message = f"{late + failed} costs were not reverted ({listed}); the controller may follow them"
        self._record(request, WARNING, Reason.COSTS_NOT_REVERTED, message)
        log.warning("%s: %s", request.key, message)
        return message

    def unprepared(self, request: ScaleDownRequest, why: str) -> str:
        """Record that not all costs of subsets were written before a request was planned; the warning for its user."""
        message = f"not all costs of its subsets were written for {request.after} replicas: {why}"
        self._record(request, WARNING, Reason.SCALE_DOWN_PARTIAL, message)
        log.warning("%s: %s", request.key, message)
        return message

    def _record(self, request: ScaleDownRequest, severity: str, reason: Reason, message: str) -> None:
        """Record an event on the workload, with its sizes before and after."""
        if self._recorder is not None:
            about = ObjectReference(
                api_version=Resource.of(self._kinds[request.kind]).api_version,
                kind=request.kind,
                namespace=request.namespace,
                name=request.name,
                uid=request.uid,
            )
            sizes = f"{request.before} → {request.after}"
            self._recorder.record(about, severity, reason.value, f"{sizes}: {message}")


def _observation(checks: Sequence[LevelCheck], plan: OpenPlan) -> str:
    """What the controller left, and what Trimtab would have left."""
    levelings = [leveling for each in plan.expected for leveling in each.levelings]
    pairs = list(zip(checks, levelings, strict=True))
    if not pairs:
        return "observed; there are no constraints to keep level"
    check, leveling = next((pair for pair in pairs if pair[0].is_missed), pairs[0])
    left, key = f"the controller left {counted(check.counts)}", check.topology_key
    if not check.is_missed:
        return f"{left}, as level as Trimtab would have ({key})"
    would = f"Trimtab would have left {counted(leveling.after)}"
    return f"{left}; {would} ({key}); the policy observes, so nothing was changed"


def _about_plans(texts: Sequence[str], plans: Sequence[ControllerPlan]) -> str:
    """What plans keep, and the topology key that the numbers are about, where it is one."""
    found = [replicaset_plans.decisive_leveling(each.plan) for each in plans]
    keys = {each.topology_key for each in found if each is not None}
    return "; ".join(texts) + (f" ({keys.pop()})" if len(keys) == 1 else "")
