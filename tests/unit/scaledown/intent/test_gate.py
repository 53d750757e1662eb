"""Requests to shrink, held: what is written, how long it takes, and what is left alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.scaledown.scaling import ScaleWorld
from tests.unit.scaledown.worlds import POLICIES, deployment, template
from trimtab.api.annotations import DELETION_COST, OPT_OUT, OPTED_OUT, SCALE_PLAN
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.configuration import RESERVED_MILLISECONDS
from trimtab.api.core import ReplicationController
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Forbidden
from trimtab.scaledown.intent.gate import RESERVE, Intents
from trimtab.scaledown.intent.ratelimits import Rates
from trimtab.scaledown.metrics import Cause, Outcome
from trimtab.scaledown.policy import effective
from trimtab.scaledown.policy.effective import Defaults


@pytest_asyncio.fixture
async def world() -> AsyncIterator[ScaleWorld]:
    """Four pods on two zones, and two more in a third that came later: stock empties that one again."""
    made = ScaleWorld()
    await made.start()
    await made.zones(a=4, b=4)
    await made.deploy(8)
    await made.zones(c=4)
    await made.grow(12, "c-0", "c-1", "c-2", "c-3")
    yield made
    await made.close()


def outcomes(world: ScaleWorld) -> dict[str, float]:
    """How often each outcome came."""
    found = {each.value: world.count("plans_total", outcome=each.value) for each in Outcome}
    return {name: count for name, count in found.items() if count}


async def test_a_request_by_scale_is_held_and_stays_level(world: ScaleWorld) -> None:
    """The measured wrong to right, for a Deployment that nobody changed."""
    took = await world.scale(6)
    assert await world.spread() == (2, 2, 2)
    assert 0.3 <= took < 0.5
    (warning,) = [text for answer in world.answers for text in answer]
    assert re.fullmatch(r"kept 2/2/2; stock would leave \d/\d/\d", warning)
    assert outcomes(world) == {"planned": 1}


async def test_a_request_by_update_is_held_and_stays_level(world: ScaleWorld) -> None:
    """Appliers write the whole object; only its size changes."""
    await world.held(world.user.patch(Deployment, "web", {"spec": {"replicas": 6}}, namespace="default"))
    assert await world.spread() == (2, 2, 2)
    assert outcomes(world) == {"planned": 1}


async def test_the_replicaset_that_its_deployment_resizes_is_admitted_at_once(world: ScaleWorld) -> None:
    """The Deployment was held; its controller is not."""
    await world.scale(6)
    assert world.asked >= 2
    assert outcomes(world) == {"planned": 1}


async def test_a_deployments_replicaset_scaled_by_hand_is_left_to_the_deployment(world: ScaleWorld) -> None:
    """A Scale does not show the owner; the ReplicaSet itself does."""
    (owned,) = await world.all(ReplicaSet)
    await world.held(world.user.resize(ReplicaSet, owned.metadata.name, 6, namespace="default"))
    assert outcomes(world) == {"managed": 1}
    assert world.writes() == []


async def test_nothing_is_written_when_everything_goes(world: ScaleWorld) -> None:
    """Whoever goes first, nobody is left."""
    assert await world.scale(0) < 0.1
    assert world.writes() == []
    assert outcomes(world) == {"as-stock": 1}


async def test_nothing_is_written_where_stock_is_as_level() -> None:
    """Two pods on one node and one on another of one zone: the controller's own order takes from the fuller node."""
    world = ScaleWorld()
    await world.start()
    await world.zones(a=2)
    await world.deploy(3)
    assert await world.scale(2) < 0.1
    assert world.writes() == []
    assert outcomes(world) == {"as-stock": 1}
    await world.close()


async def test_few_victims_are_written_below_zero(world: ScaleWorld) -> None:
    """Three of twelve: three writes, and every victim goes before the next."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 9, namespace="default"))
    assert await world.costs() == [-12, -11, -10]
    assert len(world.writes()) == 3
    assert {mark.side for mark in await world.marks()} == {"victims"}
    await world.resume()
    assert await world.spread() == (3, 3, 3)


async def test_few_survivors_are_written_above_zero_and_cleaned_afterwards(world: ScaleWorld) -> None:
    """Nine of twelve go: three writes keep the others, and three more take them back."""
    await world.scale(3)
    assert await world.spread() == (1, 1, 1)
    await world.advance(2)
    assert await world.costs() == []
    assert await world.marks() == []
    assert len(world.writes()) == 6
    assert world.count("costs_written_total") == 3
    assert world.count("costs_taken_back_total", reason="done") == 3


async def test_a_cost_carries_its_plan_and_what_stood_there_before(world: ScaleWorld) -> None:
    """In the same patch: whoever finds it can undo it."""
    await world.held(world.intents.hold(await world.intent(9)))
    marks = await world.marks()
    assert len({mark.plan for mark in marks}) == 1
    assert {(mark.workload, mark.to, mark.share, mark.before) for mark in marks} == {("Deployment/web", 9, 9, None)}
    assert all(DELETION_COST in request_body(each) and SCALE_PLAN in request_body(each) for each in world.writes())


def request_body(request: Any) -> str:
    """What was sent."""
    return (request.body or b"").decode()


async def test_a_repeat_is_answered_at_once(world: ScaleWorld) -> None:
    """An API server asks twice for one request, with a new UID: the costs stand, and nothing is written again."""
    asked = await world.intent(9)
    first, took = await world.held(world.intents.hold(asked))
    written = len(world.writes())
    again, moment = await world.held(world.intents.hold(asked))
    assert (first.outcome, again.outcome) == (Outcome.PLANNED, Outcome.REPEATED)
    assert again.warnings == first.warnings
    assert took >= 0.3
    assert moment < 0.05
    assert len(world.writes()) == written


async def test_a_repeat_that_comes_while_the_first_is_held_waits_for_it(world: ScaleWorld) -> None:
    """Answered earlier, it would let the controller loose before it has seen the costs."""
    asked = await world.intent(9)
    both = asyncio.gather(world.intents.hold(asked), world.intents.hold(asked))
    (first, second), took = await world.held(both)
    assert (first.outcome, second.outcome) == (Outcome.PLANNED, Outcome.REPEATED)
    assert 0.3 <= took < 0.5


async def test_another_process_knows_a_repeat_by_the_marks(world: ScaleWorld) -> None:
    """The second call may go to another replica: the costs stay as they are, and are its own from then on."""
    asked = await world.intent(9)
    await world.held(world.intents.hold(asked))
    before = {mark.plan for mark in await world.marks()}
    async with world.replica() as other:
        await world.advance(9)
        again, moment = await world.held(other.hold(asked))
        assert again.outcome is Outcome.REPEATED
        assert moment < 0.05
        assert await world.costs() == [-12, -11, -10]
        assert before.isdisjoint(mark.plan for mark in await world.marks())
        await world.advance(5)
        assert await world.costs() == [-12, -11, -10], "the plan of the first replica came to nothing, this one did not"
        await world.advance(10)
        assert await world.costs() == []


async def test_a_repeat_renews_the_patience(world: ScaleWorld) -> None:
    """An autoscaler that tries again after a while needs the costs from then on."""
    asked = await world.intent(9)
    await world.held(world.intents.hold(asked))
    await world.advance(9.5)
    again, _ = await world.held(world.intents.hold(asked))
    await world.advance(5)
    assert again.outcome is Outcome.REPEATED
    assert await world.costs() == [-12, -11, -10]
    await world.advance(10)
    assert await world.costs() == []


@pytest.mark.parametrize("elsewhere", [pytest.param(False, id="one process"), pytest.param(True, id="two processes")])
async def test_costs_of_an_earlier_plan_that_the_next_relies_on_stay(world: ScaleWorld, elsewhere: bool) -> None:
    """The survivors of six are ranked: three of them go before the others without another cost."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 5, namespace="default"))
    async with world.replica() as other:
        asked = await world.intent(3)
        held, moment = await world.held((other if elsewhere else world.intents).hold(asked))
        assert (held.outcome, moment < 0.05) == (Outcome.REPEATED, True)
        await world.resume()
        await world.advance(5)
        assert await world.costs() == [1, 2, 3, 4, 5], "the first plan is done; the second is still waited for"
        world.unasked = True
        await world.scale(3)
    assert await world.spread() == (1, 1, 1)


async def test_the_plan_of_another_process_outlives_the_end_of_ones_own(world: ScaleWorld) -> None:
    """A second request is held elsewhere while the controller carries out the first."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 10, namespace="default"))
    async with world.replica() as other:
        second = asyncio.ensure_future(other.hold(await world.intent(6)))
        await world.clock.advance(0.1)
        await world.resume()
        held, _ = await world.held(second)
        assert held.outcome is Outcome.PLANNED
        world.unasked = True
        await world.scale(6)
        assert await world.spread() == (2, 2, 2)
        assert world.intents.settling.seconds == 0.3, "whom the other one sent away is no miss"


async def test_requests_in_quick_succession_count_earlier_victims_as_gone(world: ScaleWorld) -> None:
    """The controller has done nothing of the first yet; both together are as level as one, and the first ones go
    first."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 9, namespace="default"))
    first = await world.costs()
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    assert outcomes(world) == {"planned": 2}
    assert sorted(first) == [-12, -11, -10]
    assert sorted(await world.costs()) == [-12, -11, -10, -9, -8, -7]
    await world.resume()
    assert await world.spread() == (2, 2, 2)


async def test_after_survivors_were_written_the_rest_counts_as_gone(world: ScaleWorld) -> None:
    """From four survivors one more goes; the eight without a cost go too."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 4, namespace="default"))
    await world.held(world.user.resize(Deployment, "web", 3, namespace="default"))
    await world.resume()
    assert await world.spread() == (1, 1, 1)


async def test_a_second_request_before_the_first_took_effect_is_planned_anew(world: ScaleWorld) -> None:
    """The first came to nothing so far: its victims are not gone, and its costs are gone beyond."""
    await world.held(world.intents.hold(await world.intent(9)))
    await world.scale(6)
    assert await world.spread() == (2, 2, 2)
    await world.advance(2)
    assert await world.marks() == []


async def test_a_rollout_is_left_alone(world: ScaleWorld) -> None:
    """Size and template changed together: all pods are replaced anyway."""
    patch = {"spec": {"replicas": 6, "template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}}
    await world.held(world.user.patch(Deployment, "web", patch, namespace="default"))
    assert world.writes() == []
    assert outcomes(world) == {}


async def test_a_paused_deployment_is_planned_by_replicaset(world: ScaleWorld) -> None:
    """Both shrink in proportion, as the controller will do it, and each stays as level as it can."""
    patch = {"spec": {"template": {"metadata": {"labels": {"app": "web", "new": "yes"}}}}}
    world.place_on("a-0", "a-1", "a-2", "b-0", "c-0", "a-3")
    await world.patch(Deployment, "web", patch)
    await world.patch(Deployment, "web", {"spec": {"paused": True}})
    await world.run_pods()
    sizes = {each.metadata.name: each.spec.replicas or 0 for each in await world.all(ReplicaSet)}
    assert sorted(sizes.values()) == [6, 9]
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    planned = {mark.share for mark in await world.marks()}
    assert outcomes(world) == {"planned": 1}
    await world.resume()
    sizes = {each.metadata.name: each.spec.replicas or 0 for each in await world.all(ReplicaSet)}
    assert planned <= set(sizes.values())
    assert sorted(sizes.values()) == [3, 5]
    await world.advance(2)
    assert not any(world.count("misses_total", cause=cause.value) for cause in Cause)
    assert await world.marks() == []


async def test_an_opt_out_is_looked_up_on_the_workload(world: ScaleWorld) -> None:
    """A Scale carries no annotations."""
    await world.patch(Deployment, "web", {"metadata": {"annotations": {OPT_OUT: OPTED_OUT}}})
    await world.scale(6)
    assert outcomes(world) == {"ungoverned": 1}
    assert world.writes() == []


async def test_a_dry_run_never_acts(world: ScaleWorld) -> None:
    """Nothing is written, and nothing waits."""
    _, took = await world.held(world.user.resize(Deployment, "web", 6, namespace="default", dry_run=True))
    assert took < 0.05
    assert world.writes() == []
    assert outcomes(world) == {}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"uid": "another"}, id="another object of that name"),
        pytest.param({"uid": ""}, id="no UID at all"),
        pytest.param({"before": 99}, id="a size that it does not have"),
        pytest.param({"name": "nobody"}, id="a workload that is not there"),
        pytest.param({"kind": "StatefulSet"}, id="a kind that nobody plans"),
        pytest.param({"after": -1}, id="a size that nothing can have"),
    ],
)
async def test_what_a_review_says_is_checked_against_the_live_object(world: ScaleWorld, changes: Any) -> None:
    """Anyone who reaches the webhook can send one: nothing is written on its word alone."""
    asked = await world.intent(6)
    fields = {name: getattr(asked, name) for name in ("kind", "namespace", "name", "uid", "before", "after")}
    held, _ = await world.held(world.intents.hold(type(asked)(**{**fields, **changes})))
    assert held.outcome is Outcome.STALE
    assert world.writes() == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"enabled": False}, id="the switch is off"),
        pytest.param({"exempt": frozenset({"default"})}, id="an exempt namespace"),
        pytest.param({"only": frozenset({"shop"})}, id="a namespace of another Trimtab"),
    ],
)
async def test_nobody_gets_ready_where_nothing_is_looked_after(world: ScaleWorld, changes: Any) -> None:
    """Neither costs nor bands are written, whoever asks."""
    prepared: list[str] = []

    async def prepare(kind: str, namespace: str, name: str, replicas: int) -> int:
        prepared.append(f"{namespace}/{kind}/{name}: {replicas}")
        return 0

    client = Client(world.product, clock=world.clock)
    for defaults, want in ((Defaults(), 1), (replace(Defaults(), **changes), 0)):
        prepared.clear()
        intents = Intents(client, world.view, defaults=defaults, prepare=prepare)
        held, _ = await world.held(intents.hold(await world.intent(6)))
        assert (held.outcome, len(prepared)) == (Outcome.UNGOVERNED, want)


async def test_requests_that_write_too_much_are_passed() -> None:
    """A few requests for a large workload are worth many for small ones: what is left is the best beginning."""
    world = ScaleWorld(rates=Rates(writes=0.1, writes_burst=2))
    await world.start()
    await world.zones(a=4, b=4)
    await world.deploy(8)
    await world.zones(c=4)
    await world.grow(12, "c-0", "c-1", "c-2", "c-3")
    held, _ = await world.held(world.intents.hold(await world.intent(9)))
    assert held.outcome is Outcome.PARTIAL
    assert await world.costs() == [-12, -11]
    held, _ = await world.held(world.intents.hold(await world.intent(6)))
    assert held.outcome is Outcome.LIMITED
    await world.close()


async def test_too_many_requests_for_one_workload_are_passed(world: ScaleWorld) -> None:
    """Whoever sends reviews by the thousand costs us no more than a few plans."""
    world.settings = type(world.settings)(rates=Rates(each=0.001, each_burst=2))
    await world.stop_product()
    await world.start_product()
    asked = await world.intent(6)
    found = [(await world.held(world.intents.hold(asked)))[0].outcome for _ in range(4)]
    assert found == [Outcome.PLANNED, Outcome.REPEATED, Outcome.LIMITED, Outcome.LIMITED]


async def test_the_answer_waits_for_the_own_watch(world: ScaleWorld) -> None:
    """What we have not seen, the controller has not seen either; after the budget the request goes on all the same."""
    world.product.hold("pods")
    held, took = await world.held(world.intents.hold(await world.intent(9)))
    assert held.outcome is Outcome.PARTIAL
    assert 1.8 <= took <= 2.0


async def test_misses_make_the_settle_time_longer(world: ScaleWorld) -> None:
    """A controller that lags behind chooses by what it sees: counted, and waited for the next time."""
    world.wire.hold("pods")  # the workload controllers see nothing new of pods
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    world.wire.resume()
    await world.run_pods()
    await world.advance(2)
    assert world.count("misses_total", cause="lag") > 0
    assert world.intents.settling.seconds == pytest.approx(0.45)
    assert world.count("settle_seconds") == pytest.approx(0.45)


async def test_whatever_is_learned_leaves_time_to_write() -> None:
    """A controller that is always late makes requests wait longer, and never for nothing."""
    assert round(RESERVE * 1000) == RESERVED_MILLISECONDS, "what the configuration refuses is what cannot work"
    world = ScaleWorld(budget=1.0)
    await world.start()
    await world.zones(a=4, b=4)
    await world.deploy(8)
    await world.zones(c=4)
    await world.grow(12, "c-0", "c-1", "c-2", "c-3")
    for _ in range(9):
        world.intents.settling.missed()
    assert world.intents.settling.seconds == pytest.approx(0.4)
    assert await world.scale(9) < 1
    assert await world.spread() == (3, 3, 3)
    await world.close()


async def test_a_persons_cost_is_never_overwritten(world: ScaleWorld) -> None:
    """Who has a cost by somebody else keeps it, and the plan is made around it."""
    chosen = (await world.pods())[0].metadata.name
    await world.patch(Pod, chosen, {"metadata": {"annotations": {DELETION_COST: "100"}}})
    await world.scale(3)
    pods = {pod.metadata.name: pod for pod in await world.pods()}
    assert pods[chosen].metadata.annotations[DELETION_COST] == "100"
    assert await world.spread() == (1, 1, 1)
    await world.advance(2)
    assert await world.costs() == [100]


async def test_where_everybodys_cost_is_somebody_elses_nothing_can_be_done(world: ScaleWorld) -> None:
    """A template that states a cost leaves no room for ours."""
    for pod in await world.pods():
        await world.patch(Pod, pod.metadata.name, {"metadata": {"annotations": {DELETION_COST: "5"}}})
    await world.scale(6)
    assert outcomes(world) == {"foreign": 1}
    assert world.writes() == []
    assert world.count("fallbacks_total", reason="foreign") == 1


async def test_costs_are_taken_back_when_the_request_came_to_nothing(world: ScaleWorld) -> None:
    """Another webhook refused it, or the API server lost it: the pods are as they were."""
    await world.held(world.intents.hold(await world.intent(6)))
    assert len(await world.costs()) == 6
    await world.advance(12)
    assert await world.costs() == []
    assert await world.marks() == []
    assert world.count("costs_taken_back_total", reason="nothing") == 6


async def test_a_cost_that_somebody_changes_meanwhile_is_theirs(world: ScaleWorld) -> None:
    """Only our mark is removed from it."""
    await world.held(world.intents.hold(await world.intent(9)))
    marked = next(pod for pod in await world.pods() if SCALE_PLAN in pod.metadata.annotations)
    await world.patch(Pod, marked.metadata.name, {"metadata": {"annotations": {DELETION_COST: "77"}}})
    await world.advance(12)
    assert await world.costs() == [77]
    assert await world.marks() == []


async def test_costs_stay_while_the_controller_is_away(world: ScaleWorld) -> None:
    """The scale-down is still to come, whenever that is."""
    await world.stop()
    await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    await world.advance(300)
    assert len(await world.costs()) == 6
    await world.resume()
    assert await world.spread() == (2, 2, 2)


async def test_running_out_of_budget_leaves_the_best_partial_result(world: ScaleWorld) -> None:
    """Slow writes: as many as fit, the first victims first, and the request goes on."""
    slow = world.product.send

    async def slowly(request: Any) -> Any:
        if request.method == "PATCH":
            await world.clock.sleep(0.5)
        return await slow(request)

    world.settings = type(world.settings)(writers=1)
    await world.stop_product()
    await world.start_product()
    slow = world.product.send
    world.product.send = slowly  # type: ignore[method-assign]
    await world.stop()
    _, took = await world.held(world.user.resize(Deployment, "web", 6, namespace="default"))
    assert took <= 2.0
    assert await world.costs() == [-12, -11, -10]
    assert outcomes(world) == {"partial": 1}
    assert any("3 of 6 costs were written (3 not in time)" in text for text in world.answers[-1])


async def test_a_server_that_does_not_let_us_write_changes_nothing_for_the_user(world: ScaleWorld) -> None:
    """Forbidden, or whatever: the request goes on."""

    def refuse(request: Any) -> Exception | None:
        return RuntimeError("no") if request.method == "PATCH" else None

    world.product.refuse = refuse
    await world.scale(6)
    assert sum(await world.spread()) == 6


async def test_a_plan_whose_costs_may_not_be_written_says_why(world: ScaleWorld) -> None:
    """In the words of the API server, for the status of its policy; the user is told how many there were."""
    world.product.refuse = lambda request: Forbidden("you may not") if request.method == "PATCH" else None
    await world.held(world.intents.hold(await world.intent(9)))
    (made,) = world.made
    assert made.error.startswith("0 of 3 costs were written (3 not possible); for the rest the controller chooses; ")
    assert made.error.endswith("you may not")
    world.product.refuse = None
    await world.held(world.intents.hold(await world.intent(9)))
    assert [each.error for each in world.made[1:]] == [""]


async def test_a_request_that_is_cut_off_is_counted_with_the_time_it_was_held(world: ScaleWorld) -> None:
    """It was held the longest."""
    world.product.hold("pods")
    holding = asyncio.ensure_future(world.intents.hold(await world.intent(9)))
    await world.clock.advance(0.5)
    await cancel(holding)
    world.product.resume()
    assert outcomes(world) == {"late": 1}
    assert world.count("held_seconds_sum", outcome="late") >= 0.5
    assert world.count("requests_under_way") == 0


async def test_with_trimtab_stopped_scaling_works(world: ScaleWorld) -> None:
    """Nobody answers, and nobody is stopped."""
    await world.stop_product()
    assert await world.scale(6) < 0.1
    assert sum(await world.spread()) == 6


async def test_before_the_cluster_has_been_seen_requests_are_passed(world: ScaleWorld) -> None:
    """A process that has just started has nothing to plan from."""
    await world.stop_product()
    world.product.refuse = lambda _: RuntimeError("not yet")
    intents = world.intents
    world.view.pods._synced.clear()  # noqa: SLF001 - as it is before the first list
    held, took = await world.held(intents.hold(await world.intent(6)))
    assert held.outcome is Outcome.UNREADY
    assert took < 0.05


async def test_an_hour_of_idling_writes_nothing(world: ScaleWorld) -> None:
    """Nothing shrinks, nothing is written: to no pod, and to nothing else."""
    await world.scale(6)
    await world.advance(5)
    before = len(world.writes())
    for _ in range(60):
        await world.advance(60)
    assert len(world.writes()) == before


async def test_a_policy_that_keeps_costs_current_is_left_to_do_so(world: ScaleWorld) -> None:
    """Its costs stand already, or its carrier is another one."""
    await policy(world, delivery="Continuous")
    await world.scale(6)
    assert outcomes(world) == {"elsewhere": 1}
    assert world.writes() == []


async def policy(world: ScaleWorld, **spec: Any) -> None:
    """A policy for the Deployment web."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ScaleDownPolicy"}
    body = {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": reference, **spec}}
    await world.user.create(POLICIES, body, namespace="default")
    await world.advance(31)  # where the kind was not known at the start, it is looked for again


@pytest.mark.parametrize(
    ("when", "least", "most"),
    [
        pytest.param({"action": "Fallback"}, 0.0, 0.05, id="fall back at once"),
        pytest.param({"action": "Wait", "timeoutSeconds": 30}, 1.0, 1.2, id="wait, but not beyond half the budget"),
    ],
)
async def test_while_pods_are_unranked_the_controller_chooses(
    world: ScaleWorld, when: Any, least: float, most: float
) -> None:
    """Waiting ends with the budget: the built-in controllers wait for nobody."""
    await policy(world, strategies=[{"name": "Idle"}], whenUnranked=when)
    held, took = await world.held(world.intents.hold(await world.intent(6)))
    assert held.outcome is Outcome.UNRANKED
    assert least <= took <= most
    assert world.writes() == []


async def test_strategies_choose_who_goes(world: ScaleWorld) -> None:
    """The oldest first, by a policy: costs are written although stock would be as level."""
    await policy(world, strategies=[{"name": "Oldest"}])
    held, _ = await world.held(world.intents.hold(await world.intent(9)))
    assert held.outcome is Outcome.PLANNED
    victims = {pod.metadata.name for pod in await world.pods() if SCALE_PLAN in pod.metadata.annotations}
    young = sorted(await world.pods(), key=lambda pod: str(pod.metadata.creation_timestamp))[-4:]
    assert victims.isdisjoint({pod.metadata.name for pod in young})


async def test_pods_that_two_workloads_claim_are_left_alone_and_whoever_scales_is_told(world: ScaleWorld) -> None:
    """Also where a default speaks, which has no status to say so in."""
    await world.create(Deployment, deployment("other", 0, labels={"app": "web"}))
    await world.scale(6)
    assert outcomes(world) == {"contested": 1}
    told = [warning for answer in world.answers for warning in answer]
    assert told == ["Deployment web and Deployment other claim the same pods, which are left alone"]
    assert world.writes() == []


async def test_without_a_policy_nobody_is_touched() -> None:
    """No default in the configuration: installed, and quiet."""
    world = ScaleWorld(defaults=effective.NO_DEFAULTS)
    await world.start()
    await world.zones(a=2, b=2)
    await world.deploy(4)
    await world.scale(2)
    assert outcomes(world) == {"ungoverned": 1}
    assert world.writes() == []
    await world.close()


@pytest.mark.parametrize(
    "kind", [pytest.param(ReplicaSet, id="ReplicaSet"), pytest.param(ReplicationController, id="ReplicationController")]
)
async def test_workloads_that_own_their_pods_are_held_too(kind: type[Any]) -> None:
    """By their own `/scale`."""
    world = ScaleWorld()
    await world.start()
    await world.zones(a=3, b=3)
    labels = {"app": "web"}
    selector: Any = labels if kind is ReplicationController else {"matchLabels": labels}
    spec = {"replicas": 4, "selector": selector, "template": template(**labels)}
    world.place_on("a-0", "a-1", "a-2", "b-0")
    await world.create(kind, {"metadata": {"name": "web"}, "spec": spec})
    await world.run_pods()
    assert await world.spread() == (3, 1)
    await world.scale(2, kind=kind)
    assert await world.spread() == (1, 1)
    await world.close()


async def test_costs_of_a_lost_request_do_not_mislead_the_next_one() -> None:
    """A policy spared three pods of one node, and its request was lost; by itself, the controller would be level."""
    world = ScaleWorld()
    await world.start()
    await world.zones(a=2)
    world.place_on("a-0", "a-0", "a-0", "a-1")
    await world.deploy(4)
    await world.grow(7, "a-0")
    await policy(world, strategies=[{"name": "Oldest"}])
    await world.held(world.intents.hold(await world.intent(3)))
    assert {mark.side for mark in await world.marks()} == {"survivors"}
    await world.user.delete(POLICIES, "web", namespace="default")
    await world.settle()
    await world.scale(2)
    assert {pod.spec.node_name for pod in await world.pods()} == {"a-0", "a-1"}
    await world.close()


async def test_pods_that_the_own_watch_has_not_shown_yet_are_waited_for(world: ScaleWorld) -> None:
    """The workload counts fifteen; a plan among the twelve that are known would keep the wrong ones."""
    world.product.hold("pods")
    await world.grow(15, "c-0", "c-1", "c-2")
    holding = asyncio.ensure_future(world.intents.hold(await world.intent(6)))
    await world.clock.advance(0.1)
    assert await world.costs() == []
    world.product.resume()
    held, _ = await world.held(holding)
    assert held.outcome is Outcome.PLANNED
    assert len(await world.costs()) == 6
    assert {mark.side for mark in await world.marks()} == {"survivors"}


async def test_pods_that_never_show_are_waited_for_no_longer_than_a_moment(world: ScaleWorld) -> None:
    """The budget is for more important things."""
    world.product.hold("pods")
    await world.grow(15, "c-0", "c-1", "c-2")
    await world.clock.advance(1)
    held, took = await world.held(world.intents.hold(await world.intent(6)))
    assert held.outcome is Outcome.PARTIAL
    assert took <= 2.0
