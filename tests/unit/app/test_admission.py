"""What the webhooks report of reviews that the server admits without a decision."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.kube.fakes import FakeServer
from trimtab.admission.metrics import ReviewOutcome
from trimtab.admission.server import Hook
from trimtab.api import configuration
from trimtab.api.admission import AdmissionRequest, GroupVersionResource
from trimtab.api.documents import Document
from trimtab.app import admission
from trimtab.app.dependencies import Dependencies
from trimtab.kube.client import Client
from trimtab.testing.clocks import VirtualClock


def review(replicas: tuple[int, int], filling: int) -> AdmissionRequest:
    """A Deployment of some size gets another one."""
    metadata = {"name": "web", "uid": "d1", "annotations": {"filling": "x" * filling}}
    old, new = (Document({"metadata": metadata, "spec": {"replicas": size}}) for size in replicas)
    resource = GroupVersionResource(group="apps", version="v1", resource="deployments")
    return AdmissionRequest(
        uid="u", resource=resource, operation="UPDATE", namespace="shop", name="web", object=new, old_object=old
    )


async def never(_: Any) -> Any:
    """No decision."""
    raise AssertionError


@pytest.mark.parametrize("filling", [pytest.param(10, id="small"), pytest.param(200_000, id="large")])
async def test_a_scale_down_without_a_decision_is_reported(filling: int) -> None:
    """However large the workload is; what is no scale-down is not reported."""
    registry, clock = CollectorRegistry(), VirtualClock()
    client = Client(FakeServer(clock), clock=clock, rng=random.Random(1))
    scale_downs = admission._ScaleDowns(Dependencies(client, configuration.read({}), registry), None)  # noqa: SLF001
    hook = Hook("scale", "/scale", never, 2.0)
    scale_downs.on_skip(hook, review((3, 5), filling), "it is late", ReviewOutcome.LATE)
    scale_downs.on_skip(hook, review((5, 3), filling), "it is late", ReviewOutcome.LATE)

    def reported() -> float:
        return registry.get_sample_value("trimtab_scaledown_fallbacks_total", {"reason": "late"}) or 0.0

    async with asyncio.timeout(30):
        while not reported():
            await asyncio.sleep(0)
    assert reported() == 1.0
