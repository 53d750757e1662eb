"""The service: pods in, bindings out, whatever happens on the way."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from tests.unit.kube.fakes import Misbehaviour, failure
from tests.unit.scheduler.assertions import DecisionChecker, check_agreement, stuck
from tests.unit.scheduler.controlplane import APPS, QUIET, ControlPlane, Wire, new_service, on_stage, running, stop
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.kube.errors import LeadershipLost, Unreachable
from trimtab.kube.transport import Request, Response
from trimtab.scheduler.configuration import read
from trimtab.scheduler.queuedpods import QueueState
from trimtab.scheduler.service import Service
from trimtab.testing.builders import NodeBuilder, PodBuilder, node, pod
from trimtab.testing.clocks import VirtualClock


def metric(service: Service, name: str) -> float:
    """The value of a metric, with its labels as a scrape shows them."""
    for line in generate_latest(service.metrics.registry).decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


# --- the good days ---------------------------------------------------------------------------------------------------


async def test_existing_and_new_pods_are_bound() -> None:
    """The first are listed at the start, the others are watched."""
    async with running(node("a"), pod("early")) as stage:
        stage.server.add_pod(pod("late"))
        await stage.settle()
        assert stage.server.pods() == {"early": "a", "late": "a"}
        await stage.advance(1)
        assert len(stage.server.events("Scheduled")) == 2
        assert not stage.service.state.assumed
        assert metric(stage.service, 'scheduler_schedule_attempts_total{profile="trimtab",result="scheduled"}') == 2
        assert metric(stage.service, "scheduler_pod_scheduling_attempts_sum") == 2


async def test_each_profile_serves_its_own_pods() -> None:
    """Pods of other schedulers are not bound."""
    profiles = [{"schedulerName": "one"}, {"schedulerName": "two"}]
    async with running(node("a"), configuration=read({**QUIET, "profiles": profiles})) as stage:
        for name in ("one", "two", "three"):
            stage.server.add_pod(pod(f"of-{name}"), scheduler=name)
        await stage.settle()
        assert stage.server.pods() == {"of-one": "a", "of-two": "a", "of-three": ""}
        await stage.advance(1)
        told = {event["involvedObject"]["name"]: event["reportingComponent"] for event in stage.server.events()}
        assert told == {"of-one": "one", "of-two": "two"}


async def test_only_pods_of_the_configured_namespaces_are_scheduled() -> None:
    """The others still take room on their nodes, and what groups pods is read where it is needed alone."""
    configuration = replace(read(QUIET), namespaces=frozenset({"default", "shop"}))
    small = node("small").allocatable(cpu="2", pods="10")
    taken = pod("taken", namespace="search").on("small").requests(cpu="2")
    async with running(small, taken, configuration=configuration) as stage:
        stage.server.add_pod(pod("ours").requests(cpu="1"))
        stage.server.add_pod(pod("theirs", namespace="search"))
        await stage.settle()
        assert stage.server.pods() == {"taken": "small", "ours": "", "theirs": ""}
        assert stage.server.condition("theirs") is None
        stage.server.add_node(node("free"))
        await stage.settle()
        assert stage.server.pods() == {"taken": "small", "ours": "free", "theirs": ""}
        listed = {request.path for request in stage.server.requests if request.method == "GET"}
        assert f"{APPS}/namespaces/shop/replicasets" in listed
        assert f"{APPS}/replicasets" not in listed


async def test_pods_spread_over_zones_as_they_are_bound() -> None:
    """Each decision counts the earlier one, without a watch event in between."""
    names = [f"p{number}" for number in range(6)]
    pods = [pod(name).labels(app="web").spread("zone") for name in names]
    async with running(*(node(f"n{z}", zone=f"z{z}") for z in range(3)), *pods) as stage:
        placed = list(stage.server.pods().values())
        assert sorted(placed) == ["n0", "n0", "n1", "n1", "n2", "n2"]


async def test_the_pod_of_the_highest_priority_gets_the_last_free_node() -> None:
    """Although it was created last."""
    low, high = pod("low").spec(priority=1), pod("high").spec(priority=9)
    async with running(node("a").allocatable(pods="1"), low, high) as stage:
        assert stage.server.pods() == {"low": "", "high": "a"}


async def test_a_refused_pod_is_reported_and_requeued_after_a_change() -> None:
    """Event and condition are written at once; a new node requeues the pod without delay."""
    async with running(node("a"), pod("big").requests(cpu="100")) as stage:
        condition = stage.server.condition("big")
        assert condition is not None
        assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert metric(stage.service, 'scheduler_pending_pods{queue="unschedulable"}') == 1
        stage.server.add_node(node("huge").allocatable(cpu="200"))
        await stage.settle()
        assert stage.server.pods() == {"big": "huge"}


async def test_our_own_condition_does_not_requeue_a_pod() -> None:
    """Otherwise an unschedulable pod would be retried for ever."""
    async with running(node("a"), pod("big").requests(cpu="100")) as stage:
        await stage.advance(120)
        assert metric(stage.service, 'scheduler_schedule_attempts_total{profile="trimtab",result="unschedulable"}') == 1
        await stage.advance(200)
        assert metric(stage.service, 'scheduler_schedule_attempts_total{profile="trimtab",result="unschedulable"}') == 2


async def test_a_pod_that_needs_storage_is_not_scheduled() -> None:
    """It is reported once, and not retried until it changes."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    async with running(node("a"), pod("p").spec(volumes=[volume])) as stage:
        condition = stage.server.condition("p")
        assert condition is not None
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("not supported by Trimtab, leave it to kube-scheduler")
        stage.server.add_node(node("b"))
        await stage.advance(1000)
        (event,) = stage.server.events("FailedScheduling")
        assert event["count"] == 1
        assert stage.server.pods() == {"p": ""}


async def test_a_gated_pod_is_scheduled_after_its_gates_are_removed() -> None:
    """The last gate's going is a change like others."""
    async with running(node("a"), pod("p").spec(schedulingGates=[{"name": "g"}])) as stage:
        assert metric(stage.service, 'scheduler_pending_pods{queue="gated"}') == 1
        assert stage.server.events() == []
        stage.server.change_pod("p", spec={"schedulingGates": []})
        await stage.settle()
        assert stage.server.pods() == {"p": "a"}


async def test_services_are_known_before_the_first_decision() -> None:
    """Default constraints depend on it: pods of a replica set spread over hosts."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    labels = {"app": "web"}
    owner = {"metadata": {"name": "rs", "namespace": "default"}, "spec": {"selector": {"matchLabels": labels}}}
    server.put(APPS, "replicasets", owner)
    for name in ("a", "b", "c", "d"):
        server.add_node(node(name))
    for number in range(4):
        server.add_pod(pod(f"p{number}").labels(labels).owned_by("rs"))
    async with on_stage(server, clock):
        assert sorted(server.pods().values()) == ["a", "b", "c", "d"]


async def test_no_decision_before_all_informers_have_synced() -> None:
    """A pod that runs already, but is not listed yet, would be overlooked."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    server.add_node(node("a").allocatable(pods="1"))
    server.add_pod(pod("running").on("a"))
    server.add_pod(pod("p"))
    server.intercept = lambda request: failure(500) if request.path.endswith("/services") else None
    async with on_stage(server, clock) as stage:
        await stage.advance(60)
        assert not stage.service.synced
        assert any(problem.startswith("services: ") for problem in stage.service.problems)
        assert server.calls("/binding") == []
        server.intercept = None
        await stage.advance(60)
        assert stage.service.problems == []
        assert server.pods() == {"running": "a", "p": ""}


async def test_the_configured_rate_limit_applies() -> None:
    """Bindings beyond it are delayed, and succeed."""
    slow = read({**QUIET, "clientConnection": {"qps": 1, "burst": 2}})
    async with running(node("a"), *(pod(f"p{number}") for number in range(6)), configuration=slow) as stage:
        assert len(stage.server.bindings) == 2
        await stage.advance(2)
        assert len(stage.server.bindings) == 4
        await stage.advance(10)
        assert len(stage.server.bindings) == 6


# --- the bad days ----------------------------------------------------------------------------------------------------


async def test_a_failed_binding_is_reverted_and_retried() -> None:
    """The condition has the error, as with kube-scheduler."""
    async with running(node("a")) as stage:
        answers: list[Response] = [failure(403, "Forbidden", "not today")]
        stage.server.intercept = lambda r: answers.pop() if answers and r.path.endswith("/binding") else None
        stage.server.add_pod(pod("p"))
        await stage.settle()
        condition = stage.server.condition("p")
        assert condition is not None
        assert (condition["reason"], condition["message"]) == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": not today',
        )
        assert not stage.service.state.assumed
        assert stage.service.state.queue.length(QueueState.BACKING_OFF) == 1
        await stage.advance(3)
        assert stage.server.pods() == {"p": "a"}
        assert metric(stage.service, 'scheduler_schedule_attempts_total{profile="trimtab",result="error"}') == 1
        assert metric(stage.service, 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"}') == 1


async def test_a_lost_response_is_resolved() -> None:
    """The pod is bound once, and has its event."""
    async with running(node("a")) as stage:
        stage.server.bad.lose_answer = 1.0
        stage.server.add_pod(pod("p"))
        await stage.settle()
        stage.server.bad.lose_answer = 0.0
        await stage.advance(20)
        assert [node_name for _, node_name in stage.server.bindings] == ["a"]
        assert len(stage.server.events("Scheduled")) == 1
        assert not stage.service.state.assumed


async def test_a_pod_bound_by_another_scheduler_leaves_the_queue() -> None:
    """And the place that we had given it is free for others."""
    async with running(node("a").allocatable(pods="1")) as stage:
        stage.server.bad.latency = 5.0
        stage.server.add_pod(pod("p"))
        await stage.advance(6)
        stage.server.change_pod("p", spec={"nodeName": "elsewhere"})
        stage.server.add_pod(pod("q"))
        stage.server.bad.latency = 0.0
        await stage.advance(60)
        assert stage.server.pods() == {"p": "elsewhere", "q": "a"}


async def test_a_node_is_free_as_soon_as_the_pod_is_observed_on_another() -> None:
    """Looking live is enough: the watch may be late."""
    async with running(node("a").allocatable(pods="1")) as stage:
        stage.server.add_pod(pod("p"))
        stage.service.state.pod_updated(None, codec.convert(stage.server.pod("p"), Pod))
        stage.server.deaf = True
        stage.server.change_pod("p", spec={"nodeName": "elsewhere"})
        stage.server.add_pod(pod("q"))
        stage.service.state.pod_updated(None, codec.convert(stage.server.pod("q"), Pod))
        await stage.settle()
        assert stage.server.pods() == {"p": "elsewhere", "q": "a"}


async def test_a_pod_deleted_during_its_binding_is_forgotten() -> None:
    """Its place is free at once."""
    async with running(node("a").allocatable(pods="1")) as stage:
        stage.server.intercept = lambda r: Unreachable("cut") if r.path.endswith("/p/binding") else None
        stage.server.add_pod(pod("p"))
        await asyncio.sleep(0)
        stage.server.delete_pod("p")
        stage.server.add_pod(pod("q"))
        await stage.advance(30)
        assert stage.server.pods() == {"q": "a"}
        assert not stage.service.state.assumed


async def test_a_binding_that_the_watch_does_not_show_is_looked_up() -> None:
    """The API server confirmed the binding; if the pod is not bound after all, it is retried."""
    async with running(node("a"), node("b")) as stage:
        lies = [1]

        def lie(request: Request) -> Response | None:
            return Response(201, {}, b"{}") if request.path.endswith("/binding") and lies and lies.pop() else None

        stage.server.intercept = lie
        stage.server.add_pod(pod("p"))
        await stage.settle()
        assert stage.server.pods() == {"p": ""}
        await stage.advance(25)
        assert len(stage.service.state.assumed) == 1
        await stage.advance(30)
        assert stage.server.pods()["p"] in ("a", "b")
        assert not stage.service.state.assumed


async def test_a_late_watch_changes_nothing() -> None:
    """The look-up shows the pod on its node; it counts there once, also after the watch has caught up."""
    async with running(node("a"), pod("p")) as stage:
        stage.server.deaf = True
        stage.server.add_pod(pod("q"))
        stage.service.state.pod_updated(None, codec.convert(stage.server.pod("q"), Pod))
        await stage.settle()
        assert stage.server.pods() == {"p": "a", "q": "a"}
        assert len(stage.service.state.assumed) == 1
        await stage.advance(60)
        assert not stage.service.state.assumed
        stage.server.deaf = False
        stage.server.cut_watches()
        await stage.advance(60)
        check_agreement(stage.service, stage.server)


# --- leader election -------------------------------------------------------------------------------------------------


async def test_of_two_schedulers_only_the_leader_schedules() -> None:
    """The other waits for the lease with synced informers, and takes over when the first one ends."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    server.add_node(node("a"))
    first, second = (new_service(server, clock, read(), seed=seed) for seed in (1, 2))
    leading = asyncio.ensure_future(first.run())
    await clock.advance(1)
    waiting = asyncio.ensure_future(second.run())
    server.add_pod(pod("p"))
    await clock.advance(10)
    assert second.synced
    assert server.pods() == {"p": "a"}
    (lease,) = server.objects("leases")
    assert lease["metadata"]["name"] == "trimtab-scheduler"
    assert lease["spec"]["holderIdentity"] == "scheduler-1"
    leading.cancel()
    await clock.advance(10)
    server.add_pod(pod("q"))
    await clock.advance(10)
    assert leading.done()
    assert server.pods() == {"p": "a", "q": "a"}
    assert server.objects("leases")[0]["spec"]["holderIdentity"] == "scheduler-2"
    waiting.cancel()
    await clock.advance(10)
    assert waiting.done()


async def test_events_are_written_after_the_lease_is_released() -> None:
    """A scheduler that stops during a burst writes its last events, and does not keep the next leader waiting."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    server.add_node(node("a"))
    service = new_service(server, clock, read())
    task = asyncio.ensure_future(service.run())
    await clock.advance(1)
    server.add_pod(pod("p"))
    await clock.advance(0)
    assert server.pods() == {"p": "a"}
    task.cancel()
    await clock.advance(0)
    assert not server.objects("leases")[0]["spec"]["holderIdentity"]
    assert not server.events("Scheduled")
    await clock.advance(1)
    assert len(server.events("Scheduled")) == 1
    assert task.done()


async def test_a_scheduler_that_loses_the_lease_stops(caplog: pytest.LogCaptureFixture) -> None:
    """It binds no pod after that, and `run` raises an error."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    server.add_node(node("a"))
    service = new_service(server, clock, read())
    task = asyncio.ensure_future(service.run())
    await clock.advance(5)
    server.intercept = lambda request: Unreachable("away") if request.method != "GET" else None
    server.add_pod(pod("p"))
    await clock.advance(60)
    with pytest.raises(LeadershipLost):
        await task
    server.intercept = None
    server.add_pod(pod("q"))
    await clock.advance(60)
    assert server.bindings == []
    assert "lost the lease" in caplog.text


# --- the end, and the beginning --------------------------------------------------------------------------------------


async def test_shutdown_waits_for_bindings_in_flight() -> None:
    """And no further pod is taken."""
    async with running(node("a"), configuration=read({**QUIET, "parallelism": 2})) as stage:
        stage.server.bad.latency = 2.0
        for number in range(5):
            stage.server.add_pod(pod(f"p{number}"))
        await stage.advance(0.01)
        assert stage.service.binder.in_flight == 2
        stage.task.cancel()
        await stage.advance(10)
        assert stage.task.done()
        assert len(stage.server.bindings) == 2
        assert not any(task.get_name().startswith("bind ") for task in asyncio.all_tasks())


async def test_a_new_process_schedules_what_the_earlier_one_left() -> None:
    """All state is rebuilt: what was bound counts, what was not is bound."""
    clock = VirtualClock()
    server = ControlPlane(clock)
    server.add_node(node("a").allocatable(pods="3"))
    server.bad.latency = 1.0
    for number in range(4):
        server.add_pod(pod(f"p{number}"))
    wire = Wire(server)
    first = new_service(server, clock, wire=wire)
    task = asyncio.ensure_future(first.run())
    while not server.bindings:
        await clock.advance(0.1)
    wire.dead = True
    assert len(server.bindings) < 3
    second = new_service(server, clock, seed=2)
    again = asyncio.ensure_future(second.run())
    await clock.advance(60)
    assert sorted(server.pods().values()) == ["", "a", "a", "a"]
    assert len({uid for uid, _ in server.bindings}) == len(server.bindings) == 3
    await stop(clock, task, again)


# --- whatever happens ------------------------------------------------------------------------------------------------

TROUBLE = Misbehaviour(
    latency=0.5, refuse=0.05, fail=0.08, lose_answer=0.08, gone=0.05, cut=0.05, repeat=0.1, bookmark=0.1, split=0.2
)


@pytest.mark.parametrize("seed", range(12))
async def test_no_pod_is_lost_and_none_is_bound_twice(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Pods and nodes come and go, the API server fails in every way, the scheduler is killed: in the end all is well.

    Every decision is judged when it is made, by a view that is built anew from what was observed and assumed.
    """
    caplog.set_level(logging.CRITICAL)
    rng = random.Random(seed)
    clock = VirtualClock()
    server = ControlPlane(clock, rng=random.Random(seed))
    for name in "abcd":
        server.add_node(random_node(rng, name))
    server.bad = TROUBLE
    wire = Wire(server)
    judge = DecisionChecker(new_service(server, clock, seed=seed, wire=wire))
    tasks = [asyncio.ensure_future(judge.service.run())]
    for step in range(60):
        churn(server, rng, step)
        await clock.advance(rng.choice((0.05, 0.5, 2.0)))
        if rng.random() < 0.04:
            wire.dead = True
            wire = Wire(server)
            judge = DecisionChecker(new_service(server, clock, seed=seed + step, wire=wire))
            tasks.append(asyncio.ensure_future(judge.service.run()))
    server.bad = Misbehaviour()
    await clock.advance(400)
    uids = [uid for uid, _ in server.bindings]
    assert len(uids) == len(set(uids))
    check_agreement(judge.service, server)
    assert stuck(judge.service, server) == []
    await stop(clock, *tasks)


async def test_two_schedulers_for_the_same_pods_bind_none_twice() -> None:
    """It should not happen, and if it does every pod is bound once, and counted where it is."""
    clock = VirtualClock()
    server = ControlPlane(clock, rng=random.Random(3))
    server.bad.latency = 0.3
    for number in range(6):
        server.add_node(node(f"n{number}").allocatable(pods="4"))
    services = [new_service(server, clock, seed=seed) for seed in (1, 2)]
    tasks = [asyncio.ensure_future(service.run()) for service in services]
    for number in range(24):
        server.add_pod(pod(f"p{number}"))
        await clock.advance(0.05)
    await clock.advance(60)
    assert "" not in server.pods().values()
    assert len({uid for uid, _ in server.bindings}) == len(server.bindings) == 24
    for service in services:
        check_agreement(service, server)
    await stop(clock, *tasks)


def random_node(rng: random.Random, name: str) -> NodeBuilder:
    """A node that takes some pods."""
    made = node(name, zone=rng.choice(("z1", "z2"))).allocatable(cpu=rng.choice(("2", "4")), pods="6")
    return made.taint("dedicated") if rng.random() < 0.2 else made


def random_pod(rng: random.Random, name: str) -> PodBuilder:
    """A pod that some nodes take."""
    made = pod(name).labels(app=rng.choice(("web", "db"))).requests(cpu=rng.choice(("0", "500m", "1", "3")))
    if rng.random() < 0.3:
        made.spread("zone")
    if rng.random() < 0.1:
        made.avoids("host")
    if rng.random() < 0.1:
        made.spec(schedulingGates=[{"name": "g"}])
    return made.spec(priority=rng.randrange(3))


def churn(server: ControlPlane, rng: random.Random, step: int) -> None:
    """Something happens, in a cluster that stays small."""
    pods = list(server.pods())
    match rng.randrange(10):
        case 0 | 1 | 2 if len(pods) < 14:
            server.add_pod(random_pod(rng, f"p{step}"))
        case 3 if pods:
            name = rng.choice(pods)
            server.delete_pod(name)
            if rng.random() < 0.4:
                server.add_pod(random_pod(rng, name))
        case 4 if pods:
            server.change_pod(rng.choice(pods), metadata={"labels": {"app": rng.choice(("web", "db"))}})
        case 5 if pods:
            server.change_pod(rng.choice(pods), spec={"schedulingGates": []})
        case 6:
            name = rng.choice("abcd")
            known = [tree["metadata"]["name"] for tree in server.objects("nodes")]
            if name in known and rng.random() < 0.3:
                server.delete_node(name)
            else:
                server.add_node(random_node(rng, name))
        case 7 if pods:
            server.change_pod(rng.choice(pods), status={"phase": rng.choice(("Running", "Pending"))})
        case 8:
            rng.choice((server.forget, server.cut_watches, server.expire_watches, server.bookmark))()
