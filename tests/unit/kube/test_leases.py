"""Leader election: one acts, and never two at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from tests.unit.kube.fakes import FakeServer, FakeStream, Misbehaviour, failure
from trimtab.api.documents import JSON
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.errors import LeadershipLost, Unreachable
from trimtab.kube.leases import LEASE_TIMINGS, Elector, LeaseCalls, LeaseTimings
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import START, VirtualClock

T = TypeVar("T")
LEASES = ("/apis/coordination.k8s.io/v1", "leases")


class SkewedClock:
    """Another machine's clock: it may be wrong about the time of day, and run a little faster or slower."""

    def __init__(self, real: VirtualClock, *, offset: float = 0.0, rate: float = 1.0) -> None:
        self._real = real
        self._offset = round(offset * SECOND)
        self._rate = rate
        self.slept = 0.0
        """Seconds that passed while the machine was asleep: nothing of its own ran."""

    def now(self) -> int:
        """Some time of day."""
        return self._real.now() + self._offset

    def monotonic(self) -> int:
        """Time as this machine feels it."""
        return round((self._real.now() - START) * self._rate + self.slept * SECOND)

    async def sleep(self, seconds: float) -> None:
        """Wait as long as this machine takes for so long."""
        await self._real.sleep(seconds / self._rate)


@dataclass(slots=True)
class Link:
    """A way to the server with troubles of its own: requests and answers are delayed, refused or lost."""

    server: FakeServer
    clock: VirtualClock
    rng: random.Random
    out: float = 0.0
    back: float = 0.0
    lost_out: float = 0.0
    lost_back: float = 0.0
    on_answer: Callable[[], None] | None = None

    async def send(self, request: Request) -> Response:
        """There and back."""
        await self.clock.sleep(self.out * self.rng.random())
        if self.rng.random() < self.lost_out:
            raise Unreachable("lost on the way there")
        response = await self.server.send(request)
        await self.clock.sleep(self.back * self.rng.random())
        if self.on_answer is not None:
            self.on_answer()
        if self.rng.random() < self.lost_back:
            raise Unreachable("lost on the way back")
        return response

    async def stream(self, request: Request) -> FakeStream:
        """Watches are not supported."""
        return await self.server.stream(request)

    async def close(self) -> None:
        """There is nothing to close."""

    def mend(self) -> None:
        """No troubles any more."""
        self.out = self.back = self.lost_out = self.lost_back = 0.0

    def worsen(self) -> None:
        """Other troubles from now on: good, slow, bad, or none at all gets through."""
        self.out, self.back = self.rng.choice([0, 1, 9]), self.rng.choice([0, 1, 9, 18])
        self.lost_out, self.lost_back = self.rng.choice([0, 0, 0.3, 1]), self.rng.choice([0, 0, 0.3, 1])


class Unlucky(random.Random):
    """Chance at its worst: every delay is as long as it can be."""

    def random(self) -> float:
        """Always the most."""
        return 1.0


class Lucky(random.Random):
    """Chance at its best: no delay at all."""

    def random(self) -> float:
        """Always the least."""
        return 0.0


class Candidate:
    """A candidate process."""

    def __init__(self, name: str, link: Link, clock: Clock, rng: random.Random) -> None:
        self.name = name
        self.link = link
        self._acting = False
        self.terms_served = 0
        self.elector = Elector(
            Client(link, clock=clock, rng=rng), name="lock", namespace="kube-system", identity=name, rng=rng
        )

    async def work(self) -> None:
        """Act until stopped."""
        self._acting = True
        self.terms_served += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._acting = False

    def acts(self) -> bool:
        """Whether its work is going on."""
        return self._acting

    async def run(self) -> None:
        """Lead, lose, and try again, for ever."""
        while True:
            with suppress(LeadershipLost):
                await self.elector.run(self.work)


class Scene:
    """A server with a lease, and candidates for it."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.rng = random.Random(seed)
        self.server = FakeServer(self.clock, self.rng)

    def candidate(self, name: str, clock: Clock | None = None) -> Candidate:
        """One more."""
        return Candidate(name, Link(self.server, self.clock, self.rng), clock or self.clock, self.rng)

    @property
    def lease(self) -> JSON:
        """The spec of the lease."""
        spec: JSON = self.server.objects("leases")[0]["spec"]
        return spec

    def away(self, is_away: Callable[[], bool] = lambda: True) -> None:
        """The server fails while that is so."""
        self.server.intercept = lambda _: failure(503, "ServiceUnavailable") if is_away() else None


async def test_the_first_candidate_leads_and_the_second_waits() -> None:
    """The lease has the holder, the time and the duration."""
    scene = Scene()
    first, second = scene.candidate("a"), scene.candidate("b")
    tasks = [asyncio.create_task(first.run())]
    await scene.clock.advance(1)
    tasks.append(asyncio.create_task(second.run()))
    await scene.clock.advance(120)
    assert (first.acts(), second.acts()) == (True, False)
    assert (first.elector.is_leader, second.elector.is_leader) == (True, False)
    assert second.elector.holder == "a"
    lease = scene.lease
    assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("a", 15, 0)
    assert lease["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert lease["renewTime"] > "2026-01-01T00:01:55"
    await cancel(*tasks)
    assert all(request.urgent for request in scene.server.requests), "nothing may delay a renewal"


async def test_shutdown_releases_the_lease_after_the_work_has_stopped() -> None:
    """The next one takes over within a retry, and the number of transitions grows."""
    scene = Scene()
    first, second = scene.candidate("a"), scene.candidate("b")
    tasks = [asyncio.create_task(first.run())]
    await scene.clock.advance(1)
    tasks.append(asyncio.create_task(second.run()))
    await scene.clock.advance(10)
    await cancel(tasks[0])
    assert not first.acts()
    assert not first.elector.is_leader
    assert (scene.lease["holderIdentity"], scene.lease["leaseDurationSeconds"]) == ("", 1)
    await scene.clock.advance(2.4)
    assert second.acts()
    assert (scene.lease["holderIdentity"], scene.lease["leaseTransitions"]) == ("b", 1)
    await cancel(tasks[1])


async def test_the_lease_is_renewed_until_the_work_has_stopped() -> None:
    """However long that takes, no other candidate starts meanwhile."""
    scene = Scene()
    second = scene.candidate("b")
    winding_down = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            winding_down.set()
            await scene.clock.sleep(60)

    leading = asyncio.create_task(scene.candidate("a").elector.run(work))
    await scene.clock.advance(1)
    waiting = asyncio.create_task(second.run())
    leading.cancel()
    await scene.clock.advance(55)
    assert winding_down.is_set()
    assert not second.acts()
    await scene.clock.advance(10)
    assert second.acts()
    await cancel(leading, waiting)


async def test_the_lease_is_released_although_the_stop_is_cancelled_too() -> None:
    """After the work, which then has no time to finish any more."""
    scene = Scene()
    stopped = list[str]()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            try:
                await scene.clock.sleep(60)
            finally:
                stopped.append(scene.lease["holderIdentity"])

    leading = asyncio.create_task(scene.candidate("a").elector.run(work))
    await scene.clock.advance(1)
    for _ in range(2):
        leading.cancel()
        await scene.clock.advance(5)
    assert (leading.done(), stopped, scene.lease["holderIdentity"]) == (True, ["a"], "")


async def test_a_renewal_that_is_under_way_does_not_undo_the_release() -> None:
    """The work ends 0.4 seconds after it was sent, and 0.4 seconds before it arrives."""
    scene = Scene()
    leader = scene.candidate("a")
    leader.link.out, leader.link.rng = 0.8, Unlucky()

    async def work() -> None:
        await scene.clock.sleep(2.4)

    leading = asyncio.create_task(leader.elector.run(work))
    await scene.clock.advance(30)
    await leading
    assert scene.lease["holderIdentity"] == ""
    assert not leader.elector.is_leader


async def test_work_that_ends_releases_the_lease() -> None:
    """With its result, or with its failure; the lease is given up either way."""
    scene = Scene()
    done: list[str] = []

    async def finish() -> None:
        done.append("finished")

    async def fail() -> None:
        raise LookupError("broken")

    await scene.candidate("a").elector.run(finish)
    assert done == ["finished"]
    with pytest.raises(LookupError, match="broken"):
        await scene.candidate("a").elector.run(fail)
    assert scene.lease["holderIdentity"] == ""


async def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    """Ten seconds after the last renewal was sent, and well before anyone else may start."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(4)
    scene.away()
    await scene.clock.advance(9.9)
    assert leader.acts()
    leader.elector.check()
    await scene.clock.advance(0.1)
    assert not leader.acts()
    with pytest.raises(LeadershipLost, match="could not renew the lease kube-system/lock"):
        await leading
    with pytest.raises(LeadershipLost, match="a does not hold the lease"):
        leader.elector.check()


async def test_a_leader_does_not_try_to_renew_at_its_deadline() -> None:
    """It has stopped acting then: a renewal that succeeds so late must not let it go on."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(4)
    tried: list[float] = []

    def note(_: Request) -> Response:
        tried.append((scene.clock.now() - START) / SECOND)
        return failure(503, "ServiceUnavailable")

    scene.server.intercept = note
    await scene.clock.advance(30)
    assert max(tried) < 14
    with pytest.raises(LeadershipLost):
        await leading


async def test_a_hanging_request_does_not_prolong_leadership() -> None:
    """The deadline does not wait for an answer."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(1)
    scene.server.bad = Misbehaviour(latency=1e9)
    await scene.clock.advance(10)
    assert not leader.acts()
    with pytest.raises(LeadershipLost):
        await leading


async def test_a_leader_that_finds_another_holder_stops_immediately() -> None:
    """The lease may have been edited manually."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(1)
    lease = scene.server.objects("leases")[0]
    scene.server.put(*LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "usurper"}})
    await scene.clock.advance(3)
    assert not leader.acts()
    with pytest.raises(LeadershipLost):
        await leading
    assert scene.lease["holderIdentity"] == "usurper"


async def test_a_leader_that_cannot_take_back_a_released_lease_stops_immediately() -> None:
    """The lease was edited manually: another candidate may acquire it at any moment."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(1)
    lease = scene.server.objects("leases")[0]
    scene.server.put(*LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
    writes = iter([None, failure(503, "ServiceUnavailable")])  # the first one conflicts

    def second_fails(request: Request) -> Response | None:
        return next(writes, None) if request.method == "PUT" else None

    scene.server.intercept = second_fails
    await scene.clock.advance(3)
    assert not leader.acts()
    with pytest.raises(LeadershipLost):
        await leading


async def test_a_short_outage_does_not_stop_the_leader() -> None:
    """There is time for several attempts."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(1)
    scene.away(lambda: scene.clock.now() < START + 8 * SECOND)
    await scene.clock.advance(60)
    assert leader.acts()
    assert leader.terms_served == 1
    await cancel(leading)


async def test_a_leader_tries_to_renew_until_just_before_its_deadline() -> None:
    """Failures that take half a second each leave it with one attempt more, half a second before the end."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.run())
    await scene.clock.advance(1)
    leader.link.out, leader.link.rng = 0.5, Unlucky()
    scene.away()
    await scene.clock.advance(8)
    leader.link.mend()
    scene.server.intercept = None
    await scene.clock.advance(20)
    assert leader.acts()
    assert leader.terms_served == 1
    await cancel(leading)


async def test_an_expired_lease_is_acquired_after_its_whole_duration() -> None:
    """Counted from when its last change was seen, not from its timestamps."""
    scene = Scene()
    stale = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"}
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": stale})
    heir = scene.candidate("b")
    task = asyncio.create_task(heir.run())
    await scene.clock.advance(14.9)
    assert not heir.acts()
    await scene.clock.advance(2.6)
    assert heir.acts()
    await cancel(task)


async def test_a_lease_is_free_at_the_end_of_its_duration() -> None:
    """Not an attempt later: a candidate without jitter reads it in seconds 0, 2 and 4."""
    scene = Scene()
    stale = {"holderIdentity": "dead", "leaseDurationSeconds": 4}
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": stale})
    heir = Candidate("b", Link(scene.server, scene.clock, scene.rng), scene.clock, Lucky())
    task = asyncio.create_task(heir.run())
    await scene.clock.advance(3.9)
    assert not heir.acts()
    await scene.clock.advance(0.2)
    assert heir.acts()
    await cancel(task)


async def test_a_candidate_tries_again_after_the_retry_period_and_some_jitter() -> None:
    """Between 2 and 2.4 seconds, so that candidates do not try together."""
    scene = Scene()
    tasks = [asyncio.create_task(scene.candidate("a").run())]
    await scene.clock.advance(1)
    tasks.append(asyncio.create_task(scene.candidate("b").run()))
    tried: list[float] = []

    def note(request: Request) -> None:
        if request.method == "GET":
            tried.append(scene.clock.now() / SECOND)

    scene.server.intercept = note
    await scene.clock.advance(120)
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert min(gaps) >= 2
    assert max(gaps) <= 2.4
    assert max(gaps) - min(gaps) > 0.2
    await cancel(*tasks)


async def test_a_lease_that_another_took_meanwhile_is_not_released() -> None:
    """It was edited after the last renewal: the leader that stops reads it before it writes."""
    scene = Scene()
    leading = asyncio.create_task(scene.candidate("a").run())
    await scene.clock.advance(1)
    lease = scene.server.objects("leases")[0]
    scene.server.put(*LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "usurper"}})
    await cancel(leading)
    assert scene.lease["holderIdentity"] == "usurper"


async def test_a_process_that_finds_its_own_lease_keeps_its_history() -> None:
    """It was restarted under the same name: nobody else has led since."""
    scene = Scene()
    since = "2025-12-31T23:59:59.000000Z"
    own = {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": since, "leaseTransitions": 3}
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": own})
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.run())
    await scene.clock.advance(1)
    assert leader.acts()
    assert (scene.lease["acquireTime"], scene.lease["leaseTransitions"]) == (since, 3)
    await cancel(leading)


async def test_a_lease_without_a_duration_has_the_usual_one() -> None:
    """It is not free at once."""
    scene = Scene()
    spec = {"holderIdentity": "dead"}
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": spec})
    heir = scene.candidate("b")
    task = asyncio.create_task(heir.run())
    await scene.clock.advance(14.9)
    assert not heir.acts()
    await scene.clock.advance(2.6)
    assert heir.acts()
    assert scene.lease["leaseTransitions"] == 1
    await cancel(task)


@pytest.mark.parametrize(
    ("spec", "transitions"),
    [
        pytest.param(None, 0, id="null"),
        pytest.param({}, 0, id="empty"),
        pytest.param({"holderIdentity": ""}, 1, id="released"),
        pytest.param({"holderIdentity": "", "leaseTransitions": 4}, 5, id="released for the fifth time"),
    ],
)
async def test_a_lease_without_a_holder_is_acquired_at_once(spec: JSON | None, transitions: int) -> None:
    """One that nobody has held yet has had no transition."""
    scene = Scene()
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": spec})
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.run())
    await scene.clock.advance(0.1)
    assert leader.acts()
    assert (scene.lease["holderIdentity"], scene.lease["leaseTransitions"]) == ("a", transitions)
    await cancel(leading)


async def test_a_renewal_is_one_write() -> None:
    """The leader knows the version that it wrote last: it reads the lease only when that has changed."""
    scene = Scene()
    leading = asyncio.create_task(scene.candidate("a").run())
    await scene.clock.advance(1)
    asked = len(scene.server.requests)
    await scene.clock.advance(20)
    assert [request.method for request in scene.server.requests[asked:]] == ["PUT"] * 10
    lease = scene.server.objects("leases")[0]
    scene.server.put(*LEASES, {**lease, "metadata": {**lease["metadata"], "labels": {"team": "x"}}})
    await scene.clock.advance(4)
    methods = [request.method for request in scene.server.requests[asked + 10 :]]
    assert methods == ["PUT", "GET", "PUT", "PUT"], "a conflict, and then as before"
    assert scene.server.objects("leases")[0]["metadata"]["labels"] == {"team": "x"}
    await cancel(leading)


async def test_a_deleted_lease_is_created_again() -> None:
    """By its leader, without a break."""
    scene = Scene()
    leader = scene.candidate("a")
    task = asyncio.create_task(leader.run())
    await scene.clock.advance(1)
    scene.server.drop(*LEASES, "kube-system/lock")
    await scene.clock.advance(30)
    assert leader.terms_served == 1
    assert scene.lease["holderIdentity"] == "a"
    await cancel(task)


async def test_labels_and_unknown_fields_of_a_lease_stay() -> None:
    """Only our own fields of the lease are written."""
    scene = Scene()
    spec = {"holderIdentity": "", "strategy": "OldestEmulationVersion"}
    metadata = {"name": "lock", "namespace": "kube-system", "labels": {"team": "x"}}
    scene.server.put(*LEASES, {"metadata": metadata, "spec": spec})
    leader = scene.candidate("a")
    task = asyncio.create_task(leader.run())
    await scene.clock.advance(1)
    lease = scene.server.objects("leases")[0]
    assert lease["metadata"]["labels"] == {"team": "x"}
    assert lease["spec"]["strategy"] == "OldestEmulationVersion"
    await cancel(task)


@pytest.mark.parametrize(
    ("durations", "why"),
    [
        pytest.param((10, 10, 2), "stop before another may start", id="no time to stop"),
        pytest.param((15, 2.4, 2), "able to try twice", id="no time to try"),
    ],
)
def test_unsafe_timings_are_refused(durations: tuple[float, float, float], why: str) -> None:
    """Before anything happens."""
    with pytest.raises(ValueError, match=why):
        LeaseTimings(*durations)


@pytest.mark.parametrize(
    "durations",
    [pytest.param((10.1, 10, 2), id="just time to stop"), pytest.param((15, 2.5, 2), id="just time to try twice")],
)
def test_safe_timings_are_accepted(durations: tuple[float, float, float]) -> None:
    """However short."""
    assert LeaseTimings(*durations).lease_duration == durations[0]


async def test_candidates_make_their_calls_where_they_are_told_to() -> None:
    """And are reported when they are made, so that a process knows which leases it competes for."""
    scene = Scene()
    ran, made = 0, list[Elector]()

    async def elsewhere(work: Coroutine[Any, Any, T], /) -> T:
        nonlocal ran
        ran += 1
        return await work

    client = Client(scene.server, clock=scene.clock, rng=scene.rng)
    calls = LeaseCalls(client, run_in=elsewhere, on_candidate=made.append)
    elector = calls.candidate(name="lock", namespace="kube-system", identity="a", timings=LEASE_TIMINGS)
    assert made == [elector]
    held: list[str] = []

    async def work() -> None:
        held.append(scene.lease["holderIdentity"])

    stale = {"holderIdentity": "dead", "leaseDurationSeconds": 1}
    scene.server.put(*LEASES, {"metadata": {"name": "lock", "namespace": "kube-system"}, "spec": stale})
    running = asyncio.create_task(elector.run(work))
    await scene.clock.advance(3)
    await running
    assert held == ["a"]
    assert ran == 3, "to acquire, to keep and to release the lease"


async def test_leadership_is_counted_from_when_a_renewal_was_sent() -> None:
    """Not from when its answer came: the others count from when the server stored it."""
    scene = Scene()
    leader = scene.candidate("a")
    leading = asyncio.create_task(leader.elector.run(leader.work))
    await scene.clock.advance(1)
    leader.link.back = 7.0
    leader.link.rng = Unlucky()
    await scene.clock.advance(9)  # the renewal of second 2 was answered in second 9
    leader.link.lost_out = 2.0
    await scene.clock.advance(1.9)
    assert leader.acts()
    await scene.clock.advance(0.1)
    assert not leader.acts()
    with pytest.raises(LeadershipLost):
        await leading


async def test_a_machine_suspended_while_acquiring_the_lease_does_not_lead() -> None:
    """The response is a success, but too old."""
    scene = Scene()
    clock = SkewedClock(scene.clock)
    sleeper = scene.candidate("a", clock)
    answers = iter(["get", "create"])

    def fall_asleep() -> None:
        if next(answers, None) == "create":
            clock.slept += 60

    sleeper.link.on_answer = fall_asleep
    task = asyncio.create_task(sleeper.run())
    await scene.clock.advance(1)
    assert sleeper.terms_served == 0
    await scene.clock.advance(5)
    assert sleeper.terms_served == 1
    await cancel(task)


@pytest.mark.parametrize("seed", range(10))
async def test_chaos_never_lets_two_leaders_act(seed: int) -> None:
    """Three machines, each with a clock and a line of its own that delays, refuses and loses; thousands of steps.

    At every step at most one believes that it leads, and nobody acts who does not. There is leadership much of the time
    too: to let nobody act would be safe and useless.
    """
    scene = Scene(seed)
    rng = scene.rng
    candidates = [
        scene.candidate(name, SkewedClock(scene.clock, offset=rng.uniform(-1e6, 1e6), rate=rng.uniform(0.85, 1.15)))
        for name in "abc"
    ]
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    led = 0
    for _ in range(2000):
        if rng.random() < 0.05:
            rng.choice(candidates).link.worsen()
        if rng.random() < 0.005:
            await restart(tasks, candidates, rng.randrange(3), scene)
        await scene.clock.advance(rng.random() * 0.5)
        leading = [candidate.name for candidate in candidates if candidate.elector.is_leader]
        acting = [candidate.name for candidate in candidates if candidate.acts()]
        assert len(leading) <= 1
        assert len(acting) <= 1
        led += len(acting)
    for candidate in candidates:
        candidate.link.mend()
    await scene.clock.advance(60)
    assert sum(candidate.acts() for candidate in candidates) == 1
    assert led > 200
    await cancel(*tasks)


async def restart(tasks: list[asyncio.Task[None]], candidates: list[Candidate], victim: int, scene: Scene) -> None:
    """Stop one cleanly, however long that takes, and start it again."""
    tasks[victim].cancel()
    while not tasks[victim].done():
        await scene.clock.advance(0.5)
        assert sum(candidate.acts() for candidate in candidates) <= 1
    tasks[victim] = asyncio.create_task(candidates[victim].run())
