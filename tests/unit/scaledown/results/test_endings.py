"""How plans ended, and why a workload ended less level than was possible."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics, MissCause
from trimtab.scaledown.results.endings import PlanEndings, _cause
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.open_plans import OpenPlan, Resize
from trimtab.scaledown.view import View
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock


def plan(
    *,
    is_complete: bool = True,
    is_rolling: bool = False,
    skipped: HoldOutcome | None = None,
    ready: dict[str, bool] | None = None,
) -> OpenPlan:
    """A plan that has ended."""
    made = OpenPlan("p", "u", 2, {}, {}, frozenset())
    made.is_complete, made.is_rolling, made.skipped, made.ready = is_complete, is_rolling, skipped, ready or {}
    return made


@pytest.mark.parametrize(
    ("ended", "misses", "want"),
    [
        pytest.param(plan(skipped=HoldOutcome.BUSY, is_rolling=True), {}, "busy", id="it was not delivered"),
        pytest.param(plan(is_rolling=True), {MissCause.LAG: 1}, "rollout", id="a rollout decides"),
        pytest.param(plan(), {MissCause.LAG: 0, MissCause.DELETED: 2}, "deleted", id="pods that others deleted"),
        pytest.param(plan(), {MissCause.LAG: 3}, "lag", id="costs that came too late"),
        pytest.param(plan(is_complete=False), {}, "unwritten", id="costs that were not written"),
        pytest.param(plan(ready={"a": True, "b": False}), {}, "earlier-criterion", id="one pod was not ready"),
        pytest.param(plan(ready={"a": True, "b": True}), {}, "unknown", id="all were ready"),
        pytest.param(plan(), {}, "unknown", id="nothing is known"),
    ],
)
def test_the_cause_is_the_first_that_applies(ended: OpenPlan, misses: dict[MissCause, int], want: str) -> None:
    """As a value of the metric and of the event."""
    assert _cause(ended, misses) == want


def stored(server: FakeServer, kind: str, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """Store a workload; a reference to it."""
    metadata = {"name": name, "namespace": "shop"} | ({"ownerReferences": [owner]} if owner else {})
    tree = {"metadata": metadata, "spec": {"replicas": 0, "template": {}}}
    uid = server.put("/apis/apps/v1", f"{kind.lower()}s", tree)["metadata"]["uid"]
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param({"web-1": 3}, PlanState.DONE, id="as many pods as planned"),
        pytest.param({"web-1": 2}, PlanState.DONE, id="fewer"),
        pytest.param({"web-1": 4}, PlanState.SUPERSEDED, id="it has grown again"),
        pytest.param({"web-1": 4, "web-2": 1}, PlanState.DONE, id="a rollout, which changes the sizes of ReplicaSets"),
    ],
)
async def test_a_workload_that_has_grown_again_is_not_evaluated(pods: dict[str, int], want: PlanState) -> None:
    """Of a Deployment whose first ReplicaSet was to have three pods; what is left is no result of the plan."""
    clock = VirtualClock()
    server = FakeServer(clock)
    deployment = stored(server, "Deployment", "web")
    sets = {name: stored(server, "ReplicaSet", name, deployment) for name in pods}
    for name, count in pods.items():
        for number in range(count):
            tree = pod(f"{name}-{number}", namespace="shop").on("n1").ready().tree()
            tree["metadata"]["ownerReferences"] = [sets[name]]
            server.put("/api/v1", "pods", tree)
    view = View(Client(server, clock=clock))
    running = asyncio.create_task(view.run())
    await clock.advance(1)
    made = OpenPlan("p", "u", 3, {sets["web-1"]["uid"]: Resize(5, 3)}, {}, frozenset())
    assert PlanEndings(view, Metrics(), SettleTime(0.3)).end("shop/Deployment/web", made).state is want
    await cancel(running)
