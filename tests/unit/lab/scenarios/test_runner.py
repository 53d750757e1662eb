"""Playing stories, on a lab in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.unit.lab.scenarios.clusters import StoryLab
from tests.unit.lab.scenarios.stories import scale, story, tree
from trimtab.api.apps import Deployment
from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.resources import untyped
from trimtab.kube.transport import Request
from trimtab_lab.apiserver.kinds.errors import StatusError, status_error
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
_DEFAULTS = {"default", "kube-system", "kube-public", "kube-node-lease"}
"""The namespaces that every cluster has."""


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[StoryLab]:
    """A cluster whose controllers work."""
    async with StoryLab() as made:
        yield made


async def play(lab: StoryLab, *steps: dict[str, Any], options: Options | None = None, **changes: Any) -> Outcome:
    """What comes of a small story with these steps."""
    runner = Runner(lab.player, lab.simulate, options or Options(), rng=random.Random(1))
    return await lab.play(runner.play(story(*steps, **changes)))


def spreads(outcome: Outcome) -> list[str]:
    """How the pods stood after each step."""
    return [str(record.distributions[ALL].spreads["zone"]) for record in outcome.records]


async def objects(lab: StoryLab, kind: Any) -> list[str]:
    """The names of all objects of a kind that stories make."""
    return [each.metadata.name for each in await lab.all(kind) if each.metadata.name not in _DEFAULTS]


async def test_a_story_records_where_its_pods_are(lab: StoryLab) -> None:
    """A third zone is added, filled, and emptied again: its pods are the youngest."""
    outcome = await play(lab, START, {"age": {"atLeast": 20}}, ZONE_C, scale(6), scale(4))
    assert spreads(outcome) == ["2/2", "2/2", "2/2/0", "2/2/2", "2/2/0"]
    assert outcome.complete
    assert outcome.failures == []


async def test_nothing_is_left(lab: StoryLab) -> None:
    """Pods, workloads, nodes, namespaces: all that was made is removed."""
    outcome = await play(lab, START)
    assert outcome.leftovers == ()
    for kind in (Pod, Deployment, Node, Namespace):
        assert await objects(lab, kind) == []


async def test_everything_is_left_on_request(lab: StoryLab) -> None:
    """With `keep`, everything stays."""
    outcome = await play(lab, START, options=Options(keep=True))
    assert outcome.leftovers == (outcome.run.name,)
    assert len(await lab.pods()) == 4
    assert len(await lab.all(Node)) == 4


async def test_what_cannot_be_removed_is_reported(lab: StoryLab) -> None:
    """The outcome is unchanged, and lists what is left."""

    def forbid(request: Request) -> StatusError | None:
        is_forbidden = request.method == "DELETE" and "/namespaces/" in request.path
        return status_error(403, "not yours") if is_forbidden else None

    lab.connection.refuse = forbid
    outcome = await play(lab, START)
    assert outcome.complete
    assert outcome.leftovers == (f"namespace {outcome.run.name}",)


async def test_a_failed_expectation_is_recorded_and_the_story_continues(lab: StoryLab) -> None:
    """One surprise is no reason to miss the next."""
    wrong = scale(6, expect={"domains": {"zone": {"zone-a": 5, "zone-b": 3}}, "skew": {"zone": 0}})
    outcome = await play(lab, START, wrong, scale(2))
    assert outcome.complete
    assert outcome.failures == ["step 2 (scale Deployment/web to 6): zone zone-a has 3 pods, expected 5"]
    assert spreads(outcome)[-1] == "1/1"


async def test_what_does_not_come_to_pass_ends_the_story(lab: StoryLab) -> None:
    """The outcome has what was waited for and what was observed; everything is still cleaned up."""
    outcome = await play(lab, START, {"wait": {"ready": 9, "within": 3}}, scale(2))
    assert not outcome.complete
    assert len(outcome.records) == 2
    (told,) = outcome.failures
    assert "not within 3 s: waited for ready 9; seen pods 4, ready 4" in told
    assert await lab.pods() == []


async def test_an_unsettled_workload_is_explained(lab: StoryLab) -> None:
    """Without counts everything must settle; what has not is in the outcome."""
    await lab.stop()
    (told,) = (await play(lab, {"wait": {"within": 3}})).failures
    assert "waited for everything has settled" in told
    assert "web: its controller has not observed its last change yet" in told


async def test_a_refused_manifest_names_its_step(lab: StoryLab) -> None:
    """What keeps a story from being played is raised, with the step and the server's words; nothing is left."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    with pytest.raises(StoryError, match=r"steps\[1\] \(apply Service/s\): .*spec.ports: Required value"):
        await play(lab, START, {"apply": [service]})
    assert await objects(lab, Namespace) == []


async def test_an_unknown_kind_is_reported(lab: StoryLab) -> None:
    """Before anything strange is asked of the server."""
    with pytest.raises(StoryError, match="Frobnicator is neither the kind of an object in the story nor"):
        await play(lab, START, {"delete": {"kind": "Frobnicator", "name": "x"}})


async def test_a_kind_that_trimtab_has_no_type_for_is_asked_of_the_server(lab: StoryLab) -> None:
    """A story may use whatever the cluster serves."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    outcome = await play(lab, START, {"apply": [config]}, options=Options(keep=True))
    assert outcome.complete
    made = await lab.user.get(untyped("v1", "ConfigMap", "configmaps"), "c", namespace=outcome.run.name)
    assert made["data"] == {"a": "1"}


async def test_nodes_fail_and_return_by_the_story_s_names(lab: StoryLab) -> None:
    """The nodes of a zone are this run's; pods that cannot terminate stay, and are not waited for."""
    gone = {"fail": {"zone": "zone-b"}, "wait": {"ready": 4, "terminating": 2}}
    outcome = await play(lab, START, gone, {"recover": {"zone": "zone-b"}})
    assert spreads(outcome) == ["2/2", "4/0", "4/0"]
    names = [f"{outcome.run.prefix}zone-b-{number}" for number in (1, 2)]
    assert lab.nodes[0].operations == [("fail", names), ("recover", names)]


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain"])
async def test_operations_on_nodes_are_carried_out(lab: StoryLab, verb: str) -> None:
    """Each verb reaches the simulation of the nodes."""
    outcome = await play(lab, START, {verb: {"nodes": ["zone-a-2"]}})
    assert lab.nodes[0].operations == [(verb, [f"{outcome.run.prefix}zone-a-2"])]


async def test_nodes_that_the_story_does_not_have_are_a_mistake(lab: StoryLab) -> None:
    """The error lists those that it has."""
    with pytest.raises(StoryError, match="no node of the story matches zone zone-x; there are zone-a-1, zone-a-2"):
        await play(lab, START, {"drain": {"zone": "zone-x"}})


async def test_pods_are_let_grow_old(lab: StoryLab) -> None:
    """The step is over when the youngest is as old as it should be, and not before."""
    outcome = await play(lab, START, {"age": {"atLeast": 10}})
    assert outcome.complete
    assert 9 < outcome.records[1].took < 11


async def test_a_repetition_is_unrolled(lab: StoryLab) -> None:
    """Each repetition is a step of its own, with its number."""
    outcome = await play(lab, START, {"repeat": {"times": 2, "steps": [scale(6), scale(4)]}})
    assert [record.title for record in outcome.records[1:]] == [
        "scale Deployment/web to 6, 1 of 2",
        "scale Deployment/web to 4, 1 of 2",
        "scale Deployment/web to 6, 2 of 2",
        "scale Deployment/web to 4, 2 of 2",
    ]
    assert outcome.complete


async def test_objects_are_applied_patched_and_deleted(lab: StoryLab) -> None:
    """An object that exists is changed; pods of a deleted workload are waited for."""
    smaller = tree()["workloads"][0]
    smaller["spec"]["replicas"] = 2
    patch = {"kind": "Deployment", "name": "web", "how": "merge", "patch": {"spec": {"replicas": 6}}}
    outcome = await play(lab, START, {"apply": [smaller]}, {"patch": patch})
    assert spreads(outcome) == ["2/2", "1/1", "3/3"]


async def test_a_deleted_workload_is_over_when_its_pods_are(lab: StoryLab) -> None:
    """Its size is gone; its selector finds its pods."""

    def pause(progress: Progress) -> None:
        lab.is_paused = lab.is_paused or isinstance(progress, StepEnded)

    runner = Runner(lab.player, lab.simulate, report=pause)
    deleting = {"delete": {"kind": "Deployment", "name": "web"}, "wait": {"within": 50}}
    playing = asyncio.ensure_future(runner.play(story(START, deleting)))
    while not lab.is_paused or await lab.all(Deployment):
        await lab.run_pods()
        await lab.settle()
    assert not playing.done()
    assert len(await lab.all(Pod)) == 4
    lab.is_paused = False
    outcome = await lab.play(playing)
    assert spreads(outcome) == ["2/2", "0/0"]


async def test_what_happens_is_reported_as_it_happens(lab: StoryLab) -> None:
    """For a display of progress: where it runs, the start and end of each step, and every pod between."""
    reported: list[Progress] = []
    runner = Runner(lab.player, lab.simulate, report=reported.append)
    await lab.play(runner.play(story(START, scale(2))))
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


async def test_stories_run_side_by_side(lab: StoryLab) -> None:
    """Each has a namespace and nodes of its own."""
    runner = Runner(lab.player, lab.simulate, rng=random.Random(1))
    first, second = await lab.play(asyncio.gather(runner.play(story(START)), runner.play(story(START))))
    assert first.run.name != second.run.name
    assert first.complete
    assert second.complete


async def test_the_timeline_has_every_pod_and_every_step(lab: StoryLab) -> None:
    """What the chart is drawn from."""
    outcome = await play(lab, START, ZONE_C, scale(6))
    timeline = outcome.timeline
    assert [(mark.number, mark.title) for mark in timeline.marks] == [
        (1, "wait: ready 4"),
        (2, "add zone zone-c (2 nodes)"),
        (3, "scale Deployment/web to 6"),
    ]
    assert len({change.uid for change in timeline.changes}) == 6
    assert {birth.domain for birth in timeline.domains_added} == {"zone-a", "zone-b", "zone-c"}


async def test_several_workloads_are_recorded_each(lab: StoryLab) -> None:
    """Beside all pods together; how a step is to be compared goes with the record."""
    second = tree()["workloads"][0]
    second["metadata"]["name"] = "api"
    second["spec"]["selector"]["matchLabels"] = second["spec"]["template"]["metadata"]["labels"] = {"app": "api"}
    outcome = await play(lab, {"wait": {"pods": 8}, "compare": "levels"}, workloads=[*tree()["workloads"], second])
    (record,) = outcome.records
    assert set(record.distributions) == {ALL, "web", "api"}
    assert record.compare is Compare.LEVELS
