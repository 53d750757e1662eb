"""Forged reviews: whoever reaches the port learns nothing, fills no limit, and grows no status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.unitedtopology.admission.test_pod_reviews import SETS, WebhookProcess, newcomer, review, subset_of
from tests.unit.unitedtopology.admission.test_status_batcher import PODS, pod, topology
from trimtab.api.documents import JSON
from trimtab.subsets.demand import ABANDONED

SECRET = {"spec": {"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": "hunter2"}]}]}}
CLONESETS = ("/apis/apps.kruise.io/v1alpha1", "clonesets")


@pytest.fixture
async def process() -> AsyncIterator[WebhookProcess]:
    """A webhook process."""
    running = WebhookProcess(None)
    yield running
    await running.close()


def with_secret(*missing: int, **target: str) -> JSON:
    """A UnitedTopology with a password in the patch of its first subset."""
    divided = topology(*missing)
    divided["spec"]["subsets"][0]["patch"] = SECRET
    divided["spec"]["targetRef"] |= target
    return divided


def owned_by(**owner: str) -> JSON:
    """A new pod of some owner."""
    tree = newcomer()
    tree["metadata"]["ownerReferences"][0] |= owner
    return tree


def refusals(process: WebhookProcess, reason: str) -> float:
    """How many pods got no reservation for a reason."""
    registry = process.subsets.batcher.metrics.registry
    return registry.get_sample_value("trimtab_subset_reservations_refused_total", {"reason": reason}) or 0


@pytest.mark.parametrize(
    ("target", "owner"),
    [
        pytest.param({}, {"uid": "invented"}, id="a ReplicaSet of a Deployment with another UID"),
        pytest.param({}, {"name": "none", "uid": "invented"}, id="a ReplicaSet that does not exist"),
        pytest.param({}, {"kind": "Deployment", "name": "web", "uid": "d1"}, id="a Deployment, which owns no pods"),
        pytest.param(
            {"kind": "ReplicaSet", "name": "alone"},
            {"name": "alone", "uid": "invented"},
            id="a ReplicaSet that is the target, with another UID",
        ),
        pytest.param(
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"},
            {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "invented"},
            id="a CloneSet with another UID",
        ),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_an_invented_owner_learns_nothing(
    process: WebhookProcess, target: dict[str, str], owner: dict[str, str], dry_run: bool
) -> None:
    """Neither the patch nor a reservation."""
    process.server.put(*SETS, {"metadata": {"name": "alone", "namespace": "shop"}, "spec": {"replicas": 5}})
    spec = {"replicas": 5, "selector": {}, "template": {}}
    process.server.put(*CLONESETS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
    await process.create_topology(with_secret(10, -1, **target))
    response = await process.ask(review("CREATE", owned_by(**owner), dryRun=dry_run))
    assert (response.allowed, response.patch) == (True, None)
    assert not process.row.get("creating")
    assert refusals(process, "owner-not-found") == (owner.get("kind") != "Deployment")


async def test_forged_calls_reserve_no_more_than_the_owner_wants(process: WebhookProcess) -> None:
    """Its size is 10 and it has 8 pods, so two are wanted, however many calls there are."""
    divided = topology(10, -1)
    divided["status"]["subsetStatuses"][0] = {"name": "a", "replicas": 8, "missingReplicas": 2}
    for number in range(8):
        process.server.put(*PODS, pod(f"p{number}"))
    await process.create_topology(divided)
    answers = await asyncio.gather(
        *(process.ask(review("CREATE", newcomer(), uid=f"0-{each:04}")) for each in range(30))
    )
    assert sum(answer.patch is not None for answer in answers) == 2
    assert len(process.row["creating"]) == 2
    assert refusals(process, "not-wanted") == 28


async def test_a_size_that_the_cache_does_not_show_yet_is_read(process: WebhookProcess) -> None:
    """A ReplicaSet is enlarged, and its pods come before our own watch has shown that."""
    await process.create_topology(topology(20, -1))
    (stored,) = process.server.objects("replicasets")
    stored["spec"]["replicas"] = 12
    answers = [await process.ask(review("CREATE", newcomer(), uid=f"0-{each:04}")) for each in range(13)]
    assert [subset_of(newcomer(), answer) for answer in answers] == ["a"] * 12 + [None]


async def test_a_refused_pod_is_created_again_with_a_subset(process: WebhookProcess) -> None:
    """Each attempt makes a reservation, and none of them a pod, because a quota is exhausted."""
    await process.create_topology(topology(20, -1))
    for attempt in range(25):
        await process.clock.advance(ABANDONED.total_seconds() + 1)
        answer = await process.ask(review("CREATE", newcomer(), uid=f"0-{attempt:04}"))
        assert subset_of(newcomer(), answer) == "a"
    assert len(process.row["creating"]) == 10


@pytest.mark.parametrize(
    ("prefix", "uid"),
    [
        pytest.param("w" * 5000, "0-1", id="a long name"),
        pytest.param("web@1/", "@@@@@@@@@@@@", id="strange characters"),
    ],
)
async def test_a_reservation_is_short_and_of_plain_characters(process: WebhookProcess, prefix: str, uid: str) -> None:
    """It is a key of the status."""
    await process.create_topology(topology(5, -1))
    tree = newcomer()
    tree["metadata"]["generateName"] = prefix
    await process.ask(review("CREATE", tree, uid=uid))
    (key,) = process.row["creating"]
    assert len(key) <= 70
    assert key.replace("-", "").isalnum()


async def test_an_owner_that_wants_no_pods_gets_no_dry_run(process: WebhookProcess) -> None:
    """A dry run would show the patch as well."""
    await process.create_topology(with_secret(5, -1), replicas=0)
    assert (await process.ask(review("CREATE", newcomer(), dryRun=True))).patch is None
