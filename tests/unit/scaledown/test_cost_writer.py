"""Costs written and taken back: one patch a pod, nobody's overwritten."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.lab.workloads.clusters import InMemoryLab
from trimtab.api import codec
from trimtab.api.annotations import DELETION_COST, SCALE_PLAN, PlanAnnotation
from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import Conflict, Forbidden
from trimtab.kube.resources import object_key
from trimtab.scaledown import cost_writer
from trimtab.scaledown.cost_writer import Entry, Ledger, annotation_for
from trimtab.testing.builders import pod

PLAN = PlanAnnotation(plan="p1", workload="ReplicaSet/web", uid="u", generation=3, to=2, at=1000)


def marked(cost: int, *, before: str | None = None, stands: str | None = None) -> Pod:
    """A pod with a mark, and a cost that is what the mark says unless told otherwise."""
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
def test_a_pod_is_put_back_as_it_was(found: Pod, want: dict[str, Any]) -> None:
    """By one patch, for the version that was looked at."""
    assert noted(cost_writer.erasure(found)) == want


def test_a_pod_without_a_mark_is_left_alone() -> None:
    """Whatever cost it has is somebody's."""
    assert cost_writer.erasure(pod("a").cost(5).build()) is None


def test_a_second_plan_remembers_what_stood_there_before_the_first() -> None:
    """Undoing the second must not bring back the first."""
    second = annotation_for(PLAN, marked(-3, before="7"), share=2, was=3, side="victims", cost=-8)
    assert second.before == "7"


def test_a_cost_and_its_mark_are_one_patch() -> None:
    """Nobody ever sees one without the other."""
    mark = annotation_for(PLAN, pod("a").build(), share=2, was=3, side="victims", cost=-1)
    found = noted(cost_writer.inscription(pod("a").build(), mark))
    assert found[DELETION_COST] == "-1"
    assert codec.decode(found[SCALE_PLAN], PlanAnnotation) == mark


@pytest_asyncio.fixture
async def world() -> AsyncIterator[InMemoryLab]:
    """A cluster with three pods."""
    made = InMemoryLab()
    await made.start()
    for name in ("a", "b", "c"):
        await made.user.create(Pod, pod(name).tree(), namespace="default")
    yield made
    await made.close()


async def entries(world: InMemoryLab) -> list[Entry]:
    """A cost for each pod, as they are now."""
    pods = await world.pods()
    return [
        Entry(each, annotation_for(PLAN, each, share=2, was=3, side="victims", cost=at - 3))
        for at, each in enumerate(pods)
    ]


async def costs(world: InMemoryLab) -> dict[str, str | None]:
    """The cost of each pod."""
    return {each.metadata.name: each.metadata.annotations.get(DELETION_COST) for each in await world.pods()}


async def written(world: InMemoryLab, given: list[Entry], seconds: float = 1.0) -> cost_writer.Written:
    """What comes of writing these."""
    until = world.clock.monotonic() + round(seconds * SECOND)
    return await Ledger(world.user).write(given, until=until)


async def test_all_costs_are_written(world: InMemoryLab) -> None:
    """With the versions that the own watch is to show."""
    found = await written(world, await entries(world))
    assert found.whole
    assert await costs(world) == {"a": "-3", "b": "-2", "c": "-1"}
    assert set(found.versions) == {object_key("default", name) for name in "abc"}


async def test_a_cost_that_somebody_sets_meanwhile_stays(world: InMemoryLab) -> None:
    """The pod has changed since it was looked at: it is read again, and is theirs."""
    given = await entries(world)
    await world.user.patch(Pod, "b", {"metadata": {"annotations": {DELETION_COST: "50"}}}, namespace="default")
    found = await written(world, given)
    assert found.theirs == [object_key("default", "b")]
    assert not found.whole
    assert await costs(world) == {"a": "-3", "b": "50", "c": "-1"}


async def test_a_pod_that_changes_otherwise_is_written_all_the_same(world: InMemoryLab) -> None:
    """A kubelet reports all the time."""
    given = await entries(world)
    await world.user.patch(Pod, "b", {"metadata": {"labels": {"new": "yes"}}}, namespace="default")
    found = await written(world, given)
    assert found.whole
    assert (await costs(world))["b"] == "-2"


async def test_a_pod_that_is_gone_is_no_failure(world: InMemoryLab) -> None:
    """It needs no cost any more."""
    given = await entries(world)
    await world.user.delete(Pod, "b", namespace="default", grace_period_seconds=0)
    found = await written(world, given)
    assert found.gone == [object_key("default", "b")]
    assert found.whole


async def test_another_pod_of_the_same_name_is_not_written_to(world: InMemoryLab) -> None:
    """It is not the one that the plan was about."""
    given = await entries(world)
    await world.user.delete(Pod, "b", namespace="default", grace_period_seconds=0)
    await world.user.create(Pod, pod("b").tree(), namespace="default")
    found = await written(world, given)
    assert found.gone == [object_key("default", "b")]
    assert (await costs(world))["b"] is None


async def test_what_the_server_refuses_is_told(world: InMemoryLab) -> None:
    """And the others are written."""
    given = await entries(world)
    wire = world.user.transport
    wire.refuse = lambda request: Forbidden("no") if "/b" in request.path and request.method == "PATCH" else None  # type: ignore[attr-defined]
    found = await written(world, given)
    assert list(found.failed) == [object_key("default", "b")]
    assert not found.whole
    assert (await costs(world))["a"] == "-3"


async def test_after_the_deadline_nothing_is_written(world: InMemoryLab) -> None:
    """What is late is counted."""
    found = await written(world, await entries(world), seconds=-1.0)
    assert found.late == 3
    assert await costs(world) == {"a": None, "b": None, "c": None}


async def test_a_pod_that_never_keeps_still_is_left_to_the_next_time(world: InMemoryLab) -> None:
    """Taking back gives up after a few attempts, and says so: the caller comes back."""
    await written(world, await entries(world))
    pods = await world.pods()
    wire = world.user.transport
    wire.refuse = lambda request: Conflict("changed") if request.method == "PATCH" else None  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="faster"):
        await Ledger(world.user).take_back(pods, reason="done")
    wire.refuse = None  # type: ignore[attr-defined]
    assert await Ledger(world.user).take_back(await world.pods(), reason="done") == 3
    assert await costs(world) == {"a": None, "b": None, "c": None}
