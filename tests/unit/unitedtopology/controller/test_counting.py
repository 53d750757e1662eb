"""Recounts of one UnitedTopology: conflicts, writes that are not needed, and reservations whose pods never came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer
from tests.unit.unitedtopology.admission.test_status_batcher import DEPLOYMENTS, PODS, TOPOLOGIES, pod, topology
from trimtab.api import codec, times
from trimtab.api.annotations import Reason
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import Conflict
from trimtab.kube.events import Recorder
from trimtab.kube.stores import key_of
from trimtab.kube.transport import Request, Response
from trimtab.subsets import matching, members
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.controller import counting
from trimtab.unitedtopology.controller.counting import CountedTopology, StatusCounter
from trimtab.unitedtopology.metrics import Metrics
from trimtab.unitedtopology.readiness import Readiness
from trimtab.unitedtopology.view import View

JSON = dict[str, Any]
SETS = ("/apis/apps/v1", "replicasets")
READY = Readiness(Reason.RECONCILED, "counted")


class Stage:
    """A UnitedTopology of a Deployment with one ReplicaSet, and its counter."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, clock=self.clock)
        self.view = View(client)
        self.metrics = Metrics()
        self.recorder = Recorder(client, component="test")
        self.ignored: list[str] = []
        self.counter = StatusCounter(
            *(client, self.view, self.metrics, self.recorder), on_ignored=lambda _, reason: self.ignored.append(reason)
        )
        spec = {"replicas": 4, "selector": {}, "template": {}}
        tree = {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
        parent = self.server.put(*DEPLOYMENTS, tree)["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": parent, "controller": True}
        metadata = {"name": "web-1", "namespace": "shop", "ownerReferences": [owner]}
        self.uid = str(self.server.put(*SETS, {"metadata": metadata, "spec": spec})["metadata"]["uid"])

    def put(self, creating: dict[str, int] | None = None, **status: Any) -> None:
        """Store the UnitedTopology, with reservations that are so many seconds old."""
        tree = topology(5, -1)
        now = self.clock.now()
        entries = {key: times.format_time(now - age * SECOND) for key, age in (creating or {}).items()}
        tree["status"] |= {"revision": self.uid, "replicas": 4, **status}
        tree["status"]["subsetStatuses"][0] |= {"creating": entries}
        self.server.put(*TOPOLOGIES, tree)

    def put_pod(self, name: str, subset: str = "a") -> None:
        """Store a pod that is counted in a subset, with its reservation."""
        tree = pod(name, subset)
        tree["metadata"]["ownerReferences"][0]["uid"] = self.uid
        self.server.put(*PODS, tree)

    async def count(self) -> CountedTopology:
        """Recount what the cache has."""
        await self.clock.advance(0)
        found = await self.counter.count(self.cached(), READY)
        assert found is not None
        return found

    def cached(self) -> UnitedTopology:
        """The UnitedTopology as it is cached."""
        (found,) = self.view.topologies.store
        return found

    @property
    def row(self) -> JSON:
        """The first subset as it is stored."""
        (stored,) = self.server.objects("unitedtopologies")
        row: JSON = stored["status"]["subsetStatuses"][0]
        return row

    @property
    def writes(self) -> int:
        """How often a status was written, or tried to be."""
        return sum(request.method == "PATCH" for request in self.server.requests)

    def total(self, name: str) -> float:
        """The value of a counter."""
        return self.metrics.registry.get_sample_value(f"trimtab_unitedtopology_{name}_total") or 0.0


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """With caches that are kept current."""
    made = Stage()
    running = asyncio.create_task(made.view.run())
    await made.clock.advance(1)
    yield made
    await cancel(running)


async def test_a_recount_that_changes_nothing_is_not_written(stage: Stage) -> None:
    """Nor one in which only the version of the pods differs."""
    stage.put()
    stage.put_pod("p1")
    first = await stage.count()
    assert (stage.writes, stage.row["replicas"], stage.row["missingReplicas"]) == (1, 1, 4)
    assert stage.total("status_writes") == 1
    stage.put_pod("p1")
    await stage.clock.advance(0.1)
    again = await stage.count()
    assert (stage.writes, stage.total("status_writes")) == (1, 1)
    assert again.topology.status.subset_statuses == first.topology.status.subset_statuses
    assert [member.name for member in again.members] == [each.metadata.name for each in again.pods] == ["p1"]
    assert again.target is not None
    assert again.target.revision == stage.uid


async def test_after_a_conflict_the_stored_status_is_counted(stage: Stage) -> None:
    """A webhook has made a reservation since the cache saw it: it is kept."""
    stage.put()
    stage.put_pod("p1")
    await stage.clock.advance(0.1)
    old = stage.cached()
    stage.put({"x": 1})
    found = await stage.counter.count(old, READY)
    assert found is not None
    assert (list(stage.row["creating"]), stage.row["replicas"]) == (["x"], 1)
    assert stage.total("status_conflicts") == 1
    assert found.topology.metadata.resource_version != old.metadata.resource_version


async def test_a_status_that_always_changes_is_given_up(stage: Stage) -> None:
    """After six conflicting updates; the key is requeued with back-off."""
    stage.put()
    stage.put_pod("p1")
    await stage.clock.advance(0.1)

    def meddle(request: Request) -> Response | Exception | None:
        if request.method == "PATCH":
            stage.put()
        return None

    stage.server.intercept = meddle
    with pytest.raises(Conflict, match="shop/spread: gave up after 6 conflicting updates"):
        await stage.counter.count(stage.cached(), READY)
    assert stage.total("status_conflicts") == 6


async def test_a_cache_that_is_older_than_the_last_recount_is_not_counted(stage: Stage) -> None:
    """Its pods would be counted a second time."""
    stage.put(countedVersion="99999")
    await stage.clock.advance(0.1)
    assert await stage.counter.count(stage.cached(), READY) is None
    assert stage.writes == 0


async def test_the_first_recount_of_a_generation_lists_the_pods(stage: Stage) -> None:
    """The cache may not have a pod yet whose reservation is in a subset that was removed."""
    stage.put(observedGeneration=0)
    await stage.clock.advance(0.1)
    stage.server.cut_watches(cleanly=True)
    stage.put_pod("p1")
    found = await stage.counter.count(stage.cached(), READY)
    assert found is not None
    assert [member.name for member in found.members] == ["p1"]
    assert stage.row["replicas"] == 1


async def test_nothing_is_remembered_of_a_united_topology_that_is_gone(stage: Stage) -> None:
    """Another one of its name may have the same reservations: they are seen for the first time."""
    stage.put({"x": 200})
    assert (await stage.count()).recheck == 60.0
    await stage.clock.advance(20)
    assert (await stage.count()).recheck == 40.0
    stage.counter.forget(key_of(stage.cached()))
    assert (await stage.count()).recheck == 60.0


async def test_a_reservation_expires_when_it_was_seen_for_as_long_as_any_request_takes(stage: Stage) -> None:
    """The next recount is due when the first of them has been; one whose pod exists after all stays."""
    stage.put({"x": 200, "of-late": 200})
    first = await stage.count()
    assert first.recheck == 60.0
    await stage.clock.advance(20)
    stage.put({"x": 220, "of-late": 220, "y": 200, "young": 5})
    second = await stage.count()
    assert second.recheck == 40.0
    await stage.clock.advance(39)
    assert sorted((await stage.count()).topology.status.subset_statuses[0].creating) == ["of-late", "x", "y", "young"]
    released = pod("late")
    del released["metadata"]["ownerReferences"]
    stage.server.put(*PODS, released)
    bare = pod("bare")
    del bare["metadata"]["ownerReferences"], bare["metadata"]["annotations"]
    stage.server.put(*PODS, bare)
    await stage.clock.advance(1)
    third = await stage.count()
    assert sorted(stage.row["creating"]) == ["of-late", "y", "young"]
    assert third.recheck == 20.0, "until the next one was seen for long enough"
    assert stage.total("reservations_expired") == 1


async def test_a_reservation_of_a_pod_that_was_announced_expires_at_once(stage: Stage) -> None:
    """The pod is known to have existed: an uncached list that does not have it is enough."""
    since = times.format_time(stage.clock.now() - 100 * SECOND)
    stage.put({"p9@r": 100})
    tree = stage.server.objects("unitedtopologies")[0]
    tree["status"]["subsetStatuses"][0]["deleting"] = {"p9": since}
    stage.server.put(*TOPOLOGIES, tree)
    await stage.count()
    assert not stage.row.get("creating")
    assert stage.total("reservations_expired") == 1


async def test_a_deletion_that_did_not_happen_is_counted(stage: Stage) -> None:
    """And reported by an event."""
    stage.put_pod("p1")
    tree = topology(5, -1)
    tree["status"] |= {"revision": stage.uid, "replicas": 4}
    since = times.format_time(stage.clock.now() - 100 * SECOND)
    tree["status"]["subsetStatuses"][0] |= {"replicas": 1, "deleting": {"p1": since}}
    stage.server.put(*TOPOLOGIES, tree)
    await stage.clock.advance(0.1)
    await stage.count()
    assert (stage.total("deletions_reverted"), stage.row.get("deleting") or {}) == (1, {})


async def test_one_that_is_not_in_effect_keeps_no_entries(stage: Stage) -> None:
    """Its condition says why, for this generation."""
    stage.put({"x": 1})
    await stage.clock.advance(0.1)
    known = stage.cached()
    reason = Readiness(Reason.TARGET_CONFLICT, "another one is older")
    generation = msgspec.structs.replace(known.metadata, generation=4)
    await stage.counter.clear(msgspec.structs.replace(known, metadata=generation), known.status, reason)
    (stored,) = stage.server.objects("unitedtopologies")
    assert not stage.row.get("creating")
    assert stored["status"]["observedGeneration"] == 4
    (condition,) = stored["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "TargetConflict")
    assert codec.convert(stored, UnitedTopology).status.replicas == 4


async def test_other_tasks_run_while_pods_become_members(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of the pods of one UnitedTopology."""
    monkeypatch.setattr(members, "_COMPARISONS", 4)
    stage.put()
    for name in ("p1", "p2", "p3", "p4", "p5", "p6"):
        stage.put_pod(name)
    await stage.clock.advance(0)
    turns, matched, member = 0, list[int](), stage.view.member

    def noted(pod: Pod, of: UnitedTopology) -> members.Member:
        matched.append(turns)
        return member(pod, of)

    monkeypatch.setattr(stage.view, "member", noted)
    counting = asyncio.ensure_future(stage.counter.count(stage.cached(), READY))
    while not counting.done():
        await asyncio.sleep(0)
        turns += 1
    assert [matched.count(turn) for turn in sorted(set(matched))] == [2, 2, 2]
    found = counting.result()
    assert found is not None
    assert [each.name for each in found.members] == ["p1", "p2", "p3", "p4", "p5", "p6"]


async def test_patches_that_were_not_compared_are_reported_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each generation, and again for a UnitedTopology of the same name that is created later."""
    monkeypatch.setattr(matching, "MAX_MERGED", 0)
    monkeypatch.setattr(counting, "MAX_MERGED", 0)

    def put(generation: int) -> None:
        tree = topology(5, -1)
        tree["metadata"]["generation"] = generation
        tree["spec"]["subsets"][1]["patch"] = {"spec": {"containers": [{"name": "x", "$patch": "delete"}]}}
        tree["spec"]["subsets"][0]["patch"] = {"metadata": {"labels": {"tier": "gold"}}}
        stage.server.put(*TOPOLOGIES, tree)

    put(1)
    stage.put_pod("p1")
    await stage.count()
    assert stage.ignored == [], "a pod with a reservation is not compared"
    unreserved = pod("p2")
    unreserved["metadata"]["annotations"] = {}
    unreserved["metadata"]["ownerReferences"][0]["uid"] = stage.uid
    stage.server.put(*PODS, unreserved)
    await stage.count()
    await stage.count()
    assert stage.ignored == [
        (
            "spec.subsets[*].patch: to find the subsets of 1 pods without a reservation (such as p2) more than 0 "
            "patches would have to be merged with each; only these were compared"
        )
    ]
    put(2)
    await stage.count()
    assert len(stage.ignored) == 2
    stage.counter.forget(key_of(stage.cached()))
    await stage.count()
    assert len(stage.ignored) == 3
