"""The UnitedTopology that applies to a pod, from caches and, where they are behind, from reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.admission.test_status_batcher import TOPOLOGIES, topology
from trimtab.api import codec
from trimtab.api.cloneset import CloneSet
from trimtab.api.meta import ObjectMeta
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Key
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.admission.topologies import OwnerNotFoundError, Topologies
from trimtab.unitedtopology.targets import Workload

JSON = dict[str, Any]
SETS = ("/apis/apps/v1", "replicasets")
CLONESETS = ("/apis/apps.kruise.io/v1alpha1", "clonesets")
KRUISE = "apps.kruise.io/v1alpha1"


class Stage:
    """A server, and the caches of a webhook process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.cached: dict[tuple[str, str, str], Workload] = {}
        self.topologies = Topologies(
            Client(self.server, clock=self.clock), workload=lambda *where: self.cached.get(where)
        )

    def owner(self, name: str = "web-1", *, deployment: str = "web", plural: tuple[str, str] = SETS) -> str:
        """Store a controller of pods, of a Deployment unless that is empty; its UID."""
        parent = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": "d1", "controller": True}
        metadata: JSON = {"name": name, "namespace": "shop"} | ({"ownerReferences": [parent]} if deployment else {})
        spec = {"replicas": 4, "selector": {}, "template": {}}
        return str(self.server.put(*plural, {"metadata": metadata, "spec": spec})["metadata"]["uid"])

    def topology(self, name: str = "spread", **spec: Any) -> None:
        """Store a UnitedTopology of the Deployment `web`, unless stated otherwise."""
        tree = topology(3)
        tree["metadata"] |= {"name": name, **spec.pop("metadata", {})}
        tree["spec"] |= spec
        self.server.put(*TOPOLOGIES, tree)

    async def seen(self) -> None:
        """Let the caches see everything."""
        await self.clock.advance(0.1)

    async def find(self, metadata: ObjectMeta, namespace: str = "shop") -> str | None:
        """The name of the UnitedTopology that applies to a pod."""
        found = await self.topologies.find(metadata, namespace)
        return None if found is None else found.topology.metadata.name


def pod_of(uid: str, *, name: str = "web-1", kind: str = "ReplicaSet", api_version: str = "apps/v1") -> ObjectMeta:
    """The metadata of a pod of a controller."""
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return codec.convert({"generateName": f"{name}-", "ownerReferences": [owner]}, ObjectMeta)


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With caches that are kept current."""
    made = Stage()
    running = asyncio.create_task(made.topologies.run())
    await made.seen()
    assert made.topologies.synced
    yield made
    await cancel(running)


async def test_a_pod_of_a_deployment_is_found_by_its_replicaset(stage: Stage) -> None:
    """With its owner, and the most pods that this may have."""
    uid = stage.owner()
    stage.topology()
    await stage.seen()
    found = await stage.topologies.find(pod_of(uid), "shop")
    assert found is not None
    assert found.topology.metadata.name == "spread"
    assert (found.owner.kind, found.owner.name, found.owner.uid, found.owner.most) == ("ReplicaSet", "web-1", uid, 4)
    cached = stage.topologies.find_cached(pod_of(uid), "shop")
    assert cached is not None
    assert stage.topologies.get(Key("shop/spread")) is cached


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(ObjectMeta(), id="no controller"),
        pytest.param(pod_of("d1", name="web", kind="Deployment"), id="a kind that owns no pods"),
        pytest.param(pod_of("u", api_version="example.com/v1"), id="a ReplicaSet of another group"),
    ],
)
async def test_a_pod_without_such_an_owner_has_none(stage: Stage, metadata: ObjectMeta) -> None:
    """Nothing is read for it."""
    stage.topology()
    await stage.seen()
    stage.server.requests.clear()
    assert await stage.find(metadata) is None
    assert stage.topologies.find_cached(metadata, "shop") is None
    assert stage.server.requests == []


async def test_in_a_namespace_without_any_nothing_is_read(stage: Stage) -> None:
    """An owner that is not cached would be."""
    stage.topology()
    await stage.seen()
    stage.server.requests.clear()
    assert [stage.topologies.has_any_in(each) for each in ("shop", "other")] == [True, False]
    assert await stage.find(pod_of("u"), "other") is None
    assert stage.server.requests == []


async def test_an_owner_that_is_not_cached_is_read(stage: Stage) -> None:
    """Its first pods are created before our watch has shown it."""
    stage.topology(targetRef={"apiVersion": KRUISE, "kind": "CloneSet", "name": "web"})
    uid = stage.owner("web", deployment="", plural=CLONESETS)
    await stage.seen()
    metadata = pod_of(uid, name="web", kind="CloneSet", api_version=KRUISE)
    assert stage.topologies.find_cached(metadata, "shop") is None
    assert await stage.find(metadata) == "spread"
    assert stage.server.requests[-1].urgent
    (tree,) = stage.server.objects("clonesets")
    stage.cached["CloneSet", "shop", "web"] = codec.convert(tree, CloneSet)
    stage.server.requests.clear()
    assert await stage.find(metadata) == "spread"
    assert stage.topologies.find_cached(metadata, "shop") is not None
    assert stage.server.requests == []


@pytest.mark.parametrize("name", ["web-1", "none"])
async def test_an_owner_with_another_uid_does_not_exist(stage: Stage, name: str) -> None:
    """Whether it is cached or read."""
    stage.owner()
    stage.topology()
    await stage.seen()
    with pytest.raises(OwnerNotFoundError, match=f"ReplicaSet {name} with UID invented does not exist"):
        await stage.find(pod_of("invented", name=name))
    assert stage.topologies.find_cached(pod_of("invented", name=name), "shop") is None


async def test_a_replicaset_without_owner_is_its_own_target(stage: Stage) -> None:
    """One that a Deployment owns is not: the Deployment is."""
    stage.topology(targetRef={"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"})
    alone, owned = stage.owner(deployment=""), stage.owner("web-2")
    await stage.seen()
    assert await stage.find(pod_of(alone)) == "spread"
    assert await stage.find(pod_of(owned, name="web-2")) is None


async def test_of_two_with_the_same_target_the_older_applies(stage: Stage) -> None:
    """While that is invalid or being deleted, none does."""
    uid = stage.owner()
    stage.topology("newer", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    stage.topology("older", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    await stage.seen()
    assert await stage.find(pod_of(uid)) == "older"
    going = {"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-03T00:00:00Z"}
    stage.topology("older", metadata=going)
    await stage.seen()
    assert await stage.find(pod_of(uid)) is None
    stage.server.drop(*TOPOLOGIES, "shop/older")
    await stage.seen()
    assert await stage.find(pod_of(uid)) == "newer"


async def test_a_generation_is_validated_once(stage: Stage) -> None:
    """An invalid one is not usable until it is corrected; what is deleted is forgotten."""

    def made(generation: int, name: str, uid: str = "u1") -> UnitedTopology:
        tree = topology(3)
        tree["metadata"] |= {"generation": generation, "uid": uid}
        tree["spec"]["subsets"].append({"name": name})
        return codec.convert(tree, UnitedTopology)

    assert not stage.topologies.is_usable(made(1, "a")), "two subsets of one name"
    assert not stage.topologies.is_usable(made(1, "b")), "the same generation is not validated again"
    assert stage.topologies.is_usable(made(2, "b"))
    assert stage.topologies.is_usable(made(1, "b", "u2"))


async def test_a_deleted_one_is_reported_and_forgotten(stage: Stage) -> None:
    """One that is created again with its name is validated anew."""
    deleted: list[str] = []
    stage.topologies.on_deleted(lambda each: deleted.append(each.metadata.name))
    stage.topology()
    await stage.seen()
    found = stage.topologies.get(Key("shop/spread"))
    assert found is not None
    assert stage.topologies.is_usable(found)
    stage.server.drop(*TOPOLOGIES, "shop/spread")
    await stage.seen()
    assert deleted == ["spread"]
    broken = codec.to_tree(found)
    broken["spec"]["subsets"].append({"name": "a"})
    assert not stage.topologies.is_usable(codec.convert(broken, UnitedTopology))
