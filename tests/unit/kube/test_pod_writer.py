"""Patches of pods: what another writer has written stays, and nothing is written twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.unit.kube.chaos import PODS
from tests.unit.kube.fakes import FakeServer, failure, pod_tree
from trimtab.api.documents import JSON
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import Conflict, LeadershipLost
from trimtab.kube.limits import TokenBucket
from trimtab.kube.pod_writer import Change, PodWriter, PodWrites
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.transport import Request, Response
from trimtab.testing.clocks import VirtualClock


class Stage:
    """A server with pods, and a client."""

    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock()
        self.server = FakeServer(self.clock)
        self.client = Client(self.server, clock=self.clock, rng=random.Random(1)).using(retry=NO_RETRIES)
        for name in names:
            self.touch(name)

    def touch(self, name: str, **labels: str) -> None:
        """Another writer changes a pod."""
        self.server.put(*PODS, pod_tree(name, labels=labels))

    async def pods(self) -> list[Pod]:
        """The pods as they are now."""
        return list((await self.client.list(Pod)).items)

    def calls(self, method: str) -> int:
        """How many requests of a method about single pods were sent."""
        return sum(each.method == method and "/pods/" in each.path for each in self.server.requests)

    async def annotation(self, name: str) -> str | None:
        """What a pod carries."""
        pods = {pod.metadata.name: pod for pod in await self.pods()}
        return pods[name].metadata.annotations.get("seen")


def seen(pod: Pod) -> JSON | None:
    """A change: the pod's labels, as an annotation; none if it has one."""
    if "seen" in pod.metadata.annotations:
        return None
    text = ",".join(pod.metadata.labels.values()) or "none"
    return {"metadata": {"resourceVersion": pod.metadata.resource_version, "annotations": {"seen": text}}}


def changes(pods: list[Pod], change: Change = seen) -> list[tuple[Pod, Change]]:
    """The same change of all pods."""
    return [(pod, change) for pod in pods]


async def test_pods_are_patched_once_and_only_if_they_need_it() -> None:
    """One request each."""
    stage = Stage("a", "b")
    writer = PodWriter(stage.client, at_once=4)
    first = await writer.write(changes(await stage.pods()))
    second = await writer.write(changes(await stage.pods()))
    assert (sorted(first.written), second) == (["default/a", "default/b"], PodWrites())
    assert stage.calls("PATCH") == 2


async def test_a_change_is_computed_anew_for_a_pod_that_has_changed() -> None:
    """It decides by what the pod is now."""
    stage = Stage("a")
    old = await stage.pods()
    stage.touch("a", app="web")
    report = await PodWriter(stage.client, at_once=4, rereads=3).write(changes(old))
    assert (list(report.written), await stage.annotation("a")) == (["default/a"], "web")


async def test_a_writer_that_does_not_read_again_skips_a_pod_that_has_changed() -> None:
    """Without another request."""
    stage = Stage("a")
    old = await stage.pods()
    stage.touch("a", app="web")
    report = await PodWriter(stage.client, at_once=4).write(changes(old))
    assert (report.skipped, report.failed, stage.calls("GET")) == (["default/a"], {}, 0)


async def test_a_pod_that_keeps_changing_fails_and_the_others_are_written() -> None:
    """After so many conflicts."""
    stage = Stage("a", "b")
    pods = await stage.pods()
    stage.server.intercept = _for("PATCH", "/pods/a", failure(409, "Conflict"))
    report = await PodWriter(stage.client, at_once=1, rereads=3).write(changes(pods))
    assert isinstance(next(iter(report.failed.values())), Conflict)
    assert "default/a: gave up after 3 conflicting updates" in str(next(iter(report.failed.values())))
    assert (list(report.written), stage.calls("PATCH")) == (["default/b"], 4)


@pytest.mark.parametrize("rereads", [0, 3])
async def test_a_pod_that_is_gone_is_reported(rereads: int) -> None:
    """Whether it is found out by the patch or by the read after a conflict."""
    stage = Stage("a", "b")
    pods = await stage.pods()
    stage.server.drop(*PODS, "default/a")
    report = await PodWriter(stage.client, at_once=4, rereads=rereads).write(changes(pods))
    assert (report.gone, list(report.written)) == (["default/a"], ["default/b"])


async def test_another_pod_of_the_same_name_is_left_alone() -> None:
    """A conflict may be with a successor."""
    stage = Stage("a")
    old = await stage.pods()
    stage.server.drop(*PODS, "default/a")
    stage.touch("a")
    report = await PodWriter(stage.client, at_once=4, rereads=3).write(changes(old))
    assert report.gone == ["default/a"]
    assert await stage.annotation("a") is None


async def test_no_pod_is_started_after_the_deadline() -> None:
    """In the order given; those in progress finish."""
    stage = Stage("a", "b", "c")
    pods = await stage.pods()
    stage.server.bad.latency = 2.0
    writing = asyncio.ensure_future(
        PodWriter(stage.client, at_once=1).write(changes(pods), until=stage.clock.monotonic() + SECOND)
    )
    await stage.clock.advance(20)
    assert list((await writing).written) == ["default/a"]


async def test_a_given_report_has_what_was_written_before_a_cancellation() -> None:
    """A caller that stops waiting has to know what to revert."""
    stage = Stage("a", "b")
    pods = await stage.pods()
    report = PodWrites()
    stage.server.intercept = _for("PATCH", "/pods/b", None, wait=lambda: setattr(stage.server.bad, "latency", 60.0))
    writing = asyncio.ensure_future(PodWriter(stage.client, at_once=1).write(changes(pods), report=report))
    await stage.clock.advance(1)
    await cancel(writing)
    assert list(report.written) == ["default/a"]


async def test_pods_are_written_no_faster_than_the_limit_allows() -> None:
    """However many could be written at a time."""
    stage = Stage("a", "b", "c", "d")
    pods = await stage.pods()
    report = PodWrites()
    limit = TokenBucket(1.0, 2, stage.clock)
    writing = asyncio.ensure_future(PodWriter(stage.client, at_once=4, limit=limit).write(changes(pods), report=report))
    await stage.clock.advance(0)
    assert len(report.written) == 2
    await stage.clock.advance(2)
    assert len((await writing).written) == 4


async def test_a_lost_lease_is_raised_and_ends_the_other_writes() -> None:
    """A process that is not the leader any more writes nothing."""
    stage = Stage("a", "b", "c")
    pods = await stage.pods()

    def lost() -> None:
        raise LeadershipLost("taken")

    with pytest.raises(LeadershipLost):
        await PodWriter(stage.client.using(before_write=lost), at_once=2).write(changes(pods))
    assert stage.calls("PATCH") == 0


def _for(
    method: str, path: str, response: Response | None, wait: Callable[[], None] = lambda: None
) -> Callable[[Request], Response | None]:
    def intercept(request: Request) -> Response | None:
        if request.method != method or not request.path.endswith(path):
            return None
        wait()
        return response

    return intercept


async def test_other_tasks_run_while_many_pods_need_no_patch() -> None:
    """Of ten thousand pods most have the right cost already: looking at all of them takes long."""
    stage, turns = Stage("a"), 0
    (pod,) = await stage.pods()

    def unchanged(_: Pod) -> JSON | None:
        looked.append(turns)
        return None

    looked: list[int] = []
    writing = asyncio.ensure_future(PodWriter(stage.client, at_once=2).write([(pod, unchanged)] * 1000))
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(looked) == 1000
    assert max(looked.count(turn) for turn in set(looked)) <= 200
