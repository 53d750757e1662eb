"""Costs written and reverted: one patch a pod, no foreign cost overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import FakeServer, failure
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import Conflict, Forbidden, IncompleteSweep, Invalid, NotFound
from trimtab.kube.resources import object_key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.transport import Request
from trimtab.scaledown import pod_costs
from trimtab.scaledown.cost_writer import LAST, CostChange, CostWriter, WriteReport, sweep
from trimtab.scaledown.metrics import Metrics
from trimtab.scaledown.pod_costs import annotation_for
from trimtab.testing.builders import pod
from trimtab.testing.clocks import VirtualClock
from trimtab_lab.testing import InMemoryLab

PLAN = PlanAnnotation(plan="p1", workload="ReplicaSet/web", uid="u", generation=3, to=2, at=1000)


def marked(cost: int, *, before: str | None = None, stands: str | None = None) -> Pod:
    """A pod with a plan's annotation, and by default the cost that it names."""
    bare = pod("a").build() if before is None else pod("a").cost(before).build()
    mark = annotation_for(PLAN, bare, share=2, was=3, side="victims", cost=cost)
    text = str(cost) if stands is None else stands
    return pod("a").annotations({DELETION_COST: text, SCALE_PLAN: codec.encode(mark).decode()}).build()


def noted(patch: Any) -> dict[str, Any]:
    """What a patch does to annotations."""
    found: dict[str, Any] = patch["metadata"]["annotations"]
    return found


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(marked(-3), {DELETION_COST: None, SCALE_PLAN: None}, id="ours, and nothing before"),
        pytest.param(marked(-3, before="7"), {DELETION_COST: "7", SCALE_PLAN: None}, id="ours, and a cost before"),
        pytest.param(marked(-3, stands="9"), {SCALE_PLAN: None}, id="somebody has changed it: only the mark goes"),
        pytest.param(
            pod("a").annotations({SCALE_PLAN: "what?"}).build(), {SCALE_PLAN: None}, id="a mark that cannot be read"
        ),
    ],
)
def test_a_revert_restores_the_previous_cost(found: Pod, want: dict[str, Any]) -> None:
    """By one patch, for the version that it was computed from."""
    assert noted(pod_costs.revert_plan_patch(found)) == want


def test_a_pod_without_an_annotation_is_not_reverted() -> None:
    """Its cost is foreign."""
    assert pod_costs.revert_plan_patch(pod("a").cost(5).build()) is None


def test_a_second_plan_keeps_the_cost_before_the_first() -> None:
    """Undoing the second must not bring back the first."""
    second = annotation_for(PLAN, marked(-3, before="7"), share=2, was=3, side="victims", cost=-8)
    assert second.before == "7"


def test_a_cost_that_replaced_a_plans_cost_is_the_previous_one() -> None:
    """Another program has overwritten the plan's cost: that cost is what a second plan restores."""
    second = annotation_for(PLAN, marked(-3, before="7", stands="9"), share=2, was=3, side="victims", cost=-8)
    assert second.before == "9"
    assert pod_costs.cost_without_plan(marked(-3, before="7", stands="9")) == "9"


def test_a_cost_and_its_annotation_are_one_patch() -> None:
    """They are never seen one without the other."""
    mark = annotation_for(PLAN, pod("a").build(), share=2, was=3, side="victims", cost=-1)
    found = noted(pod_costs.apply_plan_patch(pod("a").build(), mark))
    assert found[DELETION_COST] == "-1"
    assert codec.decode(found[SCALE_PLAN], PlanAnnotation) == mark


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[InMemoryLab]:
    """A cluster with three pods."""
    made = InMemoryLab()
    await made.start()
    for name in ("a", "b", "c"):
        await made.user.create(Pod, pod(name).tree(), namespace="default")
    yield made
    await made.close()


async def entries(cluster: InMemoryLab) -> list[CostChange]:
    """A cost for each pod, as they are now."""
    pods = await cluster.pods()
    return [
        CostChange(each, annotation_for(PLAN, each, share=2, was=3, side="victims", cost=at - 3))
        for at, each in enumerate(pods)
    ]


async def costs(cluster: InMemoryLab) -> dict[str, str | None]:
    """The cost of each pod."""
    return {each.metadata.name: each.metadata.annotations.get(DELETION_COST) for each in await cluster.pods()}


async def written(cluster: InMemoryLab, given: list[CostChange], seconds: float = 1.0) -> WriteReport:
    """What comes of writing these."""
    until = cluster.clock.monotonic() + round(seconds * SECOND)
    return await CostWriter(cluster.user).write(given, until=until)


async def test_all_costs_are_written(cluster: InMemoryLab) -> None:
    """With the versions that our own watch is to show."""
    found = await written(cluster, await entries(cluster))
    assert found.is_complete
    assert await costs(cluster) == {"a": "-3", "b": "-2", "c": "-1"}
    assert set(found.versions) == {object_key("default", name) for name in "abc"}


async def test_a_cost_that_another_program_sets_meanwhile_stays(cluster: InMemoryLab) -> None:
    """The pod has changed since it was read: it is read again, and its cost is foreign."""
    given = await entries(cluster)
    await cluster.user.patch(Pod, "b", {"metadata": {"annotations": {DELETION_COST: "50"}}}, namespace="default")
    found = await written(cluster, given)
    assert (found.foreign, found.late) == ([object_key("default", "b")], 0)
    assert not found.is_complete
    assert await costs(cluster) == {"a": "-3", "b": "50", "c": "-1"}


async def test_a_pod_that_changes_otherwise_is_written_all_the_same(cluster: InMemoryLab) -> None:
    """A kubelet reports all the time."""
    given = await entries(cluster)
    await cluster.user.patch(Pod, "b", {"metadata": {"labels": {"new": "yes"}}}, namespace="default")
    found = await written(cluster, given)
    assert found.is_complete
    assert (await costs(cluster))["b"] == "-2"


async def test_a_pod_that_is_gone_is_no_failure(cluster: InMemoryLab) -> None:
    """It needs no cost any more."""
    given = await entries(cluster)
    await cluster.user.delete(Pod, "b", namespace="default", grace_period_seconds=0)
    found = await written(cluster, given)
    assert found.gone == [object_key("default", "b")]
    assert found.is_complete


async def test_another_pod_of_the_same_name_is_not_written_to(cluster: InMemoryLab) -> None:
    """It is not the one that the plan was about."""
    given = await entries(cluster)
    await cluster.user.delete(Pod, "b", namespace="default", grace_period_seconds=0)
    await cluster.user.create(Pod, pod("b").tree(), namespace="default")
    found = await written(cluster, given)
    assert found.gone == [object_key("default", "b")]
    assert (await costs(cluster))["b"] is None


async def test_writes_that_the_server_refuses_are_reported(cluster: InMemoryLab) -> None:
    """And the others are written."""
    given = await entries(cluster)
    wire = cluster.user.transport
    wire.refuse = lambda request: Forbidden("no") if "/b" in request.path and request.method == "PATCH" else None  # type: ignore[attr-defined]
    found = await written(cluster, given)
    assert (list(found.failed), found.late) == ([object_key("default", "b")], 0)
    assert not found.is_complete
    assert (await costs(cluster))["a"] == "-3"


async def test_after_the_deadline_nothing_is_written(cluster: InMemoryLab) -> None:
    """What is late is counted."""
    found = await written(cluster, await entries(cluster), seconds=-1.0)
    assert found.late == 3
    assert await costs(cluster) == {"a": None, "b": None, "c": None}


async def test_a_write_that_hangs_is_cut_off_a_moment_after_the_deadline(cluster: InMemoryLab) -> None:
    """The others are written, and the request is not held for longer than that moment."""
    given = await entries(cluster)
    cluster.user.transport.hangs = lambda request: request.path.endswith("/c")  # type: ignore[attr-defined]
    started = cluster.clock.monotonic()
    work = asyncio.ensure_future(written(cluster, given, seconds=1.0))
    while not work.done():
        await cluster.clock.advance(0.05)
    found = work.result()
    assert (cluster.clock.monotonic() - started) / SECOND == pytest.approx(1.0 + LAST)
    assert (set(found.versions), found.late) == ({object_key("default", name) for name in "ab"}, 1)
    assert not found.is_complete


async def test_a_pod_that_is_gone_after_a_conflict_is_not_counted_as_reverted(cluster: InMemoryLab) -> None:
    """It has changed since it was seen, and the read that follows does not find it."""
    await written(cluster, await entries(cluster))
    pods = await cluster.pods()
    wire = cluster.user.transport

    def refuse(request: Request) -> Exception | None:
        if "/b" not in request.path:
            return None
        return Conflict("changed") if request.method == "PATCH" else NotFound("gone")

    wire.refuse = refuse  # type: ignore[attr-defined]
    assert await CostWriter(cluster.user).revert(pods, reason="done") == 2


async def test_reverting_gives_up_after_repeated_conflicts(cluster: InMemoryLab) -> None:
    """Reverting raises after a few attempts; the caller tries again."""
    await written(cluster, await entries(cluster))
    pods = await cluster.pods()
    wire = cluster.user.transport
    wire.refuse = lambda request: Conflict("changed") if request.method == "PATCH" else None  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="gave up after 4 conflicting updates"):
        await CostWriter(cluster.user).revert(pods, reason="done")
    wire.refuse = None  # type: ignore[attr-defined]
    assert await CostWriter(cluster.user).revert(await cluster.pods(), reason="done") == 3
    assert await costs(cluster) == {"a": None, "b": None, "c": None}


async def test_a_pod_that_the_server_refuses_as_invalid_is_passed_over(
    cluster: InMemoryLab, caplog: pytest.LogCaptureFixture
) -> None:
    """A retry would not help, and the others are reverted."""
    await written(cluster, await entries(cluster))
    wire = cluster.user.transport
    wire.refuse = lambda request: Invalid("no") if "/b" in request.path and request.method == "PATCH" else None  # type: ignore[attr-defined]
    assert await CostWriter(cluster.user).revert(await cluster.pods(), reason="done") == 2
    assert "the cost of pod default/b cannot be reverted, and is left as it is: no" in caplog.text
    found = await costs(cluster)
    assert (found["a"], found["c"]) == (None, None)


@pytest.mark.parametrize(("count", "writers", "at_once"), [(4, 32, 1), (5, 32, 2), (40, 32, 10), (40, 3, 3)])
async def test_a_few_costs_use_few_connections(count: int, writers: int, at_once: int) -> None:
    """One for every four of them, up to a limit: opening one takes as long as a few writes."""
    clock = VirtualClock()
    server = FakeServer(clock)
    changes = []
    for number in range(count):
        stored = codec.convert(server.put("/api/v1", "pods", pod(f"p{number}").tree()), Pod)
        mark = annotation_for(PLAN, stored, share=2, was=3, side="victims", cost=-1)
        changes.append(CostChange(stored, mark))
    server.bad.latency = 0.001
    writer = CostWriter(Client(server, clock=clock), writers=writers)
    writing = asyncio.ensure_future(writer.write(changes, until=clock.monotonic() + 60 * SECOND))
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(server.requests) == at_once
    while not writing.done():
        await clock.advance(0.001)
    assert (len(writing.result().versions), len(server.requests)) == (count, count)


async def test_costs_are_counted_and_do_not_wait_behind_other_requests() -> None:
    """A request is held meanwhile: the client's limit is for everything else."""
    clock = VirtualClock()
    server = FakeServer(clock)
    stored = codec.convert(server.put("/api/v1", "pods", pod("a").tree()), Pod)
    metrics = Metrics()
    writer = CostWriter(Client(server, clock=clock), metrics=metrics)
    change = CostChange(stored, annotation_for(PLAN, stored, share=2, was=3, side="victims", cost=-1))
    await writer.write([change], until=clock.monotonic() + SECOND)
    await writer.revert([codec.convert(tree, Pod) for tree in server.objects("pods")], reason="done")
    assert [(each.method, each.urgent) for each in server.requests] == [("PATCH", True)] * 2
    assert metrics.registry.get_sample_value("trimtab_scaledown_costs_written_total") == 1
    assert metrics.registry.get_sample_value("trimtab_scaledown_costs_reverted_total", {"reason": "done"}) == 1


async def test_a_pod_that_terminates_meanwhile_needs_no_cost() -> None:
    """It has changed since it was read: it is read again, and counts as gone."""
    clock = VirtualClock()
    server = FakeServer(clock)
    stored = codec.convert(server.put("/api/v1", "pods", pod("a").tree()), Pod)
    server.put("/api/v1", "pods", pod("a").terminating().tree())
    change = CostChange(stored, annotation_for(PLAN, stored, share=2, was=3, side="victims", cost=-1))
    found = await CostWriter(Client(server, clock=clock)).write([change], until=clock.monotonic() + SECOND)
    assert (found.gone, found.late, found.is_complete) == ([object_key("default", "a")], 0, True)
    assert DELETION_COST not in server.objects("pods")[0]["metadata"].get("annotations", {})


async def test_a_sweep_that_could_not_revert_everything_says_what() -> None:
    """After all pods have been tried."""
    clock = VirtualClock()
    server = FakeServer(clock)
    for name in ("a", "b", "c"):
        annotated = pod(name).annotations(marked(-3).metadata.annotations).tree() if name != "c" else pod(name).tree()
        server.put("/api/v1", "pods", annotated)
    refused = failure(403, "Forbidden", "you may not")
    server.intercept = lambda request: refused if request.method == "PATCH" and request.path.endswith("/a") else None
    with pytest.raises(IncompleteSweep) as caught:
        await sweep(Client(server, clock=clock).using(retry=NO_RETRIES))
    assert list(caught.value.failed) == ["pod default/a"]
    assert caught.value.count == 1
    server.intercept = None
    assert await sweep(Client(server, clock=clock)) == 1


async def test_a_sweep_leaves_namespaces_that_are_not_included_alone() -> None:
    """Those of another Trimtab, which still needs its costs."""
    clock = VirtualClock()
    server = FakeServer(clock)
    for namespace in ("shop", "other"):
        annotated = pod("a", namespace=namespace).annotations(marked(-3).metadata.annotations).tree()
        server.put("/api/v1", "pods", annotated)
    assert await sweep(Client(server, clock=clock), includes=lambda namespace: namespace == "shop") == 1
    left = [tree["metadata"] for tree in server.objects("pods") if SCALE_PLAN in tree["metadata"]["annotations"]]
    assert [each["namespace"] for each in left] == ["other"]
