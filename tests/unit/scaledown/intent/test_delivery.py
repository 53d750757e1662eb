"""The delivery of plans: what is written and tracked, for a request that is held and for one that is repeated."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.annotations import SCALE_PLAN, PlanAnnotation, plan_annotation
from trimtab.api.apps import ReplicaSet
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.transport import Request
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.cost_writer import CostWriter
from trimtab.scaledown.intent.delivery import PlanDelivery
from trimtab.scaledown.intent.planner import PlannedRequest, Planner
from trimtab.scaledown.intent.ratelimits import RateLimiter, Rates
from trimtab.scaledown.intent.requests import CheckedRequest, ScaleDownRequest, TimeBudget
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.replicaset_plans import ControllerPlan
from trimtab.scaledown.results.open_plans import OpenPlan, Resize
from trimtab.scaledown.results.plan_tracker import PlanTracker
from trimtab.scaledown.view import View
from trimtab.testing.builders import PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock

T = TypeVar("T")
JSON = dict[str, Any]
KEY = "default/ReplicaSet/web"
MILLISECOND = SECOND // 1000
PLACES = "aaaaaabbbbcc"
"""The zones of twelve pods."""


class Process:
    """One process of Trimtab: its tracker, and the delivery of its plans."""

    def __init__(self, view: View, client: Client, rates: Rates) -> None:
        metrics, settle_time = Metrics(), SettleTime(0.3)
        writer = CostWriter(client, metrics=metrics)
        self.tracker = PlanTracker(client, view, writer, metrics=metrics, settle_time=settle_time)
        self.delivery = PlanDelivery(
            *(view, client.clock, writer, self.tracker),
            limits=RateLimiter(rates, client.clock),
            settle_time=settle_time,
            window=10.0,
        )


class Stage:
    """A ReplicaSet with twelve pods in three zones, no controller, and Trimtab."""

    def __init__(self, rates: Rates = Rates()) -> None:  # noqa: B008 - immutable
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.client = Client(self.server, clock=self.clock)
        self.view = View(self.client)
        self.workload = self._stored()
        self.uid = self.workload.metadata.uid
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": self.uid, "controller": True}
        for zone in "abc":
            self.server.put("/api/v1", "nodes", node(zone, zone=zone).tree())
        for number, zone in enumerate(PLACES):
            tree = pod(f"p{number:02d}").on(zone).ready().tree()
            tree["metadata"]["ownerReferences"] = [owner]
            self.server.put("/api/v1", "pods", tree)
        self.first, self.second = (Process(self.view, self.client, rates) for _ in range(2))
        self.watching: asyncio.Future[None]
        self.planner = Planner(self.view, self.clock, constraints=lambda _: (Constraint(ZONE),))

    def _stored(self) -> ReplicaSet:
        spec = {"replicas": 12, "selector": {"matchLabels": {"app": "web"}}, "template": {}}
        metadata = {"name": "web", "namespace": "default", "generation": 3}
        tree = {"metadata": metadata, "spec": spec, "status": {"replicas": 12}}
        return codec.convert(self.server.put("/apis/apps/v1", "replicasets", tree), ReplicaSet)

    def checked(self, after: int = 6, seconds: float = 2.0) -> CheckedRequest:
        """A request to shrink to so many."""
        request = ScaleDownRequest("ReplicaSet", "default", "web", self.uid, 12, after)
        policy = EffectivePolicy(ScaleDownPolicySpec(), "", "everyone")
        return CheckedRequest(request, self.workload, policy, TimeBudget(self.clock, self.clock.monotonic(), seconds))

    async def plans(self, checked: CheckedRequest) -> Sequence[ControllerPlan]:
        """The plan of the ReplicaSet."""
        planned = await self.planner.plan(checked)
        assert isinstance(planned, PlannedRequest)
        return planned.plans

    async def held(self, work: Awaitable[T]) -> tuple[T, float]:
        """What something returns, and how many seconds it took."""
        task, started = asyncio.ensure_future(work), self.clock.monotonic()
        while not task.done():
            await self.clock.advance(0.01)
        return task.result(), (self.clock.monotonic() - started) / SECOND

    def annotated(self) -> dict[str, PlanAnnotation]:
        """The annotations of plans by pod, as they are stored."""
        pods = [codec.convert(tree, Pod) for tree in self.server.objects("pods")]
        found = {each.metadata.uid: plan_annotation(each.metadata.annotations) for each in pods}
        return {uid: plan for uid, plan in found.items() if plan is not None}

    def uids(self) -> set[str]:
        """The UIDs of all pods."""
        return {tree["metadata"]["uid"] for tree in self.server.objects("pods")}


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With its caches filled."""
    async for made in started(Stage()):
        yield made


async def started(made: Stage) -> AsyncIterator[Stage]:
    """The same, while its caches are kept current."""
    made.watching = asyncio.create_task(made.view.run())
    await made.clock.advance(1)
    yield made
    await cancel(made.watching)


def only(plan: OpenPlan | None) -> OpenPlan:
    """The plan, which must be there."""
    assert plan is not None
    return plan


async def test_a_delivered_plan_is_written_settled_and_tracked(stage: Stage) -> None:
    """Everything that evaluating and reverting it needs is in the plan, and on the pods."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    planned = stage.clock.now()
    result, took = await stage.held(stage.first.delivery.deliver(checked, plans))
    plan, marks = only(stage.first.tracker.open_plan(KEY)), stage.annotated()
    assert (result.outcome, result.plan is plan, result.costs_written) == (HoldOutcome.PLANNED, True, len(marks))
    assert took == pytest.approx(0.3, abs=0.05)
    assert marks
    assert set(marks) == plan.with_costs
    assert {mark.plan for mark in marks.values()} == {plan.plan}
    assert {(mark.share, mark.was, mark.to, mark.generation) for mark in marks.values()} == {(6, 12, 6, 3)}
    assert {mark.at for mark in marks.values()} == {planned // MILLISECOND}
    assert {mark.side for mark in marks.values()} == {each.delivery.side.value for each in plans if each.delivery}
    assert plan.resizes == {stage.uid: Resize(12, 6)}
    assert set(plan.victims) | plan.survivors == stage.uids()
    assert (len(plan.victims), len(plan.survivors)) == (6, 6)
    assert [(each.uid, len(each.levelings)) for each in plan.expected] == [(stage.uid, 1)]
    assert (plan.uid, plan.to, plan.request) == (stage.uid, 6, checked)
    assert (plan.is_complete, plan.is_rolling, plan.skipped) == (True, False, None)
    assert plan.answered == stage.clock.monotonic() or plan.answered is not None
    assert (plan.relies_until is None) is plan.is_exact is not any(each.is_relying for each in plans)


async def test_one_relying_controller_of_two_makes_the_whole_plan_rely(stage: Stage) -> None:
    """Its result is certain for the window only; victims and survivors of both are tracked."""
    checked = stage.checked()
    (plan,) = await stage.plans(checked)
    exact = replace(plan, is_relying=False)
    other = replace(
        plan,
        is_relying=True,
        size=replace(plan.size, uid="other", before=5, after=2),
        victims={"v": "zone"},
        survivors=frozenset({"s"}),
        changes=(),
    )
    made = stage.first.delivery.skip(checked, [exact, other], HoldOutcome.BUSY)
    assert made.resizes == {stage.uid: Resize(12, 6), "other": Resize(5, 2)}
    assert (made.victims["v"], "s" in made.survivors, len(made.victims), len(made.survivors)) == ("zone", True, 7, 7)
    extended, _ = await stage.held(stage.second.delivery.extend(checked, [exact, other]))
    assert not extended.is_exact
    moment = only(extended).relies_until
    assert moment is not None
    assert (moment - checked.budget.started) / SECOND == pytest.approx(10.0, abs=0.1)
    certain, _ = await stage.held(stage.second.delivery.extend(checked, [exact]))
    assert (certain.relies_until, certain.is_exact) == (None, True)


async def test_a_controller_whose_costs_are_foreign_leaves_a_partial_plan(stage: Stage) -> None:
    """The other ones are delivered."""
    checked = stage.checked()
    (plan,) = await stage.plans(checked)
    foreign = replace(plan, delivery=None, changes=(), size=replace(plan.size, uid="other"))
    result, _ = await stage.held(stage.first.delivery.deliver(checked, [plan, foreign]))
    assert result.outcome is HoldOutcome.PARTIAL
    assert only(result.plan).skipped is HoldOutcome.FOREIGN_COSTS
    assert set(stage.annotated()) == only(result.plan).with_costs


async def test_costs_beyond_the_limit_of_writes_are_counted_as_late() -> None:
    """The first of them are written: every prefix is a plan of its own."""
    async for stage in started(Stage(Rates(writes=0.001, writes_burst=1))):
        checked = stage.checked()
        plans = await stage.plans(checked)
        count = sum(len(plan.changes) for plan in plans)
        assert count > 1
        result, _ = await stage.held(stage.first.delivery.deliver(checked, plans))
        assert (result.outcome, result.costs_written, len(stage.annotated())) == (HoldOutcome.PARTIAL, 1, 1)
        start = f"1 of {count} costs were written ({count - 1} not in time); the controller chooses the rest"
        (shortfall,) = [text for text in result.warnings if text.startswith(start)]
        assert f"; that leaves {ZONE} with a skew of at most " in shortfall
        assert result.error == shortfall
        assert not only(result.plan).is_complete


class Recorded(Executor):
    """Does work at once, and keeps the names of its functions."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Do it."""
        self.done.append(getattr(work, "func", work).__name__)
        made: Future[Any] = Future()
        made.set_result(work(*arguments, **named))
        return made


async def test_what_a_partial_plan_leaves_is_computed_beside_the_event_loop() -> None:
    """In the thread of the planner: it takes as long as planning."""
    executor = Recorded()
    async for stage in started(Stage(Rates(writes=0.001, writes_burst=1))):
        setattr(stage.first.delivery, "_executor", executor)  # noqa: B010 - as the holder passes it
        checked = stage.checked()
        result, _ = await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
        assert any(f"; that leaves {ZONE} with a skew of at most " in text for text in result.warnings)
    assert executor.done == ["_worst"]


async def test_what_a_partial_plan_leaves_is_not_computed_when_the_budget_is_used_up(stage: Stage) -> None:
    """The request is answered at once: it has waited for longer than it may."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    late = replace(checked, budget=replace(checked.budget, started=checked.budget.started - 3 * SECOND))
    result, _ = await stage.held(stage.first.delivery.deliver(late, plans))
    (shortfall,) = [text for text in result.warnings if "not in time" in text]
    assert shortfall.endswith("; there was no time to compute how level that leaves the pods")
    assert (result.outcome, result.costs_written) == (HoldOutcome.PARTIAL, 0)


async def test_a_request_whose_costs_our_own_watch_does_not_show_is_answered_within_its_budget(stage: Stage) -> None:
    """A tenth of a second is left for the answer, and nothing is settled: the controller may not have seen them."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    await cancel(stage.watching)
    result, took = await stage.held(stage.first.delivery.deliver(checked, plans))
    assert (result.outcome, only(result.plan).is_complete) == (HoldOutcome.PARTIAL, False)
    assert took == pytest.approx(1.9, abs=0.02)
    assert result.costs_written == len(stage.annotated()) > 0
    assert result.warnings[-1] == result.error != ""


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        pytest.param(1, 1.9, id="what was written settles"),
        pytest.param(0, 1.6, id="nothing was written, and nothing settles"),
    ],
)
async def test_costs_that_hang_leave_time_to_settle_and_to_answer(stage: Stage, written: int, seconds: float) -> None:
    """Of two seconds: the last cost is started at 1.5, and given a tenth; then those that were written settle."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    patched = itertools.count()

    def hang(request: Request) -> None:
        if request.method == "PATCH" and next(patched) >= written:
            stage.server.bad.latency = 1e6

    stage.server.intercept = hang
    result, took = await stage.held(stage.first.delivery.deliver(checked, plans))
    assert (result.outcome, result.costs_written) == (HoldOutcome.PARTIAL, written)
    assert took == pytest.approx(seconds, abs=0.02)


async def test_the_first_of_several_errors_is_reported(stage: Stage) -> None:
    """For the status of the policy; the warning has the number of all."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    count = sum(len(plan.changes) for plan in plans)
    stage.server.intercept = lambda _: failure(403, "Forbidden", "you may not")
    result, _ = await stage.held(stage.first.delivery.deliver(checked, plans))
    assert f"0 of {count} costs were written ({count} failed)" in result.warnings[-1]
    assert (count > 1, result.error.count("you may not"), "you may not" in result.warnings[-1]) == (True, 1, False)


@pytest.mark.parametrize("is_held", [pytest.param(True, id="held"), pytest.param(False, id="admitted before")])
async def test_a_plan_whose_delivery_breaks_off_is_answered_and_incomplete(stage: Stage, is_held: bool) -> None:
    """Its request is admitted all the same, and what was written is to be reverted in the end."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    delivery = stage.first.delivery
    stage.server.intercept = lambda _: RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug"):
        await (delivery.deliver(checked, plans) if is_held else delivery.extend(checked, plans))
    plan = only(stage.first.tracker.open_plan(KEY))
    assert (plan.is_complete, plan.answered) == (False, stage.clock.monotonic())


async def test_a_pod_whose_cost_may_not_decide_is_not_counted_as_one_that_has_to_follow_it(stage: Stage) -> None:
    """A starting pod may be deleted although its cost would keep it: that is no miss."""
    checked = stage.checked()
    (plan,) = await stage.plans(checked)
    assert plan.delivery is not None
    starting, _ = plan.changes[0]
    hedged = replace(plan, delivery=replace(plan.delivery, hedges=frozenset({starting.key})))
    result, _ = await stage.held(stage.first.delivery.deliver(checked, [hedged]))
    assert starting.metadata.uid in stage.annotated()
    assert only(result.plan).with_costs == set(stage.annotated()) - {starting.metadata.uid}


async def test_a_pod_that_is_gone_when_its_plan_is_delivered_has_no_cost(stage: Stage) -> None:
    """Plans are made in another thread: meanwhile a pod may be deleted."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    gone, _ = plans[0].changes[0]
    stage.server.drop("/api/v1", "pods", gone.key)
    await stage.clock.advance(0.01)
    result, _ = await stage.held(stage.first.delivery.deliver(checked, plans))
    assert result.outcome is HoldOutcome.PLANNED
    assert gone.metadata.uid not in only(result.plan).with_costs
    assert only(result.plan).with_costs == set(stage.annotated())


async def test_a_request_that_was_skipped_is_tracked_without_costs(stage: Stage) -> None:
    """Whatever it relied on, its result is checked by its level alone."""
    checked = stage.checked()
    made = stage.first.delivery.skip(checked, await stage.plans(checked), HoldOutcome.RATE_LIMITED)
    assert stage.first.tracker.open_plan(KEY) is made
    assert (made.skipped, made.relies_until, made.is_exact) == (HoldOutcome.RATE_LIMITED, None, False)
    assert (made.is_complete, made.answered) == (False, stage.clock.monotonic())
    assert stage.annotated() == {}


async def test_a_repeat_is_recognized_while_nothing_has_changed(stage: Stage) -> None:
    """The same size, generation and workload; and the costs are as they were written."""
    checked = stage.checked()
    assert not stage.first.delivery.is_repeat(checked)
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    assert stage.first.delivery.is_repeat(stage.checked())
    assert not stage.first.delivery.is_repeat(stage.checked(5))
    metadata = msgspec.structs.replace(stage.workload.metadata, generation=4)
    changed = msgspec.structs.replace(stage.workload, metadata=metadata)
    assert not stage.first.delivery.is_repeat(replace(stage.checked(), workload=changed))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda built: built.terminating(), id="terminating"),
        pytest.param(lambda built: built.cost(99), id="with a cost of another writer"),
    ],
)
async def test_a_request_is_no_repeat_where_all_annotated_pods_are(
    stage: Stage, change: Callable[[PodBuilder], PodBuilder]
) -> None:
    """Its costs do not count any more: it is planned again."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    for tree in stage.server.objects("pods"):
        if tree["metadata"]["uid"] in stage.annotated():
            stage.server.put("/api/v1", "pods", change(PodBuilder(tree)).tree())
    await stage.clock.advance(0.1)
    assert stage.annotated()
    assert not stage.first.delivery.is_repeat(stage.checked())


async def test_a_repeat_renews_a_plan_of_which_another_process_has_adopted_a_cost(stage: Stage) -> None:
    """The others are its own: no further plan is made."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    plan, (uid, *others) = only(stage.first.tracker.open_plan(KEY)), sorted(stage.annotated())
    assert others
    (tree,) = [tree for tree in stage.server.objects("pods") if tree["metadata"]["uid"] == uid]
    adopted = msgspec.structs.replace(stage.annotated()[uid], plan="adopted")
    tree = PodBuilder(tree).annotations({SCALE_PLAN: codec.encode(adopted).decode()}).tree()
    stage.server.put("/api/v1", "pods", tree)
    await stage.clock.advance(0.1)
    await stage.held(stage.first.delivery.renew(stage.checked()))
    assert stage.first.tracker.open_plan(KEY) is plan
    assert stage.annotated()[uid].plan == "adopted"


async def test_a_repeat_renews_the_plan_of_its_own_process(stage: Stage) -> None:
    """Nothing is written; it is answered again."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    plan = only(stage.first.tracker.open_plan(KEY))
    before = stage.annotated()
    await stage.clock.advance(3)
    await stage.held(stage.first.delivery.renew(stage.checked()))
    assert stage.first.tracker.open_plan(KEY) is plan
    assert (plan.is_complete, stage.annotated()) == (True, before)
    assert stage.clock.monotonic() - (plan.answered or 0) < SECOND


async def test_a_repeat_in_another_process_adopts_the_costs(stage: Stage) -> None:
    """With a new plan's name and everything else as it was."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    before = stage.annotated()
    await stage.held(stage.second.delivery.renew(stage.checked()))
    plan, after = only(stage.second.tracker.open_plan(KEY)), stage.annotated()
    assert after.keys() == before.keys()
    assert {mark.plan for mark in after.values()} == {plan.plan} != {mark.plan for mark in before.values()}
    for uid, mark in after.items():
        known = before[uid]
        assert (mark.share, mark.was, mark.side, mark.cost) == (known.share, known.was, known.side, known.cost)
    assert (plan.resizes, plan.to, plan.uid) == ({stage.uid: Resize(12, 6)}, 6, stage.uid)
    assert (dict(plan.victims), plan.is_complete) == ({}, False)


async def test_costs_that_a_further_plan_relies_on_are_adopted_from_another_process(stage: Stage) -> None:
    """Those of the own process are superseded instead, and stay as they are."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    before = stage.annotated()
    further = stage.checked(4)
    plans = await stage.plans(further)
    relied_on = {each.metadata.uid for plan in plans for each in plan.relied_on}
    assert relied_on
    await stage.held(stage.second.delivery.extend(further, plans))
    after, plan = stage.annotated(), only(stage.second.tracker.open_plan(KEY))
    assert {after[uid].plan for uid in relied_on} == {plan.plan}
    assert {uid: after[uid].cost for uid in relied_on} == {uid: before[uid].cost for uid in relied_on}
    sides = {uid: "victims" if uid in plans[0].victims else "survivors" for uid in relied_on}
    assert {uid: after[uid].side for uid in relied_on} == sides


async def test_costs_of_the_own_process_that_a_further_plan_relies_on_are_not_written_again(stage: Stage) -> None:
    """The further plan supersedes the one that wrote them."""
    checked = stage.checked()
    await stage.held(stage.first.delivery.deliver(checked, await stage.plans(checked)))
    before, further = stage.annotated(), stage.checked(4)
    plans = await stage.plans(further)
    relied_on = {each.metadata.uid for plan in plans for each in plan.relied_on}
    assert relied_on
    plan, _ = await stage.held(stage.first.delivery.extend(further, plans))
    after = stage.annotated()
    assert {uid: after[uid] for uid in relied_on} == {uid: before[uid] for uid in relied_on}
    assert all(plan.covers(after[uid]) for uid in relied_on)


async def test_a_plan_that_is_made_again_keeps_its_decision_and_its_moment(stage: Stage) -> None:
    """Its request was answered before; one without a predecessor is answered now."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    first, _ = await stage.held(stage.first.delivery.extend(checked, plans))
    assert (first.decision, first.answered is not None, first.is_complete) == ("", True, True)
    first.decision, first.answered = "d1", 17
    again, _ = await stage.held(stage.first.delivery.extend(checked, plans, first))
    assert (again.decision, again.answered) == ("d1", 17)
    assert again.covers(msgspec.structs.replace(next(iter(stage.annotated().values())), plan=first.plan))


async def test_a_plan_that_is_made_again_is_answered_while_its_costs_are_written(stage: Stage) -> None:
    """The controller may act at any time: its tracker evaluates it meanwhile."""
    checked = stage.checked()
    plans = await stage.plans(checked)
    first = stage.first.delivery.skip(checked, plans, HoldOutcome.LATE)
    first.answered = 17
    stage.server.bad.latency = 1e6
    writing = asyncio.ensure_future(stage.first.delivery.extend(checked, plans, first))
    await stage.clock.advance(0.1)
    plan = only(stage.first.tracker.open_plan(KEY))
    assert (writing.done(), plan is first, plan.answered) == (False, False, 17)
    await cancel(writing)
