"""The planner: plans are made beside the event loop, and are the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.unit.kube.fakes import FakeServer
from tests.unit.scaledown.executors import InlineExecutor
from trimtab.api import codec
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.documents import JSON
from trimtab.api.nodes import ZONE
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec, StrategySpec, WhenUnranked
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.server_time import ServerTime
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
from trimtab.testing.builders import PodBuilder, node, pod
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
    """A Deployment of six pods, of which our own watches may not have shown everything, and a planner."""

    def __init__(self, *, pods: int, size: int, counted: int = 6, policy_of: PolicyOf = strategies_of) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        labels = {"matchLabels": {"app": "web"}}
        spec, status = {"replicas": 6, "selector": labels, "template": {}}, {"replicas": counted}
        tree = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec, "status": status}
        self.workload = codec.convert(self.server.put("/apis/apps/v1", "deployments", tree), Deployment)
        self.view = View(Client(self.server, clock=self.clock))
        self.server_time = ServerTime(self.clock)
        self.planner = Planner(
            *(self.view, self.clock),
            constraints=lambda _: (Constraint(ZONE),),
            policy_of=policy_of,
            server_time=self.server_time,
        )
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
        pytest.param(4, 6, HoldOutcome.NOT_SYNCED, id="further pods"),
        pytest.param(4, 4, HoldOutcome.NOT_SYNCED, id="both"),
    ],
)
async def test_what_a_workload_counts_is_waited_for_a_moment(pods: int, size: int, found: HoldOutcome) -> None:
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
        assert planned is found


async def test_a_request_during_the_creation_of_pods_is_not_planned() -> None:
    """Its ReplicaSet has no more pods than are to stay, and others may exist by the time it is resized."""
    growing = Deployed(pods=4, size=6, counted=4)
    async with growing.checked(5) as checked:
        assert await growing.planner.plan(checked) is HoldOutcome.CREATING
        assert await growing.planner.preview(checked) is HoldOutcome.CREATING
    complete = Deployed(pods=5, size=5, counted=5)
    async with complete.checked(5) as checked:
        planned = await complete.planner.plan(checked)
        assert isinstance(planned, module.PlannedRequest)
        assert planned.plans == ()


async def test_a_request_while_a_rollout_creates_pods_is_left_to_the_rollout() -> None:
    """Its newest ReplicaSet has been resized, and its pods are to come: none of those that exist has to go."""
    rolling = Deployed(pods=2, size=6, counted=3)
    rolling.resize(1, "old")
    async with rolling.checked(4) as checked:
        planned, _ = await asyncio.gather(rolling.planner.plan(checked), rolling.clock.advance(0.35))
        assert planned is HoldOutcome.ROLLOUT


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


@pytest.mark.parametrize(
    ("pods", "counted", "found"),
    [
        pytest.param(5, 5, None, id="as many pods as are to be left"),
        pytest.param(6, 4, HoldOutcome.NOT_SYNCED, id="more pods than the workload counts"),
        pytest.param(4, 6, HoldOutcome.NOT_SYNCED, id="more pods by the workload's status"),
    ],
)
async def test_without_a_replicaset_that_loses_pods(pods: int, counted: int, found: HoldOutcome | None) -> None:
    """A cache is behind, unless there are no pods to lose."""
    behind = Deployed(pods=pods, size=4, counted=counted)
    async with behind.planning(5) as planning:
        await behind.clock.advance(0.35)
        planned = planning.result()
        assert planned is found if found else planned.plans == ()


async def test_a_rollout_that_decides_by_itself_is_not_planned() -> None:
    """Neither a request that is held nor one that is observed: which revision loses how many pods is not known."""
    rolling = Deployed(pods=3, size=3)
    rolling.resize(3, "old")
    strategy = msgspec.structs.replace(rolling.workload.spec.strategy, type="Recreate")
    spec = msgspec.structs.replace(rolling.workload.spec, strategy=strategy)
    async with rolling.checked(2) as checked:
        recreated = replace(checked, workload=msgspec.structs.replace(rolling.workload, spec=spec))
        planned, _ = await asyncio.gather(rolling.planner.plan(recreated), rolling.clock.advance(0.35))
        assert planned is HoldOutcome.ROLLOUT
        assert await rolling.planner.preview(recreated) is HoldOutcome.ROLLOUT


async def test_a_replicaset_with_more_pods_than_its_size_is_planned_once() -> None:
    """It is still to be resized for the request, and has a pod too many already."""
    admitted = Deployed(pods=5, size=4)
    async with admitted.checked(2) as checked:
        (plan,) = (await admitted.planner.replan(checked, checked.workload)).plans
    assert (plan.size.before, plan.size.after, len(plan.victims), len(plan.survivors)) == (4, 2, 3, 2)


async def test_a_workload_that_has_no_pod_too_many_needs_no_plan() -> None:
    """Its request was carried out meanwhile."""
    async with planning(Named()) as (planner, checked):
        done = replace(checked, request=replace(checked.request, after=PODS))
        assert (await planner.replan(done, checked.workload)).plans == ()


async def test_the_controllers_clock_is_known_as_exactly_as_the_servers() -> None:
    """The window in which it may act is wider by what the Date headers of its answers leave open."""
    rolling, sizes = Deployed(pods=6, size=6), []
    for seconds in (0, 2):
        async with rolling.checked(5) as checked:
            now = rolling.clock.monotonic()
            rolling.server_time.observe(
                formatdate(rolling.clock.now() // SECOND, usegmt=True), sent=now - seconds * SECOND, received=now
            )
            planned = await rolling.planner.plan(checked)
            assert isinstance(planned, module.PlannedRequest)
            (window,) = [plan.window for plan in planned.plans]
            assert window is not None
            sizes.append((window.end - window.start) / SECOND)
        rolling.server_time = rolling.planner._server_time = ServerTime(rolling.clock)  # noqa: SLF001 - another server
    unknown = 2 * module.TOLERANCE + module.WINDOW
    assert sizes == [unknown + 1, unknown + 3], "twice the error: half a second, and one and a half"


class Some:
    """Ranks pods, except for those of some names, and expects to be asked about some."""

    recompute = False
    one_at_a_time = False

    def __init__(self, *unranked: str) -> None:
        self.unranked = unranked

    def rank(self, rows: IntColumn, view: StrategyView) -> Ranks:
        """All others are alike."""
        assert len(rows), "asked about no pods"
        return np.array([np.nan if each.metadata.name in self.unranked else 1.0 for each in view.pods(rows)])

    def policy_of(self, policy: EffectivePolicy, _: Sequence[Pod]) -> Policy:
        """With this strategy."""
        registry: Mapping[str, Any] = {"Some": lambda _: self}
        return Policy.of(policy.spec.strategies, registry)


SOME = ScaleDownPolicySpec(strategies=(StrategySpec(name="Some"),), when_unranked=WhenUnranked(action="Fallback"))


@pytest.mark.parametrize(
    ("older", "started", "unranked", "is_planned"),
    [
        pytest.param(0, 0, (), True, id="all are ranked"),
        pytest.param(0, 0, ("web-1",), False, id="one of many is not"),
        pytest.param(3, 3, ("old-0", "old-1", "old-2"), False, id="none of an older ReplicaSet is"),
        pytest.param(3, 0, (), True, id="an older ReplicaSet has no pods"),
    ],
)
async def test_one_unranked_pod_of_any_replicaset_prevents_a_plan(
    older: int, started: int, unranked: tuple[str, ...], is_planned: bool
) -> None:
    """Although all pods of another ReplicaSet are ranked, which shrinks too."""
    rolling = Deployed(pods=6 - older, size=6 - older, counted=6 - older, policy_of=Some(*unranked).policy_of)
    if older:
        rolling.resize(older, "old")
        rolling.start_pods(0, started, "old")
    async with rolling.planning(2, SOME) as planning:
        await rolling.clock.advance(0.35)
        assert (planning.result() is not HoldOutcome.UNRANKED) is is_planned


async def test_a_replicaset_that_loses_nothing_more_needs_no_ranks() -> None:
    """What is left of a scale-down is planned although a pod of another ReplicaSet has no rank any more."""
    admitted = Deployed(pods=4, size=2, policy_of=Some("old-0").policy_of)
    admitted.resize(1, "old")
    admitted.start_pods(0, 1, "old")
    async with admitted.checked(3, SOME) as checked:
        planned = await admitted.planner.replan(checked, checked.workload)
    assert [plan.size.name for plan in planned.plans] == ["web"]


async def test_a_rank_that_is_missing_is_looked_for_again_until_it_is_there() -> None:
    """As long as the policy waits, and half of the budget lasts."""
    strategy = Some("web-1")
    spec = ScaleDownPolicySpec(strategies=SOME.strategies, when_unranked=WhenUnranked(timeout_seconds=60))
    waiting = Deployed(pods=6, size=6, policy_of=strategy.policy_of)
    async with waiting.planning(5, spec) as planning:
        await waiting.clock.advance(0.9)
        assert not planning.done()
        strategy.unranked = ()
        await waiting.clock.advance(0.06)
        assert isinstance(planning.result(), module.PlannedRequest)
    strategy.unranked = ("web-1",)
    async with waiting.planning(5, spec) as planning:
        await waiting.clock.advance(1.06)
        assert planning.result() is HoldOutcome.UNRANKED


async def test_values_are_looked_up_for_active_pods_alone() -> None:
    """A pod that is terminating needs no rank."""
    seen: list[set[str]] = []

    def policy_of(policy: EffectivePolicy, pods: Sequence[Pod]) -> Policy:
        seen.append({each.metadata.name for each in pods})
        return strategies_of(policy, pods)

    rolling = Deployed(pods=3, size=3, counted=3, policy_of=policy_of)
    (tree,) = [tree for tree in rolling.server.objects("pods") if tree["metadata"]["name"] == "web-1"]
    rolling.server.put("/api/v1", "pods", PodBuilder(tree).terminating().tree())
    async with rolling.planning(1):
        await rolling.clock.advance(0.35)
    assert seen == [{"web-0", "web-2"}]


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
async def test_a_plan_that_is_not_awaited_lets_answers_out_first(delivered: bool) -> None:
    """It is of the cluster as it was: what the controller does once it is answered is not in it."""
    strategy = Named()
    async with planning(strategy, InlineExecutor()) as (planner, checked):
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
