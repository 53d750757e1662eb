"""Binding: the meaning of each response, and the look-up where there is none."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.unit.kube.fakes import failure
from tests.unit.scheduler.controlplane import ControlPlane
from trimtab.kube.client import Client
from trimtab.kube.errors import (
    BadRequest,
    Conflict,
    CredentialsError,
    Forbidden,
    KubeError,
    LeadershipLost,
    NotFound,
    ServerError,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unreachable,
)
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.transport import Request, Response
from trimtab.scheduler.binding import Binder, BindingOutcome, BindingResult, is_certainly_unbound
from trimtab.scheduler.bursts import Bursts
from trimtab.scheduler.queuedpods import QueuedPod
from trimtab.scheduler.state import Attempt
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock


class Stage:
    """A control plane with one pod, and a binder that is to bind it to node a."""

    def __init__(self, *, limit: int = 2) -> None:
        self.clock = VirtualClock()
        self.server = ControlPlane(self.clock)
        self.open = True
        self.results: list[BindingResult] = []
        self.uid = self.server.add_pod(pod("p"))
        client = Client(self.server, clock=self.clock, rng=random.Random(1)).using(retry=NO_RETRIES)
        self.binder = Binder(
            client,
            limit=limit,
            bursts=Bursts(self.clock),
            is_assumed=lambda _: self.open,
            on_result=lambda _, result: self.results.append(result),
            rng=random.Random(1),
        )
        self._answers: list[Response | Exception | None] = []

    def attempt(self, name: str = "p", node: str = "a") -> Attempt:
        """A decision about the pod."""
        made = pod(name).uid(self.uid).build()
        return Attempt(QueuedPod(made, 0), made, 0, node=node)

    def answer_bindings(self, *answers: Response | Exception | None, lost: bool = False) -> None:
        """The responses to bindings, in order; None for the real one. `lost`: the binding takes effect nevertheless."""
        self._answers = list(answers)

        def intercept(request: Request) -> Response | Exception | None:
            if not request.path.endswith("/binding") or not self._answers:
                return None
            if lost:
                self.server._respond(request)  # noqa: SLF001 - the binding takes effect, and its response is lost
            return self._answers.pop(0)

        self.server.intercept = intercept

    async def bind(self) -> BindingResult:
        """Bind the pod; the result."""
        self.binder.start(self.attempt())
        await self.clock.advance(0)
        (result,) = self.results
        return result


@pytest.fixture
def stage() -> Stage:
    """The usual."""
    return Stage()


async def test_a_pod_is_bound_to_its_node(stage: Stage) -> None:
    """With its UID, so that no successor is bound by mistake."""
    assert (await stage.bind()).outcome is BindingOutcome.BOUND
    assert stage.server.bindings == [(stage.uid, "a")]
    assert not any(request.method == "GET" for request in stage.server.requests)


@pytest.mark.parametrize(
    ("error", "certain"),
    [
        pytest.param(Forbidden("no"), True, id="forbidden"),
        pytest.param(BadRequest("no"), True, id="nonsense"),
        pytest.param(TooManyRequests("later"), True, id="too many requests"),
        pytest.param(ServiceUnavailable("later", retry_after=1.0), True, id="unavailable, with Retry-After"),
        pytest.param(ServiceUnavailable("gone"), False, id="unavailable"),
        pytest.param(Unreachable("refused", sent=False), True, id="never left"),
        pytest.param(Unreachable("cut"), False, id="cut"),
        pytest.param(Timeout("late"), False, id="late"),
        pytest.param(ServerError("oh"), False, id="the server failed"),
        pytest.param(Conflict("changed"), False, id="conflict: the pod is not as we know it"),
        pytest.param(NotFound("gone"), False, id="not found: the pod has changed"),
        pytest.param(CredentialsError("none"), True, id="no credentials"),
        pytest.param(LeadershipLost("lost"), True, id="not ours to write any more"),
    ],
)
def test_errors_after_which_a_pod_is_certainly_unbound(error: KubeError, certain: bool) -> None:
    """In all other cases the pod is looked up."""
    assert is_certainly_unbound(error) is certain


async def test_a_refused_binding_is_not_looked_up(stage: Stage) -> None:
    """The pod is as it was."""
    stage.answer_bindings(failure(403, "Forbidden", "you may not"))
    result = await stage.bind()
    assert result.outcome is BindingOutcome.NOT_BOUND
    assert isinstance(result.error, Forbidden)
    assert len(stage.server.requests) == 1


@pytest.mark.parametrize("lost", [Unreachable("cut"), failure(500, "InternalError"), failure(504, "Timeout")])
async def test_a_lost_response_is_resolved_by_a_look_up(stage: Stage, lost: Response | Exception) -> None:
    """The binding took effect or did not: the look-up shows which."""
    stage.answer_bindings(lost, lost=True)
    result = await stage.bind()
    assert result.outcome is BindingOutcome.BOUND
    assert result.live is not None
    assert result.live.spec.node_name == "a"
    another = Stage()
    another.answer_bindings(lost)
    assert (await another.bind()).outcome is BindingOutcome.NOT_BOUND


async def test_a_pod_that_another_scheduler_bound(stage: Stage) -> None:
    """Conflict, and the live pod is on another node."""
    stage.server.change_pod("p", spec={"nodeName": "b"})
    result = await stage.bind()
    assert result.outcome is BindingOutcome.BOUND_ELSEWHERE
    assert isinstance(result.error, Conflict)
    assert stage.server.bindings == []


@pytest.mark.parametrize("how", ["deleted", "replaced", "terminating"])
async def test_a_pod_that_was_deleted(stage: Stage, how: str) -> None:
    """It was deleted, replaced by another of its name, or is terminating."""
    if how == "terminating":
        stage.server.change_pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    else:
        stage.server.delete_pod("p")
        if how == "replaced":
            stage.server.add_pod(pod("p"))
    assert (await stage.bind()).outcome is BindingOutcome.DELETED


async def test_a_look_up_is_repeated_while_the_server_is_unavailable(stage: Stage) -> None:
    """The assumption stands meanwhile."""
    stage.server.intercept = lambda _: Unreachable("away")
    stage.binder.start(stage.attempt())
    await stage.clock.advance(100)
    assert stage.results == []
    assert 5 < len(stage.server.requests) < 30
    stage.server.intercept = None
    await stage.clock.advance(20)
    (result,) = stage.results
    assert result.outcome is BindingOutcome.NOT_BOUND


async def test_the_watch_may_show_the_outcome_first(stage: Stage) -> None:
    """Then there is no need to ask any more."""
    stage.server.intercept = lambda _: Unreachable("away")
    stage.binder.start(stage.attempt())
    await stage.clock.advance(1)
    stage.open = False
    await stage.clock.advance(20)
    (result,) = stage.results
    assert result.outcome is BindingOutcome.SETTLED


async def test_the_number_of_bindings_in_flight_is_limited(stage: Stage) -> None:
    """The scheduler waits until another binding may start."""
    stage.server.bad.latency = 1.0
    for number in range(2):
        stage.server.add_pod(pod(f"q{number}"))
    stage.binder.start(stage.attempt())
    await asyncio.wait_for(stage.binder.wait_for_capacity(), 1)
    stage.binder.start(stage.attempt())
    waits = asyncio.ensure_future(stage.binder.wait_for_capacity())
    await stage.clock.advance(0)
    assert stage.binder.in_flight == 2
    assert not waits.done()
    await stage.clock.advance(5)
    assert waits.done()
    assert stage.binder.in_flight == 0


async def test_shutdown_waits_for_bindings(stage: Stage) -> None:
    """Within the time that they are given."""
    stage.server.bad.latency = 1.0
    stage.binder.start(stage.attempt())
    await stage.clock.advance(0)
    ending = asyncio.ensure_future(stage.binder.finish(5.0))
    await stage.clock.advance(4)
    assert ending.done()
    assert [result.outcome for result in stage.results] == [BindingOutcome.BOUND]


async def test_shutdown_cancels_bindings_after_the_grace_period(stage: Stage) -> None:
    """Nothing keeps the service from ending."""
    stage.server.intercept = lambda _: Unreachable("away")
    stage.binder.start(stage.attempt())
    await stage.clock.advance(0)
    ending = asyncio.ensure_future(stage.binder.finish(5.0))
    await stage.clock.advance(6)
    assert ending.done()
    assert stage.results == []
    assert stage.binder.in_flight == 0
    await stage.binder.finish(5.0)
