"""What is left behind: killed at any moment, costs are right, absent, or cleaned at the next start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.scaledown.scale_cluster import ScaleCluster
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation
from trimtab.api.apps import Deployment
from trimtab.api.pods import Pod
from trimtab.kube.errors import Unreachable
from trimtab.scaledown.cost_writer import sweep
from trimtab.scaledown.metrics import HoldOutcome
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.plan_tracker import ABANDONED

pytestmark = pytest.mark.slow

HANDLED = (HoldOutcome.PLANNED, HoldOutcome.AS_STOCK)
"""The outcomes of a request that a process planned."""


async def story() -> ScaleCluster:
    """Eight pods on two zones, and four more in a third that came later."""
    made = ScaleCluster()
    await made.start()
    await made.add_zones(a=4, b=4)
    await made.deploy(8)
    await made.add_zones(c=4)
    await made.grow(12, "c-0", "c-1", "c-2", "c-3")
    return made


def dies_after(cluster: ScaleCluster, count: int) -> None:
    """Trimtab is killed after so many writes: the last one arrives, and its answer is lost."""
    written = [0]

    def after(request: Any) -> None:
        written[0] += request.method == "PATCH"
        if request.method == "PATCH" and written[0] >= count:
            cluster.product.dead = True

    cluster.product.after = after


@pytest.mark.parametrize("size", [pytest.param(9, id="victims written"), pytest.param(3, id="survivors written")])
@pytest.mark.parametrize("count", range(1, 8))
async def test_killed_after_any_write_the_pods_are_clean_after_the_next_start(size: int, count: int) -> None:
    """Writing, waiting or reverting: whatever it did when it died, the request went on and nothing stays behind."""
    cluster = await story()
    dies_after(cluster, count)
    await cluster.scale(size)
    assert sum(await cluster.spread()) == size
    await cluster.stop_product(killed=True)
    await cluster.start_product()
    await cluster.advance(40)
    assert await cluster.costs() == []
    assert await cluster.plan_annotations() == []
    zones = sum(count > 0 for count in await cluster.spread())
    await cluster.scale(2)
    assert sorted(await cluster.spread()) == ([0, 1, 1] if zones > 1 else [0, 0, 2]), "what is left is level again"
    assert sum(cluster.count("requests_total", outcome=each.value) for each in HANDLED) == 1
    await cluster.close()


async def test_costs_of_a_dead_process_stay_while_they_are_right() -> None:
    """The request took effect, and the controller is away: the next process finds the costs, and keeps them."""
    cluster = await story()
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    await cluster.stop_product(killed=True)
    await cluster.start_product()
    await cluster.advance(300)
    assert len(await cluster.costs()) == 4
    await cluster.resume()
    assert await cluster.spread() == (2, 2, 2)
    await cluster.advance(40)
    assert await cluster.plan_annotations() == []
    await cluster.close()


async def test_another_running_process_cleans_up_after_a_dead_one() -> None:
    """It need not be started for that: the annotations are seen by everyone."""
    cluster = await story()
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    await cluster.stop_product(killed=True)
    await cluster.start_product()
    await cluster.advance(5)
    assert len(await cluster.costs()) == 3, "the plan of another process is left to it for a while"
    await cluster.advance(30)
    assert await cluster.costs() == []
    await cluster.close()


async def annotate(cluster: ScaleCluster, pod: Pod, *, to: int, at: int) -> None:
    """Write a plan's cost to a pod, as a process that has died since did."""
    workload = (await cluster.get(Deployment, "web")).metadata
    plan = PlanAnnotation(
        plan=f"to-{to}",
        workload="Deployment/web",
        uid=workload.uid,
        generation=workload.generation,
        to=to,
        at=at,
        share=to,
        was=12,
        side="victims",
        cost=-1,
    )
    annotations = {DELETION_COST: "-1", SCALE_PLAN: codec.encode(plan).decode()}
    await cluster.patch(Pod, pod.metadata.name, {"metadata": {"annotations": annotations}})


@pytest.mark.parametrize(
    ("earlier", "later", "costs"),
    [
        pytest.param(9, 6, 0, id="the later one did not take effect"),
        pytest.param(6, 9, 2, id="the later one is in progress"),
    ],
)
async def test_of_two_abandoned_plans_the_later_decides(earlier: int, later: int, costs: int) -> None:
    """Seven pods are wanted, and the controller is away: by a plan for nine it is to delete more, by one for six none
    was stored."""
    cluster = await story()
    await cluster.stop()
    await cluster.stop_product(killed=True)
    await cluster.user.resize(Deployment, "web", 7, namespace="default")
    first, second, *_ = await cluster.pods()
    await annotate(cluster, first, to=later, at=2)
    await annotate(cluster, second, to=earlier, at=1)
    await cluster.start_product()
    await cluster.advance(ABANDONED + 5)
    assert len(await cluster.costs()) == costs
    await cluster.close()


async def test_of_two_abandoned_plans_the_one_that_was_seen_later_decides() -> None:
    """The times in annotations are by the clocks of the machines that wrote them."""
    cluster = await story()
    await cluster.stop()
    cluster.unasked = True
    await cluster.user.resize(Deployment, "web", 7, namespace="default")
    first, second, *_ = await cluster.pods()
    await annotate(cluster, first, to=9, at=2)
    await cluster.advance(5)
    await annotate(cluster, second, to=6, at=1)
    await cluster.advance(ABANDONED - 1)
    assert len(await cluster.costs()) == 2
    await cluster.advance(5)
    assert await cluster.costs() == []
    await cluster.close()


async def test_a_sweep_reverts_all_plans_without_a_running_trimtab() -> None:
    """For uninstalling: it reads the cluster alone, and may be repeated."""
    cluster = await story()
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    await cluster.stop_product(killed=True)
    person = next(pod for pod in await cluster.pods() if SCALE_PLAN not in pod.metadata.annotations)
    await cluster.patch(Pod, person.metadata.name, {"metadata": {"annotations": {DELETION_COST: "4"}}})
    assert await sweep(cluster.user) == 3
    assert await sweep(cluster.user) == 0
    assert await cluster.costs() == [4]
    assert await cluster.plan_annotations() == []
    await cluster.close()


async def test_reverting_is_retried_until_the_api_server_allows_it() -> None:
    """An API server that is away for a while loses nothing."""
    cluster = await story()
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    cluster.product.refuse = lambda request: Unreachable("away") if request.method == "PATCH" else None
    await cluster.advance(15)
    assert len(await cluster.costs()) == 3
    cluster.product.refuse = None
    await cluster.advance(60)
    assert await cluster.costs() == []
    await cluster.close()


async def test_the_result_of_a_plan_is_recorded() -> None:
    """As planned: all victims went, by what decided it, and none was missed."""
    cluster = await story()
    await cluster.scale(6)
    await cluster.advance(2)
    (ended,) = cluster.holder.tracker.results
    assert (ended.state, ended.followed, sum(ended.misses.values())) == (PlanState.DONE, 6, 0)
    assert cluster.count("pods_deleted_total", decision="topology.kubernetes.io/zone") == 6
    for state in ("before", "planned", "stock", "after"):
        labels = {"topology_key": "topology.kubernetes.io/zone", "state": state, "mode": "enforce"}
        assert cluster.count("skew_count", **labels) == 1
    await cluster.close()


async def test_a_plan_that_has_ended_records_no_further_deletions() -> None:
    """While it is open it records whether each deleted pod was ready; later ones are of no plan."""
    cluster = await story()
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    tracker, key = cluster.holder.tracker, "default/Deployment/web"
    plan = tracker.open_plan(key)
    assert plan is not None
    await cluster.resume()
    await cluster.advance(2)
    assert not tracker.is_open(key)
    assert plan.ready == dict.fromkeys(plan.victims, True)
    assert plan.deleted_elsewhere == set(), "their own controller chose them by this plan"
    pod, *_ = await cluster.pods()
    await cluster.user.delete(Pod, pod.metadata.name, namespace="default", grace_period_seconds=0)
    await cluster.run_pods()
    assert len(plan.ready) == 3
    await cluster.close()


async def test_scaling_up_again_reverts_costs() -> None:
    """Down and up at once: the remaining pods have no cost of ours."""
    cluster = await story()
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
    await cluster.user.resize(Deployment, "web", 12, namespace="default")
    await cluster.resume()
    await cluster.advance(15)
    assert await cluster.costs() == []
    assert sum(await cluster.spread()) == 12
    await cluster.close()


async def test_a_workload_that_is_deleted_leaves_nothing_open() -> None:
    """Its pods go, and its plan with them."""
    cluster = await story()
    await cluster.held(cluster.holder.hold(await cluster.request(6)))
    await cluster.user.delete(Deployment, "web", namespace="default", propagation="Orphan")
    await cluster.advance(15)
    assert await cluster.costs() == []
    await cluster.close()


async def test_a_clock_that_is_ahead_does_not_end_the_plans_of_others() -> None:
    """The age of a plan counts from when it was first seen, by the own clock."""
    cluster = await story()
    async with cluster.replica(ahead=45):
        await cluster.scale(9)
    assert await cluster.spread() == (3, 3, 3)
    await cluster.close()


async def test_pods_that_hang_in_termination_are_not_read_again_and_again() -> None:
    """They take their costs along, however long that takes."""
    cluster = await story()
    for pod in await cluster.pods():
        await cluster.patch(Pod, pod.metadata.name, {"metadata": {"finalizers": ["example.com/slow"]}})
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    await cluster.advance(40)
    await cluster.held(cluster.user.resize(Deployment, "web", 12, namespace="default"))
    await cluster.advance(60)
    asked = len(cluster.product.requests)
    await cluster.advance(60)
    assert cluster.product.requests[asked:] == []
    assert len(cluster.writes()) == 3, "the costs of the victims, which nobody has taken back"
    await cluster.close()


async def test_a_survivor_that_is_drained_is_no_miss() -> None:
    """Its condition shows that its controller did not choose it; one victim fewer was needed."""
    cluster = await story()
    await cluster.stop()
    await cluster.held(cluster.user.resize(Deployment, "web", 9, namespace="default"))
    survivor = next(pod for pod in await cluster.pods() if SCALE_PLAN not in pod.metadata.annotations)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    conditions = [{"type": "Ready", "status": "True"}, disrupted]
    name = survivor.metadata.name
    await cluster.user.patch(
        Pod, name, {"status": {"conditions": conditions}}, namespace="default", subresource="status"
    )
    await cluster.user.delete(Pod, name, namespace="default", grace_period_seconds=0)
    await cluster.resume()
    await cluster.advance(5)
    (ended,) = cluster.holder.tracker.results
    assert {cause.value: count for cause, count in ended.misses.items() if count} == {"deleted": 1}
    assert cluster.holder.settle_time.seconds == 0.3
    await cluster.close()


async def test_disabling_scale_downs_reverts_the_costs_of_plans() -> None:
    """Not even the costs of a scale-down that is under way, nor those that another process wrote."""
    cluster = await story()
    await cluster.stop()
    async with cluster.replica() as other:
        await cluster.held(cluster.user.resize(Deployment, "web", 6, namespace="default"))
        assert len(await cluster.costs()) == 4
        cluster.holder.configure(replace(cluster.defaults, enabled=False))
        await cluster.advance(1)
        assert await cluster.costs() == []
        assert await cluster.plan_annotations() == []
        cluster.holder.configure(cluster.defaults)
        await cluster.held(cluster.holder.hold(await cluster.request(3)))
        assert len(await cluster.costs()) > 0
        other.configure(replace(cluster.defaults, enabled=False))
        await cluster.advance(1)
        assert await cluster.costs() == []
    assert cluster.count("costs_reverted_total", reason="disabled") == 4
    await cluster.close()


async def test_a_request_that_is_held_while_scale_downs_are_disabled_leaves_no_cost() -> None:
    """Its costs are reverted as soon as it is answered."""
    cluster = await story()
    asking = asyncio.ensure_future(cluster.holder.hold(await cluster.request(6)))
    while not await cluster.costs():
        await cluster.clock.advance(0.01)
    cluster.holder.configure(replace(cluster.defaults, enabled=False))
    await cluster.held(asking)
    await cluster.advance(1)
    assert await cluster.costs() == []
    await cluster.close()


async def test_plans_in_namespaces_of_another_trimtab_are_skipped() -> None:
    """However long they have stood there."""
    cluster = await story()
    await cluster.held(cluster.holder.hold(await cluster.request(9)))
    await cluster.stop_product(killed=True)
    cluster.defaults = replace(cluster.defaults, only=frozenset({"elsewhere"}))
    await cluster.start_product()
    await cluster.advance(120)
    assert len(await cluster.costs()) == 3
    assert cluster.writes() == []
    await cluster.close()
