"""A scale-down by costs that are kept current: it follows them only if every pod has one.

A built-in controller deletes by the costs that it finds, and counts a pod without one as 0. So while a pod has no cost
of its policy, the costs of the others are no order. A request is held until the missing costs are there, as long as the
policy waits (`whenUnranked`) and half of the budget lasts; a controller that is built in waits no longer, and neither
does an API server. Then the costs of all pods are reverted, and the controller's original order decides. Costs that
could not be reverted before the request is admitted are reported: the controller may follow them.

Trimtab's CloneSets wait by themselves, whatever the carrier (see `cloneset.ranks`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from trimtab.api.annotations import CostOwner, cost_owner
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, WhenUnranked
from trimtab.kube.client import Client
from trimtab.kube.clocks import within
from trimtab.kube.limits import TokenBucket
from trimtab.ranking.faults import recomputation_faults
from trimtab.scaledown.continuous.annotation_costs import AnnotationCosts
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.intent.ratelimits import RATES
from trimtab.scaledown.intent.requests import CheckedRequest, TimeBudget
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.results.reporter import ScaleDownReporter
from trimtab.scaledown.view import View

_MISSING = (CostOwner.NONE, CostOwner.SUBSET)
_NAMED = 3

log = logging.getLogger(__name__)


def is_read_while_incomplete(spec: ScaleDownPolicySpec, kind: str) -> bool:
    """Whether the controller of a kind follows costs that are kept current although some pods have none."""
    return kind != "CloneSet" and (spec.delivery, spec.carrier) == ("Continuous", "Annotation")


def patience(rule: WhenUnranked, budget: TimeBudget) -> float:
    """Seconds that a request is held for missing ranks: as the policy says, and half of the budget at most."""
    return min(float(rule.timeout_seconds), budget.seconds / 2) if rule.action == "Wait" else 0.0


def wait_warning(checked: CheckedRequest) -> tuple[str, ...]:
    """What a user is told who may have expected a longer wait for ranks."""
    rule = checked.policy.spec.when_unranked
    waited = patience(rule, checked.budget)
    if rule.action != "Wait" or waited >= rule.timeout_seconds:
        return ()
    why = "the controller does not wait, and an API server waits for a webhook only as long as its budget"
    return (f"waited {waited:g} s for ranks and not {rule.timeout_seconds} s: {why}",)


class KeptCosts:
    """Holds scale-downs until costs that are kept current are complete, or reverts them."""

    def __init__(
        self, client: Client, view: View, *, settle_time: SettleTime, metrics: Metrics, reporter: ScaleDownReporter
    ) -> None:
        self._clock = client.clock
        self._view = view
        self._settle_time = settle_time
        self._metrics = metrics
        self._reporter = reporter
        limit = TokenBucket(RATES.writes, RATES.writes_burst, client.clock)
        self._costs = AnnotationCosts(client, limit, metrics=metrics)

    async def complete(self, checked: CheckedRequest, owners: Sequence[str]) -> tuple[str, ...]:
        """Wait until all pods of these controllers have costs. If they do not in time, revert those of the others, and
        return warnings."""
        if not self._missing(owners):
            return ()
        budget, spec = checked.budget, checked.policy.spec
        is_refused = next(recomputation_faults(spec, checked.request.kind), None) is not None
        seconds = 0.0 if is_refused else patience(spec.when_unranked, budget)
        if await self._is_shown(owners, budget.left(seconds)):
            await self._settle(budget)
            return ()
        warnings = (_unranked_warning([pod.metadata.name for pod in self._missing(owners)]), *wait_warning(checked))
        if self._kept(owners):
            warnings = (*warnings, *await self._revert(checked, owners))
            await self._settle(budget)
        return warnings

    def _pods(self, owners: Sequence[str]) -> list[Pod]:
        return [pod for uid in owners for pod in self._view.pods_of(uid) if pod.active]

    def _kept(self, owners: Sequence[str]) -> list[Pod]:
        return [pod for pod in self._pods(owners) if cost_owner(pod.metadata.annotations) is CostOwner.POLICY]

    def _missing(self, owners: Sequence[str]) -> list[Pod]:
        return [pod for pod in self._pods(owners) if cost_owner(pod.metadata.annotations) in _MISSING]

    async def _is_shown(self, owners: Sequence[str], seconds: float) -> bool:
        if seconds <= 0:
            return False
        try:
            await within(self._clock, seconds, self._view.pods.wait_for(lambda _: not self._missing(owners)))
        except TimeoutError:
            return False
        return True

    async def _revert(self, checked: CheckedRequest, owners: Sequence[str]) -> tuple[str, ...]:
        """Restore what all pods had before the policy, as long as the budget lasts; a warning about the rest."""
        budget, report = checked.budget, CarrierReport()
        with contextlib.suppress(TimeoutError):
            await within(self._clock, budget.until_answer(), self._restore(owners, report))
        for pod, error in report.failed.items():
            log.warning("%s: the cost of %s was not reverted: %s", checked.key, pod, error)
        left = [pod.key for pod in self._kept(owners)]
        if not left:
            return ()
        failed = len(report.failed.keys() & set(left))
        self._metrics.record_costs_not_reverted(failed, "failed")
        self._metrics.record_costs_not_reverted(len(left) - failed, "late")
        return (self._reporter.not_reverted(checked.request, late=len(left) - failed, failed=failed),)

    async def _restore(self, owners: Sequence[str], report: CarrierReport) -> None:
        """Restore what all pods had, and wait until our own watch shows it of those that could be written."""
        await self._costs.revert(self._pods(owners), report, reason="unranked")
        await self._view.pods.wait_for(lambda _: all(pod.key in report.failed for pod in self._kept(owners)))

    async def _settle(self, budget: TimeBudget) -> None:
        await self._clock.sleep(min(self._settle_time.seconds, budget.until_answer()))


def _unranked_warning(names: Sequence[str]) -> str:
    """Which pods have no rank."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} had no rank, so the costs of all pods are ignored"
