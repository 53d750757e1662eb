"""Playing stories, on a control plane in memory."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.kube.fakes import failure
from tests.unit.lab.scenarios.clusters import FakeControlPlane
from tests.unit.lab.scenarios.stories import scale, story, tree
from trimtab.kube.transport import Request, Response
from trimtab_lab.scenarios.actions import StoryError
from trimtab_lab.scenarios.observations import State
from trimtab_lab.scenarios.runner import (
    ALL,
    Message,
    Options,
    Outcome,
    PodChanged,
    Progress,
    Runner,
    StepEnded,
    StepStarted,
)
from trimtab_lab.scenarios.steps import Compare

ZONE_C = {"add": {"zones": [{"name": "zone-c", "nodes": 2}]}}
START = {"wait": {"ready": 4}}


@pytest_asyncio.fixture
async def control_plane() -> AsyncIterator[FakeControlPlane]:
    """A control plane whose controller works."""
    async with FakeControlPlane().running() as running:
        yield running


async def play(
    control_plane: FakeControlPlane, *steps: dict[str, Any], options: Options | None = None, **changes: Any
) -> Outcome:
    """What comes of a small story with these steps."""
    runner = Runner(control_plane.client, control_plane.simulate, options or Options(), rng=random.Random(1))
    return await runner.play(story(*steps, **changes))


def spreads(outcome: Outcome) -> list[str]:
    """How the pods stood after each step."""
    return [str(record.distributions[ALL].spreads["zone"]) for record in outcome.records]


async def until_asleep(control_plane: FakeControlPlane, others: int = 0) -> None:
    """Run everything until all tasks wait for time to pass."""
    while control_plane.clock.sleepers <= others:
        await asyncio.sleep(0)


async def test_a_story_records_where_its_pods_are(control_plane: FakeControlPlane) -> None:
    """A third zone is added, filled, and emptied again."""
    outcome = await play(control_plane, START, ZONE_C, scale(6), scale(4))
    assert spreads(outcome) == ["2/2", "2/2/0", "2/2/2", "2/2/0"]
    assert outcome.complete
    assert outcome.failures == []


async def test_nothing_is_left(control_plane: FakeControlPlane) -> None:
    """Pods, workloads, nodes, namespaces: all that was made is removed."""
    outcome = await play(control_plane, START)
    assert outcome.leftovers == ()
    for plural in ("pods", "deployments", "nodes", "namespaces"):
        assert control_plane.server.objects(plural) == []


async def test_everything_is_left_on_request(control_plane: FakeControlPlane) -> None:
    """With `keep`, everything stays."""
    outcome = await play(control_plane, START, options=Options(keep=True))
    assert outcome.leftovers == (outcome.run.name,)
    assert len(control_plane.pods()) == 4
    assert len(control_plane.server.objects("nodes")) == 4


async def test_what_cannot_be_removed_is_reported(control_plane: FakeControlPlane) -> None:
    """The outcome is unchanged, and lists what is left."""
    before = control_plane.server.intercept

    def forbid(request: Request) -> Response | Exception | None:
        if request.method == "DELETE" and "/namespaces/" in request.path:
            return failure(403, "Forbidden", "not yours")
        return before(request) if before else None

    control_plane.server.intercept = forbid
    outcome = await play(control_plane, START)
    assert outcome.complete
    assert outcome.leftovers == (f"namespace {outcome.run.name}",)


async def test_a_failed_expectation_is_recorded_and_the_story_continues(control_plane: FakeControlPlane) -> None:
    """One surprise is no reason to miss the next."""
    wrong = scale(6, expect={"domains": {"zone": {"zone-a": 5, "zone-b": 3}}, "skew": {"zone": 0}})
    outcome = await play(control_plane, START, wrong, scale(2))
    assert outcome.complete
    assert outcome.failures == ["step 2 (scale Deployment/web to 6): zone zone-a has 3 pods, expected 5"]
    assert spreads(outcome)[-1] == "1/1"


async def test_what_does_not_come_to_pass_ends_the_story(control_plane: FakeControlPlane) -> None:
    """The outcome has what was waited for and what was observed; everything is still cleaned up."""
    playing = asyncio.ensure_future(play(control_plane, START, {"wait": {"ready": 9, "within": 30}}, scale(2)))
    while not any(record.path.endswith("deployments") for record in control_plane.server.requests):
        await asyncio.sleep(0)
    while not playing.done():  # the first to sleep may be the step before
        await control_plane.clock.advance(31 if control_plane.clock.sleepers else 0)
    outcome = await playing
    assert not outcome.complete
    assert len(outcome.records) == 2
    (told,) = outcome.failures
    assert "not within 30 s: waited for ready 9; seen pods 4, ready 4" in told
    assert control_plane.pods() == []


async def test_an_unsettled_workload_is_explained(control_plane: FakeControlPlane) -> None:
    """Without counts everything must settle; what has not is in the outcome."""
    control_plane.is_stopped = True
    playing = asyncio.ensure_future(play(control_plane, {"wait": {"within": 5}}))
    await until_asleep(control_plane)
    await control_plane.clock.advance(60)
    (told,) = (await playing).failures
    assert "waited for everything has settled" in told
    assert "web: replicas is 0, not 4" in told


async def test_a_refused_manifest_names_its_step(control_plane: FakeControlPlane) -> None:
    """What keeps a story from being played is raised, with the step and the server's words; nothing is left."""
    before = control_plane.server.intercept

    def refuse(request: Request) -> Response | Exception | None:
        if request.method == "POST" and b'"Service"' in (request.body or b""):
            return failure(422, "Invalid", "spec.ports: Required value")
        return before(request) if before else None

    control_plane.server.intercept = refuse
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    with pytest.raises(StoryError, match=r"steps\[1\] \(apply Service/s\): .*spec.ports: Required value"):
        await play(control_plane, START, {"apply": [service]})
    assert control_plane.server.objects("namespaces") == []


async def test_an_unknown_kind_is_reported(control_plane: FakeControlPlane) -> None:
    """Before anything strange is asked of the server."""
    with pytest.raises(StoryError, match="Frobnicator is neither the kind of an object in the story nor"):
        await play(control_plane, START, {"delete": {"kind": "Frobnicator", "name": "x"}})


async def test_a_kind_that_trimtab_has_no_type_for_is_asked_of_the_server(control_plane: FakeControlPlane) -> None:
    """A story may use whatever the cluster serves."""
    before = control_plane.server.intercept
    served = {"resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True}]}

    def discover(request: Request) -> Response | Exception | None:
        if request.path == "/api/v1":
            return Response(200, {}, json.dumps(served).encode())
        return before(request) if before else None

    control_plane.server.intercept = discover
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    outcome = await play(control_plane, START, {"apply": [config]}, options=Options(keep=True))
    assert outcome.complete
    (made,) = control_plane.server.objects("configmaps")
    assert made["data"] == {"a": "1"}


async def test_nodes_fail_and_return_by_the_story_s_names(control_plane: FakeControlPlane) -> None:
    """The nodes of a zone are this run's; pods that cannot terminate stay, and are not waited for."""
    gone = {"fail": {"zone": "zone-b"}, "wait": {"ready": 4, "terminating": 2}}
    outcome = await play(control_plane, START, gone, {"recover": {"zone": "zone-b"}})
    assert spreads(outcome) == ["2/2", "4/0", "4/0"]
    names = [f"{outcome.run.prefix}zone-b-{number}" for number in (1, 2)]
    assert control_plane.nodes[0].operations == [("fail", names), ("recover", names)]


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
async def test_operations_on_nodes_are_carried_out(control_plane: FakeControlPlane, verb: str) -> None:
    """Each verb reaches the simulation of the nodes."""
    outcome = await play(control_plane, START, {verb: {"nodes": ["zone-a-2"]}})
    assert control_plane.nodes[0].operations == [(verb, [f"{outcome.run.prefix}zone-a-2"])]


async def test_nodes_that_the_story_does_not_have_are_a_mistake(control_plane: FakeControlPlane) -> None:
    """The error lists those that it has."""
    with pytest.raises(StoryError, match="no node of the story matches zone zone-x; there are zone-a-1, zone-a-2"):
        await play(control_plane, START, {"drain": {"zone": "zone-x"}})


async def test_pods_are_let_grow_old(control_plane: FakeControlPlane) -> None:
    """The step is over when the youngest is as old as it should be, and not before."""
    ended: list[StepEnded] = []
    runner = Runner(
        control_plane.client,
        control_plane.simulate,
        report=lambda p: ended.append(p) if isinstance(p, StepEnded) else None,
    )
    playing = asyncio.ensure_future(runner.play(story(START, {"age": {"atLeast": 10}})))
    while not ended:
        await asyncio.sleep(0)
    await until_asleep(control_plane)
    await control_plane.clock.advance(9)
    assert len(ended) == 1
    await control_plane.clock.advance(1)
    assert (await playing).complete
    assert ended[1].record.took == pytest.approx(10)


async def test_a_repetition_is_unrolled(control_plane: FakeControlPlane) -> None:
    """Each repetition is a step of its own, with its number."""
    outcome = await play(control_plane, START, {"repeat": {"times": 2, "steps": [scale(6), scale(4)]}})
    assert [record.title for record in outcome.records[1:]] == [
        "scale Deployment/web to 6, 1 of 2",
        "scale Deployment/web to 4, 1 of 2",
        "scale Deployment/web to 6, 2 of 2",
        "scale Deployment/web to 4, 2 of 2",
    ]
    assert outcome.complete


async def test_objects_are_applied_patched_and_deleted(control_plane: FakeControlPlane) -> None:
    """An object that exists is changed; pods of a deleted workload are waited for."""
    smaller = tree()["workloads"][0]
    smaller["spec"]["replicas"] = 2
    patch = {"kind": "Deployment", "name": "web", "how": "merge", "patch": {"spec": {"replicas": 6}}}
    outcome = await play(control_plane, START, {"apply": [smaller]}, {"patch": patch})
    assert spreads(outcome) == ["2/2", "1/1", "3/3"]


async def test_a_deleted_workload_is_over_when_its_pods_are(control_plane: FakeControlPlane) -> None:
    """Its size is gone; its selector finds its pods."""
    reported: list[Progress] = []
    runner = Runner(control_plane.client, control_plane.simulate, report=reported.append)
    playing = asyncio.ensure_future(
        runner.play(story(START, {"delete": {"kind": "Deployment", "name": "web"}, "wait": {"within": 50}}))
    )
    while control_plane.server.objects("deployments") or not any(isinstance(each, StepEnded) for each in reported):
        await asyncio.sleep(0)
    await until_asleep(control_plane)
    assert not playing.done()
    for each in control_plane.pods():
        control_plane.remove(each)
    outcome = await playing
    assert spreads(outcome) == ["2/2", "0/0"]


async def test_what_happens_is_reported_as_it_happens(control_plane: FakeControlPlane) -> None:
    """For a display of progress: where it runs, the start and end of each step, and every pod between."""
    reported: list[Progress] = []
    runner = Runner(control_plane.client, control_plane.simulate, report=reported.append)
    await runner.play(story(START, scale(2)))
    assert isinstance(reported[0], Message)
    assert [each for each in reported if isinstance(each, StepStarted)] == [
        StepStarted(1, 2, "wait: ready 4"),
        StepStarted(2, 2, "scale Deployment/web to 2"),
    ]
    states = [each.change.state for each in reported if isinstance(each, PodChanged)]
    assert states.count(State.READY) == 4
    assert states.count(State.GONE) >= 2
    assert reported.index(StepStarted(2, 2, "scale Deployment/web to 2")) > next(
        index for index, each in enumerate(reported) if isinstance(each, StepEnded)
    )


async def test_stories_run_side_by_side(control_plane: FakeControlPlane) -> None:
    """Each has a namespace and nodes of its own."""
    runner = Runner(control_plane.client, control_plane.simulate, rng=random.Random(1))
    first, second = await asyncio.gather(runner.play(story(START)), runner.play(story(START)))
    assert first.run.name != second.run.name
    assert first.complete
    assert second.complete


async def test_the_timeline_has_every_pod_and_every_step(control_plane: FakeControlPlane) -> None:
    """What the chart is drawn from."""
    outcome = await play(control_plane, START, ZONE_C, scale(6))
    timeline = outcome.timeline
    assert [(mark.number, mark.title) for mark in timeline.marks] == [
        (1, "wait: ready 4"),
        (2, "add zone zone-c (2 nodes)"),
        (3, "scale Deployment/web to 6"),
    ]
    assert len({change.uid for change in timeline.changes}) == 6
    assert {birth.domain for birth in timeline.domains_added} == {"zone-a", "zone-b", "zone-c"}


async def test_several_workloads_are_recorded_each(control_plane: FakeControlPlane) -> None:
    """Beside all pods together; how a step is to be compared goes with the record."""
    second = tree()["workloads"][0]
    second["metadata"]["name"] = "api"
    outcome = await play(
        control_plane, {"wait": {"pods": 4}, "compare": "levels"}, workloads=[*tree()["workloads"], second]
    )
    (record,) = outcome.records
    assert set(record.distributions) == {ALL, "web", "api"}
    assert record.compare is Compare.LEVELS
