"""Group commit: who waits together is written together, and nobody's place is lost or given twice on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.documents import JSON
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.errors import Unreachable
from trimtab.kube.resources import Key
from trimtab.kube.transport import Request, Response
from trimtab.subsets import marks
from trimtab.subsets.allocation import Applicant
from trimtab.testing.clocks import VirtualClock
from trimtab.webhooks.rounds import Placed, Rounds

KEY = Key("shop/spread")
TOPOLOGIES = ("/apis/apps.kruise.io/v1alpha1", "unitedtopologies")
PODS = ("/api/v1", "pods")
DEPLOYMENTS = ("/apis/apps/v1", "deployments")


def topology(*missing: int, **more: Any) -> JSON:
    """A UnitedTopology that has been counted: so many pods are missing in each subset; -1 is no maximum."""
    names = [chr(ord("a") + place) for place in range(len(missing))]
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
    """A pod of the first revision that was given a place."""
    mark = marks.Mark("spread", subset, f"of-{name}")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r1", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": marks.written(mark),
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"containers": []},
    }


class Counter:
    """One webhook process and the server behind it; its cache is what the test says."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.cached: JSON = {}
        self.rounds = Rounds(Client(self.server, clock=self.clock), self._cached, rng=random.Random(1))

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
        work = asyncio.gather(*(self.rounds.reserve(KEY, Applicant(f"of-{name}", "r1")) for name in names))
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
        while self.rounds.busy:
            await asyncio.sleep(0)


def _name(placed: Placed | None) -> str | None:
    if placed is None or placed.subset is None:
        return None
    return placed.topology.spec.subsets[placed.subset].name


@pytest.fixture
async def desk() -> AsyncIterator[Counter]:
    """A webhook process."""
    counter = Counter()
    yield counter
    await counter.rounds.close()


async def test_who_comes_together_shares_a_write(desk: Counter) -> None:
    """In the order in which they came, and each sees those before."""
    desk.put(topology(3, 2, -1))
    assert await desk.reserve(*"123456") == ["a", "a", "a", "b", "b", "c"]
    assert desk.writes == 1


async def test_an_old_cache_costs_a_conflict_and_nothing_else(desk: Counter) -> None:
    """What another process has reserved meanwhile is seen in the second round."""
    desk.put(topology(1, -1))
    other = topology(1, -1)
    other["status"]["subsetStatuses"][0]["creating"] = {"of-x": "2026-01-01T00:00:00Z"}
    desk.server.put(*TOPOLOGIES, other)
    assert await desk.reserve("1") == ["b"]
    assert desk.writes == 2


async def test_nobody_is_let_go_by_an_old_cache(desk: Counter) -> None:
    """The cache says full, and there is nothing to write by which that would be noticed: it is read first."""
    full = topology(1)
    full["status"]["subsetStatuses"][0] |= {"missingReplicas": 0, "replicas": 1}
    desk.put(full)
    desk.server.put(*TOPOLOGIES, topology(1))
    assert await desk.reserve("1", "2") == ["a", None]


async def test_who_is_out_of_time_gives_its_place_back(desk: Counter) -> None:
    """Its pod goes on without it, so nobody will come for it."""
    desk.put(topology(1, -1))
    waiting = asyncio.ensure_future(desk.rounds.reserve(KEY, Applicant("of-1", "r1")))
    while not desk.writes:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await desk.idle()
    assert desk.rows["a"].get("creating", {}) == {}


async def test_a_write_without_an_answer_is_taken_back(desk: Counter) -> None:
    """Nobody knows whether it was done: those who waited are told of the fault, and their places withdrawn."""
    desk.put(topology(1, -1))
    lost: list[Request] = []

    def lose(request: Request) -> Response | Exception | None:
        if request.method != "PATCH" or lost:
            return None
        lost.append(request)
        desk.server.put(*TOPOLOGIES, _after(desk, request))
        return Unreachable("connection lost")

    desk.server.intercept = lose
    with pytest.raises(Unreachable):
        await desk.reserve("1")
    await desk.idle()
    assert desk.rows["a"].get("creating", {}) == {}


def _after(desk: Counter, request: Request) -> JSON:
    (stored,) = desk.server.objects("unitedtopologies")
    assert request.body is not None
    return {**stored, "status": {**stored["status"], **codec.decode(request.body, dict[str, Any])["status"]}}


async def test_a_united_topology_that_is_gone_has_nothing_to_say(desk: Counter) -> None:
    """The pod goes on as it is."""
    desk.put(topology(1))
    desk.server.drop(*TOPOLOGIES, "shop/spread")
    assert await desk.reserve("1") == [None]


async def test_a_deletion_is_announced_once(desk: Counter) -> None:
    """By however many requests, and held with the reservation while nobody has counted the pod."""
    desk.put(topology(2, -1))
    await desk.reserve("p")
    desk.server.put(*PODS, pod("p"))
    both = asyncio.gather(*(desk.rounds.leave(KEY, "p", "") for _ in range(2)))
    assert await desk.settled(both) == [True, True]
    assert list(desk.rows["a"]["deleting"]) == ["p"]
    assert list(desk.rows["a"]["creating"]) == ["p"]


@pytest.mark.parametrize(
    ("stored", "uid"),
    [
        pytest.param(pod("p", deletionTimestamp="2026-01-01T00:00:00Z"), "", id="it is going already"),
        pytest.param(pod("p"), "another", id="it is another pod of that name"),
        pytest.param(pod("p", annotations={}), "", id="it was never given a place"),
        pytest.param(None, "", id="it is gone"),
    ],
)
async def test_nothing_is_announced(stored: JSON | None, uid: str, desk: Counter) -> None:
    """What the review said may be old: the pod itself is read."""
    desk.put(topology(2))
    if stored is not None:
        desk.server.put(*PODS, stored)
    assert await desk.settled(asyncio.ensure_future(desk.rounds.leave(KEY, "p", uid))) is False
    assert desk.writes == 0


async def test_an_announced_place_is_given_only_if_the_pod_is_going(desk: Counter) -> None:
    """It is read before its place is given away; and forgotten, if it lives on."""
    announced = topology(1, -1)
    announced["status"]["subsetStatuses"][0] = {
        "name": "a",
        "replicas": 1,
        "deleting": {"p": "2026-01-01T00:00:00Z"},
    }
    desk.put(announced)
    desk.server.put(*PODS, pod("p"))
    assert await desk.reserve("1") == ["b"]
    desk.rounds.take_back(KEY, "p")
    await desk.idle()
    assert not desk.rows["a"].get("deleting")


async def test_a_place_of_a_pod_that_is_going_is_given(desk: Counter) -> None:
    """To one, and it need not be read again."""
    announced = topology(1, -1)
    announced["status"]["subsetStatuses"][0] = {
        "name": "a",
        "replicas": 1,
        "deleting": {"p": "2026-01-01T00:00:00Z"},
    }
    desk.put(announced)
    desk.server.put(*PODS, pod("p", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert await desk.reserve("1") == ["a"]
    assert await desk.reserve("2") == ["b"]
    assert sum(request.path.endswith("/pods/p") for request in desk.server.requests) == 1


async def test_a_workload_that_has_grown_is_noticed(desk: Counter) -> None:
    """A percentage is passed over only after the size was read."""
    half = topology(1, -1)
    half["spec"]["subsets"][0]["maxReplicas"] = "50%"
    half["status"] |= {"replicas": 2}
    half["status"]["subsetStatuses"][0] |= {"missingReplicas": 0, "replicas": 1}
    desk.put(half)
    desk.server.put(*DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 6}})
    assert await desk.reserve("1", "2", "3") == ["a", "a", "b"]


async def test_a_server_that_is_away_is_not_asked_without_pause(desk: Counter) -> None:
    """What is to be withdrawn is tried again, later and later, and at last left to the controller."""
    desk.put(topology(1))
    desk.server.intercept = lambda _: Unreachable("nobody there", sent=False)
    with pytest.raises(Unreachable):
        await desk.reserve("1")
    await desk.clock.advance(60)
    await desk.idle()
    assert 2 < desk.writes + len(desk.server.requests) < 100
