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
from trimtab.scaledown.intent.requests import CheckedRequest, HoldResult, ScaleDownRequest
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.results.levels import LevelResult
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult

_API_VERSIONS: Mapping[str, str] = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "CloneSet": "apps.kruise.io/v1alpha1",
}
_REASONS: Mapping[HoldOutcome, str] = {
    HoldOutcome.RATE_LIMITED: "there were too many scale requests in a short time",
    HoldOutcome.BUSY: "earlier scale requests for the same workload were still being served",
    HoldOutcome.NOT_SYNCED: "Trimtab's caches have not synced yet",
    HoldOutcome.UNRANKED: "a strategy could not rank every pod in time",
    HoldOutcome.FAILED: "planning failed; see Trimtab's log",
    HoldOutcome.LATE: "Trimtab did not decide in time",
    HoldOutcome.FOREIGN_COSTS: "deletion costs of other writers prevent it",
    HoldOutcome.ROLLOUT: "its pods are of several revisions, of which the older are deleted first",
    HoldOutcome.CONFLICT: "another workload selects the same pods",
}
"""Why a scale-down was not planned although a policy applies."""

log = logging.getLogger(__name__)


class EventRecorder(Protocol):
    """Writes events."""

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Record an event about an object."""
        ...


class ScaleDownReporter:
    """Writes events about scale-downs; without a recorder, only the texts of warnings."""

    def __init__(self, recorder: EventRecorder | None = None) -> None:
        self._recorder = recorder

    def planned(self, checked: CheckedRequest, result: HoldResult) -> None:
        """Record a scale-down whose costs were written, at least in part."""
        is_partial = result.outcome is HoldOutcome.PARTIAL
        reason = Reason.SCALE_DOWN_PARTIAL if is_partial else Reason.SCALE_DOWN_PLANNED
        sizes = f"{checked.request.before} → {checked.request.after}"
        self._record(checked.request, WARNING if is_partial else NORMAL, reason, _sentence(sizes, result.warnings))

    def skipped(self, request: ScaleDownRequest, outcome: HoldOutcome, *, verified: bool = True) -> str:
        """Record a scale-down that was admitted without a plan; the warning for its user.

        No event is written about a workload that was not verified to exist.
        """
        cause = _REASONS.get(outcome, outcome.value)
        message = f"Trimtab did not plan this scale-down: {cause}; the controller's own order decides"
        if verified:
            sizes = f"{request.before} → {request.after}"
            self._record(request, WARNING, Reason.SCALE_DOWN_SKIPPED, f"{sizes}: {message}")
        log.warning("%s: %s", request.key, message)
        return message

    def ended(self, result: PlanResult, plan: OpenPlan) -> None:
        """Record a scale-down that ended less level than was possible."""
        if result.result is not LevelResult.MISSED or plan.request is None:
            return
        left = "; ".join(check.sentence() for check in result.checks if check.is_missed)
        message = f"{left} ({result.cause})"
        self._record(plan.request.request, WARNING, Reason.SCALE_DOWN_MISSED, message)
        log.warning("%s: %s", result.workload, message)

    def overwritten(self, plan: OpenPlan, count: int) -> None:
        """Record that another writer replaced costs of a plan that is under way."""
        if plan.request is not None:
            message = f"another writer replaced the deletion costs of {count} pods during the scale-down"
            self._record(plan.request.request, WARNING, Reason.COSTS_OVERWRITTEN, message)
            log.warning("%s: %s", plan.request.key, message)

    def _record(self, request: ScaleDownRequest, severity: str, reason: Reason, message: str) -> None:
        if self._recorder is not None:
            about = ObjectReference(
                api_version=_API_VERSIONS[request.kind],
                kind=request.kind,
                namespace=request.namespace,
                name=request.name,
                uid=request.uid,
            )
            self._recorder.record(about, severity, reason.value, message)


def _sentence(sizes: str, warnings: Sequence[str]) -> str:
    return f"{sizes}: {'; '.join(warnings)}"
