"""Holds requests to scale down while costs are put in place.

    gate  →  plan  →  deliver (write, our own watch shows it, settle)  →  answer  →  track

Requests are always admitted: the answer carries warnings only. What becomes of a plan afterwards is tracked by
`results.plan_tracker`.

**Repeats.** An API server may ask twice for one request, and autoscalers try again on conflict. While the workload's
generation is the one that was planned for, nothing that the plan depends on has changed: the annotations on its pods
show that, in every process, and the answer is given at once. A repeat that arrives while the first is held waits for
it.

**One at a time.** Requests for one workload are held one after the other; the budget of each starts at its arrival.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import HOSTNAME, ZONE
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, ConfigError
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.strategies import StrategyError
from trimtab.scaledown import replicaset_plans
from trimtab.scaledown.cost_writer import WRITERS, CostWriter
from trimtab.scaledown.intent.delivery import RESERVE, PlanDelivery
from trimtab.scaledown.intent.gate import Gate, Prepare
from trimtab.scaledown.intent.planner import MODEL, ModelSettings, PlannedRequest, Planner, PolicyOf, strategies_of
from trimtab.scaledown.intent.ratelimits import RATES, RateLimiter, Rates, WorkloadLocks
from trimtab.scaledown.intent.requests import (
    BUDGET,
    CheckedRequest,
    DeliveredPlan,
    HoldResult,
    ScaleDownRequest,
    TimeBudget,
)
from trimtab.scaledown.intent.settle_time import INITIAL, LONGEST, SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults
from trimtab.scaledown.results.evaluation import PATIENCE
from trimtab.scaledown.results.open_plans import OpenPlan
from trimtab.scaledown.results.plan_tracker import ABANDONED, PlanTracker
from trimtab.scaledown.results.reporter import EventRecorder, ScaleDownReporter
from trimtab.scaledown.view import View

_REMEMBERED = 1024
"""How many results are remembered for repeats."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HoldSettings:
    """How requests are held; times in seconds."""

    budget: float = BUDGET
    settle: float = INITIAL
    longest_settle: float = LONGEST
    """The settle time never takes more of the budget than is left for writing."""
    patience: float = PATIENCE
    """How long an answered request may take to be stored before its costs are reverted."""
    abandoned: float = ABANDONED
    """How long the plans of other processes are left to them."""
    writers: int = WRITERS
    rates: Rates = RATES
    constraints: tuple[Constraint, ...] = (Constraint(ZONE), Constraint(HOSTNAME))
    """The constraints of workloads whose templates state none."""
    model: ModelSettings = MODEL


SETTINGS = HoldSettings()


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
        recorder: EventRecorder | None = None,
    ) -> None:
        self.settings = settings
        self._reporter = ScaleDownReporter(recorder)
        self._verified: dict[str, CheckedRequest] = {}
        """The requests that are being served, by workload."""
        self.metrics = metrics or Metrics()
        self.settle_time = SettleTime(settings.settle, min(settings.longest_settle, (settings.budget - RESERVE) / 2))
        self._clock = client.clock
        self._view = view
        self._on_plan = on_plan
        self._locks = WorkloadLocks()
        self._results: dict[tuple[str, int, int], HoldResult] = {}
        limits = RateLimiter(settings.rates, client.clock)
        writer = CostWriter(client, metrics=self.metrics, writers=settings.writers)
        reader = client.using(retry=NO_RETRIES, timeout=settings.budget, urgent=True)
        self._gate = Gate(reader, view, limits, defaults=defaults, prepare=prepare)
        self._planner = Planner(
            view,
            client.clock,
            constraints=settings.constraints,
            policy_of=policy_of,
            server_time=client.server_time,
            settings=settings.model,
        )
        self.tracker = PlanTracker(
            client,
            view,
            writer,
            metrics=self.metrics,
            settle_time=self.settle_time,
            patience=settings.patience,
            abandoned=settings.abandoned,
            defaults=lambda: self.defaults,
            reassure=self._reassure,
            on_result=self._reporter.ended,
            on_overwritten=self._reporter.overwritten,
        )
        self._delivery = PlanDelivery(
            view,
            client.clock,
            writer,
            self.tracker,
            limits=limits,
            settle_time=self.settle_time,
            metrics=self.metrics,
            window=settings.model.window,
        )
        self.metrics.watch_settle_time(lambda: self.settle_time.seconds)

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
        """Track plans until cancelled. The view is run by its owner."""
        await self.tracker.run()

    async def hold(self, request: ScaleDownRequest) -> HoldResult:
        """Put costs in place for a request, and return when it may be admitted. Errors do not stop it."""
        budget = TimeBudget(self._clock, self._clock.monotonic(), self.settings.budget)
        result = HoldResult(HoldOutcome.LATE)
        self.metrics.add_held_requests(1)
        try:
            result = await self._hold(request, budget)
        except (ApiError, ConfigError, InvalidError, StrategyError) as error:
            log.warning("%s: planning failed: %s", request.key, error)
            result = self._failed(request)
        finally:  # requests whose caller stopped waiting are counted too: they were held the longest
            self.metrics.add_held_requests(-1)
            self.metrics.record_request(result.outcome, budget.elapsed())
        return result

    async def _hold(self, request: ScaleDownRequest, budget: TimeBudget) -> HoldResult:
        if not self._gate.may_read():
            warning = self._reporter.skipped(request, HoldOutcome.RATE_LIMITED, verified=False)
            return HoldResult(HoldOutcome.RATE_LIMITED, (warning,))
        async with self._locks.acquire(request.key):
            checked = await self._gate.check(request, budget)
            if isinstance(checked, HoldResult):
                return checked
            self._verified[request.key] = checked
            try:
                return await self._serve(checked)
            finally:
                self._verified.pop(request.key, None)

    def report_late(self, request: ScaleDownRequest) -> None:
        """Record a request that was admitted because no decision was made in time."""
        self._reporter.skipped(request, HoldOutcome.LATE, verified=request.key in self._verified)

    def _failed(self, request: ScaleDownRequest) -> HoldResult:
        warning = self._reporter.skipped(request, HoldOutcome.FAILED, verified=False)
        return HoldResult(HoldOutcome.FAILED, (warning,))

    def _skip(self, checked: CheckedRequest, outcome: HoldOutcome) -> HoldResult:
        """Admit a request without a plan, report that, and check its result all the same."""
        warning = self._reporter.skipped(checked.request, outcome)
        if self._view.synced:
            self._delivery.skip(checked, self._planner.outline(checked), outcome)
        return HoldResult(outcome, (*checked.skip_warnings, warning))

    async def _serve(self, checked: CheckedRequest) -> HoldResult:
        if checked.skip is not None:
            return self._skip(checked, checked.skip)
        if self._delivery.is_repeat(checked):
            await self._delivery.renew(checked)
            known = self._results.get(checked.identity, HoldResult(HoldOutcome.REPEATED))
            return HoldResult(HoldOutcome.REPEATED, known.warnings)
        planned = await self._planner.plan(checked)
        if isinstance(planned, HoldOutcome):
            return self._skip(checked, planned)
        plans = planned.deliverable
        if not any(plan.changes for plan in plans):
            return await self._without_costs(checked, planned)
        result = await self._delivery.deliver(checked, plans)
        self._remember(checked.identity, result)
        self._reporter.planned(checked, result)
        self._report(checked, planned, result)
        return result

    async def _without_costs(self, checked: CheckedRequest, planned: PlannedRequest) -> HoldResult:
        """Admit a request for which no cost has to be written, or none can be."""
        outcome = replicaset_plans.reason_without_costs(planned.plans)
        if planned.deliverable:
            await self._delivery.rely(checked, planned.deliverable)
        elif planned.plans:
            return self._skip(checked, outcome)
        return HoldResult(outcome)

    async def _reassure(self, workload: str, plan: OpenPlan) -> None:
        """Plan a request again whose controller has not acted while its result was certain."""
        if plan.request is None:
            return
        request = plan.request.request
        current = self._view.workload(request.kind, request.namespace, request.name)
        if current is not None and current.metadata.uid == plan.uid:
            planned = self._planner.replan(plan.request, current)
            if planned.deliverable:
                await self._delivery.reassure(workload, plan, planned.deliverable)

    def _report(self, checked: CheckedRequest, planned: PlannedRequest, result: HoldResult) -> None:
        if self._on_plan is not None:
            request, plans = checked.request, tuple(each.plan for each in planned.deliverable)
            identity = (request.kind, request.namespace, request.name, request.before, request.after)
            self._on_plan(DeliveredPlan(checked.policy, *identity, plans, self._clock.now(), result.error))

    def _remember(self, identity: tuple[str, int, int], result: HoldResult) -> None:
        self._results[identity] = result
        while len(self._results) > _REMEMBERED:
            del self._results[next(iter(self._results))]
