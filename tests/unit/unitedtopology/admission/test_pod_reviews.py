"""Reviews of pods that come and go: what is asked of the batcher, and what is answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.admission.test_status_batcher import PODS, TOPOLOGIES, pod, topology
from trimtab.api import annotations as keys
from trimtab.api import codec
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, AdmissionReview
from trimtab.api.annotations import DELETION_COST
from trimtab.api.documents import JSON
from trimtab.api.patches import json_patch
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Conflict
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.deletion_reviews import CHECK_AFTER, is_dry_run
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.admission.pod_reviews import Simulate

SETS = ("/apis/apps/v1", "replicasets")
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1", "controller": True}


def review(operation: str, tree: JSON, *, uid: str = "0-1", sub: str = "", **more: Any) -> AdmissionRequest:
    """A review as an API server sends it."""
    shown = {"oldObject" if operation == "DELETE" else "object": tree}
    request = {"uid": uid, "operation": operation, "namespace": "shop", "subResource": sub, **shown, **more}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    found = codec.decode(codec.encode(body), AdmissionReview).request
    assert found is not None
    return found


def newcomer(**annotations: str) -> JSON:
    """A pod that its ReplicaSet is creating."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r1", "controller": True}
    metadata = {"generateName": "web-1-", "ownerReferences": [owner], "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


class Office:
    """The hooks of one process over a fake server."""

    def __init__(self, simulate: Simulate | None) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.subsets = SubsetHooks(Client(self.server, clock=self.clock), simulate=simulate, rng=random.Random(1))
        self._running = asyncio.ensure_future(self.subsets.run())

    async def divide(self, tree: JSON) -> None:
        """Store a UnitedTopology and its ReplicaSet, and let the hooks see them."""
        owned = {"name": "web-1", "namespace": "shop", "ownerReferences": [DEPLOYMENT], "uid": "r1"}
        self.server.put(*SETS, {"metadata": owned})
        for stored in self.server.objects("replicasets"):
            stored["metadata"]["uid"] = "r1"
        self.server.put(*TOPOLOGIES, tree)
        await self.until(lambda: self.subsets.synced and self.subsets.topologies.has_any_in("shop"))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something is so."""
        while not condition():
            await self._pass()

    async def ask(self, request: AdmissionRequest, place: int = 0) -> AdmissionResponse:
        """The answer of the first hook (creations) or the second (deletions)."""
        work = asyncio.ensure_future(_awaited(self.subsets.hooks[place].decide(request)))
        while not work.done():
            await self._pass()
        return work.result()

    async def _pass(self) -> None:
        await asyncio.sleep(0)
        await self.clock.advance(0.001)

    @property
    def row(self) -> JSON:
        """The first subset as it is stored."""
        (stored,) = self.server.objects("unitedtopologies")
        row: JSON = stored["status"]["subsetStatuses"][0]
        return row

    async def close(self) -> None:
        """End it."""
        await cancel(self._running)


async def _awaited(decision: Any) -> AdmissionResponse:
    response: AdmissionResponse = await decision
    return response


@pytest.fixture
async def offices() -> AsyncIterator[Callable[..., Office]]:
    """Makes offices, and ends them."""
    made: list[Office] = []

    def make(simulate: Simulate | None = None) -> Office:
        made.append(Office(simulate))
        return made[-1]

    yield make
    for office in made:
        await office.close()


def subset_of(tree: JSON, response: AdmissionResponse) -> str | None:
    """The subset that a pod is in after the answer."""
    assert response.allowed
    if response.patch is None:
        return None
    shaped = json_patch(tree, codec.decode(response.patch, list[Any]))
    mark = keys.subset_annotations(shaped["metadata"].get("annotations") or {})
    return mark.subset if mark is not None else None


async def test_a_deleted_united_topology_is_forgotten(offices: Callable[..., Office]) -> None:
    """Namespaces come and go for months, and a process stays."""
    office = offices()
    await office.divide(topology(1, -1))
    await office.ask(review("CREATE", newcomer()))
    assert len(office.subsets.batcher.remembered) == 1
    (gone,) = office.subsets.batcher.remembered
    office.server.drop(*TOPOLOGIES, gone)
    await office.until(lambda: not office.subsets.batcher.remembered)


async def test_a_pod_gets_a_reservation_and_annotations(offices: Callable[..., Office]) -> None:
    """By the UnitedTopology of its Deployment; the reservation begins with the pod's prefix."""
    office = offices()
    await office.divide(topology(1, -1))
    response = await office.ask(review("CREATE", newcomer()))
    assert subset_of(newcomer(), response) == "a"
    assert [key.startswith("web-1-") for key in office.row["creating"]] == [True]


@pytest.mark.parametrize(
    ("most", "annotations", "want"),
    [
        pytest.param((1, -1), {}, ("4000000", "4000000"), id="within a maximum it is Guaranteed"),
        pytest.param((0, -1), {}, (None, None), id="without a maximum it is BestEffort"),
        pytest.param((1, -1), {DELETION_COST: "7"}, ("7", None), id="a cost of the template is its author's"),
    ],
)
async def test_a_pod_is_created_with_the_cost_of_its_level(
    most: tuple[int, ...],
    annotations: dict[str, str],
    want: tuple[str | None, str | None],
    offices: Callable[..., Office],
) -> None:
    """Nobody has to write to it once more."""
    office = offices()
    await office.divide(topology(*most))
    tree = newcomer(**annotations)
    response = await office.ask(review("CREATE", tree))
    assert response.patch is not None
    found = json_patch(tree, codec.decode(response.patch, list[Any]))["metadata"]["annotations"]
    assert (found.get(DELETION_COST), found.get(keys.SUBSET_COST)) == want


async def test_a_repeated_review_makes_no_second_reservation(offices: Callable[..., Office]) -> None:
    """Another webhook changed the pod, which has its place already."""
    office = offices()
    await office.divide(topology(2, -1))
    first = await office.ask(review("CREATE", newcomer()))
    assert first.patch is not None
    shaped = json_patch(newcomer(), codec.decode(first.patch, list[Any]))
    again = await office.ask(review("CREATE", shaped, uid="0-2"))
    assert (again.allowed, again.patch) == (True, None)
    assert len(office.row["creating"]) == 1


async def test_annotations_of_the_template_are_no_reservation(offices: Callable[..., Office]) -> None:
    """It is replaced by a real one."""
    office = offices()
    await office.divide(topology(1, -1))
    tree = newcomer(**keys.SubsetAnnotations("spread", "b", "made-up").written())
    assert subset_of(tree, await office.ask(review("CREATE", tree))) == "a"


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param({"type": "Adaptive"}, "b", id="Adaptive asks for a node"),
        pytest.param({"type": "Fixed"}, "a", id="Fixed does not"),
        pytest.param(
            {"type": "Adaptive", "adaptive": {"disableSimulationSchedule": True}}, "a", id="nor one that is told not to"
        ),
    ],
)
async def test_simulation_chooses_the_subset(strategy: JSON, want: str, offices: Callable[..., Office]) -> None:
    """The pod is judged as the subset would shape it, mark included."""

    def only_b(tree: JSON, namespace: str) -> bool:
        mark = keys.subset_annotations(tree["metadata"]["annotations"])
        return namespace == "shop" and mark is not None and mark.subset == "b"

    office = offices(only_b)
    divided = topology(-1, -1)
    divided["spec"]["scheduleStrategy"] = strategy
    await office.divide(divided)
    assert subset_of(newcomer(), await office.ask(review("CREATE", newcomer()))) == want


def only_b(tried: list[str]) -> Simulate:
    """The second subset alone has nodes; which ones are tried is noted."""

    def simulate(tree: JSON, namespace: str) -> bool:
        del namespace
        mark = keys.subset_annotations(tree["metadata"]["annotations"])
        assert mark is not None
        tried.append(mark.subset)
        return mark.subset == "b"

    return simulate


def conflicting(office: Office, stored: JSON | None = None) -> None:
    """Let the first write lose against another process, which has stored this."""
    lost: list[Request] = []

    def lose(request: Request) -> Response | Exception | None:
        if request.method != "PATCH" or lost:
            return None
        lost.append(request)
        if stored is not None:
            office.server.put(*TOPOLOGIES, stored)
        return Conflict("changed meanwhile")

    office.server.intercept = lose


async def test_a_subset_is_simulated_once_for_each_pod(offices: Callable[..., Office]) -> None:
    """A round that is repeated remembers the answers: looking for a node takes time."""
    tried: list[str] = []
    office = offices(only_b(tried))
    await office.divide({**topology(-1, -1), "spec": adaptive(2)})
    conflicting(office)
    assert subset_of(newcomer(), await office.ask(review("CREATE", newcomer()))) == "b"
    assert tried == ["a", "b"]


async def test_a_subset_that_was_added_meanwhile_is_taken_to_fit(offices: Callable[..., Office]) -> None:
    """The review began with a spec of two subsets, neither of which has a node; the write found three."""
    office = offices(lambda _tree, _namespace: False)
    await office.divide({**topology(-1, -1), "spec": adaptive(2)})
    conflicting(office, {**topology(-1, -1, -1), "spec": adaptive(3)})
    assert subset_of(newcomer(), await office.ask(review("CREATE", newcomer()))) == "c"


def adaptive(count: int) -> JSON:
    """A spec with so many subsets without a limit."""
    return {**topology(*[-1] * count)["spec"], "scheduleStrategy": {"type": "Adaptive"}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ["a"], id="where one found no node, its like do not look"),
        pytest.param({"topologySpreadConstraints": [{}]}, ["a", "a"], id="unless they are to be spread"),
        pytest.param({"affinity": {"podAffinity": {}}}, ["a"], id="an empty affinity is none"),
        pytest.param({"affinity": {"podAffinity": {"x": []}}}, ["a", "a"], id="or to be near others"),
    ],
)
async def test_concurrent_pods_share_simulation_results(
    spec: JSON, want: list[str], offices: Callable[..., Office]
) -> None:
    """Only a no: every yes takes room."""
    tried: list[str] = []
    office = offices(only_b(tried))
    await office.divide({**topology(-1, -1), "spec": adaptive(2)})
    tree = newcomer()
    tree["spec"] |= spec
    answers = asyncio.gather(*(office.ask(review("CREATE", tree, uid=f"0-{number}")) for number in range(2)))
    assert [subset_of(tree, answer) for answer in await answers] == ["b", "b"]
    assert [name for name in tried if name == "a"] == want


async def test_a_patch_that_does_not_apply_withdraws_the_reservation(offices: Callable[..., Office]) -> None:
    """To a pod of this shape: the pod goes on as it is, and people are told."""
    office = offices()
    divided = topology(1, -1)
    divided["spec"]["subsets"][0]["patch"] = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    await office.divide(divided)
    nameless = newcomer()
    nameless["spec"]["containers"] = [{"image": "web:1"}]
    assert subset_of(nameless, await office.ask(review("CREATE", nameless))) is None
    await office.until(lambda: not office.row.get("creating"))
    await office.until(lambda: [each["reason"] for each in office.server.objects("events")] == ["PatchFailed"])


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda: review("UPDATE", newcomer()), id="an update"),
        pytest.param(lambda: review("CREATE", newcomer(), sub="binding"), id="a subresource"),
        pytest.param(lambda: review("CREATE", {"metadata": {}, "spec": {}}), id="a pod without an owner"),
    ],
)
async def test_other_reviews_are_admitted(
    request_of: Callable[[], AdmissionRequest], offices: Callable[..., Office]
) -> None:
    """Nothing is looked at."""
    office = offices()
    await office.divide(topology(1))
    response = await office.ask(request_of())
    assert (response.allowed, response.patch) == (True, None)


async def test_a_deletion_is_announced_and_checked_later(offices: Callable[..., Office]) -> None:
    """The pod lives on: after a while nothing is left of it."""
    office = offices()
    divided = topology(1, -1)
    divided["status"]["subsetStatuses"][0] = {"name": "a", "replicas": 1}
    await office.divide(divided)
    stored = office.server.put(*PODS, pod("p"))
    assert (await office.ask(review("DELETE", stored, name="p"), 1)).allowed
    assert list(office.row["deleting"]) == ["p"]
    await office.clock.advance(CHECK_AFTER)
    await office.until(lambda: not office.row.get("deleting"))


async def test_an_eviction_is_announced(offices: Callable[..., Office]) -> None:
    """The review shows no pod, so it is read."""
    office = offices()
    divided = topology(1, -1)
    divided["status"]["subsetStatuses"][0] = {"name": "a", "replicas": 1}
    await office.divide(divided)
    office.server.put(*PODS, pod("p"))
    eviction = {"metadata": {"name": "p", "namespace": "shop"}}
    assert (await office.ask(review("CREATE", eviction, name="p", sub="eviction"), 1)).allowed
    assert list(office.row["deleting"]) == ["p"]


@pytest.mark.parametrize(
    ("request_of", "want"),
    [
        pytest.param(lambda: review("DELETE", pod("p")), False, id="a deletion"),
        pytest.param(lambda: review("DELETE", pod("p"), dryRun=True), True, id="the review says so"),
        pytest.param(lambda: review("DELETE", pod("p"), options={"dryRun": ["All"]}), True, id="the options say so"),
        pytest.param(
            lambda: review("CREATE", {"deleteOptions": {"dryRun": ["All"]}}, sub="eviction"),
            True,
            id="the eviction's body says so",
        ),
        pytest.param(lambda: review("CREATE", {"deleteOptions": None}, sub="eviction"), False, id="an eviction"),
    ],
)
def test_dry_runs_are_recognized(request_of: Callable[[], AdmissionRequest], want: bool) -> None:
    """Wherever it is said."""
    assert is_dry_run(request_of()) is want
