"""Scale-downs in the mode Observe: nothing is held or written, and the result is recorded."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.unit.scaledown.results.test_reporting import story
from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.scaledown import ScaleDownPolicySpec
from trimtab.kube.processes import FIELDS
from trimtab.scaledown.intent.planner import PlannedRequest
from trimtab.scaledown.intent.ratelimits import Rates
from trimtab.scaledown.intent.requests import CheckedRequest
from trimtab.scaledown.metrics import HoldOutcome, MissCause
from trimtab.scaledown.policy.defaults import DefaultPolicy, Defaults

ZONE = "topology.kubernetes.io/zone"
NOTHING = "the policy observes, so nothing was changed"
OBSERVED = Defaults(policies=(DefaultPolicy("all", ScaleDownPolicySpec(mode="Observe")),))


@pytest.fixture
async def cluster() -> AsyncIterator[ScaleCluster]:
    """Eight old pods on two zones, four younger ones on a third; the default policy observes."""
    made = await story(defaults=OBSERVED)
    yield made
    await made.close()


async def test_an_observed_scale_down_holds_and_writes_nothing(cluster: ScaleCluster) -> None:
    """What the controller left is an event, beside what Trimtab would have left; the user sees no warning."""
    took = await cluster.scale(8)
    await cluster.advance(2)
    assert took < 0.05
    assert cluster.writes() == []
    assert not any(cluster.answers)
    assert await cluster.spread() == (4, 4, 0)
    assert cluster.events == [
        (
            "ScaleDownObserved",
            f"12 → 8: the controller left 4/4/0; Trimtab would have left 3/3/2 ({ZONE}); {NOTHING}",
        )
    ]
    assert cluster.count("requests_total", outcome="observed") == 1
    assert cluster.count("results_total", mode="observe", result="missed", cause="observed") == 1
    assert all(not cluster.count("misses_total", cause=cause.value) for cause in MissCause)


def _reads_of_deployments(cluster: ScaleCluster) -> int:
    return sum(request.method == "GET" and request.path.endswith("/web") for request in cluster.product.requests)


async def test_an_observed_request_waits_for_no_read(cluster: ScaleCluster) -> None:
    """The cache shows the workload as the review does; an enforced request is verified by an uncached read."""
    request = await cluster.request(8)
    reads = _reads_of_deployments(cluster)
    await cluster.held(cluster.holder.hold(request))
    assert _reads_of_deployments(cluster) == reads
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {"trimtab.dev/scale-down": "enforce"}}})
    await cluster.settle()
    await cluster.held(cluster.holder.hold(request))
    assert _reads_of_deployments(cluster) == reads + 1


async def test_an_observed_request_may_be_newer_than_the_cache(cluster: ScaleCluster) -> None:
    """The status of a workload changes all the time: another resourceVersion with the same size is enough."""
    result, _ = await cluster.held(cluster.holder.hold(await cluster.request(8, resource_version="999999")))
    assert result.outcome is HoldOutcome.OBSERVED


async def test_a_review_that_the_cache_does_not_confirm_is_verified(cluster: ScaleCluster) -> None:
    """One that says another size than the cache is read, and found to be stale."""
    request, reads = await cluster.request(8), _reads_of_deployments(cluster)
    forged = replace(request, before=request.before + 1)
    result, _ = await cluster.held(cluster.holder.hold(forged))
    assert result.outcome is HoldOutcome.STALE
    assert _reads_of_deployments(cluster) == reads + 1


async def test_all_skews_of_an_observed_scale_down_are_measured(cluster: ScaleCluster) -> None:
    """Before, as planned, as stock may leave it, and as it was left."""
    await cluster.scale(8)
    await cluster.advance(2)
    zone = {"topology_key": "topology.kubernetes.io/zone", "mode": "observe"}
    sums = {state: cluster.count("skew_sum", state=state, **zone) for state in ("before", "planned", "stock", "after")}
    assert sums == {"before": 0, "planned": 1, "stock": 4, "after": 4}


async def test_a_controller_that_does_as_well_is_recorded_too(cluster: ScaleCluster) -> None:
    """Nothing would have been better."""
    await cluster.scale(11)
    await cluster.advance(2)
    assert cluster.events == [
        (
            "ScaleDownObserved",
            f"12 → 11: the controller left 4/4/3, as level as Trimtab would have ({ZONE})",
        )
    ]


async def test_a_label_of_the_namespace_enforces_and_observes(cluster: ScaleCluster) -> None:
    """From the next scale-down on, without a restart; back again, no cost is left."""
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {"trimtab.dev/scale-down": "enforce"}}})
    await cluster.settle()
    await cluster.scale(8)
    await cluster.advance(2)
    assert sorted(await cluster.spread()) == [2, 3, 3]
    await cluster.user.patch(Namespace, "default", {"metadata": {"labels": {"trimtab.dev/scale-down": "observe"}}})
    await cluster.settle()
    writes = len(cluster.writes())
    await cluster.scale(5)
    await cluster.advance(2)
    assert len(cluster.writes()) == writes
    assert await cluster.costs() == []


async def test_too_many_observations_are_reported_and_disturb_nobody() -> None:
    """An event says what was not observed; the user gets no warning."""
    cluster = await story(defaults=OBSERVED, rates=Rates(observations=0.001, observations_burst=1))
    await cluster.scale(11)
    await cluster.advance(2)
    await cluster.scale(8)
    await cluster.advance(2)
    assert not any(cluster.answers)
    assert "ScaleDownSkipped" in [reason for reason, _ in cluster.events]
    await cluster.close()


async def test_the_history_has_inputs_plan_and_result(cluster: ScaleCluster, caplog: pytest.LogCaptureFixture) -> None:
    """By reference, with all distributions; the log line has the same."""
    with caplog.at_level(logging.INFO):
        await cluster.scale(8)
        await cluster.advance(2)
    (record,) = cluster.holder.history.records()
    tree = record.tree()
    deployment = await cluster.get(Deployment, "web")
    assert (tree["kind"], tree["name"], tree["uid"]) == ("Deployment", "web", deployment.metadata.uid)
    assert (tree["mode"], tree["from"], tree["to"]) == ("Observe", 12, 8)
    assert (tree["outcome"], tree["result"], tree["cause"]) == ("observed", "missed", "observed")
    zones = tree["distributions"][0]
    assert (zones["before"], zones["planned"], zones["stock"], zones["left"]) == (
        [4, 4, 4],
        [3, 3, 2],
        [4, 4, 0],
        [4, 4, 0],
    )
    logged = [getattr(each, FIELDS) for each in caplog.records if hasattr(each, FIELDS)]
    assert json.loads(json.dumps(logged)) == [{"scaleDown": tree}]


async def test_the_history_of_an_enforced_scale_down_has_what_was_written() -> None:
    """Costs, victims, and how long the request was held."""
    cluster = await story()
    await cluster.scale(6)
    await cluster.advance(2)
    (record,) = cluster.holder.history.records()
    assert record.outcome == "planned"
    assert record.result == "level"
    assert record.costs_written == len(cluster.writes()) - int(cluster.count("costs_reverted_total", reason="done"))
    assert len(record.victims) == 6
    assert record.held_milliseconds >= 300
    await cluster.close()


async def test_a_request_that_follows_another_supersedes_it(cluster: ScaleCluster) -> None:
    """Both are in the history, the later one with the result."""
    await cluster.stop()
    for size in (10, 8):
        await cluster.held(cluster.user.resize(Deployment, "web", size, namespace="default"))
    await cluster.resume()
    await cluster.advance(3)
    assert [(record.to, record.result) for record in cluster.holder.history.records()] == [
        (8, "missed"),
        (10, "superseded"),
    ]


async def test_a_repeated_review_is_recorded_once(cluster: ScaleCluster) -> None:
    """API servers ask again after a conflict."""
    await cluster.stop()
    request = await cluster.request(8)
    for _ in range(3):
        await cluster.held(cluster.holder.hold(request))
    await cluster.advance(1)
    assert len(cluster.holder.history) == 1


async def test_a_review_that_is_repeated_while_it_is_planned_is_recorded_once(
    cluster: ScaleCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans are made in a thread, and an API server may ask again before one is done."""
    planner = cluster.holder._planner  # noqa: SLF001 - its thread is what is slow
    preview, go = planner.preview, asyncio.Event()

    async def slowly(checked: CheckedRequest) -> PlannedRequest | HoldOutcome:
        await go.wait()
        return await preview(checked)

    monkeypatch.setattr(planner, "preview", slowly)
    request = await cluster.request(8)
    outcomes = [(await cluster.held(cluster.holder.hold(request)))[0].outcome for _ in range(3)]
    go.set()
    await cluster.settle()
    assert outcomes == [HoldOutcome.OBSERVED, HoldOutcome.REPEATED, HoldOutcome.REPEATED]
    assert len(cluster.holder.history.records()) == 1
