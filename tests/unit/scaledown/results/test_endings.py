"""How plans ended, and why a workload ended less level than was possible."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer
from trimtab.api.nodes import ZONE
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.rankers import Constraint
from trimtab.scaledown.intent.settle_time import SettleTime
from trimtab.scaledown.metrics import HoldOutcome, Metrics, MissCause
from trimtab.scaledown.results.endings import PlanEndings, _cause
from trimtab.scaledown.results.evaluation import PlanState
from trimtab.scaledown.results.levels import ExpectedLevel
from trimtab.scaledown.results.open_plans import OpenPlan, PlanResult, Resize
from trimtab.scaledown.view import View
from trimtab.testing.builders import node, pod
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


class Stage:
    """A Deployment with pods on the nodes `a` and `b`, each in a zone of its name, and what plans for it come to."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.view = View(Client(self.server, clock=self.clock))
        self.metrics = Metrics()
        self.settle_time = SettleTime(0.3)
        self._endings = PlanEndings(self.view, self.metrics, self.settle_time)
        for name in "ab":
            self.server.put("/api/v1", "nodes", node(name, zone=name).tree())
        self._deployment = self._store("Deployment", "web")
        self.uids: dict[str, str] = {}
        """Of ReplicaSets and pods, by name."""

    def _store(self, kind: str, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "shop"} | ({"ownerReferences": [owner]} if owner else {})
        tree = {"metadata": metadata, "spec": {"replicas": 0, "template": {}}}
        uid = self.server.put("/apis/apps/v1", f"{kind.lower()}s", tree)["metadata"]["uid"]
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}

    def add_set(self, name: str, nodes: str) -> None:
        """Store a ReplicaSet with a ready pod on each of these nodes: `web-1-0`, `web-1-1` and so on."""
        owner = self._store("ReplicaSet", name, self._deployment)
        self.uids[name] = owner["uid"]
        for number, each in enumerate(nodes):
            tree = pod(f"{name}-{number}", namespace="shop").on(each).ready().tree()
            tree["metadata"]["ownerReferences"] = [owner]
            self.uids[f"{name}-{number}"] = self.server.put("/api/v1", "pods", tree)["metadata"]["uid"]

    async def end(self, plan: OpenPlan, replaced: Sequence[ExpectedLevel] = ()) -> PlanResult:
        """The end of a plan for the Deployment, or of one that it replaced, when the cache shows everything."""
        running = asyncio.create_task(self.view.run())
        await self.clock.advance(1)
        key = "shop/Deployment/web"
        result = self._endings.end_replaced(key, plan, replaced) if replaced else self._endings.end(key, plan)
        await cancel(running)
        return result

    def plan(self, to: int, **fields: Any) -> OpenPlan:
        """A plan by which the first ReplicaSet was to have so many of five pods."""
        resizes = {self.uids["web-1"]: Resize(5, to)}
        made = OpenPlan("p", "u", to, resizes, {}, frozenset(), is_complete=True)
        for field, value in fields.items():
            setattr(made, field, value)
        return made

    def one_each(self) -> ExpectedLevel:
        """Of four pods in one zone and one in the other, one each is to stay; stock may leave two in one."""
        leveling = Leveling(ZONE, ("a", "b"), (4, 1), (1, 1), (2, 0), (0, 2), stock_is_certain=False)
        return ExpectedLevel(self.uids["web-1"], (Constraint(ZONE),), (leveling,))

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric; 0 where there is none yet."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}", labels) or 0.0


@pytest.fixture
def stage() -> Stage:
    """Without ReplicaSets."""
    return Stage()


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param({"web-1": 3}, PlanState.DONE, id="as many pods as planned"),
        pytest.param({"web-1": 2}, PlanState.DONE, id="fewer"),
        pytest.param({"web-1": 4}, PlanState.SUPERSEDED, id="it has grown again"),
        pytest.param({"web-1": 4, "web-2": 1}, PlanState.DONE, id="a rollout, which changes the sizes of ReplicaSets"),
    ],
)
async def test_a_workload_that_has_grown_again_is_not_evaluated(
    stage: Stage, pods: dict[str, int], want: PlanState
) -> None:
    """Of a Deployment whose first ReplicaSet was to have three pods; what is left is no result of the plan."""
    for name, count in pods.items():
        stage.add_set(name, "a" * count)
    made = stage.plan(3)
    result = await stage.end(made)
    assert (result.state, result.followed) == (want, 0)
    assert made.is_rolling is ("web-2" in pods)


async def test_victims_that_were_deleted_are_counted_by_what_decided(stage: Stage) -> None:
    """One that was spared is not."""
    stage.add_set("web-1", "ab")
    victims = {"gone-1": "zone", "gone-2": "zone", "gone-3": "subset", stage.uids["web-1-0"]: "zone"}
    assert (await stage.end(stage.plan(2, victims=victims))).followed == 3
    assert stage.count("pods_deleted_total", decision="zone") == 2
    assert stage.count("pods_deleted_total", decision="subset") == 1


@pytest.mark.parametrize(
    ("fields", "cause", "seconds"),
    [
        pytest.param({}, "lag", 0.45, id="the controller had not seen the costs"),
        pytest.param({"is_complete": False}, "unwritten", 0.3, id="not all costs were written"),
        pytest.param({"ready": {"gone": False}}, "earlier-criterion", 0.3, id="a pod was not ready"),
        pytest.param({"skipped": HoldOutcome.OBSERVED}, None, 0.3, id="an observed scale-down has no costs to follow"),
        pytest.param({"skipped": HoldOutcome.BUSY}, "lag", 0.45, id="a plan that was not delivered to all"),
    ],
)
async def test_misses_are_counted_by_cause_and_a_lag_makes_the_settle_time_longer(
    stage: Stage, fields: dict[str, Any], cause: str | None, seconds: float
) -> None:
    """A pod was deleted that was to stay, instead of a victim."""
    stage.add_set("web-1", "ab")
    made = stage.plan(2, victims={stage.uids["web-1-0"]: "zone"}, survivors=frozenset({"gone"}), **fields)
    await stage.end(made)
    counted = {each.value: stage.count("misses_total", cause=each.value) for each in MissCause}
    assert {each: count for each, count in counted.items() if count} == ({} if cause is None else {cause: 1})
    assert stage.settle_time.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("nodes", "fields", "labels"),
    [
        pytest.param("ab", {}, {"mode": "enforce", "result": "level", "cause": ""}, id="level"),
        pytest.param("aa", {}, {"mode": "enforce", "result": "missed", "cause": "unknown"}, id="less level"),
        pytest.param(
            "aa",
            {"skipped": HoldOutcome.OBSERVED},
            {"mode": "observe", "result": "missed", "cause": "observed"},
            id="less level, and observed",
        ),
    ],
)
async def test_how_level_a_scale_down_ended_is_counted_with_its_skews(
    stage: Stage, nodes: str, fields: dict[str, Any], labels: dict[str, str]
) -> None:
    """Of four pods in one zone and one in the other, one each was to stay; stock may have left two in one."""
    stage.add_set("web-1", nodes)
    result = await stage.end(stage.plan(2, expected=(stage.one_each(),), **fields))
    assert (str(result.result), result.cause) == (labels["result"], labels["cause"])
    assert stage.count("results_total", **labels) == 1
    states = ("before", "planned", "stock", "after")
    known = {"topology_key": ZONE, "mode": labels["mode"]}
    sums = [stage.count("skew_sum", state=state, **known) for state in states]
    assert sums == [3, 0, 2, nodes.count("a") - nodes.count("b")]


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [
        pytest.param("ab", {"mode": "enforce", "result": "level", "cause": ""}, id="level"),
        pytest.param("aa", {"mode": "enforce", "result": "missed", "cause": "overlap"}, id="less level"),
    ],
)
async def test_a_request_that_was_stored_with_the_costs_of_another_is_checked(
    stage: Stage, nodes: str, labels: dict[str, str]
) -> None:
    """Its misses are not counted, since the costs of the other were not for its size."""
    stage.add_set("web-1", nodes)
    made = stage.plan(3, victims={"gone-1": "zone"}, survivors=frozenset({"gone-2"}))
    result = await stage.end(made, (stage.one_each(),))
    assert (result.state, str(result.result), result.cause) == (PlanState.DONE, labels["result"], labels["cause"])
    assert stage.count("results_total", **labels) == 1
    assert [stage.count("misses_total", cause=each.value) for each in MissCause] == [0] * len(MissCause)
    assert stage.settle_time.seconds == pytest.approx(0.3)
