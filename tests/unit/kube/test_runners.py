"""Runners: what each outcome of a reconcile means for the next time."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from tests.unit.kube.chaos import TROUBLE, churn
from tests.unit.kube.fakes import FakeServer, Misbehaviour, pod_tree
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import Conflict, Forbidden
from trimtab.kube.informers import Informer
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.retries import Backoff
from trimtab.kube.runners import Result, Runner, TerminalError
from trimtab.testing.clocks import START, VirtualClock

Outcome = Result | Exception


class Script:
    """A reconcile with scripted outcomes that records when it ran."""

    def __init__(self, clock: VirtualClock, *outcomes: Outcome) -> None:
        self.clock = clock
        self.ran: list[float] = []
        self.keys: list[str] = []
        self._outcomes = list(outcomes)

    async def __call__(self, key: str) -> Result:
        """One run."""
        self.keys.append(key)
        self.ran.append((self.clock.now() - START) / SECOND)
        outcome = self._outcomes.pop(0) if self._outcomes else Result()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.mark.parametrize(
    ("outcomes", "want"),
    [
        pytest.param([Result()], [0], id="all is well: not again"),
        pytest.param([Result(requeue_after=5), Result(requeue_after=7)], [0, 5, 12], id="it asks to be run again"),
        pytest.param([ValueError("x")] * 3, [0, 1, 3, 7], id="a failure: later each time"),
        pytest.param(
            [ValueError("x"), ValueError("x"), Result(requeue_after=5), ValueError("x")],
            [0, 1, 3, 8, 9],
            id="success forgets failures",
        ),
        pytest.param([TerminalError("never")], [0], id="hopeless: not again"),
        pytest.param([Conflict("raced"), Result()], [0, 1], id="a lost race: again"),
    ],
)
async def test_keys_are_requeued_by_outcome(outcomes: list[Outcome], want: list[float]) -> None:
    """The table at the head of the module."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock, backoff=Backoff(initial=1, cap=60))
    script = Script(clock, *outcomes)
    task = asyncio.create_task(Runner("test", script, queue).run())
    queue.add("a")
    await clock.advance(100)
    await cancel(task)
    await queue.drain()
    assert script.ran == want


async def test_failures_are_logged_with_their_cause_but_conflicts_are_not(caplog: pytest.LogCaptureFixture) -> None:
    """Conflicts are normal; a refusal needs its message; a defect needs its traceback."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    noted: list[BaseException | None] = []
    script = Script(clock, Conflict("raced"), ValueError("broken"), Forbidden("no room"), TerminalError("hopeless"))
    runner = Runner("test", script, queue, observe=lambda _, error: noted.append(error))
    task = asyncio.create_task(runner.run())
    with caplog.at_level(logging.INFO):
        queue.add("a")
        await clock.advance(10)
    await cancel(task)
    assert [record.getMessage() for record in caplog.records] == [
        "test a failed, retrying in 0.01 s",
        "test a: no room; retrying in 0.02 s",
        "test a failed, not retried until something changes: hopeless",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]
    assert [type(error) for error in noted] == [Conflict, ValueError, Forbidden, TerminalError]


async def test_stopping_lets_running_reconciles_finish() -> None:
    """And `run` returns then."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    finished: list[str] = []

    async def reconcile(key: str) -> Result:
        await clock.sleep(5)
        finished.append(key)
        return Result()

    runner = Runner("test", reconcile, queue, workers=2)
    running = asyncio.create_task(runner.run())
    for key in "abc":
        queue.add(key)
    await clock.advance(1)
    stopping = asyncio.create_task(runner.stop())
    await clock.advance(20)
    await stopping
    await running
    assert finished == ["a", "b", "c"]


async def test_reconciles_may_finish_within_the_grace_period(caplog: pytest.LogCaptureFixture) -> None:
    """Then they are cancelled, as when leadership is lost."""
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    ended: list[str] = []
    finished: list[str] = []

    async def reconcile(key: str) -> Result:
        try:
            await clock.sleep(2 if key == "a" else 100)
            finished.append(key)
        finally:
            ended.append(key)
        return Result()

    running = asyncio.create_task(Runner("test", reconcile, queue, workers=2).run())
    queue.add("a")
    queue.add("b")
    await clock.advance(1)
    running.cancel()
    await clock.advance(1.5)
    assert (finished, running.done()) == (["a"], False)
    await clock.advance(0.5)
    assert (ended, finished, running.done()) == (["a", "b"], ["a"], True)
    assert "test: 1 reconciles were not finished within 2 s of the stop; the next start repeats them" in caplog.text


async def test_nothing_is_reconciled_before_the_caches_have_synced() -> None:
    """A decision from half a picture would be wrong."""
    clock = VirtualClock()
    server = FakeServer(clock)
    server.put("/api/v1", "pods", pod_tree("a"))
    informer = Informer(Client(server, clock=clock), Pod)
    queue: WorkQueue[str] = WorkQueue(clock)
    script = Script(clock)
    queue.add("a")
    running = asyncio.create_task(Runner("test", script, queue, after=[informer]).run())
    await clock.advance(5)
    assert script.ran == []
    informing = asyncio.create_task(informer.run())
    await clock.advance(1)
    assert script.ran == [5.0]
    await cancel(running, informing)


@pytest.mark.parametrize("seed", range(5))
async def test_a_controller_under_chaos_reaches_the_desired_state(seed: int) -> None:
    """Informer, queue, runner and client together, against a server that misbehaves: every pod ends up labelled."""
    clock, rng = VirtualClock(), random.Random(seed)
    server = FakeServer(clock, rng)
    client = Client(server, clock=clock, rng=rng)
    informer = Informer(client, Pod, rng=rng, page=3)
    queue: WorkQueue[str] = WorkQueue(clock, backoff=Backoff(initial=0.05, cap=5))

    async def reconcile(key: str) -> Result:
        pod = informer.get(Key(key))
        if pod is not None and pod.metadata.labels.get("seen") != pod.spec.node_name:
            patch = {"metadata": {"labels": {"seen": pod.spec.node_name}}}
            await client.patch(Pod, pod.metadata.name, patch, namespace=pod.metadata.namespace)
        return Result()

    informer.subscribe(added=lambda pod: queue.add(pod.key), updated=lambda _, pod: queue.add(pod.key))
    tasks = [
        asyncio.create_task(informer.run()),
        asyncio.create_task(Runner("label", reconcile, queue, workers=3, after=[informer]).run()),
    ]
    server.bad = TROUBLE
    for step in range(150):
        churn(server, rng, step)
        await clock.advance(rng.random() * 0.5)
    server.bad = Misbehaviour()
    await clock.advance(300)
    await cancel(*tasks)
    assert all(pod["metadata"]["labels"]["seen"] == pod["spec"]["nodeName"] for pod in server.objects("pods"))
    assert len(informer.store) == len(server.objects("pods"))
