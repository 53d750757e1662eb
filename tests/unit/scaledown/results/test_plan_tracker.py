"""What is left behind: killed at any moment, costs are right, absent, or cleaned at the next start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.scaledown.scaling import ScaleWorld
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN
from trimtab.api.apps import Deployment
from trimtab.api.pods import Pod
from trimtab.kube.errors import Unreachable
from trimtab.scaledown.cost_writer import sweep
from trimtab.scaledown.results.evaluation import PlanState

pytestmark = pytest.mark.slow


async def story() -> ScaleWorld:
    """Eight pods on two zones, and four more in a third that came later."""
    made = ScaleWorld()
    await made.start()
    await made.zones(a=4, b=4)
    await made.deploy(8)
    await made.zones(c=4)
    await made.grow(12, "c-0", "c-1", "c-2", "c-3")
    return made


def dies_after(world: ScaleWorld, count: int) -> None:
    """Trimtab is killed after so many writes: the last one arrives, and nobody learns of it."""
    written = [0]

    def after(request: Any) -> None:
        written[0] += request.method == "PATCH"
        if request.method == "PATCH" and written[0] >= count:
            world.product.dead = True

    world.product.after = after


@pytest.mark.parametrize("size", [pytest.param(9, id="victims written"), pytest.param(3, id="survivors written")])
@pytest.mark.parametrize("count", range(1, 8))
async def test_killed_after_any_write_the_pods_are_clean_after_the_next_start(size: int, count: int) -> None:
    """Writing, waiting or taking back: whatever it did when it died, the request went on and nothing stays behind."""
    world = await story()
    dies_after(world, count)
    await world.scale(size)
    assert sum(await world.spread()) == size
    await world.stop_product(killed=True)
    await world.start_product()
    await world.advance(40)
    assert await world.costs() == []
    assert await world.marks() == []
    assert await world.scale(2) >= 0
    assert sum(await world.spread()) == 2
    await world.close()


async def test_costs_of_a_dead_process_stay_while_they_are_right() -> None:
    """The request took effect, and the controller is away: the next process finds the costs, and keeps them."""
    world = await story()
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    await world.stop_product(killed=True)
    await world.start_product()
    await world.advance(300)
    assert len(await world.costs()) == 6
    await world.resume()
    assert await world.spread() == (2, 2, 2)
    await world.advance(40)
    assert await world.marks() == []
    await world.close()


async def test_another_running_process_cleans_up_after_a_dead_one() -> None:
    """It need not be started for that: the marks are seen by everyone."""
    world = await story()
    await world.held(world.intents.hold(await world.intent(9)))
    await world.stop_product(killed=True)
    await world.start_product()
    await world.advance(5)
    assert len(await world.costs()) == 3, "the plan of another process is left to it for a while"
    await world.advance(30)
    assert await world.costs() == []
    await world.close()


async def test_a_sweep_takes_everything_back_without_a_running_trimtab() -> None:
    """For uninstalling: it looks at the cluster alone, and may be run again."""
    world = await story()
    await world.held(world.intents.hold(await world.intent(9)))
    await world.stop_product(killed=True)
    person = next(pod for pod in await world.pods() if SCALE_PLAN not in pod.metadata.annotations)
    await world.patch(Pod, person.metadata.name, {"metadata": {"annotations": {DELETION_COST: "4"}}})
    assert await sweep(world.user) == 3
    assert await sweep(world.user) == 0
    assert await world.costs() == [4]
    assert await world.marks() == []
    await world.close()


async def test_taking_back_is_tried_again_until_the_api_server_lets_us() -> None:
    """An API server that is away for a while loses nothing."""
    world = await story()
    await world.held(world.intents.hold(await world.intent(9)))
    world.product.refuse = lambda request: Unreachable("away") if request.method == "PATCH" else None
    await world.advance(15)
    assert len(await world.costs()) == 3
    world.product.refuse = None
    await world.advance(60)
    assert await world.costs() == []
    await world.close()


async def test_a_plan_says_how_it_ended() -> None:
    """As planned: all victims went, by what decided it, and none was missed."""
    world = await story()
    await world.scale(6)
    await world.advance(2)
    (ended,) = world.intents.tracker.results
    assert (ended.state, ended.followed, sum(ended.misses.values())) == (PlanState.DONE, 6, 0)
    assert world.count("pods_deleted_total", decision="topology.kubernetes.io/zone") == 6
    assert world.count("skew_count", topology_key="topology.kubernetes.io/zone", state="after") == 1
    await world.close()


async def test_scaling_up_again_takes_costs_back() -> None:
    """Down and up in one breath: whoever is left has no cost of ours."""
    world = await story()
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    await world.user.resize(Deployment, "web", 12, namespace="default")
    await world.resume()
    await world.advance(15)
    assert await world.costs() == []
    assert sum(await world.spread()) == 12
    await world.close()


async def test_a_workload_that_is_deleted_leaves_nothing_open() -> None:
    """Its pods go, and its plan with them."""
    world = await story()
    await world.held(world.intents.hold(await world.intent(6)))
    await world.user.delete(Deployment, "web", namespace="default", propagation="Orphan")
    await world.advance(15)
    assert await world.costs() == []
    await world.close()


async def test_a_clock_that_is_ahead_does_not_end_the_plans_of_others() -> None:
    """How old a plan is, is told by one's own clock from when it was first seen."""
    world = await story()
    async with world.replica(ahead=45):
        await world.scale(9)
    assert await world.spread() == (3, 3, 3)
    await world.close()


async def test_pods_that_hang_in_termination_are_not_asked_about_again_and_again() -> None:
    """They take their costs along, however long that takes."""
    world = await story()
    for pod in await world.pods():
        await world.patch(Pod, pod.metadata.name, {"metadata": {"finalizers": ["example.com/slow"]}})
    await world.held(world.user.resize(Deployment, "web", 9, namespace="default"))
    await world.advance(40)
    await world.held(world.user.resize(Deployment, "web", 12, namespace="default"))
    await world.advance(60)
    asked = len(world.product.requests)
    await world.advance(60)
    assert world.product.requests[asked:] == []
    assert len(world.writes()) == 3, "the costs of the victims, which nobody has taken back"
    await world.close()


async def test_a_survivor_that_is_drained_is_no_miss() -> None:
    """It says itself that it was not chosen by its controller, which needed one victim fewer."""
    world = await story()
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 9, namespace="default"))
    survivor = next(pod for pod in await world.pods() if SCALE_PLAN not in pod.metadata.annotations)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    conditions = [{"type": "Ready", "status": "True"}, disrupted]
    name = survivor.metadata.name
    await world.user.patch(Pod, name, {"status": {"conditions": conditions}}, namespace="default", subresource="status")
    await world.user.delete(Pod, name, namespace="default", grace_period_seconds=0)
    await world.resume()
    await world.advance(5)
    (ended,) = world.intents.tracker.results
    assert {cause.value: count for cause, count in ended.misses.items() if count} == {"deleted": 1}
    assert world.intents.settle_time.seconds == 0.3
    await world.close()


async def test_with_the_switch_off_nothing_that_was_written_stays() -> None:
    """Not even the costs of a scale-down that is under way, nor those that another process wrote."""
    world = await story()
    await world.stop()
    async with world.replica() as other:
        await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
        assert len(await world.costs()) == 6
        world.intents.configure(replace(world.defaults, enabled=False))
        await world.advance(1)
        assert await world.costs() == []
        assert await world.marks() == []
        world.intents.configure(world.defaults)
        await world.held(world.intents.hold(await world.intent(3)))
        assert len(await world.costs()) > 0
        other.configure(replace(world.defaults, enabled=False))
        await world.advance(1)
        assert await world.costs() == []
    assert world.count("costs_reverted_total", reason="disabled") == 6
    await world.close()


async def test_a_request_that_is_held_when_the_switch_is_turned_leaves_nothing_behind() -> None:
    """Its costs are taken back as soon as it is answered."""
    world = await story()
    asking = asyncio.ensure_future(world.intents.hold(await world.intent(6)))
    while not await world.costs():
        await world.clock.advance(0.01)
    world.intents.configure(replace(world.defaults, enabled=False))
    await world.held(asking)
    await world.advance(1)
    assert await world.costs() == []
    await world.close()


async def test_plans_of_namespaces_that_another_trimtab_looks_after_are_its_own() -> None:
    """However long they have stood there."""
    world = await story()
    await world.held(world.intents.hold(await world.intent(9)))
    await world.stop_product(killed=True)
    world.defaults = replace(world.defaults, only=frozenset({"elsewhere"}))
    await world.start_product()
    await world.advance(120)
    assert len(await world.costs()) == 3
    assert world.writes() == []
    await world.close()
