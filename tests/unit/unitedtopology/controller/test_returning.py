"""Pods return to an earlier subset: evictions, the status, events and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.lab.workloads.objects import template
from tests.unit.unitedtopology.clusters import TopologyCluster, subset, topology_tree
from trimtab.api import codec
from trimtab.api.annotations import AIMED_SIZE, SCALE_PLAN, Reason
from trimtab.api.apps import Deployment
from trimtab.api.nodes import Node
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.clocks import SECOND
from trimtab.subsets.members import Member
from trimtab.testing.builders import PodBuilder, pod
from trimtab.unitedtopology.controller.counting import CountedTopology
from trimtab.unitedtopology.controller.returning import _pod_of, is_at_rest
from trimtab.unitedtopology.costs import target_size_text
from trimtab.unitedtopology.targets import Target

JSON = dict[str, Any]
RETURN = {"settlingSeconds": 60, "maxPods": 1}
STRATEGY = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30, "return": RETURN}}


class ElasticCluster(TopologyCluster):
    """Nodes with a number of places that the scheduler and the simulation agree on."""

    async def give_places(self, name: str, places: int) -> None:
        """How many pods a node takes."""
        self.fits = {**self.fits, name: places}
        amounts = {"cpu": "64", "memory": "64Gi", "pods": str(places)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.user.patch(Node, name, status, subresource="status")
        await self.settle()

    async def pass_time(self, seconds: int, *, step: float = 1) -> None:
        """Let time pass, and pods come and go."""
        end = self.clock.now() + seconds * SECOND
        while self.clock.now() < end:
            await self.clock.advance(step)
            await self.run_pods()


@pytest_asyncio.fixture
async def elastic() -> AsyncIterator[ElasticCluster]:
    """Own nodes (z1) with two places, rented ones (z2) with many; four pods, two of each."""
    made = ElasticCluster()
    await made.start()
    for name, places in (("z1-1", 2), ("z1-2", 0), ("z2-1", 50), ("z2-2", 50), ("z3-1", 0), ("z3-2", 0)):
        await made.give_places(name, places)
    await made.create_topology(subset("own", "z1"), subset("rented", "z2"), scheduleStrategy=STRATEGY)
    await made.deploy(4)
    yield made
    await made.stop()


async def test_pods_return_one_after_the_other(elastic: ElasticCluster) -> None:
    """Once there is room, each after a settling time; then nothing is written."""
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.pass_time(120)
    assert (await elastic.topology()).status.returns == ()
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(30)
    (entry,) = (await elastic.topology()).status.returns
    assert (entry.name, entry.expected) == ("own", 0)
    await elastic.pass_time(60)
    assert await elastic.pods_by_subset() == {"own": 3, "rented": 1}
    await elastic.pass_time(90)
    assert await elastic.pods_by_subset() == {"own": 4}
    messages = await elastic.event_messages(Reason.RETURNED)
    assert len(messages) == 2
    assert all("of rented: own has room again, where its successor goes" in each for each in messages)
    assert elastic.metrics.registry.get_sample_value("trimtab_unitedtopology_pods_returned_total") == 2
    await elastic.pass_time(60)
    before = len([each for each in elastic.controller_wire.requests if each.method != "GET"])
    await elastic.pass_time(600, step=5)
    assert len([each for each in elastic.controller_wire.requests if each.method != "GET"]) == before
    assert (await elastic.topology()).status.returns == ()


async def test_a_disruption_budget_is_obeyed(elastic: ElasticCluster) -> None:
    """The pod stays, an event says why, and the subset does not count as full."""
    selector = {"matchLabels": template(app="web")["metadata"]["labels"]}
    body = {"metadata": {"name": "web"}, "spec": {"minAvailable": 4, "selector": selector}}
    await elastic.create(PodDisruptionBudget, body)
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(200)
    assert await elastic.pods_by_subset() == {"own": 2, "rented": 2}
    assert await elastic.event_messages(Reason.RETURN_DELAYED)
    assert (await elastic.topology()).status.shortages == ()
    await elastic.patch(PodDisruptionBudget, "web", {"spec": {"minAvailable": 3}})
    await elastic.pass_time(400)
    assert await elastic.pods_by_subset() == {"own": 4}


async def test_nothing_returns_while_the_workload_is_not_whole(elastic: ElasticCluster) -> None:
    """A pod that no node takes yet: the next move would cost one more."""
    await elastic.patch(Deployment, "web", {"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}})
    await elastic.give_places("z1-2", 9)
    await elastic.pass_time(100)
    assert await elastic.event_messages(Reason.RETURNED) == []


async def test_nothing_returns_where_the_workload_does_not_exist(elastic: ElasticCluster) -> None:
    """The condition says so."""
    await elastic.create_topology(
        subset("own", "z1"), subset("rented", "z2"), name="early", target="missing", scheduleStrategy=STRATEGY
    )
    assert (await elastic.condition("early"))[1] == "TargetNotFound"


NOW = 1_000
"""Seconds since the epoch."""
TARGET = Target("d1", 2, "r1")
AT_REST = Member("p1", revision="r1", subset="a", ready=True)


def counted(
    *members: Member, pods: Sequence[PodBuilder] = (), target: Target | None = TARGET, **status: Any
) -> CountedTopology:
    """A UnitedTopology with this status, counted from these pods of a Deployment that wants two."""
    found = codec.convert({**topology_tree(subset("a")), "status": status}, UnitedTopology)
    return CountedTopology(found, members, [each.build() for each in pods], target)


def workload(*, observed: int = 3, available: int = 2) -> Deployment:
    """The Deployment, of the third generation."""
    status = {"observedGeneration": observed, "availableReplicas": available}
    return codec.convert({"metadata": {"name": "web", "generation": 3}, "spec": {}, "status": status}, Deployment)


def aimed(until: int) -> PodBuilder:
    """A pod whose cost was written ahead of a scale-down."""
    return pod("p1").annotations({AIMED_SIZE: target_size_text(1, until)})


WHOLE = (AT_REST, replace(AT_REST, name="p2"))


@pytest.mark.parametrize(
    ("found", "deployment", "want"),
    [
        pytest.param(counted(*WHOLE, pods=[pod("p1")]), workload(), True, id="nothing happens"),
        pytest.param(counted(*WHOLE, target=None), workload(), False, id="the workload is not cached"),
        pytest.param(counted(*WHOLE), workload(observed=2), False, id="its controller has not seen its spec"),
        pytest.param(counted(*WHOLE), workload(observed=4), True, id="its controller is ahead of our cache"),
        pytest.param(counted(*WHOLE, otherRevisions=[{"revision": "r0"}]), workload(), False, id="a rollout"),
        pytest.param(
            counted(*WHOLE, subsetStatuses=[{"name": "a"}, {"name": "b", "creating": {"x": "2026-01-01T00:00:00Z"}}]),
            workload(),
            False,
            id="a pod is being created",
        ),
        pytest.param(
            counted(*WHOLE, subsetStatuses=[{"name": "a", "deleting": {"x": "2026-01-01T00:00:00Z"}}, {"name": "b"}]),
            workload(),
            False,
            id="a pod is being deleted",
        ),
        pytest.param(counted(*WHOLE, subsetStatuses=[{"name": "a"}]), workload(), True, id="neither"),
        pytest.param(counted(AT_REST), workload(), False, id="a pod is missing"),
        pytest.param(counted(*WHOLE, AT_REST), workload(), False, id="one pod too many"),
        pytest.param(counted(*WHOLE), workload(available=1), False, id="one is not available"),
        pytest.param(
            counted(*WHOLE, replace(AT_REST, active=False, ready=False)), workload(), True, id="a pod that has finished"
        ),
        pytest.param(counted(AT_REST, replace(AT_REST, ready=False)), workload(), False, id="one is not ready"),
        pytest.param(
            counted(AT_REST, replace(AT_REST, revision="r0")), workload(), False, id="one is of another revision"
        ),
        pytest.param(counted(*WHOLE, pods=[pod("p1"), pod("p2").terminating()]), workload(), False, id="one leaves"),
        pytest.param(
            counted(*WHOLE, pods=[pod("p1").annotations({SCALE_PLAN: "{}"}), pod("p2")]),
            workload(),
            False,
            id="one has a cost of a scale-down",
        ),
        pytest.param(counted(*WHOLE, pods=[aimed(NOW + 1)]), workload(), False, id="a scale-down is prepared"),
        pytest.param(counted(*WHOLE, pods=[aimed(NOW)]), workload(), True, id="that has just expired"),
    ],
)
def test_pods_return_only_while_nothing_happens(found: CountedTopology, deployment: Deployment, want: bool) -> None:
    """Whatever else moves pods is over."""
    assert is_at_rest(found, deployment, NOW) is want


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(
            {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"nodeName": "n"}},
            ({"app": "web"}, {"a": "b"}, {"nodeName": "n"}),
            id="with its labels, annotations and spec",
        ),
        pytest.param({"metadata": {"labels": None}}, ({}, {}, {}), id="without any"),
        pytest.param(None, ({}, {}, {}), id="without a template"),
    ],
)
def test_room_is_looked_for_with_a_pod_of_the_template(template: JSON | None, want: tuple[JSON, JSON, JSON]) -> None:
    """Named as its controller would name it."""
    tree = {"metadata": {"name": "web"}, "spec": {} if template is None else {"template": template}}
    found = _pod_of(codec.convert(tree, Deployment))
    labels, annotations, spec = want
    assert found == {"metadata": {"generateName": "web-", "labels": labels, "annotations": annotations}, "spec": spec}
