"""Every scale-down is reported and checked: events, warnings, and how level it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.annotations import DELETION_COST
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.resources import object_key
from trimtab.kube.transport import Request, Response
from trimtab.scaledown.intent import planner
from trimtab.scaledown.intent.planner import ModelSettings
from trimtab.scaledown.intent.ratelimits import RateLimiter, Rates
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults
from trimtab.testing.clocks import VirtualClock


async def story(**settings: object) -> ScaleCluster:
    """Eight pods on two zones, four younger ones on a third."""
    cluster = ScaleCluster(**settings)  # type: ignore[arg-type]
    await cluster.start()
    await cluster.add_zones(a=4, b=4, c=4)
    cluster.place_on("a-0", "b-0", "a-1", "b-1", "a-2", "b-2", "a-3", "b-3")
    await cluster.deploy(8)
    await cluster.advance(3600)
    await cluster.grow(12, "c-0", "c-1", "c-2", "c-3")
    return cluster


def write_slowly(cluster: ScaleCluster) -> None:
    """Let every write of Trimtab take a minute."""
    send = cluster.product.send

    async def slowly(request: Request) -> Response:
        if request.method == "PATCH":
            await cluster.clock.sleep(60)
        return await send(request)

    cluster.product.send = slowly  # type: ignore[method-assign]


@pytest.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """The cluster of the story."""
    made = await story()
    yield made
    await made.close()


async def test_a_planned_scale_down_is_an_event_and_ends_level(cluster: ScaleCluster) -> None:
    """Both are known from the workload alone, without a log."""
    await cluster.scale(6)
    await cluster.advance(2)
    assert [reason for reason, _ in cluster.events] == ["ScaleDownPlanned"]
    assert cluster.events[0][1].startswith("12 → 6: kept 2/2/2; stock")
    assert cluster.events[0][1].endswith(" (topology.kubernetes.io/zone)")
    assert cluster.count("results_total", mode="enforce", result="level", cause="") == 1


async def test_a_scale_down_that_is_certain_without_costs_is_checked_too(cluster: ScaleCluster) -> None:
    """Nothing is written, and what became of it is counted."""
    await cluster.scale(11)
    await cluster.advance(2)
    assert cluster.writes() == []
    assert cluster.count("results_total", mode="enforce", result="level", cause="") == 1


async def test_a_rate_limited_request_is_reported_and_its_result_checked() -> None:
    """The caller gets a warning, the workload an event; where it ended unlevel, that is an event too."""
    cluster = await story(rates=Rates(each=0.001, each_burst=1))
    await cluster.scale(11)
    await cluster.advance(2)
    await cluster.scale(8)
    await cluster.advance(2)
    assert any("too many scale requests" in text for answer in cluster.answers for text in answer)
    reasons = [reason for reason, _ in cluster.events]
    assert reasons == ["ScaleDownPlanned", "ScaleDownSkipped", "ScaleDownMissed"]
    assert "where 1 was possible (topology.kubernetes.io/zone); cause: rate-limited" in cluster.events[-1][1]
    assert cluster.count("results_total", mode="enforce", result="missed", cause="rate-limited") == 1
    assert cluster.count("fallbacks_total", reason="rate-limited") == 1
    await cluster.close()


@pytest.mark.parametrize("field", ["uid", "resource_version", "before"])
async def test_a_forged_review_spends_no_token(field: str) -> None:
    """Only reviews that equal an uncached read do."""
    cluster = await story(rates=Rates(each=0.001, each_burst=1))
    request = await cluster.request(6)
    forged = type(request)(
        **{name: getattr(request, name) for name in request.__slots__} | {field: 99 if field == "before" else "x"}
    )
    for _ in range(20):
        result, _ = await cluster.held(cluster.holder.hold(forged))
        assert result.outcome is HoldOutcome.STALE
    result, _ = await cluster.held(cluster.holder.hold(request))
    assert result.outcome is HoldOutcome.PLANNED
    await cluster.close()


async def test_a_failure_is_reported(cluster: ScaleCluster) -> None:
    """To the caller, on the workload and as a metric, although the workload could not even be read."""
    cluster.product.refuse = lambda request: ConnectionError("away") if request.method == "GET" else None
    result, _ = await cluster.held(cluster.holder.hold(await cluster.request(6)))
    assert result.outcome is HoldOutcome.FAILED
    assert "planning failed" in result.warnings[0]
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]
    assert cluster.count("fallbacks_total", reason="failed") == 1


async def test_requests_beyond_the_limit_of_reads_are_reported() -> None:
    """They are not verified: what the caches know is enough for an event."""
    cluster = await story(rates=Rates(reads=0.001, reads_burst=1))
    await cluster.scale(11)
    await cluster.advance(2)
    await cluster.scale(8)
    await cluster.advance(2)
    assert [reason for reason, _ in cluster.events] == ["ScaleDownPlanned", "ScaleDownSkipped", "ScaleDownMissed"]
    assert cluster.count("results_total", mode="enforce", result="missed", cause="rate-limited") == 1
    await cluster.close()


async def test_a_forged_request_beyond_the_limit_of_reads_is_no_event() -> None:
    """Nothing is written about a workload that has another UID."""
    cluster = await story(rates=Rates(reads=0.001, reads_burst=1))
    request = replace(await cluster.request(6), uid="forged")
    results = [(await cluster.held(cluster.holder.hold(request)))[0] for _ in range(2)]
    assert [each.outcome for each in results] == [HoldOutcome.STALE, HoldOutcome.RATE_LIMITED]
    assert cluster.events == []
    await cluster.close()


async def test_requests_do_not_wait_for_long_behind_others(cluster: ScaleCluster) -> None:
    """After half of its budget a request is admitted without a plan, and reported."""
    write_slowly(cluster)
    first = asyncio.ensure_future(cluster.holder.hold(await cluster.request(6)))
    await cluster.clock.advance(0.1)
    second = asyncio.ensure_future(cluster.holder.hold(await cluster.request(5)))
    await cluster.clock.advance(cluster.holder.settings.budget / 2)
    assert second.done()
    assert second.result().outcome is HoldOutcome.BUSY
    assert "earlier scale requests" in second.result().warnings[0]
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]
    assert cluster.count("fallbacks_total", reason="busy") == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_late_decision_is_an_event(cluster: ScaleCluster) -> None:
    """The server admits the request while its costs are still being written."""
    write_slowly(cluster)
    request = await cluster.request(6)
    holding = asyncio.ensure_future(cluster.holder.hold(request))
    await cluster.clock.advance(0.1)
    cluster.holder.report_skipped(request, HoldOutcome.LATE)
    assert [reason for reason, _ in cluster.events] == ["ScaleDownSkipped"]
    assert "did not decide in time" in cluster.events[0][1]
    assert cluster.count("fallbacks_total", reason="late") == 1
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)


async def test_certainty_is_extended_while_the_controller_does_not_act(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the window ends the plan is made again, and costs are then written after all."""
    cluster = await story(model=ModelSettings(window=10.0))
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 11, namespace="default"))
    assert await cluster.costs() == []
    monkeypatch.setattr(planner, "is_stable", lambda *_: False)
    await cluster.advance(6)
    assert await cluster.costs() == [], "certain for ten seconds"
    await cluster.advance(4)
    assert len(await cluster.costs()) == 1
    await cluster.resume()
    await cluster.advance(40)
    assert sorted(await cluster.spread()) == [3, 4, 4]
    assert await cluster.costs() == []
    await cluster.close()


async def test_a_repeat_whose_workload_is_not_cached_is_answered_all_the_same(
    cluster: ScaleCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An uncached read has shown that it exists: its plan is made again when the cache has it."""
    request = await cluster.request(11)
    first, _ = await cluster.held(cluster.holder.hold(request))
    assert first.outcome is HoldOutcome.AS_STOCK
    cluster.view.deployments.store.remove(object_key("default", "web"))
    again, _ = await cluster.held(cluster.holder.hold(request))
    assert again.outcome is HoldOutcome.REPEATED
    assert "the result of a scale-down is not checked" not in caplog.text


async def test_another_process_takes_over_a_scale_down_of_one_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written, so nothing on the pods tells of it; the cluster does."""
    cluster = await story()
    await cluster.stop()
    await cluster.stop_product(killed=True)
    cluster.unasked = True
    (replicaset,) = await cluster.all(ReplicaSet)
    await cluster.user.resize(Deployment, "web", 11, namespace="default")
    await cluster.user.resize(ReplicaSet, replicaset.metadata.name, 11, namespace="default")
    monkeypatch.setattr(planner, "is_stable", lambda *_: False)
    await cluster.start_product()
    await cluster.advance(10)
    assert await cluster.costs() == []
    await cluster.advance(10)
    assert len(await cluster.costs()) == 1
    await cluster.close()


async def test_more_deletions_than_one_sync_are_never_left_to_other_criteria() -> None:
    """And neither are pods that are not ready yet."""
    cluster = await story()
    pods = await cluster.pods()
    await cluster.run_pod(pods[0], ready=False)
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 11, namespace="default"))
    assert len(await cluster.costs()) == 1
    await cluster.close()


# Other writers of costs.


def tie_break() -> Defaults:
    """A default policy by which costs of other writers are a tie-break."""
    return Defaults(policies=(DefaultPolicy("tie", ScaleDownPolicySpec(other_costs="TieBreak")),))


async def writes(cluster: ScaleCluster, costs: dict[str, int]) -> None:
    """Another writer gives pods these costs."""
    for name, cost in costs.items():
        patch = {"metadata": {"annotations": {DELETION_COST: str(cost)}}}
        await cluster.user.patch(Pod, name, patch, namespace="default")


async def test_costs_of_another_writer_as_a_tie_break_are_restored() -> None:
    """Zones end level, and every pod that stays has the other writer's cost."""
    cluster = await story(defaults=tie_break())
    names = sorted(pod.metadata.name for pod in await cluster.pods())
    costs = {name: (-(2**31) if at % 3 else 7) for at, name in enumerate(names[:-2])}
    await writes(cluster, costs)
    await cluster.scale(6)
    await cluster.advance(40)
    assert await cluster.spread() == (2, 2, 2)
    left = {pod.metadata.name: pod.metadata.annotations.get(DELETION_COST) for pod in await cluster.pods()}
    assert left == {name: (str(costs[name]) if name in costs else None) for name in left}
    assert await cluster.plan_annotations() == []
    await cluster.close()


async def test_obeyed_costs_of_another_writer_prevent_a_plan_and_that_is_reported() -> None:
    """The default: what another program has set decides."""
    cluster = await story()
    await writes(cluster, {pod.metadata.name: 5 for pod in await cluster.pods()})
    await cluster.scale(6)
    await cluster.advance(2)
    assert cluster.writes() == []
    assert ("ScaleDownSkipped") in [reason for reason, _ in cluster.events]


async def test_a_writer_that_rewrites_costs_during_a_plan_is_reported_and_retried() -> None:
    """A few times at most; the result is level all the same."""
    cluster = await story(defaults=tie_break())
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    planned = [pod.metadata.name for pod in await cluster.pods() if DELETION_COST in pod.metadata.annotations]
    await writes(cluster, dict.fromkeys(planned, 9))
    await cluster.advance(2)
    (message,) = [message for reason, message in cluster.events if reason == "CostsOverwritten"]
    assert f"deletion costs of {len(planned)} pods" in message
    await cluster.resume()
    await cluster.advance(40)
    assert await cluster.spread() == (2, 2, 2)
    await cluster.close()


async def test_a_rollout_that_begins_during_a_scale_down_is_reported() -> None:
    """It replaces pods, and decides how level they are in the end."""
    cluster = await story()
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    template = {"metadata": {"labels": {"app": "web", "new": "yes"}}}
    await cluster.user.patch(Deployment, "web", {"spec": {"template": template}}, namespace="default")
    await cluster.resume()
    await cluster.advance(40)
    (record,) = cluster.holder.history.records()
    assert record.cause == "rollout"
    await cluster.close()


def test_writes_are_shared_between_the_requests_that_write() -> None:
    """A large workload does not leave a small one without costs."""
    limits = RateLimiter(Rates(writes=0.001, writes_burst=100), VirtualClock())
    with limits.writing(60) as first, limits.writing(60) as second:
        assert (first, second) == (60, 20)
    with limits.writing(5) as third:
        assert third == 5
