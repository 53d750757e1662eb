"""The planner: plans are made beside the event loop, and are the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec, WhenUnranked
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.ranking.plan import Policy
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.strategies import Ranks
from trimtab.ranking.strategies import View as StrategyView
from trimtab.scaledown.intent import planner as module
from trimtab.scaledown.intent.planner import Planner, PolicyOf, strategies_of
from trimtab.scaledown.intent.requests import CheckedRequest, ScaleDownRequest, TimeBudget
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.effective import EffectivePolicy
from trimtab.scaledown.view import View
from trimtab.snapshot.columns import IntColumn
from trimtab.testing.builders import node, pod
from trimtab.testing.clocks import VirtualClock

PODS = 12
PATIENCE = 30.0
THREAD = ThreadPoolExecutor(1, thread_name_prefix="planner")
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


class Named:
    """Ranks pods by their names, after `wait` has returned."""

    recompute = False
    one_at_a_time = False

    def __init__(self, wait: Any = lambda: None) -> None:
        self._wait = wait
        self.threads: list[str] = []

    def rank(self, rows: IntColumn, view: StrategyView) -> Ranks:
        """The number in each name."""
        self._wait()
        self.threads.append(threading.current_thread().name)
        return np.array([float(each.metadata.name[1:]) for each in view.pods(rows)])


@asynccontextmanager
async def planning(
    strategy: Named, executor: Executor | None = None, pods: int = PODS
) -> AsyncIterator[tuple[Planner, CheckedRequest]]:
    """A planner of a ReplicaSet with a dozen pods in three zones, and a request to shrink it to six."""
    clock = VirtualClock()
    server = FakeServer(clock)
    server.put("/apis/apps/v1", "replicasets", replicaset(pods))
    for zone in "abc":
        server.put("/api/v1", "nodes", node(zone, zone=zone).tree())
    for number in range(pods):
        tree = pod(f"p{number:02d}").on("abc"[number % 3]).ready().tree()
        tree["metadata"]["ownerReferences"] = [OWNER]
        server.put("/api/v1", "pods", tree)
    view = View(Client(server, clock=clock))
    task = asyncio.create_task(view.run())
    await clock.advance(1)
    assert len(view.pods.store) == pods
    registry: Mapping[str, Any] = {"Named": lambda _: strategy}
    planner = Planner(
        view,
        clock,
        constraints=lambda _: (Constraint(ZONE),),
        policy_of=lambda policy, _: Policy.of(policy.spec.strategies, registry),
        executor=executor,
    )
    workload = codec.convert(replicaset(pods), ReplicaSet)
    spec = ScaleDownPolicySpec(strategies=(StrategySpec(name="Named"),))
    request = ScaleDownRequest("ReplicaSet", "default", "web", "rs", pods, pods // 2)
    budget = TimeBudget(clock, clock.monotonic(), 2.0)
    yield planner, CheckedRequest(request, workload, EffectivePolicy(spec, "default/named", "named"), budget)
    await cancel(task)


def replicaset(pods: int) -> JSON:
    """A ReplicaSet with all its pods."""
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "rs"},
        "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": {}},
        "status": {"replicas": pods},
    }


class Deployed:
    """A Deployment that counts six pods, of which our own watches may not have shown everything, and a planner."""

    def __init__(self, *, pods: int, size: int, policy_of: PolicyOf = strategies_of) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        labels = {"matchLabels": {"app": "web"}}
        counted = {"replicas": 6, "selector": labels, "template": {}}
        tree = {"metadata": {"name": "web", "namespace": "default"}, "spec": counted, "status": {"replicas": 6}}
        self.workload = codec.convert(self.server.put("/apis/apps/v1", "deployments", tree), Deployment)
        self.view = View(Client(self.server, clock=self.clock))
        self.planner = Planner(self.view, self.clock, constraints=lambda _: (Constraint(ZONE),), policy_of=policy_of)
        for zone in "ab":
            self.server.put("/api/v1", "nodes", node(zone, zone=zone).tree())
        self.resize(size)
        self.start_pods(0, pods)

    def resize(self, size: int, name: str = "web") -> str:
        """Let a ReplicaSet have this size; its UID."""
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
        metadata = {"name": name, "ownerReferences": [{**owner, "uid": self.workload.metadata.uid}]}
        tree = replicaset(size)
        stored = self.server.put("/apis/apps/v1", "replicasets", {**tree, "metadata": {**tree["metadata"], **metadata}})
        return str(stored["metadata"]["uid"])

    def start_pods(self, first: int, last: int, name: str = "web") -> None:
        """Add pods of a ReplicaSet, by turns in two zones."""
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.server.objects("replicasets")}
        for number in range(first, last):
            tree = pod(f"{name}-{number}").on("ab"[number % 2]).ready().tree()
            tree["metadata"]["ownerReferences"] = [{**OWNER, "name": name, "uid": uids[name]}]
            self.server.put("/api/v1", "pods", tree)

    @asynccontextmanager
    async def planning(
        self,
        after: int,
        spec: ScaleDownPolicySpec = ScaleDownPolicySpec(),  # noqa: B008 - immutable
    ) -> AsyncIterator[asyncio.Future[Any]]:
        """A plan that is being made for a request to shrink to so many."""
        async with self.checked(after, spec) as checked:
            planning = asyncio.ensure_future(self.planner.plan(checked))
            yield planning
            await cancel(planning)

    @asynccontextmanager
    async def checked(
        self,
        after: int,
        spec: ScaleDownPolicySpec = ScaleDownPolicySpec(),  # noqa: B008 - immutable
    ) -> AsyncIterator[CheckedRequest]:
        """A request to shrink to so many, once the caches are filled."""
        watching = asyncio.ensure_future(self.view.run())
        await self.clock.advance(1)
        request = ScaleDownRequest("Deployment", "default", "web", self.workload.metadata.uid, 6, after)
        budget = TimeBudget(self.clock, self.clock.monotonic(), 2.0)
        yield CheckedRequest(request, self.workload, EffectivePolicy(spec, "", "everyone"), budget)
        await cancel(watching)


@pytest.mark.parametrize(
    ("pods", "size", "found"),
    [
        pytest.param(6, 4, HoldOutcome.NOT_SYNCED, id="a larger ReplicaSet"),
        pytest.param(4, 6, None, id="further pods"),
        pytest.param(4, 4, HoldOutcome.NOT_SYNCED, id="both"),
    ],
)
async def test_what_a_workload_counts_is_waited_for_a_moment(pods: int, size: int, found: HoldOutcome | None) -> None:
    """Until our own watches have shown it; without a ReplicaSet that loses pods then, nothing is planned."""
    behind = Deployed(pods=pods, size=size)
    async with behind.planning(5) as planning:
        await behind.clock.advance(0.25)
        assert not planning.done()
        behind.resize(6)
        behind.start_pods(pods, 6)
        await behind.clock.advance(0.01)
        planned = planning.result()
        assert isinstance(planned, module.PlannedRequest)
        assert [(len(plan.victims), len(plan.survivors)) for plan in planned.plans] == [(1, 5)]
    behind = Deployed(pods=pods, size=size)
    async with behind.planning(5) as planning:
        await behind.clock.advance(0.35)
        planned = planning.result()
        assert (planned if isinstance(planned, HoldOutcome) else None) is found


async def test_what_is_left_of_an_admitted_request_is_planned_by_the_pods_that_are_there() -> None:
    """One ReplicaSet has been resized, and its pods are still there; the other one is as large as it is to be."""
    admitted = Deployed(pods=4, size=2)
    other = admitted.resize(0, "old")
    async with admitted.checked(2) as checked:
        planned = await admitted.planner.replan(checked, checked.workload)
        (plan,) = planned.plans
        assert (plan.size.name, plan.size.before, plan.size.after) == ("web", 4, 2)
        assert set(plan.size.siblings) == {plan.size.uid, other}
        assert (len(plan.victims), len(plan.survivors)) == (2, 2)
        for number in range(2):
            admitted.server.drop("/api/v1", "pods", f"default/web-{number}")
        await admitted.clock.advance(0.1)
        assert (await admitted.planner.replan(checked, checked.workload)).plans == ()


class New:
    """Ranks the pods of the ReplicaSet web alone."""

    recompute = False
    one_at_a_time = False

    def rank(self, rows: IntColumn, view: StrategyView) -> Ranks:
        """Not those of an older one."""
        return np.array([1.0 if each.metadata.name.startswith("web-") else np.nan for each in view.pods(rows)])


@pytest.mark.parametrize("older", [pytest.param(0, id="one ReplicaSet"), pytest.param(3, id="and an older one")])
async def test_one_unranked_pod_of_any_replicaset_prevents_a_plan(older: int) -> None:
    """Although all pods of another ReplicaSet are ranked, which shrinks too."""
    registry: Mapping[str, Any] = {"New": lambda _: New()}
    rolling = Deployed(pods=6 - older, size=6 - older, policy_of=lambda *_: Policy.of(spec.strategies, registry))
    if older:
        rolling.resize(older, "old")
        rolling.start_pods(0, older, "old")
    spec = ScaleDownPolicySpec(strategies=(StrategySpec(name="New"),), when_unranked=WhenUnranked(action="Fallback"))
    async with rolling.planning(2, spec) as planning:
        await rolling.clock.advance(0.1)
        planned = planning.result()
        assert (planned is HoldOutcome.UNRANKED) is bool(older)


async def test_a_plan_made_in_a_thread_is_the_same_as_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the thread differs."""
    monkeypatch.setattr(module, "_MOST_RANKED_IN_LOOP", PODS - 1)
    made, strategies = [], []
    for executor in (None, THREAD):
        strategies.append(Named())
        async with planning(strategies[-1], executor) as (planner, checked):
            planned = await planner.plan(checked)
            assert isinstance(planned, module.PlannedRequest)
            (plan,) = planned.plans
            made.append((plan.plan.keys, plan.victims, plan.survivors, plan.delivery))
    assert made[0] == made[1]
    assert len(made[0][0]) == 6
    assert set(strategies[0].threads) == {"MainThread"}
    assert all(name.startswith("planner") for name in strategies[1].threads)


async def test_the_event_loop_goes_on_while_pods_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy does not return before the loop has told it to."""
    monkeypatch.setattr(module, "_MOST_RANKED_IN_LOOP", PODS - 1)
    go = threading.Event()

    def wait() -> None:
        assert go.wait(PATIENCE), "the event loop was blocked"

    async with planning(Named(wait), THREAD) as (planner, checked):
        task = asyncio.create_task(planner.replan(checked, checked.workload))
        await asyncio.sleep(0)
        go.set()
        planned = await task
    assert len(planned.plans) == 1


@pytest.mark.parametrize("delivered", [pytest.param(True, id="observed"), pytest.param(False, id="not delivered")])
async def test_a_plan_that_nobody_awaits_lets_answers_out_first(delivered: bool) -> None:
    """It is of the cluster as it was: what the controller does once it is answered is not in it."""
    strategy = Named()
    async with planning(strategy, THREAD) as (planner, checked):
        task: asyncio.Future[Any]
        task = asyncio.ensure_future(planner.preview(checked) if delivered else planner.outline(checked))
        clock = checked.budget.clock
        assert isinstance(clock, VirtualClock)
        await clock.advance(0.1)
        assert (task.done(), strategy.threads) == (False, [])
        planner._view.snapshot.drop(Pod, "default", "p11")  # noqa: SLF001 - as its watch does
        await clock.advance(0.2)
        planned = await task
    (plan,) = planned.plans if delivered else planned
    assert (len(plan.victims), len(plan.survivors)) == (6, 6)
    assert not delivered or "default/p11" in plan.plan.keys


async def test_without_all_explicit_ranks_nothing_is_planned() -> None:
    """Neither for a record of what would have been, nor when an admitted request is planned again."""
    async with planning(Named()) as (planner, checked):
        explicit = replace(checked, policy=replace(checked.policy, ranked_by="PodGroupCost ranks"))
        assert await planner.preview(explicit) is HoldOutcome.UNRANKED
        assert (await planner.replan(explicit, checked.workload)).plans == ()


@pytest.mark.parametrize(
    ("pods", "recompute", "in_loop"),
    [
        pytest.param(4, False, True, id="four pods"),
        pytest.param(5, False, False, id="one more"),
        pytest.param(2, True, True, id="two, ranked again after one removal"),
        pytest.param(4, True, False, id="four, ranked again after each of two"),
    ],
)
async def test_small_plans_are_made_in_the_event_loop(
    pods: int, recompute: bool, in_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the snapshot would take longer than they do."""
    monkeypatch.setattr(module, "_MOST_RANKED_IN_LOOP", 0)
    strategy = Named()
    strategy.recompute = recompute
    async with planning(strategy, THREAD, pods) as (planner, checked):
        planned = await planner.plan(checked)
    assert isinstance(planned, module.PlannedRequest)
    assert ("MainThread" in strategy.threads) is in_loop


async def test_plans_that_no_costs_bring_about_are_not_delivered() -> None:
    """The others are."""
    async with planning(Named()) as (planner, checked):
        planned = await planner.plan(checked)
    assert isinstance(planned, module.PlannedRequest)
    (plan,) = planned.plans
    both = replace(planned, plans=(replace(plan, delivery=None), plan))
    assert both.deliverable == [plan]
