"""Costs of policies in annotations of pods: which pods are written to, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, POLICY_COST
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.limits import TokenBucket
from trimtab.kube.retries import NO_RETRIES
from trimtab.ranking.costs import Carrier
from trimtab.scaledown.continuous.annotation_costs import AnnotationCosts
from trimtab.scaledown.continuous.carriers import CarrierReport
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import PolicyCost
from trimtab.testing.builders import PodBuilder, pod
from trimtab.testing.clocks import VirtualClock


class Writing:
    """A server, and the writer of costs."""

    def __init__(self, *pods: PodBuilder) -> None:
        clock = VirtualClock()
        self.server = FakeServer(clock)
        for each in pods:
            self.server.put("/api/v1", "pods", each.tree())
        self.metrics = Metrics()
        self.report = CarrierReport()
        client = Client(self.server, clock=clock).using(retry=NO_RETRIES)
        self.costs = AnnotationCosts(client, TokenBucket(1000, 1000, clock), metrics=self.metrics)

    @property
    def pods(self) -> list[Pod]:
        """The pods as they are stored."""
        return [codec.convert(tree, Pod) for tree in self.server.objects("pods")]

    async def write(self, cost: int = 5) -> None:
        """Give all pods this cost."""
        given = [PolicyCost(each, "default/web", Carrier.ANNOTATION, cost) for each in self.pods]
        await self.costs.write(given, self.report)

    async def revert(self) -> None:
        """Revert the costs of all pods."""
        await self.costs.revert(self.pods, self.report, reason="policy")

    @property
    def found(self) -> dict[str, str]:
        """The costs of pods."""
        return {
            each.metadata.name: each.metadata.annotations[DELETION_COST]
            for each in self.pods
            if DELETION_COST in each.metadata.annotations
        }

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(f"trimtab_scaledown_{name}_total", labels) or 0.0


async def test_costs_are_written_once_and_reverted_once() -> None:
    """Pods that have them, or have none, are not written to; both are counted."""
    writing = Writing(pod("a"), pod("b"))
    for _ in range(2):
        await writing.write()
    assert (writing.found, len(writing.server.requests)) == ({"a": "5", "b": "5"}, 2)
    assert (writing.report.written, writing.count("costs_written")) == (2, 2)
    for _ in range(2):
        await writing.revert()
    assert (writing.found, len(writing.server.requests)) == ({}, 4)
    assert (writing.report.reverted, writing.count("costs_reverted", reason="policy")) == (2, 2)
    assert not any(POLICY_COST in each.metadata.annotations for each in writing.pods)


async def test_the_cost_of_another_writer_is_reported_and_left_alone() -> None:
    """Each time: it is still there."""
    writing = Writing(pod("a").cost(7), pod("b"))
    await writing.write()
    assert writing.found == {"a": "7", "b": "5"}
    assert (writing.report.foreign, writing.report.written) == (["default/a"], 1)


async def test_terminating_pods_are_passed_over() -> None:
    """Neither do they need a cost, nor is one reverted."""
    writing = Writing(pod("a").terminating(), pod("b"))
    await writing.write()
    assert (writing.found, writing.report.written) == ({"b": "5"}, 1)


async def test_a_pod_that_terminates_meanwhile_is_passed_over() -> None:
    """The conflict of its write shows that it has changed."""
    writing = Writing(pod("a"))
    given = [PolicyCost(each, "default/web", Carrier.ANNOTATION, 5) for each in writing.pods]
    writing.server.put("/api/v1", "pods", pod("a").terminating().tree())
    await writing.costs.write(given, writing.report)
    assert (writing.found, writing.report) == ({}, CarrierReport())


async def test_failures_are_reported_by_pod() -> None:
    """After all pods have been tried."""
    writing = Writing(pod("a"), pod("b"))
    writing.server.intercept = lambda request: failure(403, "Forbidden", "no") if request.path.endswith("/a") else None
    await writing.write()
    assert (list(writing.report.failed), writing.report.written) == (["default/a"], 1)
    assert "no" in writing.report.failed["default/a"]


@pytest.mark.parametrize("conflicts", [pytest.param(1, id="once"), pytest.param(9, id="again and again")])
async def test_a_pod_that_changes_meanwhile_is_read_again(conflicts: int) -> None:
    """A few times at most; then it is reported, and the caller tries again later."""
    writing = Writing(pod("a"))
    left = [failure(409, "Conflict", "changed")] * conflicts

    def intercept(request: Any) -> Any:
        return left.pop() if request.method == "PATCH" and left else None

    writing.server.intercept = intercept
    await writing.write()
    is_written = conflicts == 1
    assert (bool(writing.found), list(writing.report.failed)) == (is_written, [] if is_written else ["default/a"])
