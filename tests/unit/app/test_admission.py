"""What the webhooks report of reviews that the server admits without a decision."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.admission.test_server import body, post, served
from tests.unit.kube.fakes import FakeServer
from tests.unit.kube.strange_objects import deep
from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import Hook
from trimtab.api import configuration
from trimtab.api.admission import AdmissionRequest, GroupVersionResource
from trimtab.api.documents import Document
from trimtab.app import admission
from trimtab.app.dependencies import Dependencies
from trimtab.kube.client import Client
from trimtab.scaledown.intent import reviews
from trimtab.scaledown.intent.reviews import ScaleReviews
from trimtab.testing.clocks import VirtualClock


def review(replicas: tuple[int, int], filling: int) -> AdmissionRequest:
    """A Deployment of some size gets another one."""
    metadata = {"name": "web", "uid": "d1", "annotations": {"filling": "x" * filling}}
    old, new = (Document({"metadata": metadata, "spec": {"replicas": size}}) for size in replicas)
    resource = GroupVersionResource(group="apps", version="v1", resource="deployments")
    return AdmissionRequest(
        uid="u", resource=resource, operation="UPDATE", namespace="shop", name="web", object=new, old_object=old
    )


def made(registry: CollectorRegistry) -> admission._ScaleDowns:
    """What the webhooks have for reviews of scale-downs."""
    clock = VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    return admission._ScaleDowns(Dependencies(client, configuration.read({}), registry), None)  # noqa: SLF001


async def never(_: Any) -> Any:
    """No decision."""
    raise AssertionError


@pytest.mark.parametrize("filling", [pytest.param(10, id="small"), pytest.param(200_000, id="large")])
async def test_a_scale_down_without_a_decision_is_reported(filling: int) -> None:
    """However large the workload is; what is no scale-down is not reported."""
    registry = CollectorRegistry()
    scale_downs = made(registry)
    hook = Hook("scale", "/scale", never, 2.0)
    scale_downs.on_skip(hook, review((3, 5), filling), "it is late", ReviewOutcome.LATE)
    scale_downs.on_skip(hook, review((5, 3), filling), "it is late", ReviewOutcome.LATE)

    def reported() -> float:
        return registry.get_sample_value("trimtab_scaledown_fallbacks_total", {"reason": "late"}) or 0.0

    async with asyncio.timeout(30):
        while not reported():
            await asyncio.sleep(0)
    assert reported() == 1.0


@pytest.mark.parametrize("filling", [pytest.param(10, id="small"), pytest.param(200_000, id="large")])
async def test_an_update_of_a_workload_that_cannot_be_read_is_admitted(filling: int, tmp_path: Path) -> None:
    """Whether it shrinks is unknown: it is admitted without a decision, and has no event."""
    scale_downs = made(CollectorRegistry())
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}
    new = {"metadata": {"name": "web", "annotations": {"filling": "x" * filling}}}
    data = body(operation="UPDATE", resource=resource, object=new, oldObject="@")
    data = data.replace(b'"@"', deep(200).encode())
    hooks = ScaleReviews(scale_downs.holder.hold).hooks
    async with served(tmp_path, hooks, on_skip=scale_downs.on_skip) as (server, session):
        status, answer = await post(server, session, data, reviews.PATH)
    assert (status, answer["response"]["allowed"]) == (200, True)
    labels = {"hook": reviews.NAME, "outcome": "failed"}
    assert server.metrics.registry.get_sample_value("trimtab_webhook_reviews_total", labels) == 1
