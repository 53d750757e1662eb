"""Holds requests to scale down while costs are put in place.

    gate  →  plan  →  deliver (write, our own watch shows it, settle)  →  answer  →  track

Requests are always admitted: the answer carries warnings only. What becomes of a plan afterwards is tracked by
`results.plan_tracker`.

**Repeats.** An API server may ask twice for one request, and autoscalers try again on conflict. While the workload's
generation is the one that was planned for, nothing that the plan depends on has changed: the annotations on its pods
show that, in every process, and the answer is given at once. A repeat that arrives while the first is held waits for
it. Where a rollout has deleted the annotated pods meanwhile, further costs are written without holding the request
again: during a rollout every request is repeated, because the workload's status changes all the time.

**One at a time.** Requests for one workload are held one after the other; the budget of each starts at its arrival. One
that has waited for half of it, or finds others waiting, is admitted without a plan: requests that change a workload
several times a second are not worth holding up. One that waited for another of the same version of the workload waits
also until that is stored: the API server then rejects its own, and sends a new review.

**Observed.** Where the policy's mode is Observe, the request is planned and answered at once. Nothing is written; what
the controller left is recorded beside what the plan would have left.

**Without a plan.** Whatever the reason, the caller gets a warning, the workload an event, and the result is checked all
the same. A request that could not be verified by an uncached read is reported as far as the caches know its workload.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel, within
from trimtab.kube.components import run_together
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.strategies import StrategyError
from trimtab.scaledown import replicaset_plans
from trimtab.scaledown.cost_writer import CostWriter
from trimtab.scaledown.intent.delivery import BACKGROUND, RESERVE, PlanDelivery
from trimtab.scaledown.intent.gate import Gate, MatchPods, Prepare, Tiers, no_match, no_tiers
from trimtab.scaledown.intent.hold_settings import SETTINGS, HoldSettings
from trimtab.scaledown.intent.kept_costs import KeptCosts, wait_warning
from trimtab.scaledown.intent.overdue import OverdueScaleDowns
from trimtab.scaledown.intent.planner import PlannedRequest, Planner, PolicyOf, strategies_of
from trimtab.scaledown.intent.ratelimits import RateLimiter, WorkloadLocks
from trimtab.scaledown.intent.requests import (
    CheckedRequest,
    DeliveredPlan,
    HoldResult,
    ScaleDownRequest,
    TimeBudget,
)
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.policy.effective import is_on_scale_intent
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.scaledown.results.history import History, ScaleDownRecord
from trimtab.scaledown.results.open_plans import OpenPlan
from trimtab.scaledown.results.plan_tracker import PlanTracker
from trimtab.scaledown.results.reporter import EventRecorder, ScaleDownReporter
from trimtab.scaledown.view import View, Workload

_REMEMBERED = 1024
"""How many results are remembered for repeats."""
_STORED = 1.0
"""Seconds after its answer in which the API server stores a request, or tries to."""

log = logging.getLogger(__name__)


class ScaleDownHolder:
    """Holds requests to scale down. A component: plans are tracked while `run` runs."""

    def __init__(
        self,
        client: Client,
        view: View,
        *,
        defaults: Defaults = NO_DEFAULTS,
        settings: HoldSettings = SETTINGS,
        metrics: Metrics | None = None,
        policy_of: PolicyOf = strategies_of,
        on_plan: Callable[[DeliveredPlan], None] | None = None,
        prepare: Prepare | None = None,
        tiers: Tiers = no_tiers,
        match_pods: MatchPods = no_match,
        recorder: EventRecorder | None = None,
        on_result: Callable[[ScaleDownRecord], None] | None = None,
        executor: Executor | None = None,
    ) -> None:
        """`executor` has the threads in which plans are made; without it they are made in the event loop."""
        self.settings = settings
        self.history = History(client.clock, on_close=on_result)
        self._reporter = ScaleDownReporter(recorder, self.history, view.kinds)
        self.metrics = metrics or Metrics()
        self.settle_time = SettleTime(settings.settle, min(settings.longest_settle, (settings.budget - RESERVE) / 2))
        self._clock = client.clock
        self._view = view
        self._on_plan = on_plan
        self._locks = WorkloadLocks(client.clock)
        self._background: set[asyncio.Future[None]] = set()
        self._results: dict[tuple[str, int, int], HoldResult] = {}
        self._observing: set[tuple[str, int, int]] = set()
        """The observed requests that are being planned."""
        limits = RateLimiter(settings.rates, client.clock)
        writer = CostWriter(client, metrics=self.metrics, writers=settings.writers)
        reader = client.using(retry=NO_RETRIES, urgent=True)
        self._gate = Gate(
            *(reader, view, limits),
            defaults=defaults,
            prepare=prepare,
            tiers=tiers,
            report_unprepared=self._report_unprepared,
        )
        self._planner = Planner(
            view,
            client.clock,
            constraints=settings.constraints,
            policy_of=policy_of,
            server_time=client.server_time,
            settings=settings.model,
            tiers=tiers,
            match_pods=match_pods,
            executor=executor,
        )
        self._kept = KeptCosts(
            client, view, settle_time=self.settle_time, metrics=self.metrics, reporter=self._reporter
        )
        self.tracker = self._new_tracker(client, writer)
        self._delivery = PlanDelivery(
            view,
            client.corrected_clock,
            writer,
            self.tracker,
            limits=limits,
            settle_time=self.settle_time,
            window=settings.model.window,
            executor=executor,
        )
        self._overdue = OverdueScaleDowns(
            view, client.clock, is_tracked=self.tracker.is_open, take_over=self._take_over, after=settings.overdue
        )
        self.metrics.watch_settle_time(lambda: self.settle_time.seconds)

    def _new_tracker(self, client: Client, writer: CostWriter) -> PlanTracker:
        return PlanTracker(
            client,
            self._view,
            writer,
            metrics=self.metrics,
            settle_time=self.settle_time,
            patience=self.settings.patience,
            abandoned=self.settings.abandoned,
            defaults=lambda: self.defaults,
            reassure=self._reassure,
            on_result=self._reporter.ended,
            on_overwritten=self._reporter.overwritten,
        )

    @property
    def defaults(self) -> Defaults:
        """The configuration of scale-downs."""
        return self._gate.defaults

    @property
    def synced(self) -> bool:
        """Whether the caches have synced."""
        return self._view.synced

    @property
    def problems(self) -> list[str]:
        """What keeps the caches from being current."""
        return self._view.problems

    def configure(self, defaults: Defaults) -> None:
        """Use another configuration from now on: where it disables scale-downs, the costs of all plans are reverted."""
        self._gate.configure(defaults)
        self.tracker.requeue_all()

    async def run(self) -> None:
        """Track plans, and take overdue scale-downs over, until cancelled. The view is run by its owner."""
        try:
            await run_together([self.tracker.run(), self._overdue.run()])
        finally:
            await cancel(*self._background)

    async def hold(self, request: ScaleDownRequest) -> HoldResult:
        """Put costs in place for a request, and return when it may be admitted. Errors do not stop it."""
        arrived = self._clock.monotonic() if request.arrived is None else request.arrived
        budget = TimeBudget(self._clock, arrived, self.settings.budget)
        result = HoldResult(HoldOutcome.LATE)
        self.metrics.add_held_requests(1)
        try:
            result = await self._hold(request, budget)
        except (ApiError, ConfigError, InvalidError, StrategyError) as error:
            log.warning("%s: planning failed: %s", request.key, error)
            result = self._give_up(request, HoldOutcome.FAILED)
        except Exception:
            log.exception("%s: planning failed", request.key)
            result = self._give_up(request, HoldOutcome.FAILED)
        finally:  # requests whose caller stopped waiting are counted too: they were held the longest
            self.metrics.add_held_requests(-1)
            self.metrics.record_request(result.outcome, budget.elapsed())
        return result

    async def _hold(self, request: ScaleDownRequest, budget: TimeBudget) -> HoldResult:
        if not self._gate.may_read():
            return self._give_up(request, HoldOutcome.RATE_LIMITED)
        async with self._locks.acquire(request.key, budget.left(budget.seconds / 2)) as is_granted:
            if not is_granted:
                return self._give_up(request, HoldOutcome.BUSY)
            checked = await self._gate.check(request, budget)
            if isinstance(checked, CheckedRequest):
                result = await self._serve(checked)
                return replace(result, warnings=(*result.warnings, *checked.notes))
            if checked.outcome is HoldOutcome.NOT_SYNCED:  # a policy may apply
                return HoldResult(checked.outcome, (self._reporter.skipped(request, checked.outcome),))
            return checked

    def report_skipped(self, request: ScaleDownRequest, outcome: HoldOutcome) -> None:
        """Record a request that the server admitted without a decision."""
        self.metrics.record_fallback(outcome)
        self._give_up(request, outcome)

    def _report_unprepared(self, request: ScaleDownRequest, reason: str, why: str) -> str:
        self.metrics.record_unprepared(reason)
        return self._reporter.unprepared(request, why)

    def _give_up(self, request: ScaleDownRequest, outcome: HoldOutcome) -> HoldResult:
        """Admit a request that was not served, and report that as far as the caches know its workload."""
        workload = self._view.workload(request.kind, request.namespace, request.name)
        is_known = workload is not None and workload.metadata.uid == request.uid
        policy = self._gate.policy_for(workload) if workload is not None and is_known else None
        is_checked_by_another = outcome is HoldOutcome.BUSY or self.tracker.is_open(request.key)
        if workload is None or policy is None or is_checked_by_another:
            warning = self._reporter.skipped(request, outcome, verified=policy is not None)
            return HoldResult(outcome, () if policy is not None and not policy.is_enforced else (warning,))
        budget = TimeBudget(self._clock, self._clock.monotonic(), self.settings.budget)
        return self._skip(CheckedRequest(request, workload, policy, budget), outcome)

    def _skip(self, checked: CheckedRequest, outcome: HoldOutcome) -> HoldResult:
        """Admit a request without a plan, report that, and check its result all the same."""
        warning = self._reporter.skipped(checked.request, outcome, details=checked.skip_warnings)
        result = HoldResult(outcome, (*checked.skip_warnings, warning) if checked.policy.is_enforced else ())
        if self._view.synced:
            self._in_background(self._track_skipped(checked, result))
        else:
            self._reporter.answered(checked, result, ())
        return result

    def _observe(self, checked: CheckedRequest) -> HoldResult:
        """Admit a request at once, and plan it in the background; a repeat is planned already."""
        known = self.tracker.open_plan(checked.key)
        if (known is not None and known.is_for(checked)) or checked.identity in self._observing:
            return HoldResult(HoldOutcome.REPEATED)
        self._observing.add(checked.identity)
        self._in_background(self._track_observed(checked))
        return HoldResult(HoldOutcome.OBSERVED)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background_ended)

    def _background_ended(self, task: asyncio.Future[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the result of a scale-down is not checked", exc_info=error)

    async def _track_skipped(self, checked: CheckedRequest, result: HoldResult) -> None:
        """Compare what becomes of a request with what would have been possible."""
        earlier, plans = self.tracker.open_plan(checked.key), tuple[ControllerPlan, ...]()
        try:
            plans = await self._planner.outline(checked)
        except InvalidError as error:
            log.warning("%s: its result is not checked: %s", checked.key, error)
        self._track(checked, result, plans, earlier)

    async def _track_observed(self, checked: CheckedRequest) -> None:
        """Record what becomes of a request beside what the plan would have left."""
        earlier = self.tracker.open_plan(checked.key)
        try:
            planned = await self._planner.preview(checked)
        except (InvalidError, StrategyError) as error:
            log.warning("%s: planning failed: %s", checked.key, error)
            planned = HoldOutcome.FAILED
        finally:
            self._observing.discard(checked.identity)
        if isinstance(planned, HoldOutcome):
            self._skip(checked, planned)
        else:
            self._track(checked, HoldResult(HoldOutcome.OBSERVED), planned.plans, earlier)

    def _track(
        self,
        checked: CheckedRequest,
        result: HoldResult,
        plans: tuple[ControllerPlan, ...],
        earlier: OpenPlan | None,
    ) -> None:
        """Track a request without costs, unless another one has been planned since (`earlier` was open before it)."""
        if plans and self.tracker.open_plan(checked.key) is earlier:
            result = replace(result, plan=self._delivery.skip(checked, plans, result.outcome))
        self._reporter.answered(checked, result, plans)

    async def _serve(self, checked: CheckedRequest) -> HoldResult:
        if checked.skip is not None:
            return self._skip(checked, checked.skip)
        if not checked.policy.is_enforced:
            return self._observe(checked)
        if not is_on_scale_intent(checked.policy.spec):
            return await self._serve_kept(checked)
        if self._delivery.is_repeat(checked):
            await self._delivery.renew(checked)
            return self._repeated(checked)
        known = self.tracker.open_plan(checked.key)
        if known is not None and known.is_answer_to(checked):
            self.tracker.answer(checked.key, known, is_complete=known.is_complete)
            self._in_background(self._reassure(checked.key, known))
            return self._repeated(checked)
        if await self._is_preceded(checked):
            return HoldResult(HoldOutcome.STALE)
        planned = await self._planner.plan(checked)
        if isinstance(planned, HoldOutcome):
            waited = wait_warning(checked) if planned is HoldOutcome.UNRANKED else ()
            return self._skip(replace(checked, skip_warnings=(*checked.skip_warnings, *waited)), planned)
        if not any(plan.changes for plan in planned.plans):
            return await self._without_costs(checked, planned)
        result = await self._delivery.deliver(checked, planned.plans)
        self._remember(checked.identity, result)
        self._reporter.answered(checked, result, planned.plans)
        self._report(checked, planned, result)
        self._count_unhedged(planned)
        return result

    async def _is_preceded(self, checked: CheckedRequest) -> bool:
        """Whether another request for the workload, which was answered a moment ago, is stored before this one.

        Of two requests for one version of the workload only one can be stored, and the API server sends a new review
        for the other. Costs for that one would be written while the controller deletes pods for the first.
        """
        earlier, request = self.tracker.open_plan(checked.key), checked.request
        if earlier is None or not earlier.may_be_stored_before(checked):
            return False
        left = (earlier.answered or 0) / SECOND + _STORED - self._clock.monotonic() / SECOND
        left = min(left, checked.budget.left(checked.budget.seconds / 2))
        if left <= 0:
            return False

        def is_stored() -> bool:
            cached = self._view.workload(request.kind, request.namespace, request.name)
            return cached is None or cached.metadata.generation > checked.workload.metadata.generation

        try:
            await within(self._clock, left, self._view.cache(request.kind).wait_for(lambda _: is_stored()))
        except TimeoutError:
            return not await self._gate.is_current(request, checked.budget)
        return True

    async def _serve_kept(self, checked: CheckedRequest) -> HoldResult:
        """Admit a request whose costs are kept current, once they are complete, or else without any."""
        warnings = await self._kept.complete(checked, self._planner.owners(checked))
        if not warnings:
            return HoldResult(HoldOutcome.OTHER_DELIVERY)
        told = replace(checked, skip_warnings=(*checked.skip_warnings, *warnings))
        return self._skip(told, HoldOutcome.UNRANKED)

    def _repeated(self, checked: CheckedRequest) -> HoldResult:
        known = self._results.get(checked.identity, HoldResult(HoldOutcome.REPEATED))
        return HoldResult(HoldOutcome.REPEATED, known.warnings)

    async def _without_costs(self, checked: CheckedRequest, planned: PlannedRequest) -> HoldResult:
        """Admit a request for which no cost has to be written, or none can be."""
        outcome = replicaset_plans.reason_without_costs(planned.plans)
        if not planned.deliverable:
            return self._skip(checked, outcome) if planned.plans else HoldResult(outcome)
        plan = await self._delivery.extend(checked, planned.plans)
        result = HoldResult(outcome, plan=plan)
        if outcome is HoldOutcome.FOREIGN_COSTS:
            result = replace(result, warnings=(self._reporter.skipped(checked.request, outcome),))
        self._reporter.answered(checked, result, planned.plans)
        return result

    async def _take_over(self, key: str, workload: Workload) -> None:
        """Plan what is left of a scale-down that no running process tracks."""
        policy = self._gate.policy_for(workload)
        if policy is None or not policy.is_enforced:
            return
        metadata, size = workload.metadata, workload.desired_replicas
        request = ScaleDownRequest(type(workload).__name__, metadata.namespace, metadata.name, metadata.uid, size, size)
        checked = CheckedRequest(request, workload, policy, self._background_budget())
        planned = await self._planner.replan(checked, workload)
        if any(plan.changes for plan in planned.plans):
            log.info("%s: takes over a scale-down that is still in progress", key)
            await self._delivery.extend(checked, planned.plans)

    async def _reassure(self, _: str, plan: OpenPlan) -> None:
        """Plan a request again whose controller has not acted while its result was certain."""
        if plan.request is None:
            return
        request = plan.request.request
        current = self._view.workload(request.kind, request.namespace, request.name)
        if current is None or current.metadata.uid != plan.uid:
            return
        checked = replace(plan.request, budget=self._background_budget())
        planned = await self._planner.replan(checked, current)
        if planned.deliverable:
            await self._delivery.extend(checked, planned.plans, plan)

    def _background_budget(self) -> TimeBudget:
        """The time for writing costs when no request is held."""
        return TimeBudget(self._clock, self._clock.monotonic(), BACKGROUND)

    def _report(self, checked: CheckedRequest, planned: PlannedRequest, result: HoldResult) -> None:
        if self._on_plan is not None:
            request, plans = checked.request, tuple(each.plan for each in planned.deliverable)
            identity = (request.kind, request.namespace, request.name, request.before, request.after)
            self._on_plan(DeliveredPlan(checked.policy, *identity, plans, self._clock.now(), result.error))

    def _count_unhedged(self, planned: PlannedRequest) -> None:
        for plan in planned.deliverable:
            if plan.delivery is not None and plan.delivery.unhedged is not None:
                self.metrics.record_unhedged(plan.delivery.unhedged)

    def _remember(self, identity: tuple[str, int, int], result: HoldResult) -> None:
        self._results[identity] = result
        while len(self._results) > _REMEMBERED:
            del self._results[next(iter(self._results))]
