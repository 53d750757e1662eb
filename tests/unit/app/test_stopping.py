"""Controllers and webhooks that are stopped: what they have recorded is written first."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.api import configuration
from trimtab.api.meta import ObjectReference
from trimtab.app import admission, control
from trimtab.app.dependencies import Dependencies
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.events import NORMAL
from trimtab.testing.clocks import VirtualClock

LONGEST = 15.0
"""Seconds that a process may take to stop: half of the termination grace period of its pod, without `preStop`."""


def workload(name: str) -> ObjectReference:
    """What an event is about."""
    return ObjectReference(api_version="apps/v1", kind="Deployment", namespace="default", name=name, uid=name)


class Process:
    """A component that runs, and the parts that it was made of."""

    def __init__(self, module: Any, monkeypatch: pytest.MonkeyPatch, *, elected: bool = False) -> None:
        self.made: dict[str, Any] = {}
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        for name in ("Recorder", "PacedRecorder", "UnitedTopologies", "CloneSets", "SubsetHooks"):
            if hasattr(module, name):
                self._watch(module, name, monkeypatch)
        fields = {
            "leaderElection": {"enabled": elected},
            "webhooks": {"host": "127.0.0.1", "port": 0, "url": "https://127.0.0.1:9"},
        }
        client = Client(self.server, clock=self.clock, rng=random.Random(1))
        dependencies = Dependencies(client, configuration.read(fields), CollectorRegistry())
        self.task = asyncio.ensure_future(module.component(dependencies).run())

    def _watch(self, module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        make = getattr(module, name)

        def recorded(*given: Any, **named: Any) -> Any:
            self.made[name] = make(*given, **named)
            return self.made[name]

        monkeypatch.setattr(module, name, recorded)

    async def stop(self) -> None:
        """Stop it, in the time that its pod has for that."""
        stopping = asyncio.ensure_future(cancel(self.task))
        await self.clock.advance(LONGEST)
        await stopping

    def counts(self) -> dict[str, int]:
        """How often each event happened, by reason."""
        return {event["reason"]: event["count"] for event in self.server.objects("events")}


@pytest.mark.parametrize("elected", [False, True], ids=["alone", "as the leader"])
async def test_controllers_that_stop_write_their_events(elected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each feature."""
    process = Process(control, monkeypatch, elected=elected)
    await process.clock.advance(5)
    process.server.bad.latency = 0.1
    process.made["Recorder"].record(workload("web"), NORMAL, "ScaleDown", "queued")
    for name in ("UnitedTopologies", "CloneSets"):
        process.made[name]._recorder.record(workload(name.lower()), NORMAL, name, "queued")  # noqa: SLF001
    await process.stop()
    assert process.counts() == {"ScaleDown": 1, "UnitedTopologies": 1, "CloneSets": 1}


async def test_webhooks_that_stop_write_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were counted since the last one was written."""
    process = Process(admission, monkeypatch)
    await process.clock.advance(5)
    process.server.bad.latency = 0.1
    for _ in range(3):
        process.made["PacedRecorder"].record(workload("web"), NORMAL, "Planned", "paced")
    process.made["SubsetHooks"]._recorder.record(workload("db"), NORMAL, "Allocated", "queued")  # noqa: SLF001
    await process.stop()
    assert process.counts() == {"Planned": 3, "Allocated": 1}


@pytest.mark.parametrize("module", [admission, control], ids=["webhooks", "controllers"])
async def test_a_process_ends_in_time_although_the_api_server_does_not_answer(
    module: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the documentation promises; what was not written is logged."""
    process = Process(module, monkeypatch, elected=True)
    await process.clock.advance(5)
    process.server.bad.latency = 600.0
    process.made["Recorder"].record(workload("web"), NORMAL, "ScaleDown", "queued")
    await process.stop()
    assert "dropped 1 events of trimtab-scaledown: they could not be written within 2 s of the stop" in caplog.text
