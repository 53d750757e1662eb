"""Delivers a plan: writes its costs, waits until our own watch shows them, settles, and hands the plan to its tracker.

The controller reads the same stream of events as we do: it will soon see what our own watch has shown. The settle time
is how long "soon" is (see `settle_time`). A request for which nothing could be written is not held for longer.

**Costs that are in place already**, for the same size or of an earlier plan, are relied on instead of being written
again. They must then not be reverted with the plan that wrote them. A plan of this process is superseded by the new
one; a cost that another process wrote gets a new annotation with the same cost, and is tracked by this process from
then on.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Iterable, Sequence, Set
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from trimtab.api.annotations import PlanAnnotation, plan_annotation
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock, within
from trimtab.kube.threads import compute_beside
from trimtab.ranking.costs import Side
from trimtab.scaledown import replicaset_plans
from trimtab.scaledown.cost_writer import LAST, CostChange, CostWriter, WriteReport
from trimtab.scaledown.intent.ratelimits import RateLimiter
from trimtab.scaledown.intent.requests import ANSWER, CheckedRequest, HoldResult, TimeBudget
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.pod_costs import annotation_for, plan_cost
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.scaledown.results.levels import ExpectedLevel
from trimtab.scaledown.results.open_plans import ROLLOUT, OpenPlan, Resize, resizes_of
from trimtab.scaledown.results.plan_tracker import PlanTracker
from trimtab.scaledown.stability import is_rolling_out
from trimtab.scaledown.view import View
from trimtab.snapshot import Snapshot

BACKGROUND = 5.0
"""Seconds in which costs are written for a request that was admitted already."""
_NAME_LENGTH = 12
_WORST_UNKNOWN = "; there was no time to compute how level that leaves the pods"
_NOT_SEEN = "the watch of pods did not show all costs in time; the controller may not have seen them either"
RESERVE = LAST + ANSWER
"""Seconds of the budget in which neither a cost is written nor a controller waited for."""

log = logging.getLogger(__name__)


class PlanDelivery:
    """Writes the costs of plans, or relies on those that are in place."""

    def __init__(
        self,
        view: View,
        clock: Clock,
        writer: CostWriter,
        tracker: PlanTracker,
        *,
        limits: RateLimiter,
        settle_time: SettleTime,
        window: float,
        executor: Executor | None = None,
    ) -> None:
        """`executor` is that of the planner."""
        self._view = view
        self._clock = clock
        self._writer = writer
        self._tracker = tracker
        self._limits = limits
        self._settle_time = settle_time
        self._executor = executor
        self._window = window
        """Seconds for which certainty holds that depends on when the controller acts."""

    async def deliver(self, checked: CheckedRequest, plans: Sequence[ControllerPlan]) -> HoldResult:
        """Put the costs of these plans in place, and return when the request may be answered."""
        key, settle, budget = checked.key, self._settle(checked.budget), checked.budget
        annotation = self._new_annotation(checked)
        changes = [*_new_costs(annotation, plans), *self._adopted_costs(key, annotation, plans)]
        plan = self._open_plan(annotation.plan, checked, plans)
        is_complete = False
        self._tracker.begin(key, plan)
        try:
            report = await self._write(changes, budget)
            is_complete = await self._is_seen(report, budget) and report.is_complete
            has_costs = bool(report.versions) or any(each.relied_on for each in plans)
            announced, _ = await asyncio.gather(
                self._announcement(plans, report, budget), self._wait_settled(budget, settle if has_costs else 0.0)
            )
        finally:
            self._tracker.answer(key, plan, is_complete=is_complete)
        result = self._result(checked, plans, report, changes, announced, is_complete=is_complete)
        return replace(result, plan=plan, costs_written=len(report.versions))

    async def extend(
        self, checked: CheckedRequest, plans: Sequence[ControllerPlan], predecessor: OpenPlan | None = None
    ) -> OpenPlan:
        """Keep the costs in place that bring these plans about, and write those that are missing.

        No request waits for this: it needs no costs, or was admitted already, by a plan that is to be replaced.
        """
        annotation = self._new_annotation(checked)
        plan = self._open_plan(annotation.plan, checked, plans)
        changes = [*_new_costs(annotation, plans), *self._adopted_costs(checked.key, annotation, plans)]
        plan.decision = "" if predecessor is None else predecessor.decision
        await self._adopt(checked, plan, changes, None if predecessor is None else predecessor.answered)
        return plan

    def is_repeat(self, checked: CheckedRequest) -> bool:
        """Whether costs for this very size are in place, and nothing about the workload has changed since."""
        return bool(self._present(checked))

    async def renew(self, checked: CheckedRequest) -> None:
        """Keep the costs of a repeated request for as long as those of a new one.

        Costs that another process wrote are adopted; that process counts which pods are deleted as planned.
        """
        annotation, present = self._new_annotation(checked), self._present(checked)
        if any(self._tracker.renew(checked.key, known) for _, known in present):
            return
        uid, size = checked.workload.metadata.uid, checked.request.after
        plan = OpenPlan(annotation.plan, uid, size, resizes_of(present), {}, frozenset())
        fields = ("share", "was", "side", "cost")
        changes = [
            CostChange(pod, annotation_for(annotation, pod, **{name: getattr(known, name) for name in fields}))
            for pod, known in present
        ]
        await self._adopt(checked, plan, changes)

    def skip(self, checked: CheckedRequest, plans: Sequence[ControllerPlan], outcome: HoldOutcome) -> OpenPlan:
        """Track a request that is admitted without costs, so that its result is checked all the same."""
        plan = self._open_plan(_new_name(), checked, plans)
        plan.skipped, plan.relies_until, plan.is_exact = outcome, None, False
        self._tracker.begin(checked.key, plan)
        self._tracker.answer(checked.key, plan, is_complete=False)
        return plan

    def _present(self, checked: CheckedRequest) -> list[tuple[Pod, PlanAnnotation]]:
        """The pods that have a cost for this very request, and its annotation."""
        request = checked.request
        pods = self._view.planned_pods(request.namespace, request.workload)
        written = (
            (pod, plan_annotation(pod.metadata.annotations))
            for pod in pods
            if pod.active and plan_cost(pod) is not None
        )
        identity = checked.identity
        return [(pod, plan) for pod, plan in written if plan and (plan.uid, plan.generation, plan.to) == identity]

    async def _adopt(
        self, checked: CheckedRequest, plan: OpenPlan, changes: Sequence[CostChange], answered: int | None = None
    ) -> None:
        is_complete = False
        self._tracker.begin(checked.key, plan)
        plan.answered = answered
        try:
            report = await self._write(changes, checked.budget)
            is_complete = report.is_complete and bool(plan.victims)
        finally:
            self._tracker.answer(checked.key, plan, is_complete=is_complete, at=answered)
        if answered is not None and report.versions:
            log.info("%s: wrote %d costs, the controller has not acted yet", checked.key, len(report.versions))

    def _new_annotation(self, checked: CheckedRequest) -> PlanAnnotation:
        metadata = checked.workload.metadata
        return PlanAnnotation(
            plan=_new_name(),
            workload=checked.request.workload,
            uid=metadata.uid,
            generation=metadata.generation,
            to=checked.request.after,
            at=self._clock.now() // 1_000_000,
        )

    def _adopted_costs(
        self, key: str, annotation: PlanAnnotation, plans: Sequence[ControllerPlan]
    ) -> Iterable[CostChange]:
        """New annotations for the costs of other processes that the plans rely on."""
        for plan in plans:
            for pod in plan.relied_on:
                cost = plan_cost(pod)
                if cost is not None and not self._tracker.tracks(key, plan_annotation(pod.metadata.annotations)):
                    side = Side.VICTIMS if pod.metadata.uid in plan.victims else Side.SURVIVORS
                    yield _cost_change(annotation, plan, pod, cost, side)

    def _open_plan(self, name: str, checked: CheckedRequest, plans: Sequence[ControllerPlan]) -> OpenPlan:
        victims: dict[str, str] = {}
        survivors: set[str] = set()
        for plan in plans:
            victims |= plan.victims
            survivors |= plan.survivors
        resizes = {plan.size.uid: Resize(plan.size.before, plan.size.after) for plan in plans}
        uid, size = checked.workload.metadata.uid, checked.request.after
        relies = any(plan.is_relying for plan in plans)
        return OpenPlan(
            *(name, uid, size, resizes, victims, frozenset(survivors)),
            expected=tuple(ExpectedLevel(plan.size.uid, plan.constraints, plan.plan.levelings) for plan in plans),
            is_exact=not relies,
            with_costs=frozenset(self._uids(plans)),
            request=checked,
            relies_until=self._clock.monotonic() + round(self._window * SECOND) if relies else None,
            is_rolling=is_rolling_out(self._view, checked.workload),
            skipped=HoldOutcome.FOREIGN_COSTS if any(plan.delivery is None for plan in plans) else None,
        )

    def _uids(self, plans: Sequence[ControllerPlan]) -> Iterable[str]:
        """The pods to which these plans give costs that decide in any case."""
        deliveries = (plan.delivery for plan in plans if plan.delivery is not None)
        costs = (key for each in deliveries for key, _ in each.costs if key not in each.hedges)
        pods = (self._view.snapshot.pod(key) for key in costs)
        return (pod.metadata.uid for pod in pods if pod is not None)

    def _result(
        self,
        checked: CheckedRequest,
        plans: Sequence[ControllerPlan],
        report: WriteReport,
        changes: Sequence[CostChange],
        announced: str,
        *,
        is_complete: bool,
    ) -> HoldResult:
        warnings, error = replicaset_plans.warnings(plans, is_complete=is_complete), ""
        if not report.is_complete:
            shortfall = f"{_shortfall(report, len(changes))}{announced}"
            failures = [f"{pod}: {reason}" for pod, reason in list(report.failed.items())[:1]]
            error, warnings = "; ".join([shortfall, *failures]), (*warnings, shortfall)
        elif not is_complete:
            error, warnings = _NOT_SEEN, (*warnings, _NOT_SEEN)
        if is_rolling_out(self._view, checked.workload):
            warnings = (*warnings, ROLLOUT)
        request = checked.request
        log.info("%s: %d → %d: %s", checked.key, request.before, request.after, "; ".join(warnings))
        is_whole = is_complete and all(each.delivery is not None for each in plans)
        return HoldResult(HoldOutcome.PLANNED if is_whole else HoldOutcome.PARTIAL, warnings, error)

    def _settle(self, budget: TimeBudget) -> float:
        """The settle time of a request: a policy may have shortened its budget."""
        return self._settle_time.within(budget.seconds - RESERVE)

    async def _wait_settled(self, budget: TimeBudget, seconds: float) -> None:
        if seconds:
            await self._clock.sleep(min(seconds, budget.until_answer()))

    async def _announcement(self, plans: Sequence[ControllerPlan], report: WriteReport, budget: TimeBudget) -> str:
        """How level the result of a partial delivery will be at worst, or that this was not found in time.

        It takes as long as planning, and is computed in the same thread.
        """
        left, snapshot, written = budget.until_answer(), self._view.snapshot, set(report.versions)
        if report.is_complete:
            return ""
        if not left:
            return _WORST_UNKNOWN
        if self._executor is None:
            return _worst(plans, written, snapshot)
        try:
            worst = compute_beside(self._executor, snapshot, partial(_worst, plans, written))
            return await within(self._clock, left, worst)
        except TimeoutError:
            return _WORST_UNKNOWN

    async def _write(self, changes: Sequence[CostChange], budget: TimeBudget) -> WriteReport:
        """Write while there is time, and as many as the rate limit allows: every prefix is a plan of its own."""
        until = budget.moment(budget.seconds - self._settle(budget) - RESERVE)
        with self._limits.writing(len(changes)) as allowed:
            report = await self._writer.write(changes[:allowed], until=until)
        report.late += len(changes) - allowed
        return report

    async def _is_seen(self, report: WriteReport, budget: TimeBudget) -> bool:
        """Whether our own watch has shown every write in time."""
        waiting = deque(report.versions.items())
        pods = self._view.pods

        def is_shown() -> bool:
            while waiting and pods.has_seen(*waiting[0]):
                waiting.popleft()
            return not waiting

        try:
            await within(self._clock, budget.until_answer(), pods.wait_for(lambda _: is_shown()))
        except TimeoutError:
            return False
        return True


def _worst(plans: Sequence[ControllerPlan], written: Set[str], snapshot: Snapshot) -> str:
    """What plans leave at worst of whose costs only some were written."""
    worst = [
        f"{each.topology_key} with a skew of at most {each.skew}"
        for plan in plans
        for each in replicaset_plans.expectations(plan, snapshot, written)
    ]
    return f"; that leaves {', '.join(worst)}" if worst else ""


def _new_name() -> str:
    """A name for a plan that no other one has."""
    return uuid.uuid4().hex[:_NAME_LENGTH]


def _new_costs(annotation: PlanAnnotation, plans: Sequence[ControllerPlan]) -> Iterable[CostChange]:
    """The costs of plans that pods do not have yet."""
    for plan in plans:
        for pod, cost in plan.changes:
            yield _cost_change(annotation, plan, pod, cost, None if plan.delivery is None else plan.delivery.side)


def _cost_change(
    annotation: PlanAnnotation, plan: ControllerPlan, pod: Pod, cost: int, side: Side | None
) -> CostChange:
    size, text = plan.size, "" if side is None else side.value
    written = annotation_for(annotation, pod, share=size.after, was=size.before, side=text, cost=cost)
    return CostChange(pod, written, plan.replaces_foreign)


def _shortfall(report: WriteReport, count: int) -> str:
    causes = {
        "not in time": report.late,
        "failed": len(report.failed),
        "set by other programs": len(report.foreign),
    }
    listed = ", ".join(f"{number} {cause}" for cause, number in causes.items() if number)
    return f"{len(report.versions)} of {count} costs were written ({listed}); the controller chooses the rest"
