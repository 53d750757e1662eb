"""Group commit: pending requests share a write, and no capacity is lost or assigned twice."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.api import annotations as keys
from trimtab.api import codec, times
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import Conflict, Unreachable
from trimtab.kube.resources import Key
from trimtab.kube.transport import Request, Response
from trimtab.subsets.allocation import PodCreation
from trimtab.subsets.recount import CREATION_LIMIT
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission import pacing
from trimtab.unitedtopology.admission.pending import Assignment
from trimtab.unitedtopology.admission.status_batcher import StatusBatcher

KEY = Key("shop/spread")
TOPOLOGIES = ("/apis/apps.kruise.io/v1alpha1", "unitedtopologies")
PODS = ("/api/v1", "pods")
DEPLOYMENTS = ("/apis/apps/v1", "deployments")


def topology(*missing: int, **more: Any) -> JSON:
    """A UnitedTopology that has been counted: so many pods are missing in each subset; -1 is no maximum."""
    names = [chr(ord("a") + index) for index in range(len(missing))]
    limits = [{} if count < 0 else {"maxReplicas": count} for count in missing]
    rows = [{"name": name, "missingReplicas": count} for name, count in zip(names, missing, strict=True)]
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "UnitedTopology",
        "metadata": {"name": "spread", "namespace": "shop", "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "subsets": [{"name": name, **limit} for name, limit in zip(names, limits, strict=True)],
        },
        "status": {"observedGeneration": 1, "replicas": 10, "revision": "r1", "subsetStatuses": rows},
        **more,
    }


def pod(name: str, subset: str = "a", **metadata: Any) -> JSON:
    """A pod of the first revision, with a reservation."""
    known = keys.SubsetAnnotations("spread", subset, f"of-{name}")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r1", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": known.written(),
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"containers": []},
    }


class BusyClock(VirtualClock):
    """A clock that can advance during a computation."""

    def work(self, seconds: float) -> None:
        """Let time pass without a wait."""
        self._now += round(seconds * SECOND)


class WebhookProcess:
    """One webhook process and the server behind it; the test sets its cache."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.clock = BusyClock()
        self.server = FakeServer(self.clock)
        self.cached: JSON = {}
        self.ended: dict[str, str] = {}
        client = self.client = Client(self.server, clock=self.clock)
        self.batcher = StatusBatcher(client, self._cached, ended=lambda _: self.ended, rng=rng)

    def _cached(self, key: Key) -> UnitedTopology | None:
        del key
        return codec.convert(self.cached, UnitedTopology) if self.cached else None

    def put(self, tree: JSON) -> None:
        """Store a UnitedTopology, and let the cache see it."""
        self.cached = self.server.put(*TOPOLOGIES, tree)

    @property
    def rows(self) -> dict[str, JSON]:
        """The subsets as they are stored."""
        (stored,) = self.server.objects("unitedtopologies")
        return {row["name"]: row for row in stored["status"]["subsetStatuses"]}

    @property
    def writes(self) -> int:
        """How often the status was written, or tried to be."""
        return sum(request.method == "PATCH" for request in self.server.requests)

    async def reserve(self, *names: str) -> list[str | None]:
        """Places for these pods, all at once."""
        work = asyncio.gather(*(self.batcher.reserve(KEY, PodCreation(f"of-{name}", "r1")) for name in names))
        return [_name(placed) for placed in await self.settled(work)]

    async def settled(self, work: asyncio.Future[Any]) -> Any:
        """The outcome of some work, for which time passes."""
        while not work.done():
            await asyncio.sleep(0)
            await self.clock.advance(0.001)
        return await work

    async def idle(self) -> None:
        """Wait until nothing is left to do."""
        await self.settled(asyncio.ensure_future(self._idle()))

    async def _idle(self) -> None:
        while self.batcher.is_busy:
            await asyncio.sleep(0)


def slow_writes(process: WebhookProcess, seconds: float) -> list[int]:
    """Let each write of a status take so long; the moments at which they begin, as they come."""
    moments: list[int] = []

    def slowly(request: Request) -> Response | Exception | None:
        if request.method == "PATCH":
            moments.append(process.clock.monotonic())
            process.clock.work(seconds)
        return None

    process.server.intercept = slowly
    return moments


def _name(placed: Assignment | None) -> str | None:
    if placed is None or placed.subset is None:
        return None
    return placed.topology.spec.subsets[placed.subset].name


@pytest.fixture
async def process() -> AsyncIterator[WebhookProcess]:
    """A webhook process."""
    running = WebhookProcess(random.Random(1))
    yield running
    await running.batcher.close()


async def test_concurrent_admissions_share_one_status_write(process: WebhookProcess) -> None:
    """In the order of their arrival, and each sees the reservations before it."""
    process.put(topology(3, 2, -1))
    assert await process.reserve(*"123456") == ["a", "a", "a", "b", "b", "c"]
    assert process.writes == 1
    assert all(request.urgent for request in process.server.requests), "an API server waits for it"


@pytest.mark.parametrize("ahead", [pytest.param(3600, id="ahead"), pytest.param(-3600, id="behind")])
async def test_reservations_have_the_time_of_the_api_server(ahead: int, process: WebhookProcess) -> None:
    """Controllers compare it: by a clock that is ahead, a reservation without a pod would not expire for an hour."""
    now = times.from_ns(process.clock.now() - ahead * SECOND)
    sent = process.clock.monotonic()
    process.client.server_time.observe(format_datetime(now, usegmt=True), sent=sent, received=sent)
    process.put(topology(5))
    assert await process.reserve("p1") == ["a"]
    (written,) = process.rows["a"]["creating"].values()
    assert abs(times.parse_ns(written) - times.to_ns(now)) <= 2 * SECOND


async def test_writes_and_the_pods_that_share_them_are_counted(process: WebhookProcess) -> None:
    """A conflict is a write of its own, and of no pods."""
    process.put(topology(2, -1))
    process.server.put(*TOPOLOGIES, topology(2, -1))
    process.server.put(*PODS, pod("p"))
    creations = [process.batcher.reserve(KEY, PodCreation(f"of-{number}", "r1")) for number in range(3)]
    await process.settled(asyncio.gather(*creations, process.batcher.announce_deletion(KEY, "p", "")))
    value = process.batcher.metrics.registry.get_sample_value
    assert value("trimtab_subset_status_writes_total", {"outcome": "written"}) == 1
    assert value("trimtab_subset_status_writes_total", {"outcome": "conflict"}) == 1
    assert (value("trimtab_subset_batch_pods_count"), value("trimtab_subset_batch_pods_sum")) == (1, 4)
    process.batcher.withdraw(KEY, "of-0")
    await process.idle()
    assert (value("trimtab_subset_batch_pods_count"), value("trimtab_subset_batch_pods_sum")) == (2, 4)
    assert value("trimtab_subset_reservations_withdrawn_total") == 1


async def test_an_old_cache_costs_a_conflict_and_nothing_else(process: WebhookProcess) -> None:
    """Reservations of another process are seen in the second attempt."""
    process.put(topology(1, -1))
    other = topology(1, -1)
    other["status"]["subsetStatuses"][0]["creating"] = {"of-x": "2026-01-01T00:00:00Z"}
    process.server.put(*TOPOLOGIES, other)
    assert await process.reserve("1") == ["b"]
    assert process.writes == 2


@pytest.mark.parametrize("is_seen", [True, False], ids=["which the watch has shown", "which is read"])
async def test_after_a_conflict_a_newer_version_is_decided_from(is_seen: bool, process: WebhookProcess) -> None:
    """It is read only if the watch has not shown it yet."""
    process.put(topology(1, -1))

    def lose(request: Request) -> Response | Exception | None:
        if request.method == "PATCH" and process.writes == 1:
            other = topology(1, -1)
            other["status"]["subsetStatuses"][0]["creating"] = {"of-x": "2026-01-01T00:00:00Z"}
            stored = process.server.put(*TOPOLOGIES, other)
            process.cached = stored if is_seen else process.cached
        return None

    process.server.intercept = lose
    assert await process.reserve("1") == ["b"]
    methods = [request.method for request in process.server.requests]
    assert methods == (["PATCH", "PATCH"] if is_seen else ["PATCH", "GET", "PATCH"])


async def test_without_other_writers_no_turn_is_waited_for(process: WebhookProcess) -> None:
    """The next request is written as soon as it comes."""
    process.put(topology(-1))
    moments = slow_writes(process, 0.05)
    for name in "123":
        await process.reserve(name)
    assert all((later - earlier) / SECOND < 0.15 for earlier, later in pairwise(moments))
    assert len(moments) == 3


async def test_writes_that_the_watch_has_shown_are_those_of_others_too(process: WebhookProcess) -> None:
    """Nothing conflicted, as this process knew of them in time; it waits for a turn all the same."""
    process.put(topology(-1))
    moments: list[int] = []

    def slowly(_: Request) -> Response | Exception | None:
        moments.append(process.clock.monotonic())
        process.clock.work(0.05)
        return None

    process.server.intercept = slowly
    await process.reserve("1")
    (stored,) = process.server.objects("unitedtopologies")
    process.put(stored)
    await process.reserve("2")
    await process.reserve("3")
    assert process.writes == len(moments) == 3
    assert (moments[2] - moments[1]) / SECOND > 0.2


async def test_a_request_that_comes_during_a_write_waits_about_as_long_as_the_write_took(
    process: WebhookProcess,
) -> None:
    """Other processes can start to write in between."""
    process.put(topology(-1))
    moments: list[int] = []
    later: list[asyncio.Future[Assignment | None]] = []

    def slowly(_: Request) -> Response | Exception | None:
        moments.append(process.clock.monotonic())
        process.clock.work(0.1)
        if len(moments) == 1:
            later.append(asyncio.ensure_future(process.batcher.reserve(KEY, PodCreation("of-2", "r1"))))
        return None

    process.server.intercept = slowly
    process.server.bad.latency = 0.001
    await process.reserve("1")
    await process.settled(later[0])
    first, second = moments
    assert 0.07 <= (second - first) / SECOND - 0.1 <= 0.14


async def test_a_turn_is_waited_for_once(process: WebhookProcess) -> None:
    """Others have written before the first write, and none since: the writes after it follow at their own pace."""
    process.put(topology(-1))
    process.server.put(*TOPOLOGIES, topology(-1))
    moments: list[int] = []
    later: list[asyncio.Future[Assignment | None]] = []

    def slowly(request: Request) -> Response | Exception | None:
        if request.method == "PATCH":
            moments.append(process.clock.monotonic())
            process.clock.work(0.05)
            name = f"of-later-{len(moments)}"
            if len(moments) < 4:  # arrives while another one is written
                later.append(asyncio.ensure_future(process.batcher.reserve(KEY, PodCreation(name, "r1"))))
        return None

    process.server.intercept = slowly
    process.server.bad.latency = 0.001
    await process.reserve("1")
    await process.settled(asyncio.gather(*later))
    await process.idle()
    gaps = [(end - start) / SECOND for start, end in pairwise(moments)]
    assert gaps[1] > 0.2, "the turn of others, after a conflict"
    assert gaps[2] < 0.2


@pytest.fixture
async def contended(process: WebhookProcess) -> WebhookProcess:
    """A process that has just written, after another one had: nothing is pending, and a write takes a while."""

    def slowly(request: Request) -> Response | Exception | None:
        process.clock.work(0.05 if request.method == "PATCH" else 0.0)
        return None

    process.put(topology(-1))
    process.server.put(*TOPOLOGIES, topology(-1))
    process.server.intercept = slowly
    await process.reserve("1")
    return process


async def test_with_other_writers_the_next_request_waits_for_its_turn(contended: WebhookProcess) -> None:
    """At once, it would be out of turn: one process would conflict, and the write would serve one request."""
    before = contended.writes
    both = []
    for name in "23":
        both.append(asyncio.ensure_future(contended.batcher.reserve(KEY, PodCreation(f"of-{name}", "r1"))))
        await contended.clock.advance(0.02)
    await contended.settled(asyncio.gather(*both))
    assert contended.writes == before + 1


@pytest.mark.parametrize(
    ("counted", "waits"),
    [
        pytest.param(["7", "7", "7", "7"], False, id="two webhooks have written"),
        pytest.param([""], True, id="one webhook has written"),
        pytest.param(["1", "2", "3", "4"], True, id="only the controller has written, which takes no turns"),
    ],
)
async def test_a_turn_comes_when_two_others_have_written(
    counted: list[str], waits: bool, contended: WebhookProcess
) -> None:
    """Which is sooner than the timeout."""
    waiting = asyncio.ensure_future(contended.reserve("2"))
    started = contended.clock.monotonic()
    for number, version in enumerate(counted):
        (stored,) = contended.server.objects("unitedtopologies")
        status = {**stored["status"], "countedVersion": version, "replicas": number}
        contended.put({**stored, "status": status})
        for _ in range(30):
            await contended.clock.advance(0.001)
    await contended.settled(waiting)
    waited = (contended.clock.monotonic() - started) / SECOND
    assert (waited > 0.28) is waits
    assert waited < 1.3 * pacing.LONGEST_TURN + 0.1, "with the write itself"


async def test_an_old_cache_denies_no_pod_a_subset(process: WebhookProcess) -> None:
    """By the cache it is full, and without a write there is no conflict: the status is read first."""
    full = topology(1)
    full["status"]["subsetStatuses"][0] |= {"missingReplicas": 0, "replicas": 1}
    process.put(full)
    process.server.put(*TOPOLOGIES, topology(1))
    assert await process.reserve("1", "2") == ["a", None]


async def test_a_cancelled_admission_withdraws_its_reservation(process: WebhookProcess) -> None:
    """Its pod is admitted without it, so no pod will have it."""
    process.put(topology(1, -1))
    waiting = asyncio.ensure_future(process.batcher.reserve(KEY, PodCreation("of-1", "r1")))
    while not process.writes:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled(), "its caller has stopped waiting"
    await process.idle()
    assert process.rows["a"].get("creating", {}) == {}


async def test_reservations_of_a_write_without_response_are_withdrawn(process: WebhookProcess) -> None:
    """It may have been executed: the requests get the error, and their reservations are withdrawn."""
    process.put(topology(1, -1))
    lost: list[Request] = []

    def lose(request: Request) -> Response | Exception | None:
        if request.method != "PATCH" or lost:
            return None
        lost.append(request)
        process.server.put(*TOPOLOGIES, _after(process, request))
        return Unreachable("connection lost")

    process.server.intercept = lose
    with pytest.raises(Unreachable):
        await process.reserve("1")
    await process.idle()
    assert process.rows["a"].get("creating", {}) == {}


def _after(process: WebhookProcess, request: Request) -> JSON:
    (stored,) = process.server.objects("unitedtopologies")
    assert request.body is not None
    return {**stored, "status": {**stored["status"], **codec.decode(request.body, dict[str, Any])["status"]}}


async def test_a_deleted_united_topology_assigns_no_subset(process: WebhookProcess) -> None:
    """The pod is admitted unmodified."""
    process.put(topology(1))
    process.server.drop(*TOPOLOGIES, "shop/spread")
    assert await process.reserve("1") == [None]


async def test_nothing_is_kept_of_topologies_that_do_not_exist(process: WebhookProcess) -> None:
    """They were deleted while requests about them were pending; a process runs for months."""
    missing = [Key(f"shop/{number}") for number in range(5)]
    work = asyncio.gather(*(process.batcher.reserve(key, PodCreation("of-1", "r1")) for key in missing))
    assert await process.settled(work) == [None] * 5
    process.batcher.withdraw(KEY, "of-1")
    await process.idle()
    assert process.batcher._batches == {}  # noqa: SLF001 - a leak shows nowhere else


async def test_a_deletion_is_announced_once(process: WebhookProcess) -> None:
    """By any number of requests, and kept with the reservation while the pod is not counted."""
    process.put(topology(2, -1))
    await process.reserve("p")
    process.server.put(*PODS, pod("p"))
    both = asyncio.gather(*(process.batcher.announce_deletion(KEY, "p", "") for _ in range(2)))
    assert await process.settled(both) == [True, True]
    assert list(process.rows["a"]["deleting"]) == ["p"]
    assert list(process.rows["a"]["creating"]) == ["p@of-p"]


@pytest.mark.parametrize(
    ("stored", "uid"),
    [
        pytest.param(pod("p", deletionTimestamp="2026-01-01T00:00:00Z"), "", id="it is terminating already"),
        pytest.param(pod("p"), "another", id="it is another pod of that name"),
        pytest.param(pod("p", annotations={}), "", id="it has no reservation"),
        pytest.param(None, "", id="it is gone"),
    ],
)
async def test_nothing_is_announced(stored: JSON | None, uid: str, process: WebhookProcess) -> None:
    """The review may be old: the pod is read uncached."""
    process.put(topology(2))
    if stored is not None:
        process.server.put(*PODS, stored)
    assert await process.settled(asyncio.ensure_future(process.batcher.announce_deletion(KEY, "p", uid))) is False
    assert process.writes == 0


@pytest.fixture
async def lost(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """Returns the errors that nothing has retrieved; asyncio would log a traceback of each."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    caplog.set_level(logging.CRITICAL)  # a record of a log call would keep its error alive

    def collect() -> list[dict[str, Any]]:
        gc.collect()
        return found

    return collect


async def test_the_size_is_not_read_to_the_end_after_a_failed_write(
    process: WebhookProcess, lost: Callable[[], list[dict[str, Any]]]
) -> None:
    """Both requests fail: the error of the write is the answer, and that of the read is dropped."""
    half = topology(2, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    process.put(half)
    process.server.put(*DEPLOYMENTS, deployment(4))
    await process.reserve("0")
    process.server.intercept = lambda request: Unreachable(f"no answer to {request.method}", sent=False)
    with pytest.raises(Unreachable, match="PATCH"):
        await process.reserve("1")
    await process.clock.advance(60)
    await process.idle()
    assert lost() == []


async def test_a_failure_that_no_request_waits_for_is_not_reported_as_lost(
    process: WebhookProcess, lost: Callable[[], list[dict[str, Any]]]
) -> None:
    """Every request of the batch was cancelled before the server failed."""
    process.put(topology(2))
    process.server.bad.latency = 0.1
    process.server.intercept = lambda _: Unreachable("connection refused", sent=False)
    waiting = asyncio.ensure_future(process.batcher.announce_deletion(KEY, "p", ""))
    while not process.server.requests:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    del waiting  # it refers to what it waited for
    await process.idle()
    assert lost() == []


async def test_announced_capacity_is_assigned_only_if_the_pod_is_terminating(process: WebhookProcess) -> None:
    """The pod is read before its capacity is assigned; the entry is reverted if it still exists."""
    announced = topology(1, -1)
    announced["status"]["subsetStatuses"][0] = {
        "name": "a",
        "replicas": 1,
        "deleting": {"p": "2026-01-01T00:00:00Z"},
    }
    process.put(announced)
    process.server.put(*PODS, pod("p"))
    assert await process.reserve("1") == ["b"]
    process.batcher.revert_deletion(KEY, "p")
    await process.idle()
    assert not process.rows["a"].get("deleting")


async def test_only_the_announcement_that_is_to_be_reverted_is(process: WebhookProcess) -> None:
    """The deletion of another pod was announced a moment ago, and may still happen; those of two have happened."""
    process.put(full_of("p", "q", "leaving", "gone", deleting=4))
    for each in (pod("p"), pod("q"), pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z")):
        process.server.put(*PODS, each)
    for name in ("p", "leaving", "gone"):
        process.batcher.revert_deletion(KEY, name)
    await process.idle()
    assert process.rows["a"]["deleting"].keys() == {"q", "leaving", "gone"}


async def test_capacity_of_a_terminating_pod_is_assigned_once(process: WebhookProcess) -> None:
    """To one pod, and it is not read again."""
    announced = topology(1, -1)
    announced["status"]["subsetStatuses"][0] = {
        "name": "a",
        "replicas": 1,
        "deleting": {"p": "2026-01-01T00:00:00Z"},
    }
    process.put(announced)
    process.server.put(*PODS, pod("p", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert await process.reserve("1") == ["a"]
    assert await process.reserve("2") == ["b"]
    assert sum(request.path.endswith("/pods/p") for request in process.server.requests) == 1


@pytest.mark.parametrize(("replicas", "want"), [(6, ["a", "a", "b"]), (2, ["b", "b", "b"])], ids=["grown", "shrunk"])
async def test_a_changed_size_is_decided_again(replicas: int, want: list[str], process: WebhookProcess) -> None:
    """The first write uses the old size; no request is answered by it, and its reservations are withdrawn."""
    half = topology(2, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    half["status"] |= {"replicas": 4}
    half["status"]["subsetStatuses"][0] |= {"missingReplicas": 2}
    process.put(half)
    web: JSON = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 4}}
    process.server.put(*DEPLOYMENTS, web)
    assert await process.reserve("0") == ["a"]
    process.server.put(*DEPLOYMENTS, {**web, "spec": {"replicas": replicas}})
    before = process.writes
    assert await process.reserve("1", "2", "3") == want
    assert process.writes == before + 2, "a size that is known is not waited for"
    assert len(process.rows["a"]["creating"]) == 1 + want.count("a")


async def test_a_changed_size_is_decided_again_at_once(process: WebhookProcess) -> None:
    """Requests are pending, and no other process has written: there is nothing to wait for."""
    half = topology(2, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    process.put(half)
    process.server.put(*DEPLOYMENTS, deployment(4))
    await process.reserve("0")
    process.server.put(*DEPLOYMENTS, deployment(8))
    moments = slow_writes(process, 1.0)
    await process.reserve("1")
    first, second = moments
    assert (second - first) / SECOND == pytest.approx(1.0, abs=0.01)


async def test_a_workload_that_has_grown_is_noticed(process: WebhookProcess) -> None:
    """A percentage is skipped only after the size was read."""
    half = topology(1, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    half["status"] |= {"replicas": 2}
    half["status"]["subsetStatuses"][0] |= {"missingReplicas": 0, "replicas": 1}
    process.put(half)
    process.server.put(*DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 6}})
    assert await process.reserve("1", "2", "3") == ["a", "a", "b"]


async def test_the_size_is_forgotten_with_the_cached_object(process: WebhookProcess) -> None:
    """What the workload has become meanwhile is read before the first write, which is not repeated."""
    half = topology(2, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    half["status"] |= {"replicas": 4}
    process.put(half)
    process.server.put(*DEPLOYMENTS, deployment(4))
    assert await process.reserve("0") == ["a"]
    (stored,) = process.server.objects("unitedtopologies")
    process.cached = {}
    assert process.batcher.current(KEY) is None
    assert process.batcher.remembered == set()
    process.cached = stored
    process.server.put(*DEPLOYMENTS, deployment(8))
    before = process.writes
    assert await process.reserve("1", "2", "3", "4") == ["a", "a", "a", "b"]
    assert process.writes == before + 1


async def test_a_workload_that_has_shrunk_is_noticed(process: WebhookProcess) -> None:
    """Half of ten were counted, and now it is half of four: no capacity beyond that, and one read is enough."""
    half = topology(5, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    process.put(half)
    process.server.put(*DEPLOYMENTS, deployment(4))
    assert await process.reserve("1", "2", "3") == ["a", "a", "b"]
    assert sum(request.path.endswith("/deployments/web") for request in process.server.requests) == 1


async def test_a_cache_that_advances_during_the_size_lookup_is_decided_from(process: WebhookProcess) -> None:
    """The write is decided from the newest version that is known by then: it does not conflict."""
    half = topology(1, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "10%"
    process.put(half)
    process.server.put(*DEPLOYMENTS, deployment(10))

    def advance(request: Request) -> Response | Exception | None:
        if request.path.endswith("/deployments/web"):
            (stored,) = process.server.objects("unitedtopologies")
            stored["status"]["subsetStatuses"][0]["creating"] = {"of-x": "2026-01-01T00:00:00Z"}
            process.put(stored)
        return None

    process.server.intercept = advance
    assert await process.reserve("1") == ["b"]
    assert process.writes == 1


async def test_the_pause_after_a_conflict_is_short_on_a_slow_server(process: WebhookProcess) -> None:
    """Each write takes five seconds: the batch that lost is not repeated as much later, but at once."""
    assert 0 < await pause_after_conflict(process) <= pacing.LONGEST_AFTER_CONFLICT + 0.001


async def pause_after_conflict(process: WebhookProcess) -> float:
    """The seconds between the end of a write that conflicted and the next one."""
    process.put(topology(1, -1))
    process.server.put(*TOPOLOGIES, topology(1, -1))
    tried: list[int] = []

    def slowly(request: Request) -> Response | Exception | None:
        if request.method == "PATCH":
            tried.append(process.clock.monotonic())
            process.clock.work(5.0)
        return None

    process.server.intercept = slowly
    assert await process.reserve("1") == ["a"]
    first, second = tried
    return (second - first) / SECOND - 5.0


async def test_the_pause_after_the_first_conflict_is_not_shortened() -> None:
    """Processes that lost together are spread over the whole interval, with a random source of their own too."""
    waits: list[float] = []
    for rng in (*map(random.Random, range(5)), None):
        process = WebhookProcess(rng)
        waits.append(await pause_after_conflict(process))
        await process.batcher.close()
    assert max(waits) > pacing.LONGEST_AFTER_CONFLICT / 2


async def test_a_deleted_workload_has_the_counted_size(process: WebhookProcess) -> None:
    """Its ReplicaSet may outlive it, and go on making pods."""
    half = topology(5, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    process.put(half)
    assert await process.reserve("1") == ["a"]


async def test_without_percentages_the_size_is_not_read(process: WebhookProcess) -> None:
    """Without a percentage the workload is not read."""
    process.put(topology(1, -1))
    assert await process.reserve("1") == ["a"]
    assert {request.method for request in process.server.requests} == {"PATCH"}


def deployment(replicas: int) -> JSON:
    """The workload."""
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": selector},
    }


def populate(process: WebhookProcess, *pods: JSON, replicas: int = 10) -> None:
    """The workload, its ReplicaSet, and these pods of it."""
    uid = process.server.put(*DEPLOYMENTS, deployment(replicas))["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": True}
    metadata = {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": [owner]}
    made = process.server.put("/apis/apps/v1", "replicasets", {"metadata": metadata, "spec": {}})
    made["metadata"]["uid"] = "r1"
    for each in pods:
        each["metadata"]["labels"] = {"app": "web"}
        stored = process.server.put(*PODS, each)
        if each.get("status", {}).get("phase") == "Failed":
            process.ended[each["metadata"]["name"]] = stored["metadata"]["resourceVersion"]


async def test_a_renamed_subset_is_counted_before_it_is_filled(process: WebhookProcess) -> None:
    """Until then the status has no row of its name, and it would count as empty. It is counted once."""
    renamed = topology(1, -1)
    renamed["metadata"]["generation"] = 2
    renamed["spec"]["subsets"][0]["name"] = "zone-a"
    process.put(renamed)
    populate(process, pod("p", "zone-a"))
    assert await process.reserve("1") == ["b"]
    assert process.rows["zone-a"]["replicas"] == 1
    assert await process.reserve("2") == ["b"]
    assert sum(request.path.endswith("/pods") for request in process.server.requests) == 1


async def test_a_pod_without_annotations_is_counted_by_its_node(process: WebhookProcess) -> None:
    """It was created before the UnitedTopology: its node is read, and those of annotated pods are not."""
    fresh = topology(1, -1)
    fresh["metadata"]["generation"] = 2
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
    fresh["spec"]["subsets"][0]["nodeSelectorTerm"] = term
    process.put(fresh)
    for name, zone in (("n1", "z1"), ("n2", "z2")):
        process.server.put("/api/v1", "nodes", {"metadata": {"name": name, "labels": {"zone": zone}}})
    early = {**pod("p", annotations={}), "spec": {"containers": [], "nodeName": "n1"}}
    known = {**pod("q", "b"), "spec": {"containers": [], "nodeName": "n2"}}
    populate(process, early, known)
    assert await process.reserve("1") == ["b"]
    assert (process.rows["a"]["replicas"], process.rows["b"]["replicas"]) == (1, 1)
    assert [request.path for request in process.server.requests if "/nodes/" in request.path] == ["/api/v1/nodes/n1"]


async def test_a_deletion_is_announced_for_an_uncounted_generation(process: WebhookProcess) -> None:
    """The pod is still counted, whatever else is to be counted anew."""
    process.put(topology(2, -1))
    await process.reserve("p")
    (stored,) = process.server.objects("unitedtopologies")
    process.put({**stored, "metadata": {**stored["metadata"], "generation": 2}})
    process.server.put(*PODS, pod("p"))
    assert await process.settled(asyncio.ensure_future(process.batcher.announce_deletion(KEY, "p", ""))) is True


def full_of(*names: str, deleting: int = 0) -> JSON:
    """A subset that holds these pods and may hold no more, and one without a limit."""
    full = topology(len(names), -1)
    since = "2026-01-01T00:00:00Z"
    row = {"name": "a", "replicas": len(names), "deleting": dict.fromkeys(names[:deleting], since)}
    full["status"]["subsetStatuses"][0] = row
    full["status"]["countedVersion"] = "1"
    return full


async def test_any_number_of_terminating_pods_is_found(process: WebhookProcess) -> None:
    """They are read some hundred at a time, and no pod goes to the next subset before all have been."""
    names = [f"gone-{number}" for number in range(450)]
    process.put(full_of(*names, deleting=450))
    assert set(await process.reserve(*(f"p{number}" for number in range(450)))) == {"a"}
    assert await process.reserve("one more") == ["b"]
    looks = [request.path for request in process.server.requests if "/pods/" in request.path]
    assert len(looks) == len(set(looks)) == 450


async def test_the_second_deletion_of_a_name_is_not_taken_for_the_first(process: WebhookProcess) -> None:
    """A pod was gone; another of its name still exists after a refused eviction."""
    process.put(full_of("p", deleting=1))
    assert await process.reserve("1") == ["a"]
    again = full_of("p", deleting=1)
    again["status"]["subsetStatuses"][0]["deleting"]["p"] = "2026-01-01T00:01:00Z"
    process.put(again)
    process.server.put(*PODS, pod("p"))
    assert await process.reserve("2") == ["b"]


async def test_capacity_of_a_failed_pod_is_assigned(process: WebhookProcess) -> None:
    """No webhook was called for it; but it was seen, and that triggers an uncached recount."""
    process.put(full_of("p", "q"))
    populate(process, pod("p"), {**pod("q"), "status": {"phase": "Failed"}})
    assert await process.reserve("1", "2") == ["a", "b"]


async def test_a_failed_pod_frees_capacity_once(process: WebhookProcess) -> None:
    """Its successor is counted instead, however old the cache is."""
    process.put(full_of("p", "r"))
    populate(process, pod("p"), {**pod("q"), "status": {"phase": "Failed"}}, pod("r"))
    assert await process.reserve("1") == ["b"]
    assert await process.reserve("2") == ["b"]
    lists = [request for request in process.server.requests if request.path.endswith("/pods")]
    assert 1 <= len(lists) <= 2, "one recount, or one more by the stored status"


async def test_a_released_pod_triggers_one_recount(process: WebhookProcess) -> None:
    """It is no pod of the workload any more, so `countedVersion` does not cover it; the process remembers the list."""
    process.put(full_of("p"))
    populate(process, pod("p"))
    process.ended["q"] = process.server.put(*PODS, pod("q", ownerReferences=[]))["metadata"]["resourceVersion"]
    assert await process.reserve("1") == ["b"]
    counts = [request for request in process.server.requests if request.path.endswith("/pods")]
    assert await process.reserve("2") == ["b"]
    assert [request for request in process.server.requests if request.path.endswith("/pods")] == counts != []


async def test_a_recount_without_a_write_is_not_repeated(process: WebhookProcess) -> None:
    """Every subset stays full: no pod gets a subset, and there is no recount for each of them."""
    full = full_of("p")
    del full["spec"]["subsets"][1], full["status"]["subsetStatuses"][1]
    populate(process, pod("p"))
    (counted,) = process.server.objects("pods")
    full["status"]["countedVersion"] = counted["metadata"]["resourceVersion"]
    process.put(full)
    process.ended["q"] = process.server.put(*PODS, pod("q", ownerReferences=[]))["metadata"]["resourceVersion"]
    assert await process.reserve("1") == [None]
    counts = [request for request in process.server.requests if request.path.endswith("/pods")]
    assert await process.reserve("2") == [None]
    assert [request for request in process.server.requests if request.path.endswith("/pods")] == counts != []
    assert process.writes == 0


async def test_with_free_capacity_ended_pods_are_not_checked(process: WebhookProcess) -> None:
    """One write, and no read."""
    process.put(topology(1, -1))
    process.ended = {"q": "999999"}
    assert await process.reserve("1") == ["a"]
    assert {request.method for request in process.server.requests} == {"PATCH"}


class BrokenError(Exception):
    """An error that is no response of a server."""


async def test_any_failure_is_retried_after_a_wait(process: WebhookProcess) -> None:
    """Any error: the requests get it, and withdrawals are left to the controller in the end."""
    process.put(topology(1))
    process.server.intercept = lambda _: BrokenError("no token")
    with pytest.raises(BrokenError):
        await process.reserve("1")
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(process.server.requests) == 1
    await process.clock.advance(60)
    await process.idle()
    assert len(process.server.requests) == 1 + pacing.MOST_FAILURES


async def test_the_wait_after_many_failures_is_bounded(process: WebhookProcess) -> None:
    """Pods were created all the time; the wait between two attempts does not grow for ever."""
    process.put(topology(1))
    process.server.intercept = lambda _: BrokenError("no token")
    for number in range(60):
        work = asyncio.gather(process.batcher.reserve(KEY, PodCreation(f"of-{number}", "r1")), return_exceptions=True)
        while not work.done():
            await process.clock.advance(0.5)
    process.server.intercept = None
    last = asyncio.ensure_future(process.batcher.reserve(KEY, PodCreation("of-last", "r1")))
    await process.clock.advance(2.5)
    assert last.done()
    assert _name(last.result()) == "a"


async def test_an_invalid_spec_raises_and_does_not_hang(process: WebhookProcess) -> None:
    """It was stored without validation: nothing is decided from it, and nothing hangs."""
    process.put(topology(1))
    process.cached["spec"]["subsets"][0]["maxReplicas"] = 3_000_000_000
    with pytest.raises(InvalidError):
        await process.reserve("1")
    await process.clock.advance(60)
    await process.idle()


async def test_simulations_end_in_time(process: WebhookProcess) -> None:
    """Each pod would take a tenth of a second; after three tenths they take the first subset with free capacity."""
    adaptive = topology(-1, -1)
    adaptive["spec"]["scheduleStrategy"] = {"type": "Adaptive"}
    process.put(adaptive)
    asked: list[int] = []

    def fits(subset: int) -> bool:
        asked.append(subset)
        process.clock.work(0.1)
        return True

    everyone = [process.batcher.reserve(KEY, PodCreation(f"of-{number}", "r1", fits)) for number in range(10)]
    await process.settled(asyncio.gather(*everyone))
    assert asked == [0, 0, 0]
    skipped = process.batcher.metrics.registry.get_sample_value(
        "trimtab_subset_simulations_skipped_total", {"reason": "no-time"}
    )
    assert skipped == 7


async def test_other_tasks_run_between_simulations(process: WebhookProcess) -> None:
    """Each takes longer than a slice; of a single pod in many subsets, too."""
    adaptive = topology(*(-1 for _ in range(5)))
    adaptive["spec"]["scheduleStrategy"] = {"type": "Adaptive"}
    process.put(adaptive)
    turns = 0
    simulated: list[int] = []

    def fits(_: int) -> bool:
        simulated.append(turns)
        process.clock.work(0.02)
        return False

    creations = [PodCreation(f"of-{number}", "r1", fits, is_affected_by_peers=True) for number in range(2)]
    work = asyncio.gather(*(process.batcher.reserve(KEY, each) for each in creations))
    while not work.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(simulated) == len(set(simulated)) == 10
    assert process.writes == 1, "it is still one batch"


async def test_a_status_that_changes_between_simulations_is_decided_from_again(process: WebhookProcess) -> None:
    """Another process takes the last place while the pods are simulated: no limit is exceeded."""
    adaptive = topology(1, 1)
    adaptive["spec"]["scheduleStrategy"] = {"type": "Adaptive"}
    process.put(adaptive)
    asked: list[int] = []

    def fits(subset: int) -> bool:
        if not asked:
            (stored,) = process.server.objects("unitedtopologies")
            stored["status"]["subsetStatuses"][0]["creating"] = {"other": times.format_micro(process.clock.now())}
            process.put(stored)
        asked.append(subset)
        process.clock.work(0.02)
        return True

    work = asyncio.gather(*(process.batcher.reserve(KEY, PodCreation(f"of-{each}", "r1", fits)) for each in "12"))
    assert [_name(each) for each in await process.settled(work)] == ["b", None]
    assert [len(row["creating"]) for row in process.rows.values()] == [1, 1]
    assert asked == [0, 1, 1]


async def test_an_unreachable_server_is_retried_with_growing_waits(process: WebhookProcess) -> None:
    """Withdrawals are retried with growing waits, and left to the controller in the end."""
    process.put(topology(2))
    await process.reserve("0")
    tried: list[int] = []

    def refuse(_: Request) -> Response | Exception | None:
        tried.append(process.clock.monotonic())
        return Unreachable("connection refused", sent=False)

    process.server.intercept = refuse
    for _ in range(2):  # when all are given up, the next failure is the first of a new row
        tried.clear()
        with pytest.raises(Unreachable):
            await process.reserve("1")
        await process.clock.advance(60)
        await process.idle()
        waits = [(later - earlier) / SECOND for earlier, later in pairwise(tried)]
        assert waits == [pytest.approx(0.1 * failures, abs=0.01) for failures in range(1, pacing.MOST_FAILURES + 1)]


async def test_a_success_between_two_failures_ends_the_growth_of_waits(process: WebhookProcess) -> None:
    """Requests are pending all the time: without the success, the second wait would be twice as long."""
    process.put(topology(9))
    process.server.bad.latency = 0.01
    tried: list[int] = []
    later: list[asyncio.Future[Assignment | None]] = []

    def intercept(_: Request) -> Response | Exception | None:
        tried.append(process.clock.monotonic())
        if len(tried) == 2:  # arrives while another request is being written
            later.append(asyncio.ensure_future(process.batcher.reserve(KEY, PodCreation("of-3", "r1"))))
        return Unreachable("connection refused", sent=False) if len(tried) in (1, 3) else None

    process.server.intercept = intercept
    with pytest.raises(Unreachable):
        await process.reserve("1")
    assert await process.reserve("2") == ["a"]
    with pytest.raises(Unreachable):
        await process.settled(later[0])
    await process.clock.advance(5)
    await process.idle()
    assert (tried[1] - tried[0]) / SECOND == pytest.approx(0.1, abs=0.03)
    assert (tried[3] - tried[2]) / SECOND == pytest.approx(0.1, abs=0.03)


async def test_a_topology_that_is_created_again_keeps_reservations(process: WebhookProcess) -> None:
    """Pods may be between admission and storage: their capacity is not assigned to others."""
    process.put(topology(2, -1))
    assert await process.reserve("1") == ["a"]
    (stored,) = process.server.objects("unitedtopologies")
    process.server.drop(*TOPOLOGIES, "shop/spread")
    process.cached = {}
    process.batcher.forget(codec.convert(stored, UnitedTopology))
    assert await process.reserve("2") == [None]
    process.put(topology(2, -1))
    assert await process.reserve("3", "4") == ["a", "b"]
    assert process.rows["a"]["creating"].keys() == {"of-1", "of-3"}


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(Conflict("changed meanwhile"), ["b", "b"], id="a conflict"),
        pytest.param(Unreachable("connection refused", sent=False), ["a", "b"], id="a failure"),
    ],
)
async def test_reservations_of_a_deleted_topology_are_restored_after(
    error: Exception, want: list[str], process: WebhookProcess
) -> None:
    """The write that did not succeed would have restored them: the next one does."""
    process.put(topology(2, -1))
    assert await process.reserve("1") == ["a"]
    (stored,) = process.server.objects("unitedtopologies")
    process.server.drop(*TOPOLOGIES, "shop/spread")
    process.cached = {}
    process.batcher.forget(codec.convert(stored, UnitedTopology))
    process.put(topology(2, -1))
    before = process.writes
    process.server.intercept = lambda request: (
        error if request.method == "PATCH" and process.writes == before + 1 else None
    )
    with suppress(Unreachable):
        await process.reserve("2")
    assert await process.reserve("3", "4") == want
    assert "of-1" in process.rows["a"]["creating"]


async def test_reservations_of_a_deleted_topology_are_forgotten_in_time(process: WebhookProcess) -> None:
    """No pod comes later than that."""
    process.put(topology(2, -1))
    await process.reserve("1")
    (stored,) = process.server.objects("unitedtopologies")
    process.batcher.forget(codec.convert(stored, UnitedTopology))
    since = times.parse_ns(stored["status"]["subsetStatuses"][0]["creating"]["of-1"])
    ends = since + round(CREATION_LIMIT.total_seconds() * SECOND)
    process.clock.work((ends - process.clock.now()) / SECOND - 0.001)
    assert process.batcher.remembered == {KEY}
    process.clock.work(0.001)
    assert process.batcher.remembered == set()
    process.batcher.forget(codec.convert({**topology(1), "metadata": {"name": "other"}}, UnitedTopology))
    assert process.batcher._batches == {}  # noqa: SLF001 - a leak shows nowhere else
    process.put(topology(2, -1))
    await process.reserve("2")
    assert process.rows["a"]["creating"].keys() == {"of-2"}
