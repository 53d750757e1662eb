"""What strategies need from outside: usage, and what pods answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.fakes import ScriptedTransport, answer, failure
from trimtab.api import codec
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec
from trimtab.kube.client import Client
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.strategies.probe import ProbeSettings
from trimtab.scaledown.sources.answers import AnswerSource, HttpFetch, ProbeRequest, Unanswered, address_of, read_answer
from trimtab.scaledown.sources.samples import Samples
from trimtab.scaledown.sources.sampling import Sources, Target
from trimtab.testing.builders import PodBuilder, pod
from trimtab.testing.clocks import VirtualClock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

IDLE = (StrategySpec(name="Idle", args={"maxAgeSeconds": 60}),)
PROBE = (StrategySpec(name="Probe", args={"periodSeconds": 10, "maxAgeSeconds": 60}),)
LOOPBACK = [ip_network("127.0.0.0/8")]


def running(name: str, address: str = "10.0.0.1", *, uid: str = "", cpu: str = "") -> Pod:
    """A pod that runs at an address."""
    made = pod(name).on("a").phase("Running").uid(uid or f"uid-{name}")
    if cpu:
        made.requests(cpu=cpu)
    return at(made, address)


def at(made: PodBuilder, address: str) -> Pod:
    """The pod at an address."""
    tree = made.tree()
    tree["status"] = {**tree.get("status", {}), "podIP": address}
    return codec.convert(tree, Pod)


def measured(name: str, *cpu: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    """The metrics of one pod: a value for each container."""
    containers = [{"name": f"c{n}", "usage": {"cpu": value, "memory": "1Mi"}} for n, value in enumerate(cpu)]
    return {"metadata": {"name": name, "namespace": "default"}, "timestamp": at, "containers": containers}


def metrics(*items: Mapping[str, Any]) -> Any:
    """A metrics server's answer."""
    return answer(200, {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": list(items)})


def measuring(clock: VirtualClock, *answers: Any, pods: list[Pod]) -> Sources:
    """Sources over a metrics server that gives these answers."""
    client = Client(ScriptedTransport(*answers), clock=clock).using(retry=NO_RETRIES)
    return Sources(client, lambda: [Target(IDLE, pods)])


async def test_usage_is_a_share_of_what_a_pod_requests() -> None:
    """The sum over containers; of one core, where nothing is requested."""
    pods = [running("half", cpu="1"), running("none", cpu="200m"), running("bare"), running("unmeasured")]
    listed = metrics(measured("half", "250m", "250m"), measured("none", "0"), measured("bare", "500000000n"))
    sources = measuring(VirtualClock(), listed, pods=pods)
    await sources.measure()
    assert sources.values(IDLE, pods).usage == {"default/half": 0.5, "default/none": 0.0, "default/bare": 0.5}


async def test_a_measurement_grows_old_from_when_it_was_made() -> None:
    """Not from when it was read."""
    clock, pods = VirtualClock(), [running("p")]
    sources = measuring(clock, metrics(measured("p", "1", at="2025-12-31T23:59:30Z")), pods=pods)
    await sources.measure()
    await clock.advance(29)
    assert sources.values(IDLE, pods).usage == {"default/p": 1.0}
    await clock.advance(2)
    assert sources.values(IDLE, pods).usage == {}


async def test_samples_that_no_policy_needs_are_dropped() -> None:
    """The policy has gone, and its pods with it: there is no oldest sample then."""
    clock, pods = VirtualClock(), [running("p")]
    sources = measuring(clock, metrics(measured("p", "1")), pods=pods)
    await sources.measure()
    await clock.advance(10)
    assert sources.ages()["usage"]() == 10
    pods.clear()
    await sources.measure()
    assert sources.ages()["usage"]() == 0


async def test_a_measurement_from_the_future_is_of_now() -> None:
    """Clocks differ, and none of them may keep a value for ever."""
    clock, pods = VirtualClock(), [running("p")]
    sources = measuring(clock, metrics(measured("p", "1", at="2027-01-01T00:00:00Z")), pods=pods)
    await sources.measure()
    await clock.advance(61)
    assert sources.values(IDLE, pods).usage == {}


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        pytest.param(failure(404, "NotFound"), "install a metrics server", id="there is no metrics server"),
        pytest.param(failure(503, "ServiceUnavailable"), "install a metrics server", id="it is away"),
        pytest.param(failure(403, "Forbidden"), "usage cannot be read", id="we may not read it"),
    ],
)
async def test_the_cause_of_missing_usage_is_reported(refusal: Any, words: str) -> None:
    """And samples that are there already just grow old."""
    clock, pods = VirtualClock(), [running("p")]
    sources = measuring(clock, metrics(measured("p", "1")), refusal, metrics(measured("p", "2")), pods=pods)
    await sources.measure()
    await clock.advance(30)
    await sources.measure()
    assert words in sources.problem(IDLE)
    assert sources.values(IDLE, pods).usage == {"default/p": 1.0}
    await clock.advance(30)
    await sources.measure()
    assert sources.problem(IDLE) == ""


async def test_new_pods_are_sampled_early() -> None:
    """After five seconds, where a pod has no sample at all."""
    clock, pods = VirtualClock(), [running("p")]
    sources = measuring(clock, *[metrics(measured("p", "1"), measured("q", "1"))] * 2, pods=pods)
    await sources.measure()
    await clock.advance(4)
    pods.append(running("q"))
    await sources.measure()
    assert set(sources.values(IDLE, pods).usage) == {"default/p"}
    await clock.advance(1)
    await sources.measure()
    assert set(sources.values(IDLE, pods).usage) == {"default/p", "default/q"}


@pytest.mark.parametrize("cpu", ["-1", "x", ""])
async def test_an_impossible_measurement_is_none(cpu: str) -> None:
    """A metrics server is another program."""
    pods = [running("p")]
    sources = measuring(VirtualClock(), metrics(measured("p", cpu)), pods=pods)
    await sources.measure()
    assert sources.values(IDLE, pods).usage == {}


def test_a_sample_is_not_used_for_another_pod_of_the_same_name() -> None:
    """A pod of the same name is another pod."""
    samples = Samples()
    samples.put(running("p", uid="old"), 1.0, 0)
    assert samples.fresh([running("p", uid="new")], now=0, max_age=10) == {}
    samples.keep(frozenset({"new"}))
    assert len(samples) == 0


class Workers:
    """Pods with configured answers or errors; and the times of all probes."""

    def __init__(self, clock: VirtualClock, **answers: bytes | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.at_once = self.most = 0
        self._clock = clock

    async def __call__(self, address: str, port: int, path: str, seconds: float) -> bytes:  # noqa: ARG002 - a Fetch
        """Answer as the pod at this address (10.0.0.N is the N-th)."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            name = list(self.answers)[int(address.rpartition(".")[2]) - 1]
            self.asked.append(name)
            given_answer = self.answers[name]
            if isinstance(given_answer, Exception):
                raise given_answer
            if given_answer == b"never":
                await self._clock.sleep(3600)
            return given_answer
        finally:
            self.at_once -= 1


def asking(clock: VirtualClock, workers: Workers) -> tuple[Sources, list[Pod]]:
    """Sources over these pods."""
    pods = [running(name, f"10.0.0.{at}") for at, name in enumerate(workers.answers, 1)]
    client = Client(ScriptedTransport(), clock=clock)
    return Sources(client, lambda: [Target(PROBE, pods)], fetch=workers), pods


async def test_pods_are_probed_for_their_cost() -> None:
    """Numbers are accepted, everything else is not; the pod without an answer and the cause are reported."""
    clock = VirtualClock()
    workers = Workers(clock, idle=b"0", busy=b"5400\n", odd=b"ready", mute=Unanswered("it answered 500"))
    sources, pods = asking(clock, workers)
    await sources.probe()
    assert sources.values(PROBE, pods).stated == {"default/idle": 0.0, "default/busy": 5400.0}
    assert "default/odd was probed and gave no answer: its answer is not a number" in sources.problem(PROBE, pods)
    assert "it answered 500" in sources.problem(PROBE, pods[3:])


async def test_refusals_of_deleted_pods_are_dropped() -> None:
    """Pods come and go; what is known of them does not pile up."""
    clock = VirtualClock()
    sources, pods = asking(clock, Workers(clock, mute=Unanswered("it answered 500")))
    await sources.probe()
    assert sources.answers.refusals == {pods[0].metadata.uid: "it answered 500"}
    pods.clear()
    await sources.probe()
    assert sources.answers.refusals == {}


async def test_answers_grow_old() -> None:
    """A pod that stops answering is unranked after a while, not at once."""
    clock = VirtualClock()
    workers = Workers(clock, p=b"7")
    sources, pods = asking(clock, workers)
    await sources.probe()
    workers.answers["p"] = Unanswered("gone quiet")
    for _ in range(59):
        await clock.advance(1)
        await sources.probe()
    assert sources.values(PROBE, pods).stated == {"default/p": 7.0}
    await clock.advance(2)
    assert sources.values(PROBE, pods).stated == {}


async def test_each_pod_is_probed_once_in_its_period() -> None:
    """At once when it is first seen, then spread over the period, however often we look."""
    clock = VirtualClock()
    workers = Workers(clock, **{f"p{n}": b"1" for n in range(20)})
    sources, _ = asking(clock, workers)
    await sources.probe()
    assert len(workers.asked) == 20
    for _ in range(40):
        await clock.advance(1)
        await sources.probe()
    counts = {name: workers.asked.count(name) for name in workers.answers}
    assert set(counts.values()) <= {4, 5}


async def test_concurrent_probes_are_limited() -> None:
    """And one that never answers holds its place no longer than its timeout."""
    clock = VirtualClock()
    workers = Workers(clock, **{f"p{n}": b"never" for n in range(9)})
    source = AnswerSource(clock, workers, at_once=3)
    pods = [running(f"p{n}", f"10.0.0.{n + 1}") for n in range(9)]
    work = asyncio.ensure_future(source.probe([ProbeRequest(each, ProbeSettings()) for each in pods]))
    await clock.advance(10)
    await work
    assert (workers.most, len(workers.asked)) == (3, 9)
    assert set(source.refusals.values()) == {"no answer within 1 s"}


@pytest.mark.parametrize(
    ("address", "host_network", "words"),
    [
        pytest.param("", False, "no address yet", id="no address"),
        pytest.param("10.0.0.1", True, "host's network", id="the host's address"),
        pytest.param("127.0.0.1", False, "not the address of a pod", id="ourselves"),
        pytest.param("::1", False, "not the address of a pod", id="ourselves, the new way"),
        pytest.param("169.254.169.254", False, "not the address of a pod", id="a cloud's metadata service"),
        pytest.param("::ffff:127.0.0.1", False, "not the address of a pod", id="ourselves, in disguise"),
        pytest.param("::ffff:169.254.169.254", False, "not the address of a pod", id="a metadata service in disguise"),
        pytest.param("fe80::1", False, "not the address of a pod", id="a neighbour"),
        pytest.param("224.0.0.1", False, "not the address of a pod", id="everybody"),
        pytest.param("0.0.0.0", False, "not the address of a pod", id="nobody"),  # noqa: S104 - it is not bound
        pytest.param("example.com", False, "is not an address", id="a name"),
        pytest.param("10.0.0.1/x", False, "is not an address", id="an address and something else"),
    ],
)
def test_addresses_that_must_not_be_probed(address: str, host_network: bool, words: str) -> None:
    """A forged status must not direct a probe to another host."""
    made = pod("p").on("a").spec(hostNetwork=host_network)
    with pytest.raises(Unanswered, match=words):
        address_of(at(made, address))


def test_only_configured_networks_are_probed() -> None:
    """Where an administrator names them."""
    assert address_of(running("p", "10.1.2.3"), [ip_network("10.0.0.0/8")]) == "10.1.2.3"
    assert address_of(running("p", "fd00::7")) == "[fd00::7]"
    with pytest.raises(Unanswered, match="outside the networks"):
        address_of(running("p", "192.168.0.1"), [ip_network("10.0.0.0/8")])


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_any_answer_is_a_number_or_none(body: bytes) -> None:
    """A pod can answer anything."""
    with contextlib.suppress(Unanswered):
        assert abs(read_answer(body)) <= 1e12


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """A pod's endpoint on this machine; its port."""
    application = web.Application()
    application.router.add_get("/cost", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
def fetch() -> HttpFetch:
    """What asks over HTTP."""
    return HttpFetch()


async def test_a_pod_is_probed_over_http(fetch: HttpFetch) -> None:
    """Through the whole source, with an endpoint that answers."""

    async def answering(_: web.Request) -> web.Response:
        return web.Response(text="42\n")

    async with serving(answering) as port:
        clock = VirtualClock()
        source = AnswerSource(clock, fetch, networks=LOOPBACK)
        await source.probe([ProbeRequest(running("p", "127.0.0.1"), ProbeSettings(port=port))])
        assert source.samples.fresh([running("p")], now=clock.monotonic(), max_age=1) == {"default/p": 42.0}
    await fetch.close()


@pytest.mark.parametrize(
    ("response", "words"),
    [
        pytest.param({"status": 500, "text": "1"}, "it answered 500", id="an error is no answer"),
        pytest.param({"status": 302, "headers": {"Location": "/elsewhere"}}, "it answered 302", id="nor a redirect"),
    ],
)
async def test_what_is_not_a_200_is_no_answer(fetch: HttpFetch, response: dict[str, Any], words: str) -> None:
    """Redirects are not followed."""

    async def answering(_: web.Request) -> web.Response:
        return web.Response(**response)

    async with serving(answering) as port:
        with pytest.raises(Unanswered, match=words):
            await fetch("127.0.0.1", port, "/cost", 5)
    await fetch.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\npassword=x", id="a body that is no number"),
        pytest.param(b"password=x\r\n\r\n", id="no HTTP at all"),
        pytest.param(b"HTTP/1.1 password=x\r\n\r\n", id="a status that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\npassword=x\r\n\r\n", id="a header that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: password=x\r\n\r\n", id="a length that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\npassword=x", id="a chunk that is none"),
        pytest.param(b"HTTP/1.1 500 password=x\r\nContent-Length: 0\r\n\r\n", id="a reason for an error"),
    ],
)
async def test_a_refusal_has_no_part_of_the_answer(fetch: HttpFetch, answer: bytes) -> None:
    """Whoever may read a policy's status need not be allowed to call its pods."""

    async def answering(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(answering, "127.0.0.1", 0)
    async with server:
        source = AnswerSource(VirtualClock(), fetch, networks=LOOPBACK)
        settings = ProbeSettings(port=server.sockets[0].getsockname()[1])
        await source.probe([ProbeRequest(running("p", "127.0.0.1"), settings)])
    (refusal,) = source.refusals.values()
    assert "password" not in refusal
    await fetch.close()


async def test_an_endless_answer_is_cut(fetch: HttpFetch) -> None:
    """After the first few bytes."""

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"9" * 1000)
        except ConnectionError:
            return response

    async with serving(endless) as port:
        body = await fetch("127.0.0.1", port, "/cost", 5)
        with pytest.raises(Unanswered, match="longer than 64 bytes"):
            read_answer(body)
    await fetch.close()


async def unasked(_: web.Request) -> web.Response:
    """Fail: it must not be called."""
    raise AssertionError


async def test_a_refused_connection_is_no_answer(fetch: HttpFetch) -> None:
    """It is reported as Unanswered."""
    async with serving(unasked) as port:
        pass
    with pytest.raises(Unanswered, match="it cannot be reached: Connection refused"):
        await fetch("127.0.0.1", port, "/cost", 5)
    await fetch.close()


async def test_sampling_goes_on_after_a_failure() -> None:
    """What fails once is tried again, for as long as it runs."""
    clock = VirtualClock()
    calls: list[int] = []

    def targets() -> list[Target]:
        calls.append(clock.now())
        if len(calls) < 3:
            raise RuntimeError("not now")
        return []

    sources = Sources(Client(ScriptedTransport(), clock=clock), targets)
    task = asyncio.ensure_future(sources.run())
    await clock.advance(10)
    assert len(calls) > 8
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
