"""How a plan ended that was carried out: what was deleted against the plan, what is left against what was possible."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics, MissCause
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.levels import ExpectedLevel, LevelResult, check_levels, level_result
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult
from trimtab.scaledown.stability import is_rolling_out
from trimtab.scaledown.view import View

log = logging.getLogger(__name__)


class PlanEndings:
    """Evaluates plans that were carried out, and learns the settle time from them."""

    def __init__(self, view: View, metrics: Metrics, settle_time: SettleTime) -> None:
        self._view = view
        self._metrics = metrics
        self._settle_time = settle_time

    def end(self, workload: str, plan: OpenPlan) -> PlanResult:
        """The result of a plan for a workload (`namespace/Kind/name`) whose controllers have their new sizes."""
        remaining = [pod for uid in plan.resizes for pod in self._view.pods_of(uid) if pod.active]
        if len(remaining) > sum(each.after for each in plan.resizes.values()) and not self._is_rolling(workload):
            return PlanResult(workload, plan.plan, PlanState.SUPERSEDED, 0, {})  # it has grown again
        active = {pod.metadata.uid for pod in remaining}
        deleted = [uid for uid in plan.victims if uid not in active]
        for uid in deleted:
            self._metrics.record_deletion(plan.victims[uid])
        misses = plan.misses(remaining)
        is_observed = plan.skipped is HoldOutcome.OBSERVED
        if not is_observed:  # the controller could not follow what was not written
            self._learn(workload, plan, misses)
        plan.is_rolling |= self._is_rolling(workload)
        ended = PlanResult(workload, plan.plan, PlanState.DONE, len(deleted), misses)
        return self._with_levels(ended, plan, plan.expected, _cause(plan, misses))

    def end_replaced(self, workload: str, plan: OpenPlan, expected: Sequence[ExpectedLevel]) -> PlanResult:
        """The result of an earlier plan that was carried out after this one had replaced it, with the costs of this."""
        ended = PlanResult(workload, plan.plan, PlanState.DONE, 0, {})
        return self._with_levels(ended, plan, expected, MissCause.OVERLAP.value)

    def _with_levels(
        self, ended: PlanResult, plan: OpenPlan, expected: Sequence[ExpectedLevel], cause: str
    ) -> PlanResult:
        """The result with what is left, and the cause if that is less level than was possible."""
        checks = check_levels(expected, self._view.snapshot)
        result = level_result(checks)
        why = cause if result is LevelResult.MISSED else ""
        mode = "observe" if plan.skipped is HoldOutcome.OBSERVED else "enforce"
        self._metrics.record_result(result, why, mode)
        for check in checks:
            self._metrics.record_skews(check, mode)
        return replace(ended, result=result, cause=why, checks=checks)

    def _learn(self, workload: str, plan: OpenPlan, misses: Mapping[MissCause, int]) -> None:
        """Count misses, and adapt the settle time."""
        for cause, count in misses.items():
            self._metrics.record_misses(cause, count)
        if misses[MissCause.LAG]:
            self._settle_time.record_miss()
            log.warning(
                "%s: the controller deleted %d pods before it saw their costs; the settle time is %.2f s from now on",
                *(workload, misses[MissCause.LAG], self._settle_time.seconds),
            )
        elif plan.is_complete:
            self._settle_time.record_success()

    def _is_rolling(self, key: str) -> bool:
        namespace, _, named = key.partition("/")
        kind, _, name = named.partition("/")
        workload = self._view.workload(kind, namespace, name)
        return workload is not None and is_rolling_out(self._view, workload)


def _cause(plan: OpenPlan, misses: Mapping[MissCause, int]) -> str:
    """Why a workload is less level than was possible."""
    if plan.skipped is not None:
        return plan.skipped.value
    if plan.is_rolling:
        return HoldOutcome.ROLLOUT.value
    found = [cause for cause in MissCause if misses.get(cause)]
    if found:
        return found[0].value
    if not plan.is_complete:
        return MissCause.UNWRITTEN.value
    return MissCause.EARLIER_CRITERION.value if not all(plan.ready.values()) else "unknown"
