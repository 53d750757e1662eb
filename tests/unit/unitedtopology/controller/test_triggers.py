"""Which events enqueue which UnitedTopologies, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.clusters import NAMESPACE, subset, topology_tree
from trimtab.api.annotations import SubsetAnnotations
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key, object_key
from trimtab.subsets.members import Member
from trimtab.testing.builders import PodBuilder, node, pod, uid_for
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.controller.triggers import Triggers
from trimtab.unitedtopology.view import View

JSON = dict[str, Any]
KRUISE = "/apis/apps.kruise.io/v1alpha1"
WEB = object_key(NAMESPACE, "web")


class Stage:
    """A view of a server without a controller, and the queue that its events fill."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.view = View(Client(self.server, clock=self.clock))
        self.queue: WorkQueue[Key] = WorkQueue(self.clock)
        self.triggers = Triggers(self.view, self.queue)

    async def enqueued(self, after: float = 0.1) -> list[str]:
        """The keys that are queued after so many seconds; each is done at once."""
        await self.clock.advance(after)
        found = []
        while len(self.queue):
            found.append(await self.queue.get())
            self.queue.done(found[-1])
        return sorted(found)

    def put(self, root: str, plural: str, tree: JSON) -> None:
        """Create or update an object."""
        self.server.put(root, plural, tree)

    def put_pod(self, built: PodBuilder) -> None:
        """Create or update a pod."""
        self.put("/api/v1", "pods", built.tree())


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With one UnitedTopology, `web`, that has been handled."""
    made = Stage()
    made.put(KRUISE, "unitedtopologies", topology_tree(subset("a", "z1", 3)))
    running = asyncio.create_task(made.view.run())
    assert await made.enqueued(1) == [WEB]
    yield made
    made.queue.shut_down()
    await cancel(running)


def of_web(name: str, *, topology: str = "") -> PodBuilder:
    """A pod of a ReplicaSet that is not cached, annotated with a UnitedTopology."""
    made = pod(name, namespace=NAMESPACE).owned_by("web-1")
    return made.annotations(SubsetAnnotations(topology, "a").written()) if topology else made


async def test_a_node_that_is_seen_later_enqueues_those_that_wait_for_it(stage: Stage) -> None:
    """Once: the labels of the node are known from then on."""
    pods = [of_web("p1").on("n1").build(), of_web("p2").on("n2").build()]
    stage.triggers.wait_for_nodes(WEB, [Member("p1"), Member("p2")], pods, since=stage.triggers.nodes_seen)
    stage.put("/api/v1", "nodes", node("n3").tree())
    assert await stage.enqueued() == []
    stage.put("/api/v1", "nodes", node("n1").tree())
    assert await stage.enqueued() == [WEB]
    stage.server.drop("/api/v1", "nodes", "n1")
    stage.put("/api/v1", "nodes", node("n1").tree())
    assert await stage.enqueued() == []
    stage.put("/api/v1", "nodes", node("n2").tree())
    assert await stage.enqueued() == [WEB]


async def test_nodes_that_are_no_longer_needed_are_not_waited_for(stage: Stage) -> None:
    """Each recount replaces what the one before waited for, and a UnitedTopology that is gone waits for none."""
    pods = [of_web("p1").on("n1").build(), of_web("p2").on("n2").build()]
    stage.triggers.wait_for_nodes(WEB, [Member("p1"), Member("p2")], pods, since=stage.triggers.nodes_seen)
    stage.triggers.wait_for_nodes(WEB, [Member("p1", subset="a"), Member("p2")], pods, since=stage.triggers.nodes_seen)
    stage.put("/api/v1", "nodes", node("n1").tree())
    assert await stage.enqueued() == []
    stage.triggers.forget(WEB)
    stage.put("/api/v1", "nodes", node("n2").tree())
    assert await stage.enqueued() == []


async def test_a_node_that_is_seen_while_pods_are_matched_enqueues_at_once(stage: Stage) -> None:
    """They may have been matched without it; not if no node was seen, or all pods have a subset."""
    before = stage.triggers.nodes_seen
    stage.put("/api/v1", "nodes", node("n1").tree())
    assert await stage.enqueued() == []
    pods = [of_web("p1").on("n1").build()]
    stage.triggers.wait_for_nodes(WEB, [Member("p1", subset="a")], pods, since=before)
    stage.triggers.wait_for_nodes(WEB, [Member("p1")], pods, since=stage.triggers.nodes_seen)
    assert await stage.enqueued() == []
    stage.triggers.wait_for_nodes(WEB, [Member("p1")], pods, since=before)
    assert await stage.enqueued() == [WEB]


async def test_only_nodes_of_unmatched_pods_that_are_not_cached_are_waited_for(stage: Stage) -> None:
    """A pod with a subset needs no labels, a cached node is known already, and a pod without a node has none."""
    stage.put("/api/v1", "nodes", node("known").tree())
    assert await stage.enqueued() == []
    pods = [of_web("p1").on("n1").build(), of_web("p2").on("known").build(), of_web("p3").build()]
    members = [Member("p1", subset="a"), Member("p2"), Member("p3")]
    stage.triggers.wait_for_nodes(WEB, members, pods, since=stage.triggers.nodes_seen)
    for name in ("n1", "known"):
        if name == "known":
            stage.server.drop("/api/v1", "nodes", name)
        stage.put("/api/v1", "nodes", node(name).tree())
    assert await stage.enqueued() == []


async def test_events_of_pods_are_collected_before_they_are_counted(stage: Stage) -> None:
    """Three pods within half a second are one key; a pod that changes its UnitedTopology enqueues both."""
    for number in range(3):
        stage.put_pod(of_web(f"p{number}", topology="web"))
        assert await stage.enqueued(0.1) == []
    assert await stage.enqueued(0.5) == [WEB]
    stage.put_pod(of_web("p1", topology="other"))
    assert await stage.enqueued(0.5) == []
    assert await stage.enqueued(0.2) == [object_key(NAMESPACE, "other"), WEB]
    stage.server.drop("/api/v1", "pods", f"{NAMESPACE}/p1")
    assert await stage.enqueued(0.7) == [object_key(NAMESPACE, "other")]


async def test_workloads_enqueue_those_that_name_them_at_once(stage: Stage) -> None:
    """A Deployment by its name, a ReplicaSet by its owner; others enqueue nothing."""
    deployment = {"metadata": {"name": "web", "namespace": NAMESPACE, "uid": uid_for("Deployment/web")}}
    stage.put("/apis/apps/v1", "deployments", deployment)
    assert await stage.enqueued(0) == [WEB]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
    metadata = {"name": "web-1", "namespace": NAMESPACE, "ownerReferences": [owner]}
    stage.put("/apis/apps/v1", "replicasets", {"metadata": metadata})
    assert await stage.enqueued(0) == [WEB]
    stage.put("/apis/apps/v1", "replicasets", {"metadata": {"name": "other", "namespace": NAMESPACE}})
    stage.put(KRUISE, "clonesets", {"metadata": {"name": "web", "namespace": NAMESPACE}})
    assert await stage.enqueued(0) == []
    stage.server.drop("/apis/apps/v1", "deployments", f"{NAMESPACE}/web")
    assert await stage.enqueued(0) == [WEB]


async def test_all_of_the_same_target_are_enqueued_together(stage: Stage) -> None:
    """The older one applies: the deletion of one concerns the other."""
    stage.put(KRUISE, "unitedtopologies", topology_tree(subset("x"), name="second"))
    stage.put(KRUISE, "unitedtopologies", topology_tree(subset("x"), name="of-api", target="api"))
    assert await stage.enqueued(0) == sorted([WEB, object_key(NAMESPACE, "second"), object_key(NAMESPACE, "of-api")])
    stage.server.drop(KRUISE, "unitedtopologies", f"{NAMESPACE}/web")
    assert await stage.enqueued(0) == sorted([WEB, object_key(NAMESPACE, "second")])
