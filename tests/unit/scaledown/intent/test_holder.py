"""Requests to shrink, held: what is written, how long it takes, and what is left alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from email.utils import format_datetime
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, failure
from tests.unit.scaledown.executors import InlineExecutor
from tests.unit.scaledown.policy_cluster import POLICIES, template
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api import codec, times
from trimtab.api.annotations import DELETION_COST, OPT_OUT, OPTED_OUT, SCALE_PLAN
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.core import ReplicationController
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.api.scaledown import RESERVED_MILLISECONDS, ScaleDownPolicySpec
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import Forbidden, Unreachable
from trimtab.scaledown.intent import holder as module
from trimtab.scaledown.intent import planner
from trimtab.scaledown.intent.delivery import RESERVE
from trimtab.scaledown.intent.hold_settings import HoldSettings
from trimtab.scaledown.intent.holder import ScaleDownHolder
from trimtab.scaledown.intent.ratelimits import Rates
from trimtab.scaledown.intent.requests import ANSWER, ScaleDownRequest
from trimtab.scaledown.intent.reviews import SKIPPED
from trimtab.scaledown.metrics import HoldOutcome, Metrics, MissCause
from trimtab.scaledown.policy.defaults import LEVEL_EVERYONE, NO_DEFAULTS, DefaultPolicy, Defaults
from trimtab.scaledown.view import View
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.testing.labs import deployment

OBSERVED = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(mode="Observe")),))


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Four pods on two zones, and two more in a third that came later: stock empties that one again."""
    made = ScaleCluster()
    await made.start()
    await made.add_zones(a=4, b=4)
    await made.deploy(8)
    await made.add_zones(c=4)
    await made.grow(12, "c-0", "c-1", "c-2", "c-3")
    yield made
    await made.close()


def outcomes(cluster: ScaleCluster) -> dict[str, float]:
    """How often each outcome came."""
    found = {each.value: cluster.count("requests_total", outcome=each.value) for each in HoldOutcome}
    return {name: count for name, count in found.items() if count}


async def test_a_request_by_scale_is_held_and_stays_level(cluster: ScaleCluster) -> None:
    """The measured case of an emptied zone, without a change to the Deployment."""
    took = await cluster.scale(6)
    assert await cluster.spread() == (2, 2, 2)
    assert 0.3 <= took < 0.5
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert re.fullmatch(r"kept 2/2/2; stock may leave \d/\d/\d", warning)
    assert outcomes(cluster) == {"planned": 1}


@pytest.mark.parametrize(
    "storing", [pytest.param(0.02, id="stored at once"), pytest.param(0.4, id="stored after a while")]
)
@pytest.mark.parametrize("is_behind", [pytest.param(False, id="watched"), pytest.param(True, id="by an uncached read")])
async def test_of_two_requests_at_once_no_costs_are_written_for_the_second(
    cluster: ScaleCluster, storing: float, is_behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is stored while the second would be planned: both saw the workload with twelve pods."""
    cluster.storing = storing
    if is_behind:
        (seen,) = cluster.view.deployments.store
        monkeypatch.setattr(cluster.view, "workload", lambda *_: seen)
    resize = cluster.user.resize
    await cluster.held(asyncio.gather(*(resize(Deployment, "web", size, namespace="default") for size in (4, 7))))
    assert outcomes(cluster) == {"planned": 1, "stale": 1}
    assert [reason for reason, _ in cluster.events] == ["ScaleDownPlanned"]


async def test_a_second_request_is_planned_where_the_first_is_not_stored(cluster: ScaleCluster) -> None:
    """Another webhook may have refused the first; the second waits for a second at most."""
    await cluster.held(cluster.holder.hold(await cluster.request(4)))
    result, took = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert result.outcome is HoldOutcome.PLANNED
    assert 1.0 <= took < 1.5


async def test_a_request_by_update_is_held_and_stays_level(cluster: ScaleCluster) -> None:
    """Appliers write the whole object; only its size changes."""
    await cluster.held(cluster.user.patch(Deployment, "web", {"spec": {"replicas": 6}}, namespace="default"))
    assert await cluster.spread() == (2, 2, 2)
    assert outcomes(cluster) == {"planned": 1}


async def test_what_a_held_request_needs_does_not_wait_in_line(cluster: ScaleCluster) -> None:
    """Neither the read that verifies it nor its costs: the client's limit is for everything else."""
    cluster.product.requests.clear()
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    reads = [each for each in cluster.product.requests if each.path.endswith("/deployments/web")]
    assert (len(reads), len(cluster.writes())) == (1, 3)
    assert all(each.urgent for each in (*reads, *cluster.writes()))


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        pytest.param(False, HoldOutcome.STALE, id="another object of that name"),
        pytest.param(True, HoldOutcome.FAILED, id="a read that fails"),
    ],
)
async def test_a_request_is_verified_by_one_urgent_read(broken: bool, outcome: HoldOutcome) -> None:
    """It waits for no other request, and is not repeated: the user waits meanwhile."""
    server = FakeServer(VirtualClock())
    server.put("/apis/apps/v1", "replicasets", {"metadata": {"name": "web", "namespace": "default"}})
    server.intercept = lambda _: failure(500, "InternalError") if broken else None
    client = Client(server, clock=server.clock)
    made = ScaleDownHolder(client, View(client))
    held = await made.hold(ScaleDownRequest("ReplicaSet", "default", "web", "another", 4, 2))
    assert held.outcome is outcome
    assert [(each.method, each.urgent) for each in server.requests] == [("GET", True)]
    assert made.metrics.registry.get_sample_value("trimtab_scaledown_requests_held") == 0


async def test_the_replicaset_that_its_deployment_resizes_is_admitted_at_once(cluster: ScaleCluster) -> None:
    """The Deployment was held; its controller is not."""
    await cluster.scale(6)
    assert cluster.asked >= 2
    assert outcomes(cluster) == {"planned": 1}


async def test_a_deployments_replicaset_scaled_by_hand_is_not_planned(cluster: ScaleCluster) -> None:
    """A Scale does not show the owner; the ReplicaSet itself does."""
    (owned,) = await cluster.all(ReplicaSet)
    await cluster.held(cluster.user.resize(ReplicaSet, owned.metadata.name, 6, namespace="default"))
    assert outcomes(cluster) == {"managed": 1}
    assert cluster.writes() == []


async def test_nothing_is_written_when_everything_goes(cluster: ScaleCluster) -> None:
    """The order does not matter."""
    assert await cluster.scale(0) < 0.1
    assert cluster.writes() == []
    assert outcomes(cluster) == {"as-stock": 1}


async def test_nothing_is_written_where_stock_is_as_level() -> None:
    """Two pods on one node and one on another of one zone: the controller's own order takes from the fuller node."""
    cluster = ScaleCluster()
    await cluster.start()
    await cluster.add_zones(a=2)
    await cluster.deploy(3)
    assert await cluster.scale(2) < 0.1
    assert cluster.writes() == []
    assert outcomes(cluster) == {"as-stock": 1}
    await cluster.close()


async def test_few_victims_are_written_below_zero(cluster: ScaleCluster) -> None:
    """Three of twelve: three writes, in the order of deletion."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    assert await cluster.costs() == [-12, -11, -10]
    assert len(cluster.writes()) == 3
    assert {mark.side for mark in await cluster.plan_annotations()} == {"victims"}
    await cluster.resume()
    assert await cluster.spread() == (3, 3, 3)


async def test_few_survivors_are_written_above_zero_and_cleaned_afterwards(cluster: ScaleCluster) -> None:
    """Nine of twelve go: three writes keep the others, and three more revert them."""
    await cluster.scale(3)
    assert await cluster.spread() == (1, 1, 1)
    await cluster.advance(2)
    assert await cluster.costs() == []
    assert await cluster.plan_annotations() == []
    assert len(cluster.writes()) == 6
    assert cluster.count("costs_written_total") == 3
    assert cluster.count("costs_reverted_total", reason="done") == 3


async def test_a_cost_has_an_annotation_with_plan_and_previous_cost(cluster: ScaleCluster) -> None:
    """In the same patch: any process can revert it."""
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    marks = await cluster.plan_annotations()
    assert len({mark.plan for mark in marks}) == 1
    assert {(mark.workload, mark.to, mark.share, mark.before) for mark in marks} == {("Deployment/web", 9, 9, None)}
    assert all(DELETION_COST in request_body(each) and SCALE_PLAN in request_body(each) for each in cluster.writes())


def request_body(request: Any) -> str:
    """What was sent."""
    return (request.body or b"").decode()


async def test_a_repeat_is_answered_at_once(cluster: ScaleCluster) -> None:
    """An API server asks twice for one request, with a new UID: nothing is written again."""
    asked = await cluster.request(9)
    first, took = await cluster.held(cluster.holder.hold(asked))
    written = len(cluster.writes())
    again, moment = await cluster.held(cluster.holder.hold(asked))
    assert (first.outcome, again.outcome) == (HoldOutcome.PLANNED, HoldOutcome.REPEATED)
    assert again.warnings == first.warnings
    assert took >= 0.3
    assert moment < 0.05
    assert len(cluster.writes()) == written


async def test_warnings_for_repeats_are_remembered_of_the_last_requests(
    cluster: ScaleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat of an earlier one is recognized by the annotations, and answered without them."""
    monkeypatch.setattr(module, "_REMEMBERED", 1)
    cluster.place_on("a-0", "a-1", "a-2", "b-0")
    await cluster.deploy(4, name="api", labels={"app": "api"})
    requests = [await cluster.request(9), await cluster.request(2, name="api")]
    first, second, again, earlier = [
        (await cluster.held(cluster.holder.hold(request)))[0] for request in (*requests, *reversed(requests))
    ]
    assert (first.outcome, second.outcome) == (HoldOutcome.PLANNED, HoldOutcome.PLANNED)
    assert (again.outcome, earlier.outcome) == (HoldOutcome.REPEATED, HoldOutcome.REPEATED)
    assert (again.warnings, earlier.warnings) == (second.warnings, ())


async def test_a_repeat_that_comes_while_the_first_is_held_waits_for_it(cluster: ScaleCluster) -> None:
    """Answered earlier, it would let the controller loose before it has seen the costs."""
    asked = await cluster.request(9)
    both = asyncio.gather(cluster.holder.hold(asked), cluster.holder.hold(asked))
    (first, second), took = await cluster.held(both)
    assert (first.outcome, second.outcome) == (HoldOutcome.PLANNED, HoldOutcome.REPEATED)
    assert 0.3 <= took < 0.5


async def test_a_request_waits_for_another_one_for_half_of_its_budget(cluster: ScaleCluster) -> None:
    """Then it is admitted without a plan: there would be no time to write costs."""
    cluster.product.hangs = lambda request: request.method == "PATCH"
    first = asyncio.ensure_future(cluster.holder.hold(await cluster.request(9)))
    await cluster.settle()
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(8)))
    assert (held.outcome, first.done()) == (HoldOutcome.BUSY, False)
    assert took == pytest.approx(1.0, abs=0.03)
    assert cluster.count("requests_held") == 1
    await cancel(first)


async def test_a_read_that_hangs_is_given_up_within_the_budget(cluster: ScaleCluster) -> None:
    """The budget counts from the arrival of a request, also if it then waits for another one."""
    cluster.product.hangs = lambda request: request.method == "GET"
    first = asyncio.ensure_future(cluster.holder.hold(await cluster.request(9)))
    await cluster.clock.advance(1.0)
    second, took = await cluster.held(cluster.holder.hold(await cluster.request(8)))
    assert (first.result().outcome, second.outcome) == (HoldOutcome.FAILED, HoldOutcome.FAILED)
    assert took == pytest.approx(1.9, abs=0.02)


async def test_a_request_that_is_not_served_leaves_an_open_plan_alone(cluster: ScaleCluster) -> None:
    """Its result is checked by that plan."""
    request = await cluster.request(9)
    await cluster.held(cluster.holder.hold(request))
    plan = cluster.holder.tracker.open_plan(request.key)
    cluster.holder.report_skipped(request, HoldOutcome.LATE)
    await cluster.settle()
    assert plan is not None
    assert cluster.holder.tracker.open_plan(request.key) is plan


async def test_costs_in_a_namespace_that_is_included_again_are_evaluated_again(cluster: ScaleCluster) -> None:
    """While another Trimtab is responsible for it, they are left alone."""
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    cluster.holder.configure(replace(LEVEL_EVERYONE, only=frozenset({"elsewhere"})))
    await cluster.advance(60)
    assert await cluster.costs() == [-12, -11, -10]
    cluster.holder.configure(LEVEL_EVERYONE)
    await cluster.advance(1)
    assert await cluster.costs() == []


async def test_another_process_recognizes_a_repeat_by_the_annotations(cluster: ScaleCluster) -> None:
    """The second call may go to another replica: the costs stay as they are, and are its own from then on."""
    asked = await cluster.request(9)
    await cluster.held(cluster.holder.hold(asked))
    before = {mark.plan for mark in await cluster.plan_annotations()}
    async with cluster.replica() as other:
        await cluster.advance(9)
        again, moment = await cluster.held(other.hold(asked))
        assert again.outcome is HoldOutcome.REPEATED
        assert moment < 0.05
        assert await cluster.costs() == [-12, -11, -10]
        assert before.isdisjoint(mark.plan for mark in await cluster.plan_annotations())
        await cluster.advance(5)
        assert await cluster.costs() == [-12, -11, -10], (
            "the plan of the first replica came to nothing, this one did not"
        )
        await cluster.advance(10)
        assert await cluster.costs() == []


async def test_a_repeat_renews_the_patience(cluster: ScaleCluster) -> None:
    """An autoscaler that tries again after a while needs the costs from then on."""
    asked = await cluster.request(9)
    await cluster.held(cluster.holder.hold(asked))
    await cluster.advance(9.5)
    again, _ = await cluster.held(cluster.holder.hold(asked))
    await cluster.advance(5)
    assert again.outcome is HoldOutcome.REPEATED
    assert await cluster.costs() == [-12, -11, -10]
    await cluster.advance(10)
    assert await cluster.costs() == []


@pytest.mark.parametrize("elsewhere", [pytest.param(False, id="one process"), pytest.param(True, id="two processes")])
async def test_costs_of_an_earlier_plan_that_the_next_relies_on_stay(
    cluster: ScaleCluster, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The four survivors are ranked: one of them goes before the others without another cost."""
    monkeypatch.setattr(planner, "is_stable", lambda *_: False)
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 4, namespace="default"))
    async with cluster.replica() as other:
        asked = await cluster.request(3)
        held, moment = await cluster.held((other if elsewhere else cluster.holder).hold(asked))
        assert (held.outcome, moment < 0.05) == (HoldOutcome.REPEATED, True)
        await cluster.resume()
        await cluster.advance(5)
        assert await cluster.costs() == [1, 2, 3, 4], "the first plan is done; the second is still waited for"
        cluster.unasked = True
        await cluster.scale(3)
    assert await cluster.spread() == (1, 1, 1)


async def test_the_end_of_a_plan_does_not_revert_the_plan_of_another_process(cluster: ScaleCluster) -> None:
    """A second request is held elsewhere while the controller carries out the first."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 10, namespace="default"))
    async with cluster.replica() as other:
        second = asyncio.ensure_future(other.hold(await cluster.request(6)))
        await cluster.clock.advance(0.1)
        await cluster.resume()
        held, _ = await cluster.held(second)
        assert held.outcome is HoldOutcome.PLANNED
        cluster.unasked = True
        await cluster.scale(6)
        assert await cluster.spread() == (2, 2, 2)
        assert cluster.holder.settle_time.seconds == 0.3, "whom the other one sent away is no miss"


async def test_requests_in_quick_succession_count_earlier_victims_as_gone(cluster: ScaleCluster) -> None:
    """The controller has done nothing of the first yet; both together are as level as one, and the first ones go
    first."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    first = await cluster.costs()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert outcomes(cluster) == {"planned": 2}
    assert sorted(first) == [-12, -11, -10]
    assert sorted(await cluster.costs()) == [-12, -11, -10, -9, -8, -7]
    await cluster.resume()
    assert await cluster.spread() == (2, 2, 2)


async def test_after_survivors_were_written_the_rest_counts_as_gone(cluster: ScaleCluster) -> None:
    """From four survivors one more goes; the eight without a cost go too."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 4, namespace="default"))
    await cluster.held(cluster.user.resize(Deployment, "web", 3, namespace="default"))
    await cluster.resume()
    assert await cluster.spread() == (1, 1, 1)


async def test_a_second_request_before_the_first_took_effect_is_planned_anew(cluster: ScaleCluster) -> None:
    """The first was not carried out so far: its victims are not gone, and its costs are gone beyond."""
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    await cluster.scale(6)
    assert await cluster.spread() == (2, 2, 2)
    await cluster.advance(2)
    assert await cluster.plan_annotations() == []


async def test_while_an_earlier_request_is_carried_out_no_further_pods_are_waited_for(cluster: ScaleCluster) -> None:
    """The workload's status says twelve, one is gone already: the second request is held no longer than the first."""
    await cluster.stop()
    _, first = await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    victim = next(pod for pod in await cluster.pods() if SCALE_PLAN in pod.metadata.annotations)
    await cluster.user.delete(Pod, victim.metadata.name, namespace="default", grace_period_seconds=0)
    await cluster.settle()
    _, second = await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert second < first + 0.1


async def test_writes_that_hang_leave_time_to_settle_and_to_answer(cluster: ScaleCluster) -> None:
    """Of a budget of two seconds, the settle time and a tenth for the answer are left when writing ends."""
    cluster.product.hangs = lambda request: request.method == "PATCH"
    _, took = await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert took == pytest.approx(1.6, abs=0.03), "nothing was written, and nothing settles"


async def test_annotations_say_what_is_planned_for_which_workload_and_when(cluster: ScaleCluster) -> None:
    """So that any process can evaluate and revert a plan."""
    await cluster.stop()
    before = cluster.clock.now() // 1_000_000
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    marks = await cluster.plan_annotations()
    workload = await cluster.get(Deployment, "web")
    assert {(mark.workload, mark.uid, mark.to) for mark in marks} == {("Deployment/web", workload.metadata.uid, 9)}
    assert {(mark.was, mark.share, mark.side) for mark in marks} == {(12, 9, "victims")}
    assert all(before <= mark.at <= cluster.clock.now() // 1_000_000 for mark in marks)
    assert len({mark.plan for mark in marks}) == 1


async def test_annotations_have_the_time_of_the_api_server(cluster: ScaleCluster) -> None:
    """Of two plans the later one counts, whatever clocks the processes have that made them."""
    await cluster.stop()
    hour_ago, sent = times.from_ns(cluster.clock.now() - 3600 * SECOND), cluster.clock.monotonic()
    cluster.product_client.server_time.observe(format_datetime(hour_ago, usegmt=True), sent=sent, received=sent)
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    marks = await cluster.plan_annotations()
    assert marks
    assert all(abs(mark.at * 1_000_000 - times.to_ns(hour_ago)) <= 5 * SECOND for mark in marks)


async def test_a_rollout_is_not_planned(cluster: ScaleCluster) -> None:
    """Size and template changed together: all pods are replaced anyway."""
    patch = {"spec": {"replicas": 6, "template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}}
    await cluster.held(cluster.user.patch(Deployment, "web", patch, namespace="default"))
    assert cluster.writes() == []
    assert outcomes(cluster) == {}


async def test_a_paused_deployment_is_planned_by_replicaset(cluster: ScaleCluster) -> None:
    """Both shrink in proportion, as the controller will do it, and each stays as level as it can."""
    patch = {"spec": {"template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}}
    cluster.place_on("a-0", "a-1", "a-2", "b-0", "c-0", "a-3")
    await cluster.patch(Deployment, "web", patch)
    await cluster.patch(Deployment, "web", {"spec": {"paused": True}})
    await cluster.run_pods()
    sizes = {each.metadata.name: each.spec.replicas or 0 for each in await cluster.all(ReplicaSet)}
    assert sorted(sizes.values()) == [6, 9]
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    planned = {mark.share for mark in await cluster.plan_annotations()}
    assert planned == {3, 5}
    assert outcomes(cluster) == {"planned": 1}
    await cluster.resume()
    sizes = {each.metadata.name: each.spec.replicas or 0 for each in await cluster.all(ReplicaSet)}
    assert sorted(sizes.values()) == [3, 5]
    await cluster.advance(2)
    assert not any(cluster.count("misses_total", cause=cause.value) for cause in MissCause)
    assert await cluster.plan_annotations() == []


async def test_a_replicaset_whose_costs_are_foreign_is_named(cluster: ScaleCluster) -> None:
    """The other one is planned; what is left out is a warning, an event and a metric."""
    patch = {"spec": {"template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}}
    cluster.place_on("a-0", "a-1", "a-2", "b-0", "c-0", "a-3")
    await cluster.patch(Deployment, "web", patch)
    await cluster.patch(Deployment, "web", {"spec": {"paused": True}})
    await cluster.run_pods()
    for pod in await cluster.pods():
        if "new" not in pod.metadata.labels:
            await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await cluster.scale(6)
    assert outcomes(cluster) == {"partial": 1}
    warnings = [text for answer in cluster.answers for text in answer]
    assert sum("deletion costs of other writers prevent it" in text for text in warnings) == 1
    assert sum("kept" in text for text in warnings) == 1
    assert "a rollout is in progress" in warnings[-1]
    await cluster.advance(2)
    assert [reason for reason, _ in cluster.events] == ["ScaleDownPartial", "ScaleDownMissed"]
    assert cluster.count("results_total", mode="enforce", result="missed", cause="foreign-costs") == 1


async def test_a_repeat_is_not_held_again_where_the_annotated_pods_are_gone(cluster: ScaleCluster) -> None:
    """As during a rollout: further costs are written without holding the request."""
    await cluster.stop()
    request = await cluster.request(9)
    _, first = await cluster.held(cluster.holder.hold(request))
    assert first >= 0.3
    for pod in await cluster.pods():
        if SCALE_PLAN in pod.metadata.annotations:
            await cluster.user.delete(Pod, pod.metadata.name, namespace="default", grace_period_seconds=0)
    await cluster.advance(8)
    result, again = await cluster.held(cluster.holder.hold(request))
    assert result.outcome is HoldOutcome.REPEATED
    assert again < 0.1
    assert result.warnings
    await cluster.advance(5)
    assert cluster.holder.tracker.is_open(request.key), "the patience counts from the repeat"
    await cluster.advance(10)
    assert not cluster.holder.tracker.is_open(request.key)


async def test_a_repeat_writes_further_costs_where_annotated_pods_were_replaced(cluster: ScaleCluster) -> None:
    """Without holding the request again: they are written while the controller has not acted."""
    request = await cluster.request(9)
    await cluster.held(cluster.holder.hold(request))
    cluster.place_on("a-0", "b-0", "c-0")
    for pod in await cluster.pods():
        if SCALE_PLAN in pod.metadata.annotations:
            await cluster.user.delete(Pod, pod.metadata.name, namespace="default", grace_period_seconds=0)
    await cluster.settle()
    await cluster.run_pods()
    assert (len(await cluster.pods()), await cluster.costs()) == (12, [])
    result, took = await cluster.held(cluster.holder.hold(request))
    assert (result.outcome, took < 0.1) == (HoldOutcome.REPEATED, True)
    assert await cluster.costs() != []


async def test_an_opt_out_is_looked_up_on_the_workload(cluster: ScaleCluster) -> None:
    """A Scale carries no annotations."""
    await cluster.patch(Deployment, "web", {"metadata": {"annotations": {OPT_OUT: OPTED_OUT}}})
    await cluster.scale(6)
    assert outcomes(cluster) == {"no-policy": 1}
    assert cluster.writes() == []


async def test_a_dry_run_never_acts(cluster: ScaleCluster) -> None:
    """Nothing is written, and nothing waits."""
    _, took = await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default", dry_run=True))
    assert took < 0.05
    assert cluster.writes() == []
    assert outcomes(cluster) == {}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uid": "another"}, id="another object of that name"),
        pytest.param({"uid": ""}, id="no UID at all"),
        pytest.param({"before": 99}, id="a size that it does not have"),
        pytest.param({"name": "nobody"}, id="a workload that is not there"),
        pytest.param({"kind": "StatefulSet"}, id="a kind that nobody plans"),
        pytest.param({"after": -1}, id="a size that nothing can have"),
        pytest.param({"after": 12}, id="the size that it has"),
    ],
)
async def test_reviews_are_checked_against_an_uncached_read(cluster: ScaleCluster, changes: Any) -> None:
    """Anyone who reaches the webhook can send one: it is not trusted."""
    asked = await cluster.request(6)
    fields = {name: getattr(asked, name) for name in ("kind", "namespace", "name", "uid", "before", "after")}
    held, _ = await cluster.held(cluster.holder.hold(type(asked)(**{**fields, **changes})))
    assert held.outcome is HoldOutcome.STALE
    assert cluster.writes() == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"enabled": False}, id="the switch is off"),
        pytest.param({"exempt": frozenset({"default"})}, id="an exempt namespace"),
        pytest.param({"only": frozenset({"shop"})}, id="a namespace of another Trimtab"),
    ],
)
async def test_nothing_is_prepared_where_writes_are_not_allowed(cluster: ScaleCluster, changes: Any) -> None:
    """Neither costs nor bands are written."""
    prepared: list[str] = []

    async def prepare(kind: str, namespace: str, name: str, replicas: int) -> int:
        prepared.append(f"{namespace}/{kind}/{name}: {replicas}")
        return 0

    client = Client(cluster.product, clock=cluster.clock)
    for defaults, want in ((Defaults(), 1), (replace(Defaults(), **changes), 0)):
        prepared.clear()
        holder = ScaleDownHolder(client, cluster.view, defaults=defaults, prepare=prepare)
        held, _ = await cluster.held(holder.hold(await cluster.request(6)))
        assert (held.outcome, len(prepared)) == (HoldOutcome.NO_POLICY, want)


async def test_costs_of_subsets_that_are_not_written_are_reported(cluster: ScaleCluster) -> None:
    """To the user, in an event and in a metric; the scale-down is planned all the same."""

    async def prepare(*_: Any) -> int:
        raise Unreachable("connection refused", sent=False)

    holder = ScaleDownHolder(
        cluster.product_client, cluster.view, defaults=LEVEL_EVERYONE, prepare=prepare, recorder=cluster
    )
    held, _ = await cluster.held(holder.hold(await cluster.request(9)))
    assert held.outcome is HoldOutcome.PLANNED
    warning = "not all costs of its subsets were written for 9 replicas: connection refused"
    assert held.warnings[-1] == warning
    assert ("ScaleDownPartial", f"12 → 9: {warning}") in cluster.events
    counted = holder.metrics.registry.get_sample_value
    assert counted("trimtab_scaledown_unprepared_requests_total", {"reason": "failed"}) == 1


async def test_requests_beyond_the_write_limit_are_admitted_without_a_plan() -> None:
    """A few requests for a large workload are worth many for small ones: what is left is the best beginning."""
    cluster = ScaleCluster(rates=Rates(writes=0.1, writes_burst=2))
    await cluster.start()
    await cluster.add_zones(a=4, b=4)
    await cluster.deploy(8)
    await cluster.add_zones(c=4)
    await cluster.grow(12, "c-0", "c-1", "c-2", "c-3")
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(9)))
    assert held.outcome is HoldOutcome.PARTIAL
    assert await cluster.costs() == [-12, -11]
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert held.outcome is HoldOutcome.RATE_LIMITED
    await cluster.close()


async def test_requests_beyond_the_rate_limit_are_admitted_without_a_plan(cluster: ScaleCluster) -> None:
    """Thousands of reviews cause no more than a few plans."""
    cluster.settings = type(cluster.settings)(rates=Rates(each=0.001, each_burst=2))
    await cluster.stop_product()
    await cluster.start_product()
    asked = await cluster.request(6)
    found = [(await cluster.held(cluster.holder.hold(asked)))[0].outcome for _ in range(4)]
    assert found == [HoldOutcome.PLANNED, HoldOutcome.REPEATED, HoldOutcome.RATE_LIMITED, HoldOutcome.RATE_LIMITED]


async def test_the_answer_waits_for_our_own_watch(cluster: ScaleCluster) -> None:
    """What our watch has not shown, the controller may not have seen; after the budget the request is admitted."""
    cluster.product.hold("pods")
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(9)))
    assert held.outcome is HoldOutcome.PARTIAL
    assert 1.8 <= took <= 2.0


@pytest.mark.parametrize(
    ("becomes_ready", "left"),
    [pytest.param(True, [3, 3, 4], id="ready in time"), pytest.param(False, [2, 4, 4], id="not ready in time")],
)
async def test_pods_may_become_ready_before_the_controller_acts(
    cluster: ScaleCluster, becomes_ready: bool, left: list[int]
) -> None:
    """Two of twelve go. Pods of one zone are not ready: two of these are planned; ready ones go level. No miss."""
    starting = [each.metadata.name for each in await cluster.pods() if each.spec.node_name.startswith("c-")]
    await set_ready(cluster, starting, "False")
    await cluster.stop()
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(10)))
    assert held.warnings[1].endswith("2 pods had to go first whatever the balance: not ready")
    await cluster.held(cluster.user.resize(Deployment, "web", 10, namespace="default"))
    if becomes_ready:
        await set_ready(cluster, starting, "True")
    await cluster.resume()
    assert sorted(await cluster.spread()) == left
    await cluster.advance(4)
    assert await cluster.costs() == []
    assert not any(cluster.count("misses_total", cause=cause.value) for cause in MissCause)


async def test_costs_that_are_left_out_for_starting_pods_are_reported(cluster: ScaleCluster) -> None:
    """They would be more than fifty: a warning, the event, the record and a metric say so."""
    await cluster.grow(64, *(f"{zone}-{number}" for zone in "abc" for number in range(4)))
    starting = [each.metadata.name for each in await cluster.pods() if each.spec.node_name == "c-0"]
    await set_ready(cluster, starting, "False")
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(4)))
    (warning,) = [text for text in held.warnings if "starting" in text]
    assert warning.endswith("no costs are written: they would be too many")
    assert warning in cluster.events[-1][1]
    assert warning in cluster.holder.history.records()[0].warnings
    assert cluster.count("unhedged_plans_total", reason="too-many-costs") == 1


async def set_ready(cluster: ScaleCluster, names: list[str], status: str) -> None:
    """Let pods be ready, or not."""
    for name in names:
        change = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        await cluster.user.patch(Pod, name, change, namespace="default", subresource="status")
    await cluster.settle()


async def test_misses_make_the_settle_time_longer(cluster: ScaleCluster) -> None:
    """A controller that lags behind chooses by what it sees: counted, and waited for the next time."""
    cluster.wire.hold("pods")  # the workload controllers see nothing new of pods
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    cluster.wire.resume()
    await cluster.run_pods()
    await cluster.advance(2)
    assert cluster.count("misses_total", cause="lag") > 0
    assert cluster.holder.settle_time.seconds == pytest.approx(0.45)
    assert cluster.count("settle_seconds") == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("budget", "longest"),
    [
        pytest.param(1.0, 0.4, id="half of the budget, less what is reserved"),
        pytest.param(8.0, 1.2, id="as long as is configured"),
    ],
)
def test_the_settle_time_grows_up_to_a_limit(budget: float, longest: float) -> None:
    """However often a controller has not seen costs in time; a metric shows it."""
    client = Client(FakeServer(VirtualClock()))
    metrics, settings = Metrics(), HoldSettings(budget=budget, longest_settle=1.2)
    made = ScaleDownHolder(client, View(client), settings=settings, metrics=metrics)
    for _ in range(9):
        made.settle_time.record_miss()
    assert made.settle_time.seconds == pytest.approx(longest)
    assert metrics.registry.get_sample_value("trimtab_scaledown_settle_seconds") == pytest.approx(longest)


async def test_the_settle_time_always_leaves_time_to_write() -> None:
    """A controller that is always late makes requests wait longer, and never for nothing."""
    assert round(RESERVE * 1000) == RESERVED_MILLISECONDS, "what the configuration refuses is what cannot work"
    cluster = ScaleCluster(budget=1.0)
    await cluster.start()
    await cluster.add_zones(a=4, b=4)
    await cluster.deploy(8)
    await cluster.add_zones(c=4)
    await cluster.grow(12, "c-0", "c-1", "c-2", "c-3")
    for _ in range(9):
        cluster.holder.settle_time.record_miss()
    assert cluster.holder.settle_time.seconds == pytest.approx(0.4)
    assert await cluster.scale(9) < 1
    assert await cluster.spread() == (3, 3, 3)
    await cluster.close()


async def test_a_policy_with_a_short_budget_has_time_to_write(cluster: ScaleCluster) -> None:
    """A settle time that has become longer than that budget leaves half of it, less what is reserved, for writing."""
    for _ in range(9):
        cluster.holder.settle_time.record_miss()
    await short_budget(cluster, 600)
    assert await cluster.scale(6) < 0.6
    assert await cluster.spread() == (2, 2, 2)
    assert outcomes(cluster) == {"planned": 1}


async def short_budget(cluster: ScaleCluster, milliseconds: int) -> None:
    """A policy that holds requests for so many milliseconds at most."""
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "budgetMilliseconds": milliseconds,
    }
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    await cluster.user.create(POLICIES, {**kind, "metadata": {"name": "web"}, "spec": spec}, namespace="default")
    await cluster.advance(1)


async def test_a_foreign_cost_is_never_overwritten(cluster: ScaleCluster) -> None:
    """The plan is made around it."""
    chosen = (await cluster.pods())[0].metadata.name
    await cluster.patch(Pod, chosen, {"metadata": {"annotations": {DELETION_COST: "100"}}})
    await cluster.scale(3)
    pods = {pod.metadata.name: pod for pod in await cluster.pods()}
    assert pods[chosen].metadata.annotations[DELETION_COST] == "100"
    assert await cluster.spread() == (1, 1, 1)
    await cluster.advance(2)
    assert await cluster.costs() == [100]


async def test_where_all_costs_are_foreign_nothing_is_written(cluster: ScaleCluster) -> None:
    """A template that states a cost leaves no room for ours."""
    for pod in await cluster.pods():
        await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await cluster.scale(6)
    assert outcomes(cluster) == {"foreign-costs": 1}
    assert cluster.writes() == []
    assert cluster.count("fallbacks_total", reason="foreign-costs") == 1


async def test_costs_are_reverted_when_the_request_was_not_stored(cluster: ScaleCluster) -> None:
    """Another webhook refused it, or the API server lost it: the pods are as they were."""
    await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert len(await cluster.costs()) == 4, "two more of the emptied zone go without one"
    await cluster.advance(12)
    assert await cluster.costs() == []
    assert await cluster.plan_annotations() == []
    assert cluster.count("costs_reverted_total", reason="not-applied") == 4


async def test_a_cost_of_a_plan_that_another_program_changes_is_foreign(cluster: ScaleCluster) -> None:
    """Only our annotation is removed from it."""
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    marked = next(pod for pod in await cluster.pods() if SCALE_PLAN in pod.metadata.annotations)
    await cluster.patch(Pod, marked.metadata.name, {"metadata": {"annotations": {DELETION_COST: "77"}}})
    await cluster.advance(12)
    assert await cluster.costs() == [77]
    assert await cluster.plan_annotations() == []


async def test_costs_stay_while_the_controller_is_away(cluster: ScaleCluster) -> None:
    """The scale-down is still to come, whenever that is."""
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    await cluster.advance(300)
    assert len(await cluster.costs()) == 6
    await cluster.resume()
    assert await cluster.spread() == (2, 2, 2)


async def test_running_out_of_budget_leaves_the_best_partial_result(cluster: ScaleCluster) -> None:
    """Slow writes: as many as fit, the first victims first, and the request is admitted."""
    slow = cluster.product.send

    async def slowly(request: Any) -> Any:
        if request.method == "PATCH":
            await cluster.clock.sleep(0.5)
        return await slow(request)

    cluster.settings = type(cluster.settings)(writers=1)
    await cluster.stop_product()
    await cluster.start_product()
    slow = cluster.product.send
    cluster.product.send = slowly  # type: ignore[method-assign]
    await cluster.stop()
    _, took = await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert took <= 2.0
    assert await cluster.costs() == [-12, -11, -10]
    assert outcomes(cluster) == {"partial": 1}
    assert any("3 of 4 costs were written (1 not in time)" in text for text in cluster.answers[-1])
    assert any("with a skew of at most" in text for text in cluster.answers[-1])


async def test_a_request_is_admitted_although_costs_cannot_be_written(cluster: ScaleCluster) -> None:
    """Forbidden, or whatever: the request is admitted."""

    def refuse(request: Any) -> Exception | None:
        return RuntimeError("no") if request.method == "PATCH" else None

    cluster.product.refuse = refuse
    await cluster.scale(6)
    assert sum(await cluster.spread()) == 6


async def test_the_error_of_a_plan_whose_costs_are_forbidden_is_reported(cluster: ScaleCluster) -> None:
    """In the words of the API server, for the status of its policy; the warning has the number."""
    cluster.product.refuse = lambda request: Forbidden("you may not") if request.method == "PATCH" else None
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    (made,) = cluster.delivered
    assert made.error.startswith("0 of 3 costs were written (3 failed); the controller chooses the rest; ")
    assert made.error.endswith("you may not")
    cluster.product.refuse = None
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    assert [each.error for each in cluster.delivered[1:]] == [""]


@pytest.mark.parametrize("reading", [0.0, 0.15, 0.5])
async def test_the_budget_counts_from_the_arrival_of_the_review(cluster: ScaleCluster, reading: float) -> None:
    """Reading may take long, or the event loop may be late: the answer has the warnings of the plan all the same."""
    cluster.product.hold("pods")
    cluster.reading = reading
    _, took = await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    cluster.product.resume()
    assert took == pytest.approx(2.0 - ANSWER - reading, abs=0.03)
    assert not any(SKIPPED in warning for answer in cluster.answers for warning in answer)
    assert outcomes(cluster) == {"partial": 1}


async def test_a_late_review_does_not_wait_for_another_one(cluster: ScaleCluster) -> None:
    """Half of its budget has passed: there would be no time to write costs."""
    cluster.product.hangs = lambda request: request.method == "PATCH"
    first = asyncio.ensure_future(cluster.holder.hold(await cluster.request(9)))
    await cluster.settle()
    late = await cluster.request(8, arrived=cluster.clock.monotonic() - round(0.9 * SECOND))
    held, took = await cluster.held(cluster.holder.hold(late))
    assert held.outcome is HoldOutcome.BUSY
    assert took == pytest.approx(0.1, abs=0.03)
    await cancel(first)


async def test_the_costs_of_a_decision_that_is_given_up_are_reverted(cluster: ScaleCluster) -> None:
    """The plan is tracked from its first write: where the request is not stored, its costs do not stay."""
    cluster.product.hold("pods")
    holding = asyncio.ensure_future(cluster.holder.hold(await cluster.request(9)))
    await cluster.clock.advance(0.5)
    await cancel(holding)
    cluster.product.resume()
    await cluster.settle()
    assert len(await cluster.costs()) == 3
    await cluster.clock.advance(60)
    await cluster.settle()
    assert (await cluster.costs(), await cluster.plan_annotations()) == ([], [])


async def test_a_request_that_is_cut_off_is_counted_with_the_time_it_was_held(cluster: ScaleCluster) -> None:
    """It was held the longest."""
    cluster.product.hold("pods")
    holding = asyncio.ensure_future(cluster.holder.hold(await cluster.request(9)))
    await cluster.clock.advance(0.5)
    await cancel(holding)
    cluster.product.resume()
    assert outcomes(cluster) == {"late": 1}
    assert cluster.count("held_seconds_sum", outcome="late") >= 0.5
    assert cluster.count("requests_held") == 0


async def test_with_trimtab_stopped_scaling_works(cluster: ScaleCluster) -> None:
    """The webhook does not answer, and the request is admitted."""
    await cluster.stop_product()
    assert await cluster.scale(6) < 0.1
    assert sum(await cluster.spread()) == 6


async def test_before_the_caches_have_synced_requests_are_admitted(cluster: ScaleCluster) -> None:
    """A process that has just started has nothing to plan from."""
    await cluster.stop_product()
    holder = cluster.holder
    cluster.view.pods.informer.lists = 0  # as it is before the first list
    held, took = await cluster.held(holder.hold(await cluster.request(6)))
    assert held.outcome is HoldOutcome.NOT_SYNCED
    assert took < 0.05
    (warning,) = held.warnings
    assert "caches are not up to date" in warning
    assert [each.outcome for each in holder.history.records()] == ["not-synced"], "it is recorded all the same"


async def test_a_request_waits_for_a_watch_of_replicasets_that_is_a_little_behind(cluster: ScaleCluster) -> None:
    """It shows the larger size within the time that it is given: the request is decided as any other."""
    cluster.product.hold("replicasets")
    await cluster.grow(15, "c-0", "c-1", "c-2")
    request = asyncio.ensure_future(cluster.held(cluster.user.resize(Deployment, "web", 13, namespace="default")))
    await cluster.advance(0.1)
    cluster.product.resume("replicasets")
    await request
    await cluster.run_pods()
    assert outcomes(cluster) == {"as-stock": 1}
    assert [each.outcome for each in cluster.holder.history.records()] == [HoldOutcome.AS_STOCK]
    assert await cluster.spread() == (4, 4, 5)


async def test_with_a_watch_of_replicasets_that_stays_behind_a_request_is_not_planned(cluster: ScaleCluster) -> None:
    """By the cache, no ReplicaSet loses pods: the ReplicaSet is larger by now, and the controller's order decides."""
    cluster.product.hold("replicasets")
    await cluster.grow(15, "c-0", "c-1", "c-2")
    assert 0.3 <= await cluster.scale(13) < 0.4
    assert outcomes(cluster) == {"not-synced": 1}
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert "caches are not up to date" in warning
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]
    assert [each.outcome for each in cluster.holder.history.records()] == [HoldOutcome.NOT_SYNCED]


@pytest.mark.parametrize(
    ("strategy", "size"),
    [
        pytest.param({"rollingUpdate": {"maxSurge": 10}}, 11, id="the surge covers all pods"),
        pytest.param({"type": "Recreate", "rollingUpdate": None}, 6, id="the strategy recreates pods"),
    ],
)
async def test_a_request_that_shrinks_no_replicaset_during_a_rollout_is_reported(
    cluster: ScaleCluster, strategy: JSON, size: int
) -> None:
    """The rollout deletes pods until the size is reached, and decides which."""
    await pause_in_rollout(cluster, strategy)
    await cluster.held(cluster.user.resize(Deployment, "web", size, namespace="default"))
    assert outcomes(cluster) == {"rollout": 1}
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert "pods are of several revisions" in warning
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]


async def test_an_observed_request_that_a_rollout_decides_is_recorded(cluster: ScaleCluster) -> None:
    """Its user is not warned: nothing would have been written."""
    await pause_in_rollout(cluster, {"type": "Recreate", "rollingUpdate": None})
    cluster.holder.configure(OBSERVED)
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert outcomes(cluster) == {"observed": 1}
    assert not any(cluster.answers)
    assert [each.outcome for each in cluster.holder.history.records()] == [HoldOutcome.ROLLOUT]
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]


async def pause_in_rollout(cluster: ScaleCluster, strategy: JSON) -> None:
    """Pause the Deployment with pods of two revisions, and stop the controllers."""
    template = {"metadata": {"labels": {"app": "web", "new": "yes"}}}
    await cluster.patch(Deployment, "web", {"spec": {"template": template}})
    await cluster.patch(Deployment, "web", {"spec": {"paused": True}})
    await cluster.run_pods()
    await cluster.stop()
    await cluster.patch(Deployment, "web", {"spec": {"strategy": strategy}})


async def test_before_policies_are_known_requests_are_admitted_with_a_warning() -> None:
    """None applies by the caches, which are not filled yet: one may."""
    cluster = ScaleCluster(defaults=NO_DEFAULTS)
    await cluster.start()
    await cluster.add_zones(a=1, b=1)
    await cluster.deploy(4)
    await cluster.stop_product()
    cluster.view.pods.informer.lists = 0  # as it is before the first list
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(2)))
    assert held.outcome is HoldOutcome.NOT_SYNCED
    assert "caches are not up to date" in held.warnings[0]
    await cluster.close()


async def test_the_holder_reports_its_caches(cluster: ScaleCluster) -> None:
    """For health pages."""
    assert (cluster.holder.synced, cluster.holder.problems) == (True, [])
    cluster.view.pods.informer.problem = "forbidden"
    assert cluster.holder.problems == ["pods: forbidden"]


@pytest.mark.parametrize("stops", [pytest.param(False, id="while it runs"), pytest.param(True, id="once it has ended")])
async def test_plans_that_no_request_waits_for_end_with_the_holder(cluster: ScaleCluster, stops: bool) -> None:
    """An observed request is planned a moment after its answer, unless the process is stopped by then."""
    client = Client(cluster.product, clock=cluster.clock)
    made = ScaleDownHolder(client, cluster.view, defaults=OBSERVED, executor=InlineExecutor())
    running = asyncio.ensure_future(made.run())
    held, _ = await cluster.held(made.hold(await cluster.request(6)))
    assert held.outcome is HoldOutcome.OBSERVED
    if stops:
        await cancel(running)
    await cluster.advance(1)
    assert len(made.history.records()) == (0 if stops else 1)
    assert not made._background, "what has ended is not kept"  # noqa: SLF001 - it would only show as memory
    await cancel(running)


async def test_an_observed_request_that_was_not_stored_is_observed_again(cluster: ScaleCluster) -> None:
    """Another webhook may have refused it; while its result is waited for, it is a repeat."""
    cluster.holder.configure(OBSERVED)
    request, seen = await cluster.request(6), []
    for seconds in (0, 0, 12):
        await cluster.advance(seconds)
        held, _ = await cluster.held(cluster.holder.hold(request))
        seen.append(held.outcome)
    assert seen == [HoldOutcome.OBSERVED, HoldOutcome.REPEATED, HoldOutcome.OBSERVED]


async def test_the_error_of_a_plan_that_no_request_waits_for_is_logged(
    cluster: ScaleCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its request was admitted long before: no answer can carry it."""
    fault = RuntimeError("a strategy has a bug")

    def fail(*_: Any) -> Any:
        raise fault

    holder = ScaleDownHolder(
        Client(cluster.product, clock=cluster.clock), cluster.view, defaults=OBSERVED, policy_of=fail
    )
    await cluster.held(holder.hold(await cluster.request(6)))
    await cluster.settle()
    assert [each.exc_info[1] for each in caplog.records if each.exc_info] == [fault]


async def test_an_hour_of_idling_writes_nothing(cluster: ScaleCluster) -> None:
    """Nothing shrinks, nothing is written: to no pod, and to nothing else."""
    await cluster.scale(6)
    await cluster.advance(5)
    before = len(cluster.writes())
    for _ in range(60):
        await cluster.advance(60)
    assert len(cluster.writes()) == before


async def test_a_policy_with_continuous_delivery_is_not_planned(cluster: ScaleCluster) -> None:
    """Its carrier is one that the Deployment's controller does not read."""
    await policy(cluster, delivery="Continuous", carrier="PodGroupCost")
    await cluster.scale(6)
    assert outcomes(cluster) == {"other-delivery": 1}
    assert cluster.writes() == []


async def policy(cluster: ScaleCluster, **spec: Any) -> None:
    """A policy for the Deployment web."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": reference, **spec}}
    await cluster.user.create(POLICIES, body, namespace="default")
    await cluster.advance(31)  # where the kind was not known at the start, it is looked for again


@pytest.mark.parametrize(
    ("when", "least", "most"),
    [
        pytest.param({"action": "Fallback"}, 0.0, 0.05, id="fall back at once"),
        pytest.param({"action": "Wait", "timeoutSeconds": 30}, 1.0, 1.2, id="wait, but not beyond half the budget"),
    ],
)
async def test_while_pods_are_unranked_the_controller_chooses(
    cluster: ScaleCluster, when: Any, least: float, most: float
) -> None:
    """Waiting ends with the budget: the built-in controllers do not wait."""
    await policy(cluster, strategies=[{"name": "Idle"}], whenUnranked=when)
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert held.outcome is HoldOutcome.UNRANKED
    assert least <= took <= most
    assert cluster.writes() == []
    assert any("waited 1 s for ranks and not 30 s" in each for each in held.warnings) is (when["action"] == "Wait")


async def test_strategies_choose_the_victims(cluster: ScaleCluster) -> None:
    """The oldest first, by a policy: costs are written although stock would be as level."""
    await policy(cluster, strategies=[{"name": "Oldest"}])
    held, _ = await cluster.held(cluster.holder.hold(await cluster.request(9)))
    assert held.outcome is HoldOutcome.PLANNED
    victims = {pod.metadata.name for pod in await cluster.pods() if SCALE_PLAN in pod.metadata.annotations}
    young = sorted(await cluster.pods(), key=lambda pod: str(pod.metadata.creation_timestamp))[-4:]
    assert victims.isdisjoint({pod.metadata.name for pod in young})


async def test_pods_that_two_workloads_select_are_not_ranked_and_the_user_is_warned(cluster: ScaleCluster) -> None:
    """Also where a default applies, which has no status."""
    await cluster.create(Deployment, deployment("other", 0, labels={"app": "web"}))
    await cluster.scale(6)
    assert outcomes(cluster) == {"conflict": 1}
    warnings = [warning for answer in cluster.answers for warning in answer]
    assert warnings[0] == "Deployment web and Deployment other select the same pods, which are not ranked"
    assert "did not plan this scale-down: another workload selects the same pods" in warnings[1]
    assert cluster.writes() == []


GROUP = {"schedulingGroup": {"podGroupName": "gang"}}


async def _group_by_template(cluster: ScaleCluster) -> None:
    await cluster.user.patch(Deployment, "web", {"spec": {"template": {"spec": GROUP}}}, namespace="default")
    await cluster.settle()


async def _group_one_pod(cluster: ScaleCluster) -> None:
    """Replace a pod by one that admission has put into a group, while the controllers rest."""
    await cluster.stop()
    first, *_ = await cluster.pods()
    container = {"name": "main", "image": "app:1"}
    metadata = {"name": "gang", "labels": {"app": "web"}}
    owners = codec.to_tree(first.metadata.owner_references)
    await cluster.user.delete(Pod, first.metadata.name, namespace="default", grace_period_seconds=0)
    spec = {"nodeName": first.spec.node_name, "containers": [container], **GROUP}
    await cluster.create(Pod, {"metadata": {**metadata, "ownerReferences": owners}, "spec": spec})


@pytest.mark.parametrize("group", [_group_by_template, _group_one_pod], ids=["as the template says", "as one pod says"])
async def test_pods_of_a_scheduling_group_are_never_chosen_and_the_user_is_warned(
    cluster: ScaleCluster, group: Callable[[ScaleCluster], Awaitable[None]]
) -> None:
    """Their PodGroup may allow them to be disrupted all together only."""
    await group(cluster)
    before = len(cluster.writes())
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    assert outcomes(cluster) == {"no-policy": 1}
    (warning,) = [text for answer in cluster.answers for text in answer]
    assert "the pods of Deployment default/web belong to a scheduling group" in warning
    assert len(cluster.writes()) == before


async def test_without_a_policy_nothing_is_written() -> None:
    """No default in the configuration: installed, and quiet."""
    cluster = ScaleCluster(defaults=NO_DEFAULTS)
    await cluster.start()
    await cluster.add_zones(a=2, b=2)
    await cluster.deploy(4)
    await cluster.scale(2)
    assert outcomes(cluster) == {"no-policy": 1}
    assert cluster.writes() == []
    await cluster.close()


@pytest.mark.parametrize(
    "kind", [pytest.param(ReplicaSet, id="ReplicaSet"), pytest.param(ReplicationController, id="ReplicationController")]
)
async def test_workloads_that_own_their_pods_are_held_too(kind: type[Any]) -> None:
    """By their own `/scale`."""
    cluster = ScaleCluster()
    await cluster.start()
    await cluster.add_zones(a=3, b=3)
    labels = {"app": "web"}
    selector: Any = labels if kind is ReplicationController else {"matchLabels": labels}
    spec = {"replicas": 4, "selector": selector, "template": template(**labels)}
    cluster.place_on("a-0", "a-1", "a-2", "b-0")
    await cluster.create(kind, {"metadata": {"name": "web"}, "spec": spec})
    await cluster.run_pods()
    assert await cluster.spread() == (3, 1)
    await cluster.scale(2, kind=kind)
    assert await cluster.spread() == (1, 1)
    await cluster.close()


async def test_costs_of_a_lost_request_do_not_mislead_the_next_one() -> None:
    """A policy spared three pods of one node, and its request was lost; by itself, the controller would be level."""
    cluster = ScaleCluster()
    await cluster.start()
    await cluster.add_zones(a=2)
    cluster.place_on("a-0", "a-0", "a-0", "a-1")
    await cluster.deploy(4)
    await cluster.grow(7, "a-0")
    await policy(cluster, strategies=[{"name": "Oldest"}])
    await cluster.held(cluster.holder.hold(await cluster.request(3)))
    assert {mark.side for mark in await cluster.plan_annotations()} == {"victims"}
    await cluster.user.delete(POLICIES, "web", namespace="default")
    await cluster.settle()
    await cluster.scale(2)
    assert {pod.spec.node_name for pod in await cluster.pods()} == {"a-0", "a-1"}
    await cluster.close()


async def test_pods_that_our_own_watch_has_not_shown_yet_are_waited_for(cluster: ScaleCluster) -> None:
    """The workload counts fifteen; a plan among the twelve that are known would keep the wrong ones."""
    cluster.product.hold("pods")
    await cluster.grow(15, "c-0", "c-1", "c-2")
    holding = asyncio.ensure_future(cluster.holder.hold(await cluster.request(6)))
    await cluster.clock.advance(0.1)
    assert await cluster.costs() == []
    cluster.product.resume()
    held, _ = await cluster.held(holding)
    assert held.outcome is HoldOutcome.PLANNED
    assert len(await cluster.costs()) == 4, "two of each of the other zones; three of the new one go without"
    assert {mark.side for mark in await cluster.plan_annotations()} == {"victims"}


async def test_pods_that_never_show_are_waited_for_no_longer_than_a_moment(cluster: ScaleCluster) -> None:
    """The budget is for more important things."""
    cluster.product.hold("pods")
    await cluster.grow(15, "c-0", "c-1", "c-2")
    await cluster.clock.advance(1)
    held, took = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert held.outcome is HoldOutcome.PARTIAL
    assert took <= 2.0
