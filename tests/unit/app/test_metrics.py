"""Metrics of a process that alerts are about: readiness, leaders, the certificate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.test_app import read, whole
from trimtab import app
from trimtab.api.configuration import Serving, TrimtabConfiguration
from trimtab.api.pods import Pod
from trimtab.app.metrics import Metrics
from trimtab.install import local
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.config import discover
from trimtab.kube.errors import BadRequest, Forbidden
from trimtab.kube.sessions import AiohttpStream, Session
from trimtab.kube.transport import Request, Response
from trimtab.scheduler.configuration import SCHEDULER_NAME
from trimtab.testing.builders import pod
from trimtab_lab import provisioning
from trimtab_lab.apiserver.wire.server import Server

LEASES = {"trimtab-scheduler", "trimtab-webhooks", "trimtab-controllers"}


async def scraped(running: app.App) -> dict[str, dict[str, float]]:
    """The samples of a process, by metric and lease."""
    _, text = await asyncio.to_thread(read, running.port, "/metrics")
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("lease", "")] = sample.value
    return found


def is_leading(samples: dict[str, dict[str, float]]) -> bool:
    """Whether the process holds every lease."""
    held = samples.get("trimtab_leader", {})
    return all(held.get(name) for name in LEASES)


async def test_a_process_reports_readiness_leadership_and_its_certificate(tmp_path: Path) -> None:
    """In the end it is ready, holds every lease, and has a certificate for a year."""
    async with Server(tmp_path) as server:
        configured = whole()
        async with Client(Session(discover(server.kubeconfig))) as client:
            await provisioning.create_missing(client, local.manifests(configured))
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig))
        task = asyncio.create_task(running.run())
        try:
            while running.port < 0:
                await asyncio.sleep(0)
            while not is_leading(found := await scraped(running)) or found["trimtab_ready"] != {"": 1.0}:
                assert not task.done()
        finally:
            await cancel(task)
    assert set(found["trimtab_leader"]) == LEASES
    left = found["trimtab_webhook_certificate_expiry_timestamp_seconds"][""] - time.time()
    assert 300 < left / 86400 < 400


async def first_count(running: app.App, name: str, labels: dict[str, str]) -> float:
    """Run a process until a counter has a sample with these labels; its value then."""
    task = asyncio.create_task(running.run())
    try:
        while (value := running.registry.get_sample_value(name, labels)) is None:
            await asyncio.sleep(0)
            assert not task.done()
        return value
    finally:
        await cancel(task)


class WithoutStreamedLists(Session):
    """Connections to an API server that refuses initial events, as an older one does."""

    async def stream(self, request: Request) -> AiohttpStream:
        """Open a watch, unless it asks for initial events."""
        if "sendInitialEvents" in dict(request.params):
            raise BadRequest("sendInitialEvents is forbidden", call=request.call)
        return await super().stream(request)


async def test_a_process_counts_lists_that_the_api_server_did_not_stream(tmp_path: Path) -> None:
    """By kind and reason."""
    async with Server(tmp_path) as server:
        configured = TrimtabConfiguration(components=("scheduler",), serving=Serving(port=0))
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig), connect=WithoutStreamedLists)
        labels = {"kind": "Pod", "reason": "refused"}
        assert await first_count(running, "trimtab_list_fallbacks_total", labels) == 1


class WithoutEvents(Session):
    """Connections of a user who may not create events."""

    async def send(self, request: Request) -> Response:
        """Send a request, unless it is about an event."""
        if "/events" in request.path:
            raise Forbidden("events is forbidden", call=request.call)
        return await super().send(request)


async def test_a_process_counts_events_that_were_not_written(tmp_path: Path) -> None:
    """By component and reason, also where the events have a rate limit of their own."""
    async with Server(tmp_path) as server:
        async with Client(Session(discover(server.kubeconfig))) as client:
            tree = pod("web").spec(schedulerName=SCHEDULER_NAME).tree()
            await client.create(Pod, tree, namespace="default")
        configured = TrimtabConfiguration(
            components=("scheduler",),
            serving=Serving(port=0),
            scheduler={
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"qps": 50, "burst": 100},
            },
        )
        running = app.App(app.Settings(configured, kubeconfig=server.kubeconfig), connect=WithoutEvents)
        labels = {"component": SCHEDULER_NAME, "reason": "refused"}
        assert await first_count(running, "trimtab_events_dropped_total", labels) == 1


def test_readiness_and_leadership_are_measured_on_each_scrape() -> None:
    """What changes between two scrapes shows in the second; a later candidate for a lease replaces the first."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    state = {"ready": False, "leads": True}
    metrics.watch_readiness(lambda: state["ready"])
    metrics.watch_leader("lease", lambda: False)
    metrics.watch_leader("lease", lambda: state["leads"])
    assert registry.get_sample_value("trimtab_ready") == 0.0
    assert registry.get_sample_value("trimtab_leader", {"lease": "lease"}) == 1.0
    state.update(ready=True, leads=False)
    assert registry.get_sample_value("trimtab_ready") == 1.0
    assert registry.get_sample_value("trimtab_leader", {"lease": "lease"}) == 0.0
