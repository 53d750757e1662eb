"""The label of namespaces that have a UnitedTopology: set, removed, and left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer, failure
from tests.unit.unitedtopology.clusters import subset, topology_tree
from trimtab.api.annotations import NAMESPACE_LABEL
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.resources import Key
from trimtab.testing.clocks import VirtualClock
from trimtab.unitedtopology.controller.namespace_labels import NamespaceLabeller
from trimtab.unitedtopology.view import View

NAMESPACES = ("/api/v1", "namespaces")
TOPOLOGIES = ("/apis/apps.kruise.io/v1alpha1", "unitedtopologies")


class Stage:
    """Namespaces and UnitedTopologies on a server."""

    def __init__(self, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        client = Client(self.server, clock=self.clock)
        self.view = View(client)
        self.labeller = NamespaceLabeller(client, self.view, **{"pod_webhook": True, **settings})

    def namespace(self, name: str, *, label: str | None = None, **metadata: Any) -> None:
        """Store a namespace."""
        labels = {} if label is None else {NAMESPACE_LABEL: label}
        self.server.put(*NAMESPACES, {"metadata": {"name": name, "labels": labels, **metadata}})

    def topology(self, namespace: str) -> None:
        """Store a UnitedTopology."""
        tree = topology_tree(subset("a"))
        tree["metadata"]["namespace"] = namespace
        self.server.put(*TOPOLOGIES, tree)

    async def labels(self) -> dict[str, str | None]:
        """The label of each namespace, after a while."""
        await self.clock.advance(1)
        found = [tree["metadata"] for tree in self.server.objects("namespaces")]
        return {each["name"]: (each.get("labels") or {}).get(NAMESPACE_LABEL) for each in found}

    @property
    def patches(self) -> list[str]:
        """The namespaces that were written to."""
        return [each.path.rpartition("/")[2] for each in self.server.requests if each.method == "PATCH"]


@asynccontextmanager
async def running(prepare: Callable[[Stage], None] = lambda _: None, **settings: Any) -> AsyncIterator[Stage]:
    """A labeller that runs."""
    stage = Stage(**settings)
    prepare(stage)
    tasks = [asyncio.create_task(part) for part in (stage.view.run(), stage.labeller.runner.run())]
    yield stage
    await cancel(*tasks)


async def test_a_namespace_has_the_label_while_it_has_a_united_topology() -> None:
    """One that has none is not written to."""
    async with running() as stage:
        stage.namespace("shop")
        stage.namespace("other")
        stage.topology("shop")
        assert await stage.labels() == {"shop": "enabled", "other": None}
        stage.server.drop(*TOPOLOGIES, "shop/web")
        assert await stage.labels() == {"shop": None, "other": None}
        assert stage.patches == ["shop", "shop"]


async def test_what_was_left_behind_is_corrected() -> None:
    """A label without a UnitedTopology, and one that another program has changed; a correct one is not written."""

    def prepare(stage: Stage) -> None:
        stage.namespace("left", label="enabled")
        stage.namespace("right", label="enabled")
        stage.topology("right")

    async with running(prepare) as stage:
        assert await stage.labels() == {"left": None, "right": "enabled"}
        assert stage.patches == ["left"]
        stage.namespace("right", label="off")
        assert (await stage.labels())["right"] == "enabled"
        stage.namespace("right")
        assert (await stage.labels())["right"] == "enabled"


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({"pod_webhook": False}, {"shop": None, "mine": None}, id="without the webhook no label"),
        pytest.param({"namespaces": frozenset({"mine"})}, {"shop": None, "mine": "enabled"}, id="one namespace alone"),
        pytest.param({}, {"shop": "enabled", "mine": "enabled"}, id="all"),
    ],
)
async def test_only_managed_namespaces_are_labelled(settings: dict[str, Any], want: dict[str, str | None]) -> None:
    """Another Trimtab may manage the others."""

    def prepare(stage: Stage) -> None:
        for name in ("shop", "mine"):
            stage.namespace(name)
            stage.topology(name)

    async with running(prepare, **settings) as stage:
        assert await stage.labels() == want


async def test_a_namespace_that_is_being_deleted_is_left_alone() -> None:
    """So is one that is gone, before or while it is written."""

    def prepare(stage: Stage) -> None:
        stage.namespace("going", deletionTimestamp="2026-01-01T00:00:00Z")
        stage.topology("going")

    async with running(prepare) as stage:
        assert await stage.labels() == {"going": None}
        stage.topology("nowhere")
        assert await stage.labels() == {"going": None}
        assert stage.patches == []
        gone = failure(404, "NotFound", "no such namespace")
        stage.server.intercept = lambda request: gone if request.method == "PATCH" else None
        stage.namespace("late")
        stage.topology("late")
        await stage.labels()
        assert stage.patches == ["late"], "it is not tried again"
        assert stage.labeller.queue.failures(Key("late")) == 0
