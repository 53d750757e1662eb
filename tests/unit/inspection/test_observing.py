"""Following scale-downs from outside: each is reported once, with what went, what is left, and what would have been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.lab.rollouts import KIND, Rollout
from tests.unit.kube.fakes import FakeServer
from trimtab.api import codec
from trimtab.api.apps import Deployment
from trimtab.api.documents import JSON
from trimtab.inspection.observing import FOLLOWED, ObservedScaleDown, ScaleDownObserver
from trimtab.inspection.settings import Settings
from trimtab.inspection.summaries import read_records, summarize
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource
from trimtab.testing.builders import node
from trimtab.testing.clocks import VirtualClock

POD, NODE = ("/api/v1", "pods"), ("/api/v1", "nodes")
DEPLOYMENT, SET = ("/apis/apps/v1", "deployments"), ("/apis/apps/v1", "replicasets")
ON = ("a", "a", "a", "b", "b", "c")


@dataclass
class Stage:
    """A server with a Deployment, and an observer of it."""

    server: FakeServer
    clock: VirtualClock
    observer: ScaleDownObserver
    records: list[ObservedScaleDown] = field(default_factory=list)

    def resize(self, kind: tuple[str, str], name: str, replicas: int) -> None:
        """Change the size of a workload."""
        self._put(kind, name, lambda tree: tree["spec"].update(replicas=replicas))

    def terminate(self, *names: str) -> None:
        """Delete pods, as a controller does: they end a moment later."""
        for name in names:
            self._put(POD, name, lambda tree: tree["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    def end(self, *names: str) -> None:
        """Let terminating pods end."""
        for name in names:
            self.server.drop(*POD, f"default/{name}")

    async def settle(self, seconds: float = 1.0) -> None:
        """Let the observer see everything."""
        await self.clock.advance(seconds)

    def _put(self, kind: tuple[str, str], name: str, change: object) -> None:
        tree = next(each for each in self.server.objects(kind[1]) if each["metadata"]["name"] == name)
        copied: JSON = {**tree, "metadata": {**tree["metadata"]}, "spec": {**tree["spec"]}}
        change(copied)  # type: ignore[operator]
        self.server.put(*kind, copied)


def owned(name: str, owner: JSON, kind: str, api_version: str = "apps/v1") -> JSON:
    """The metadata of an object with a controller."""
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"name": name, "namespace": "default", "labels": {"app": "web"}, "ownerReferences": [reference]}


def populate(server: FakeServer, model: type[Any] = Deployment, on: Sequence[str] = ON) -> None:
    """A Deployment, or a workload like it, with one ReplicaSet, and a ready pod on each of these nodes."""
    kind = Resource.of(model)
    path = (f"/apis/{kind.api_version}", kind.plural)
    for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z3")):
        server.put(*NODE, codec.to_tree(node(name, zone=zone).build()))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
    spec = {"replicas": len(on), "selector": {"matchLabels": {"app": "web"}}, "template": template}
    workload = server.put(*path, {"metadata": {"name": "web", "namespace": "default"}, "spec": dict(spec)})
    metadata = owned("web-1", workload, kind.kind, kind.api_version)
    replicaset = server.put(*SET, {"metadata": metadata, "spec": dict(spec)})
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}]
    for number, where in enumerate(on):
        status = {"phase": "Running", "conditions": ready}
        metadata = owned(f"web-{number}", replicaset, "ReplicaSet")
        server.put(*POD, {"metadata": metadata, "spec": {"nodeName": where}, "status": status})


@asynccontextmanager
async def observing(model: type[Any] = Deployment, kinds: Sequence[type[Any]] = FOLLOWED) -> AsyncIterator[Stage]:
    """An observer that has synced."""
    clock = VirtualClock()
    server = FakeServer(clock)
    populate(server, model)
    records: list[ObservedScaleDown] = []
    observer = ScaleDownObserver(Client(server, clock=clock), Settings(), records.append, kinds=kinds)
    task = asyncio.ensure_future(observer.run())
    stage = Stage(server, clock, observer, records)
    await stage.settle()
    try:
        yield stage
    finally:
        await cancel(task)


async def test_it_ends_when_one_of_its_caches_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that is not kept current would be compared with the plan."""

    async def fail(_: Informer[Any]) -> None:
        raise RuntimeError("a handler is broken")

    monkeypatch.setattr(Informer, "run", fail)
    clock = VirtualClock()
    observer = ScaleDownObserver(Client(FakeServer(clock), clock=clock), Settings(), lambda _: None)
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="a handler is broken"):
            await observer.run()


@pytest.mark.parametrize("is_late", [False, True], ids=["in order", "pods are seen before the workload"])
async def test_a_scale_down_is_reported_with_what_it_left(is_late: bool) -> None:
    """Watches of different kinds may be in any order: the versions say what came first."""
    async with observing() as stage:
        stage.resize(DEPLOYMENT, "web", 3)
        if not is_late:
            await stage.settle()
            assert stage.records == []
        stage.resize(SET, "web-1", 3)
        stage.terminate("web-3", "web-4", "web-5")
        await stage.settle()
        stage.end("web-3", "web-4", "web-5")
        await stage.settle()
        (record,) = stage.records
        assert (record.kind, record.name, record.from_, record.to) == ("Deployment", "web", 6, 3)
        assert sorted(record.deleted) == ["web-3", "web-4", "web-5"]
        zones = record.distributions[0]
        assert (zones.before, zones.left, zones.planned) == ((3, 2, 1), (3, 0, 0), (1, 1, 1))
        assert (zones.skew_left, zones.skew_planned, record.result) == (3, 0, "missed")
        report = summarize(stage.records)
        assert report.sentence() == "1 scale-down, 1 left a zone two or more behind, 0 would have"
        assert {request.method for request in stage.server.requests} == {"GET"}


async def test_a_scale_down_of_a_kind_that_the_configuration_names_is_reported_once() -> None:
    """As that of a Deployment; its ReplicaSet's is its own."""
    async with observing(Rollout, (*FOLLOWED, Rollout)) as stage:
        stage.resize((f"/apis/{KIND.api_version}", KIND.plural), "web", 3)
        stage.resize(SET, "web-1", 3)
        stage.terminate("web-3", "web-4", "web-5")
        await stage.settle()
        (record,) = stage.records
        assert (record.kind, record.from_, record.to, record.result) == ("Rollout", 6, 3, "missed")
        assert record.distributions[0].planned == (1, 1, 1)


async def test_a_scale_down_that_is_as_level_is_reported_as_such() -> None:
    """The controller may be right by itself."""
    async with observing() as stage:
        stage.resize(DEPLOYMENT, "web", 3)
        stage.resize(SET, "web-1", 3)
        stage.terminate("web-0", "web-1", "web-3")
        await stage.settle()
        (record,) = stage.records
        assert (record.result, record.distributions[0].left) == ("level", (1, 1, 1))
        assert summarize(stage.records).behind == 0


async def test_a_size_that_changes_again_ends_a_scale_down() -> None:
    """The first one is superseded, the second one judged from where it began."""
    async with observing() as stage:
        stage.resize(DEPLOYMENT, "web", 5)
        await stage.settle()
        stage.resize(DEPLOYMENT, "web", 4)
        stage.resize(SET, "web-1", 4)
        stage.terminate("web-0", "web-1")
        await stage.settle()
        assert [(record.from_, record.to, record.result) for record in stage.records] == [
            (6, 5, "superseded"),
            (5, 4, "level"),
        ]
        report = summarize(stage.records)
        assert (report.total, report.judged) == (2, 1)


async def test_a_scale_up_and_a_rollout_are_no_scale_downs() -> None:
    """ReplicaSets of a Deployment shrink in every rollout."""
    async with observing() as stage:
        stage.resize(DEPLOYMENT, "web", 8)
        stage.resize(SET, "web-1", 2)
        await stage.settle()
        assert (stage.records, stage.observer.open) == ([], {})


async def test_records_are_read_again_from_lines_and_from_lists() -> None:
    """`trimtab report -f` reads what `trimtab watch -o json` prints, what webhooks serve, and logs."""
    async with observing() as stage:
        stage.resize(DEPLOYMENT, "web", 3)
        stage.resize(SET, "web-1", 3)
        stage.terminate("web-3", "web-4", "web-5")
        await stage.settle()
        line = codec.encode(stage.records[0]).decode()
    logged = f'{{"message": "done", "scaleDown": {line}}}\nnot JSON\n'
    for text in (line, f"[{line}]", logged):
        assert summarize(read_records(text, "-")).behind == 1
