"""The controllers of one leader term after another."""

from __future__ import annotations

import asyncio
import random

from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api import configuration
from trimtab.app import control
from trimtab.app.dependencies import Dependencies
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.components import LeaderElectedComponent
from trimtab.testing.clocks import VirtualClock


async def test_a_term_that_has_ended_leaves_nothing_behind() -> None:
    """No watch, no object in the snapshot, and no listener of the switch: it would read caches that are closed."""
    clock = VirtualClock()
    server = FakeServer(clock)
    client = Client(server, clock=clock, rng=random.Random(1))
    dependencies = Dependencies(client, configuration.read({}), CollectorRegistry())
    server.put("/api/v1", "nodes", {"metadata": {"name": "a"}})
    component = control.component(dependencies)
    assert isinstance(component, LeaderElectedComponent)
    task = asyncio.ensure_future(component.run())
    await clock.advance(5)
    assert component.problems == []
    assert component.synced
    assert dependencies.caches.snapshot.node("a") is not None
    await cancel(task)
    assert dependencies.caches.snapshot.node("a") is None
    assert not dependencies.switch._listeners  # noqa: SLF001
