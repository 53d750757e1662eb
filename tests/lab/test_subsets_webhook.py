"""Pods that come and go, over the wire: an API server asks, reservations are made and announced in one status."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.edges import UNHURRIED, pod_webhooks
from tests.lab.test_kubectl import FOUND, Kubectl
from trimtab.api import annotations as keys
from trimtab.api import codec, crds
from trimtab.api.annotations import Reason
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Event, Namespace
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.meta import ObjectMeta
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.config import discover
from trimtab.kube.errors import TooManyRequests
from trimtab.kube.resources import Resource, object_key
from trimtab.kube.sessions import Session
from trimtab.unitedtopology.admission.hooks import SubsetHooks
from trimtab_lab.apiserver.wire.server import Server

PODS = Resource.of(Pod).raw
NAMESPACE = "shop"
TEMPLATE: JSON = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def zone(name: str, most: int | str | None = None, **more: Any) -> JSON:
    """A subset in a zone."""
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"zone-{name}"]}
    limit = {} if most is None else {"maxReplicas": most}
    return {"name": name, "nodeSelectorTerm": {"matchExpressions": [expression]}, **limit, **more}


class Shop:
    """A namespace with workloads in it, and pods made as their controllers would make them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create_topology(
        self, *subsets: JSON, kind: str = "Deployment", api: str = "apps/v1", **spec: Any
    ) -> None:
        """A UnitedTopology of the workload `web`."""
        body = {
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "UnitedTopology",
            "metadata": {"name": "spread"},
            "spec": {
                "targetRef": {"apiVersion": api, "kind": kind, "name": "web"},
                "subsets": list(subsets),
                **spec,
            },
        }
        await self.client.create(Resource.of(UnitedTopology).raw, body, namespace=NAMESPACE)

    async def deployment(self, replicas: int) -> Deployment:
        """The Deployment `web`."""
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        return await self.client.create(Deployment, body, namespace=NAMESPACE)

    async def revision(self, name: str, owner: Deployment | None, replicas: int = 100) -> JSON:
        """A ReplicaSet, of a Deployment or by itself; the reference that its pods have to it."""
        selector = {"app": "web", "revision": name}
        template = {**TEMPLATE, "metadata": {"labels": selector}}
        spec = {"replicas": replicas, "selector": {"matchLabels": selector}, "template": template}
        metadata: JSON = {"name": name, "labels": {"app": "web"}}
        if owner is not None:
            metadata["ownerReferences"] = [_reference("apps/v1", "Deployment", "web", owner.metadata.uid)]
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        made = await self.client.create(ReplicaSet, body, namespace=NAMESPACE)
        return _reference("apps/v1", "ReplicaSet", name, made.metadata.uid)

    async def pod(self, owner: JSON, *, dry_run: bool = False, **labels: str) -> JSON:
        """A pod of an owner, as the server answers."""
        metadata: JSON = {
            "generateName": f"{owner['name']}-",
            "labels": {"app": "web", "revision": owner["name"], **labels},
            "ownerReferences": [owner],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": TEMPLATE["spec"]}
        return await self.client.create(PODS, body, namespace=NAMESPACE, dry_run=dry_run)

    async def status(self, revision: str = "") -> dict[str, SubsetStatus]:
        """The subsets of a revision (or the newest), by name."""
        found = (await self.client.get(UnitedTopology, "spread", namespace=NAMESPACE)).status
        others = {each.revision: each.subset_statuses for each in found.other_revisions}
        rows = found.subset_statuses if not revision or revision == found.revision else others.get(revision, ())
        return {row.name: row for row in rows}


def _reference(api: str, kind: str, name: str, uid: str) -> JSON:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}


def subset_of(pod: JSON) -> str | None:
    """The subset that a pod is annotated with."""
    known = keys.subset_annotations(pod["metadata"].get("annotations", {}))
    return known.subset if known is not None else None


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    while not await condition():
        await asyncio.sleep(0.02)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """A client of the lab's server, in which the CRDs and a namespace are."""
    async with Client(Session(discover(server.kubeconfig))) as made:
        for manifest in crds.manifests():
            await made.create(Resource.of(CustomResourceDefinition).raw, manifest)
        await made.create(Namespace, {"metadata": {"name": NAMESPACE}})
        await server.settled()
        yield made


@pytest.fixture
async def hooks(client: Client, tmp_path: Path) -> AsyncIterator[SubsetHooks]:
    """One webhook process."""
    subsets = SubsetHooks(client, budget=UNHURRIED)
    async with pod_webhooks(client, tmp_path, [subsets], namespace=NAMESPACE):
        yield subsets


@pytest.fixture
async def shop(client: Client, hooks: SubsetHooks) -> Shop:
    """A namespace for whose pods the webhooks are called."""
    del hooks
    return Shop(client)


async def seen(hooks: SubsetHooks, generation: int = 1) -> None:
    """Wait until the webhook knows of the UnitedTopology, of a certain generation."""

    async def known() -> bool:
        found = hooks.topologies.get(object_key(NAMESPACE, "spread"))
        return found is not None and found.metadata.generation >= generation

    await eventually(known)


async def test_a_pod_gets_the_changes_of_its_subset(shop: Shop, hooks: SubsetHooks) -> None:
    """Term, tolerations and patch are in the stored pod, and so are the annotations."""
    patch = {"metadata": {"labels": {"tier": "gold"}}, "spec": {"containers": [{"name": "main", "image": "web:2"}]}}
    toleration = {"key": "gold", "operator": "Exists"}
    await shop.create_topology(zone("a", 3, tolerations=[toleration], patch=patch), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(3))
    pod = await shop.pod(owner)
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [zone("a")["nodeSelectorTerm"]]
    assert toleration in pod["spec"]["tolerations"]
    assert pod["spec"]["containers"][0]["image"] == "web:2"
    assert pod["metadata"]["labels"]["tier"] == "gold"
    known = keys.subset_annotations(pod["metadata"]["annotations"])
    assert known is not None
    assert (known.topology, known.subset) == ("spread", "a")
    assert list((await shop.status())["a"].creating) == [known.reservation]


async def test_subsets_are_filled_in_order_and_further_pods_stay_unmodified(shop: Shop, hooks: SubsetHooks) -> None:
    """A number, a percentage of the Deployment's size, and nothing left in the end."""
    await shop.create_topology(zone("a", 2), zone("b", "50%"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(4))
    pods = [await shop.pod(owner) for _ in range(5)]
    assert [subset_of(pod) for pod in pods] == ["a", "a", "b", "b", None]
    assert "affinity" not in pods[-1]["spec"]


async def test_each_revision_has_limits_of_its_own(shop: Shop, hooks: SubsetHooks) -> None:
    """A rollout fills the subsets anew while the old revision still has its pods."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    deployment = await shop.deployment(2)
    old, new = await shop.revision("web-1", deployment), await shop.revision("web-2", deployment)
    made = [subset_of(await shop.pod(owner)) for owner in (old, old, new, new)]
    assert made == ["a", "b", "a", "b"]
    assert len((await shop.status(new["uid"]))["a"].creating) == 1


@pytest.mark.parametrize("kind", ["ReplicaSet", "CloneSet"])
async def test_other_workloads_get_subsets_too(kind: str, shop: Shop, hooks: SubsetHooks) -> None:
    """ReplicaSets by themselves and CloneSets, whose size percentages are of."""
    api = "apps/v1" if kind == "ReplicaSet" else "apps.kruise.io/v1alpha1"
    await shop.create_topology(zone("a", "25%"), zone("b"), kind=kind, api=api)
    await seen(hooks)
    if kind == "ReplicaSet":
        owner = await shop.revision("web", None, replicas=4)
    else:
        spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
        made = await shop.client.create(CloneSet, body, namespace=NAMESPACE)
        owner = _reference(api, kind, "web", made.metadata.uid)
    assert [subset_of(await shop.pod(owner)) for _ in range(3)] == ["a", "b", "b"]


async def test_existing_pods_are_counted_first(shop: Shop, hooks: SubsetHooks, client: Client) -> None:
    """Nothing is counted yet when the first pod is created: the webhook counts, and finds the annotated ones."""
    owner = await shop.revision("web-1", await shop.deployment(3))
    annotations = keys.SubsetAnnotations("spread", "a", "of-old").written()
    body = {
        "metadata": {"name": "old", "labels": {"app": "web"}, "ownerReferences": [owner], "annotations": annotations},
        "spec": TEMPLATE["spec"],
    }
    await client.create(PODS, body, namespace=NAMESPACE)
    await shop.create_topology(zone("a", 2), zone("b"))
    await seen(hooks)
    assert [subset_of(await shop.pod(owner)) for _ in range(2)] == ["a", "b"]
    assert (await shop.status())["a"].replicas == 1


async def test_a_larger_size_is_noticed_before_a_percentage_is_skipped(shop: Shop, hooks: SubsetHooks) -> None:
    """Pods of a scale-up may come before any controller has counted with the new size."""
    await shop.create_topology(zone("a", "50%"), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(2))
    assert [subset_of(await shop.pod(owner)) for _ in range(2)] == ["a", "b"]
    await shop.client.resize(Deployment, "web", 4, namespace=NAMESPACE)
    assert [subset_of(await shop.pod(owner)) for _ in range(2)] == ["a", "b"]


async def test_a_dry_run_reserves_nothing(shop: Shop, hooks: SubsetHooks) -> None:
    """It shows what would be, and leaves no trace."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(3))
    await shop.pod(owner)
    before = await shop.client.get(UnitedTopology, "spread", namespace=NAMESPACE)
    assert subset_of(await shop.pod(owner, dry_run=True)) == "b"
    assert await shop.client.get(UnitedTopology, "spread", namespace=NAMESPACE) == before


async def test_other_pods_are_left_alone(shop: Shop, hooks: SubsetHooks) -> None:
    """Pods without an owner, and pods of a workload without subsets, are admitted as they are."""
    await shop.create_topology(zone("a", 1))
    await seen(hooks)
    stranger = await shop.revision("stranger", None)
    assert subset_of(await shop.pod(stranger)) is None
    body = {"metadata": {"name": "alone"}, "spec": TEMPLATE["spec"]}
    assert subset_of(await shop.client.create(PODS, body, namespace=NAMESPACE)) is None


async def test_an_invalid_united_topology_leaves_pods_unmodified(shop: Shop, hooks: SubsetHooks) -> None:
    """It was stored without validation; its patch does not apply to a pod."""
    await shop.create_topology(zone("a", 1, patch={"spec": {"containers": [{"image": "no-name"}]}}), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(3))
    assert subset_of(await shop.pod(owner)) is None


async def test_many_concurrent_admissions_through_two_processes_share_few_writes(
    client: Client, tmp_path: Path
) -> None:
    """Every limit is exact, no pod is refused or without a subset, and there are fewer writes than pods."""
    both = [SubsetHooks(client, budget=UNHURRIED), SubsetHooks(client, budget=UNHURRIED)]
    shop = Shop(client)
    async with pod_webhooks(client, tmp_path, both, namespace=NAMESPACE):
        await shop.create_topology(zone("a", 7), zone("b", "40%"), zone("c"))
        for subsets in both:
            await seen(subsets)
        owner = await shop.revision("web-1", await shop.deployment(40))
        pods = await asyncio.gather(*(shop.pod(owner, shard=str(number % 2)) for number in range(40)))
    assert Counter(map(subset_of, pods)) == {"a": 7, "b": 16, "c": 17}
    assert 0 < sum(map(_writes, both)) < 40


def _writes(subsets: SubsetHooks) -> float:
    registry = subsets.batcher.metrics.registry
    return registry.get_sample_value("trimtab_subset_status_writes_total", {"outcome": "written"}) or 0.0


async def test_capacity_of_a_deleted_pod_goes_to_its_successor(shop: Shop, hooks: SubsetHooks, client: Client) -> None:
    """Before any controller has counted: the deletion was announced, and the pod is seen to go."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(2))
    first = await shop.pod(owner)
    name = first["metadata"]["name"]
    await client.delete(Pod, name, namespace=NAMESPACE)
    assert list((await shop.status())["a"].deleting) == [name]
    assert [subset_of(await shop.pod(owner)) for _ in range(2)] == ["a", "b"]


async def test_dry_runs_of_deletions_change_nothing(shop: Shop, hooks: SubsetHooks, client: Client) -> None:
    """Neither a deletion nor an eviction, by any field that can say so."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(2))
    name = (await shop.pod(owner))["metadata"]["name"]
    await client.delete(Pod, name, namespace=NAMESPACE, dry_run=True)
    await client.evict(name, namespace=NAMESPACE, dry_run=True)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "deleteOptions": {"dryRun": ["All"]},
    }
    path = Resource.of(Pod).object(name, NAMESPACE, "eviction")
    await client.call("POST", path, body=codec.encode(body))
    assert not (await shop.status())["a"].deleting


@pytest.mark.skipif(not FOUND, reason="kubectl is not installed: put it in $PATH, or its path in $KUBECTLS")
@pytest.mark.parametrize("path", FOUND or [""])
async def test_a_dry_run_of_a_drain_changes_nothing(
    path: str, shop: Shop, hooks: SubsetHooks, server: Server, tmp_path: Path
) -> None:
    """`kubectl drain --dry-run=server` says so in the eviction's body only; a real drain is announced."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(2))
    name = (await shop.pod(owner))["metadata"]["name"]
    await shop.client.create(Node, {"metadata": {"name": "node-1"}})
    await shop.client.bind(name, namespace=NAMESPACE, node="node-1")
    before = await shop.client.get(UnitedTopology, "spread", namespace=NAMESPACE)
    kubectl = Kubectl(path, server.kubeconfig, tmp_path)
    told = await kubectl("drain", "node-1", "--dry-run=server", "--timeout=30s")
    assert name in told
    assert await shop.client.get(UnitedTopology, "spread", namespace=NAMESPACE) == before
    drain = await kubectl.start("drain", "node-1", "--timeout=30s")

    async def announced() -> bool:
        return name in (await shop.status())["a"].deleting

    await asyncio.wait_for(eventually(announced), 20)
    await shop.client.delete(Pod, name, namespace=NAMESPACE, grace_period_seconds=0)
    assert await asyncio.wait_for(drain.wait(), 60) == 0


async def test_a_refused_eviction_frees_nothing_and_is_reverted(shop: Shop, hooks: SubsetHooks, client: Client) -> None:
    """A disruption budget refuses it: no pod takes the capacity meanwhile, and the entry is reverted."""
    await shop.create_topology(zone("a", 1), zone("b"))
    await seen(hooks)
    owner = await shop.revision("web-1", await shop.deployment(2))
    name = (await shop.pod(owner))["metadata"]["name"]
    selector = {"matchLabels": {"app": "web"}}
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": "100%", "selector": selector}}
    await client.create(PodDisruptionBudget, budget, namespace=NAMESPACE)
    await client.patch(Pod, name, {"status": {"phase": "Running"}}, namespace=NAMESPACE, subresource="status")
    with pytest.raises(TooManyRequests):
        await client.evict(name, namespace=NAMESPACE)
    assert list((await shop.status())["a"].deleting) == [name]
    assert subset_of(await shop.pod(owner)) == "b"

    async def forgotten() -> bool:
        return not (await shop.status())["a"].deleting

    await asyncio.wait_for(eventually(forgotten), 10)


async def test_out_of_time_a_pod_is_admitted_and_its_reservation_withdrawn(client: Client, tmp_path: Path) -> None:
    """The budget is spent before anything is decided: the pod is admitted, and an event reports it."""
    subsets = SubsetHooks(client, budget=0.0)
    shop = Shop(client)
    async with pod_webhooks(client, tmp_path, [subsets], namespace=NAMESPACE):
        await shop.create_topology(zone("a", 1), zone("b"))
        await seen(subsets)
        owner = await shop.revision("web-1", await shop.deployment(2))

        async def known() -> bool:
            metadata = codec.convert({"ownerReferences": [owner]}, ObjectMeta)
            return subsets.topologies.find_cached(metadata, NAMESPACE) is not None

        await eventually(known)
        assert subset_of(await shop.pod(owner)) is None

        async def told() -> bool:
            events = (await client.list(Event, namespace=NAMESPACE)).items
            return any(event.reason == Reason.ADMITTED_WITHOUT_SUBSET for event in events)

        async def given_back() -> bool:
            return not any(row.creating for row in (await shop.status()).values())

        await asyncio.wait_for(eventually(told), 10)
        await asyncio.wait_for(eventually(given_back), 10)
