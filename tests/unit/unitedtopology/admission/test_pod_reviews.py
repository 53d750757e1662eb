"""Reviews of creations and deletions of pods: calls to the batcher, and responses."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.lab.rollouts import KIND, OWNERS
from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.admission.test_status_batcher import TOPOLOGIES, BusyClock, full_of, topology
from trimtab.admission.metrics import ReviewOutcome
from trimtab.api import annotations as keys
from trimtab.api import codec, times
from trimtab.api.admission import AdmissionRequest, AdmissionResponse, AdmissionReview
from trimtab.api.annotations import DELETION_COST
from trimtab.api.documents import JSON, Document
from trimtab.api.patches import json_patch
from trimtab.api.pods import Pod, TopologySpreadConstraint
from trimtab.api.unitedtopology import validation
from trimtab.api.unitedtopology.validation import _subset_problems
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import Conflict
from trimtab.kube.transport import Request, Response
from trimtab.subsets import shaping
from trimtab.unitedtopology.admission.fits import Simulate
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab.unitedtopology.admission.pod_reviews import _is_affected_by_peers, _Pod
from trimtab.unitedtopology.metrics import Doubt

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


class WebhookProcess:
    """The hooks of one process over a fake server."""

    def __init__(
        self,
        simulate: Simulate | None,
        allowed_fields: tuple[str, ...] = (),
        owners: ReplicaSetOwners = DEPLOYMENTS,
    ) -> None:
        self.clock = BusyClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, clock=self.clock)
        self.subsets = SubsetHooks(
            client, simulate=simulate, allowed_fields=allowed_fields, owners=owners, rng=random.Random(1)
        )
        self._running = asyncio.ensure_future(self.subsets.run())

    async def create_topology(self, tree: JSON, *, replicas: int = 10, owner: JSON = DEPLOYMENT) -> None:
        """Store a UnitedTopology and its ReplicaSet, and let the hooks see them."""
        owned = {"name": "web-1", "namespace": "shop", "ownerReferences": [owner], "uid": "r1"}
        self.server.put(*SETS, {"metadata": owned, "spec": {"replicas": replicas}})
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
        work = self.answering = asyncio.ensure_future(_awaited(self.subsets.hooks[place].decide(request)))
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
async def processes() -> AsyncIterator[Callable[..., WebhookProcess]]:
    """Makes processes, and ends them."""
    made: list[WebhookProcess] = []

    def make(
        simulate: Simulate | None = None,
        allowed_fields: tuple[str, ...] = (),
        owners: ReplicaSetOwners = DEPLOYMENTS,
    ) -> WebhookProcess:
        made.append(WebhookProcess(simulate, allowed_fields, owners))
        return made[-1]

    yield make
    for process in made:
        await process.close()


def subset_of(tree: JSON, response: AdmissionResponse) -> str | None:
    """The subset that a pod is in after the answer."""
    assert response.allowed
    if response.patch is None:
        return None
    shaped = json_patch(tree, codec.decode(response.patch, list[Any]))
    known = keys.subset_annotations(shaped["metadata"].get("annotations") or {})
    return known.subset if known is not None else None


async def test_a_deleted_united_topology_is_forgotten(processes: Callable[..., WebhookProcess]) -> None:
    """Namespaces come and go for months, and a process stays."""
    process = processes()
    await process.create_topology(topology(1, -1))
    await process.ask(review("CREATE", newcomer()))
    assert len(process.subsets.batcher.remembered) == 1
    (gone,) = process.subsets.batcher.remembered
    process.server.drop(*TOPOLOGIES, gone)
    await process.until(lambda: not process.subsets.batcher.remembered)


@pytest.mark.parametrize(
    ("owners", "version", "want"),
    [
        pytest.param(OWNERS, KIND.version, "a", id="a kind that the configuration names"),
        pytest.param(OWNERS, "v1", "a", id="whichever version the owner reference names"),
        pytest.param(DEPLOYMENTS, KIND.version, None, id="a kind that it does not name"),
    ],
)
async def test_a_pod_of_another_workload_that_owns_replicasets(
    processes: Callable[..., WebhookProcess], owners: ReplicaSetOwners, version: str, want: str | None
) -> None:
    """It gets a subset as that of a Deployment does."""
    process = processes(owners=owners)
    rollout = {**DEPLOYMENT, "apiVersion": f"{KIND.group}/{version}", "kind": "Rollout"}
    tree = topology(1, -1)
    tree["spec"]["targetRef"] = {"apiVersion": KIND.api_version, "kind": "Rollout", "name": "web"}
    await process.create_topology(tree, owner=rollout)
    response = await process.ask(review("CREATE", newcomer()))
    assert subset_of(newcomer(), response) == want


async def test_a_pod_gets_a_reservation_and_annotations(processes: Callable[..., WebhookProcess]) -> None:
    """By the UnitedTopology of its Deployment; the reservation begins with the pod's prefix."""
    process = processes()
    await process.create_topology(topology(1, -1))
    response = await process.ask(review("CREATE", newcomer()))
    assert subset_of(newcomer(), response) == "a"
    assert [key.startswith("web-1-") for key in process.row["creating"]] == [True]


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
    processes: Callable[..., WebhookProcess],
) -> None:
    """Nobody has to write to it once more."""
    process = processes()
    await process.create_topology(topology(*most))
    tree = newcomer(**annotations)
    response = await process.ask(review("CREATE", tree))
    assert response.patch is not None
    found = json_patch(tree, codec.decode(response.patch, list[Any]))["metadata"]["annotations"]
    assert (found.get(DELETION_COST), found.get(keys.SUBSET_COST)) == want


async def test_without_a_cache_of_pods_a_full_subset_stays_full(processes: Callable[..., WebhookProcess]) -> None:
    """Pods that ended are noticed when the controller counts."""
    process = processes()
    await process.create_topology(full_of("p"))
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == "b"


async def test_the_last_pod_that_an_owner_wants_is_reserved_without_a_read(
    processes: Callable[..., WebhookProcess],
) -> None:
    """Without a cache of pods, all pods of the owner are taken to be in the status."""
    process = processes()
    await process.create_topology(topology(1, -1), replicas=1)
    process.server.requests.clear()
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == "a"
    assert [request.method for request in process.server.requests] == ["PATCH"]


async def test_a_pod_beyond_all_maxima_gets_no_subset(processes: Callable[..., WebhookProcess]) -> None:
    """Without a cache of pods none has ended, as far as that is known."""
    process = processes()
    await process.create_topology(topology(1))
    answers = [await process.ask(review("CREATE", newcomer(), uid=f"0-{number}")) for number in range(3)]
    assert [subset_of(newcomer(), answer) for answer in answers] == ["a", None, None]


async def test_a_repeated_review_makes_no_second_reservation(processes: Callable[..., WebhookProcess]) -> None:
    """Another webhook changed the pod, which has a reservation already."""
    process = processes()
    await process.create_topology(topology(2, -1))
    first = await process.ask(review("CREATE", newcomer()))
    assert first.patch is not None
    shaped = json_patch(newcomer(), codec.decode(first.patch, list[Any]))
    again = await process.ask(review("CREATE", shaped, uid="0-2"))
    assert (again.allowed, again.patch) == (True, None)
    assert len(process.row["creating"]) == 1


async def test_a_dry_run_gets_the_same_answer_and_reserves_nothing(processes: Callable[..., WebhookProcess]) -> None:
    """However often it is repeated."""
    process = processes()
    await process.create_topology(topology(1, -1))
    answers = [await process.ask(review("CREATE", newcomer(), dryRun=True)) for _ in range(2)]
    assert [subset_of(newcomer(), answer) for answer in answers] == ["a", "a"]
    assert not process.row.get("creating")


async def test_a_dry_run_counts_reservations_that_the_watch_has_not_shown(
    processes: Callable[..., WebhookProcess],
) -> None:
    """This process made them: the answer is the one that the next pod gets."""
    process = processes()
    await process.create_topology(topology(1, -1))
    process.server._watchers.clear()  # noqa: SLF001 - the watch shows nothing any more
    await process.ask(review("CREATE", newcomer()))
    answer = await process.ask(review("CREATE", newcomer(), uid="0-2", dryRun=True))
    assert subset_of(newcomer(), answer) == "b"


async def test_a_dry_run_before_the_pods_are_counted_gets_no_subset(processes: Callable[..., WebhookProcess]) -> None:
    """It reads nothing, and counts nothing."""
    process = processes()
    uncounted = topology(1, -1)
    uncounted["metadata"]["generation"] = 2
    await process.create_topology(uncounted)
    process.server.requests.clear()
    assert (await process.ask(review("CREATE", newcomer(), dryRun=True))).patch is None
    assert process.server.requests == []


@pytest.mark.parametrize(("minutes", "want"), [(-1, "a"), (1, "b")], ids=["no longer", "still"])
async def test_a_dry_run_skips_a_subset_that_is_short_of_nodes(
    minutes: int, want: str, processes: Callable[..., WebhookProcess]
) -> None:
    """For the time that the status says."""
    process = processes()
    short = {**topology(-1, -1), "spec": adaptive(2)}
    until = times.format_time(process.clock.now() + minutes * 60 * SECOND)
    short["status"]["shortages"] = [{"name": "a", "until": until}]
    await process.create_topology(short)
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer(), dryRun=True))) == want


async def test_a_dry_run_simulates_for_a_limited_time(processes: Callable[..., WebhookProcess]) -> None:
    """The process answers no other request meanwhile."""
    tried: list[str] = []

    def slowly(tree: JSON, namespace: str) -> bool:
        only_b(tried)(tree, namespace)
        process.clock.work(0.2)
        return False

    process = processes(slowly)
    await process.create_topology({**topology(*[-1] * 5), "spec": adaptive(5)})
    answer = await process.ask(review("CREATE", newcomer(), dryRun=True))
    assert (subset_of(newcomer(), answer), tried) == ("c", ["a", "b"])


def large(size: int = 20_000) -> JSON:
    """A new pod with so many bytes in an annotation."""
    return newcomer(note="x" * size)


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done in the thread of the event loop, of that which takes long for a large pod."""
    found: list[str] = []

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            is_of_review = name != "decode" or arguments[1] in (_Pod, Pod)
            if is_of_review and threading.current_thread() is threading.main_thread():
                found.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(Document, "tree", watched("tree", Document.tree))
    monkeypatch.setattr(codec, "decode_object", watched("decode", codec.decode_object))
    monkeypatch.setattr(shaping, "shape", watched("shape", shaping.shape))
    return found


@pytest.mark.parametrize(("operation", "place"), [("CREATE", 0), ("DELETE", 1)])
async def test_a_large_pod_is_read_and_shaped_in_another_thread(
    operation: str, place: int, processes: Callable[..., WebhookProcess], on_the_loop: list[str]
) -> None:
    """So that other requests are answered meanwhile."""
    process = processes()
    await process.create_topology(topology(2, -1))
    response = await process.ask(review(operation, large(), options={}), place)
    assert response.allowed
    assert (response.patch is not None) == (operation == "CREATE")
    assert on_the_loop == []


async def test_a_very_large_pod_without_a_decision_is_read_in_another_thread(
    processes: Callable[..., WebhookProcess], on_the_loop: list[str]
) -> None:
    """Its event is recorded then; the event loop may be late already."""
    process = processes()
    await process.create_topology(topology(2, -1))
    hook = process.subsets.hooks[0]
    process.subsets.report_undecided(hook, review("CREATE", large(200_000)), "it is late", ReviewOutcome.BUSY)
    assert on_the_loop == []
    await process.until(lambda: bool(process.server.objects("events")))
    (event,) = process.server.objects("events")
    assert event["reason"] == "AdmittedWithoutSubset"
    assert on_the_loop == []
    process.subsets.report_undecided(hook, review("CREATE", newcomer()), "it is late", ReviewOutcome.BUSY)
    assert on_the_loop == ["decode"]  # one that is not large is read at once


@pytest.mark.parametrize(("operation", "place"), [("CREATE", 0), ("DELETE", 1)])
async def test_a_large_united_topology_is_validated_in_another_thread(
    operation: str, place: int, processes: Callable[..., WebhookProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first pod of a generation is created or deleted."""
    validated: list[bool] = []

    def watched(*arguments: Any) -> Any:
        validated.append(threading.current_thread() is threading.main_thread())
        return _subset_problems(*arguments)

    monkeypatch.setattr(validation, "_subset_problems", watched)
    tree = topology(2, -1)
    note = f"{operation} {'x' * 20_000}"
    tree["spec"]["subsets"][0]["patch"] = {"metadata": {"annotations": {"note": note}}}
    process = processes()
    await process.create_topology(tree)
    asked = newcomer(**keys.SubsetAnnotations("spread", "a", "r").written())
    await process.ask(review(operation, asked), place)
    assert validated
    assert not any(validated)


async def test_an_admission_that_is_cancelled_while_its_pod_is_shaped_keeps_no_reservation(
    processes: Callable[..., WebhookProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod is admitted without a subset."""
    started, can_end = threading.Event(), threading.Event()
    shape = shaping.shape

    def slowly(*arguments: Any, **options: Any) -> JSON:
        started.set()
        can_end.wait(10)
        return shape(*arguments, **options)

    monkeypatch.setattr(shaping, "shape", slowly)
    process = processes()
    await process.create_topology(topology(2, -1))
    asking = asyncio.ensure_future(process.ask(review("CREATE", large())))
    await process.until(started.is_set)
    assert len(process.row["creating"]) == 1
    process.answering.cancel()
    can_end.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await process.until(lambda: not process.row.get("creating"))


@pytest.mark.parametrize(
    ("size", "want"),
    [pytest.param(20_000, "b", id="a large one is"), pytest.param(200_000, "a", id="a very large one is not")],
)
async def test_very_large_pods_are_not_simulated(
    size: int, want: str, processes: Callable[..., WebhookProcess]
) -> None:
    """A simulation decodes and shapes the pod while other requests wait."""
    process = processes(only_b([]))
    await process.create_topology({**topology(-1, -1), "spec": adaptive(2)})
    tree = large(size)
    assert subset_of(tree, await process.ask(review("CREATE", tree))) == want


async def test_annotations_of_the_template_are_no_reservation(processes: Callable[..., WebhookProcess]) -> None:
    """It is replaced by a real one."""
    process = processes()
    await process.create_topology(topology(1, -1))
    tree = newcomer(**keys.SubsetAnnotations("spread", "b", "made-up").written())
    assert subset_of(tree, await process.ask(review("CREATE", tree))) == "a"


@pytest.mark.parametrize(
    ("strategy", "want"),
    [
        pytest.param({"type": "Adaptive"}, "b", id="Adaptive asks for a node"),
        pytest.param({"type": "Fixed"}, "a", id="Fixed does not"),
        pytest.param(
            {"type": "Adaptive", "adaptive": {"disableSimulationSchedule": True}},
            "a",
            id="nor one with simulation disabled",
        ),
    ],
)
async def test_simulation_chooses_the_subset(
    strategy: JSON, want: str, processes: Callable[..., WebhookProcess]
) -> None:
    """The pod is simulated as the subset would shape it, annotations included."""

    def only_b(tree: JSON, namespace: str) -> bool:
        known = keys.subset_annotations(tree["metadata"]["annotations"])
        return namespace == "shop" and known is not None and known.subset == "b"

    process = processes(only_b)
    divided = topology(-1, -1)
    divided["spec"]["scheduleStrategy"] = strategy
    await process.create_topology(divided)
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == want


async def test_a_pod_in_doubt_takes_the_subset_and_is_counted(processes: Callable[..., WebhookProcess]) -> None:
    """By the reason for which it is not known whether a node fits."""
    process = processes(lambda _tree, _namespace: Doubt.NOT_FILLED)
    await process.create_topology({**topology(-1, -1), "spec": adaptive(2)})
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == "a"
    count = process.subsets.batcher.metrics.registry.get_sample_value
    assert count("trimtab_subset_simulations_skipped_total", {"reason": "not-filled"}) == 1


def only_b(tried: list[str]) -> Simulate:
    """The second subset alone has nodes; which ones are tried is noted."""

    def simulate(tree: JSON, namespace: str) -> bool:
        del namespace
        known = keys.subset_annotations(tree["metadata"]["annotations"])
        assert known is not None
        tried.append(known.subset)
        return known.subset == "b"

    return simulate


def conflicting(process: WebhookProcess, stored: JSON | None = None) -> None:
    """Let the first write lose against another process, which has stored this."""
    lost: list[Request] = []

    def lose(request: Request) -> Response | Exception | None:
        if request.method != "PATCH" or lost:
            return None
        lost.append(request)
        if stored is not None:
            process.server.put(*TOPOLOGIES, stored)
        return Conflict("changed meanwhile")

    process.server.intercept = lose


async def test_a_subset_is_simulated_once_for_each_pod(processes: Callable[..., WebhookProcess]) -> None:
    """A round that is repeated remembers the answers: looking for a node takes time."""
    tried: list[str] = []
    process = processes(only_b(tried))
    await process.create_topology({**topology(-1, -1), "spec": adaptive(2)})
    conflicting(process)
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == "b"
    assert tried == ["a", "b"]


async def test_a_subset_that_was_added_meanwhile_is_taken_to_fit(processes: Callable[..., WebhookProcess]) -> None:
    """The review began with a spec of two subsets, neither of which has a node; the write found three."""
    process = processes(lambda _tree, _namespace: False)
    await process.create_topology({**topology(-1, -1), "spec": adaptive(2)})
    conflicting(process, {**topology(-1, -1, -1), "spec": adaptive(3)})
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == "c"


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
    spec: JSON, want: list[str], processes: Callable[..., WebhookProcess]
) -> None:
    """Only failures: a pod that fits takes capacity."""
    tried: list[str] = []
    process = processes(only_b(tried))
    await process.create_topology({**topology(-1, -1), "spec": adaptive(2)})
    tree = newcomer()
    tree["spec"] |= spec
    answers = asyncio.gather(*(process.ask(review("CREATE", tree, uid=f"0-{number}")) for number in range(2)))
    assert [subset_of(tree, answer) for answer in await answers] == ["b", "b"]
    assert [name for name in tried if name == "a"] == want


async def test_a_patch_that_does_not_apply_withdraws_the_reservation(processes: Callable[..., WebhookProcess]) -> None:
    """The pod is admitted unmodified, with an event."""
    process = processes()
    divided = topology(1, -1)
    divided["spec"]["subsets"][0]["patch"] = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    await process.create_topology(divided)
    nameless = newcomer()
    nameless["spec"]["containers"] = [{"image": "web:1"}]
    assert subset_of(nameless, await process.ask(review("CREATE", nameless))) is None
    await process.until(lambda: not process.row.get("creating"))
    await process.until(lambda: [each["reason"] for each in process.server.objects("events")] == ["PatchFailed"])


async def test_a_subset_whose_patch_does_not_apply_has_no_node(processes: Callable[..., WebhookProcess]) -> None:
    """Adaptive takes the next one."""
    process = processes(lambda _tree, _namespace: True)
    spec = adaptive(2)
    spec["subsets"][0]["patch"] = {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    await process.create_topology({**topology(-1, -1), "spec": spec})
    nameless = newcomer()
    nameless["spec"]["containers"] = [{"image": "web:1"}]
    assert subset_of(nameless, await process.ask(review("CREATE", nameless))) == "b"


@pytest.mark.parametrize(
    ("allowed", "want"),
    [pytest.param((), None, id="without consent"), pytest.param(("serviceAccountName",), "a", id="with consent")],
)
async def test_a_privileged_patch_needs_consent(
    allowed: tuple[str, ...], want: str | None, processes: Callable[..., WebhookProcess]
) -> None:
    """It was stored while no webhook validated it."""
    process = processes(allowed_fields=allowed)
    divided = topology(1, -1)
    divided["spec"]["subsets"][0]["patch"] = {"spec": {"serviceAccountName": "admin"}}
    await process.create_topology(divided)
    assert subset_of(newcomer(), await process.ask(review("CREATE", newcomer()))) == want


@pytest.mark.parametrize(
    ("name", "prefix", "shown"),
    [
        pytest.param("", "web-1-", "web-1-", id="the prefix of a name that is still to be generated"),
        pytest.param("web-0", "web-", "web-0", id="the name, where the pod has one"),
        pytest.param("", "w" * 70, "w" * 63, id="no more of it than a label may have"),
    ],
)
async def test_a_pod_without_a_decision_is_named_in_an_event(
    name: str, prefix: str, shown: str, processes: Callable[..., WebhookProcess]
) -> None:
    """On its UnitedTopology; a pod that has none, and another hook, are reported by nothing."""
    process = processes()
    await process.create_topology(topology(1, -1))
    tree = newcomer()
    tree["metadata"]["generateName"] = prefix
    creations, deletions, *_ = process.subsets.hooks
    asked = review("CREATE", tree, name=name)
    process.subsets.report_undecided(creations, asked, "it took too long", ReviewOutcome.LATE)
    process.subsets.report_undecided(deletions, asked, "of another hook", ReviewOutcome.LATE)
    stranger = review("CREATE", {"metadata": {"name": "alone"}, "spec": {}})
    process.subsets.report_undecided(creations, stranger, "it took too long", ReviewOutcome.LATE)
    await process.until(lambda: bool(process.server.objects("events")))
    await process.clock.advance(1)
    (event,) = process.server.objects("events")
    assert (event["involvedObject"]["name"], event["reason"]) == ("spread", "AdmittedWithoutSubset")
    assert event["message"] == f"pod {shown} was admitted without a subset: it took too long"


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda: review("UPDATE", newcomer()), id="an update"),
        pytest.param(lambda: review("CREATE", newcomer(), sub="binding"), id="a subresource"),
        pytest.param(lambda: review("CREATE", {"metadata": {}, "spec": {}}), id="a pod without an owner"),
    ],
)
async def test_other_reviews_are_admitted(
    request_of: Callable[[], AdmissionRequest], processes: Callable[..., WebhookProcess]
) -> None:
    """Nothing is read."""
    process = processes()
    await process.create_topology(topology(1))
    response = await process.ask(request_of())
    assert (response.allowed, response.patch) == (True, None)


ZONES = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"topologySpreadConstraints": [ZONES]}, True, id="constraints of its own"),
        pytest.param({"affinity": {"podAffinity": {"x": []}}}, True, id="pod affinity"),
        pytest.param({"affinity": {"podAntiAffinity": {"x": []}}}, False, id="pod anti-affinity: they only exclude"),
        pytest.param({"schedulerName": "hard"}, True, id="default constraints that exclude nodes"),
        pytest.param({"schedulerName": "soft"}, False, id="default constraints that exclude none"),
    ],
)
def test_a_pod_that_others_can_make_a_node_fit_for(spec: JSON, want: bool) -> None:
    """It is simulated again after them, although no node was fit before."""

    def defaults(scheduler: str) -> list[TopologySpreadConstraint]:
        kinds = {"hard": ["ScheduleAnyway", "DoNotSchedule"], "soft": ["ScheduleAnyway"]}.get(scheduler, [])
        return [codec.convert({**ZONES, "whenUnsatisfiable": kind}, TopologySpreadConstraint) for kind in kinds]

    assert _is_affected_by_peers({"spec": spec}, defaults) is want
