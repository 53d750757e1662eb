"""Lists that come as initial events of a watch, and in pages where they do not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.kube.chaos import PODS
from tests.unit.kube.fakes import FakeServer, FakeStream, failure, pod_tree, refused, status
from trimtab.api.pods import Pod
from trimtab.kube import informers, lists
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.errors import Timeout
from trimtab.kube.informers import Informer
from trimtab.kube.transport import Request
from trimtab.testing.clocks import VirtualClock

END = {"k8s.io/initial-events-end": "true"}


@dataclass
class Lists(FakeServer):
    """A server whose initial events the test writes itself, into the newest of `streams`."""

    streams: list[FakeStream] = field(default_factory=list)
    refuses: bool = False
    asked: int = 0

    async def stream(self, request: Request) -> FakeStream:
        """Initial events, or a watch."""
        if "sendInitialEvents" not in dict(request.params):
            return await FakeServer.stream(self, request)
        self.asked += 1
        if self.refuses:
            return refused()
        self.streams.append(FakeStream())
        return self.streams[-1]

    def pages(self) -> int:
        """How often pages were listed."""
        return sum("watch" not in dict(request.params) for request in self.requests)

    def send_event(self, kind: str, tree: Any) -> None:
        """Send an event of the list."""
        self.streams[-1].feed(json.dumps({"type": kind, "object": tree}).encode() + b"\n")

    def present(self, name: str, version: int, node: str = "") -> dict[str, Any]:
        """A pod of the list, which a list in pages has, too."""
        tree = pod_tree(name, node=node)
        metadata = {**tree["metadata"], "uid": f"uid-{name}", "resourceVersion": str(version)}
        return {**tree, "metadata": metadata}

    def expire_list(self) -> None:
        """Send 410 in the stream, and end it."""
        self.send_event("ERROR", status(410, "Expired"))
        self.streams[-1].end()

    def end_list(self, version: int = 100) -> None:
        """Send the bookmark after which the list is complete."""
        metadata = {"resourceVersion": str(version), "creationTimestamp": None, "annotations": END}
        self.send_event("BOOKMARK", {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}})


class Stage:
    """A server, and an informer that reports what it does."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = Lists(self.clock)
        self.client = Client(self.server, clock=self.clock)
        self.fallbacks: list[tuple[str, str]] = []
        self.client.list_fallbacks.on_report = lambda kind, reason: self.fallbacks.append((kind, reason.value))
        self.informer = Informer(self.client, Pod)
        self.told: list[str] = []
        self.informer.subscribe(
            added=lambda pod: self.told.append(f"+{pod.metadata.name}"),
            updated=lambda _, pod: self.told.append(f"~{pod.metadata.name}"),
            deleted=lambda pod: self.told.append(f"-{pod.metadata.name}"),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Lists]:
        """While the informer runs."""
        task = asyncio.create_task(self.informer.run())
        try:
            await self.clock.advance(0)
            yield self.server
            assert not task.done()
        finally:
            await cancel(task)


async def test_objects_are_stored_as_they_come() -> None:
    """The list is complete at the bookmark, and the watch begins at its version."""
    stage = Stage()
    async with stage.running() as server:
        large = server.present("b", 9)
        large["metadata"]["annotations"] = {"large": "x" * 400_000}
        server.send_event("ADDED", server.present("a", 7))
        server.send_event("ADDED", large)
        await stage.clock.advance(0)
        assert stage.told == ["+a", "+b"]
        assert stage.informer.lists == 0
        server.end_list(100)
        await stage.clock.advance(0)
        assert stage.informer.lists == 1
        assert stage.informer.version == "100"
        assert server.streams[-1].closed
        server.put(*PODS, pod_tree("c"))
        await stage.clock.advance(0)
    assert stage.told == ["+a", "+b", "+c"]
    assert server.pages() == 0
    assert [dict(each.params)["resourceVersion"] for each in server.requests] == ["100"]


async def test_the_bookmark_may_come_in_pieces() -> None:
    """Nothing waits for more data once it is there."""
    stage = Stage()
    async with stage.running() as server:
        end = {"resourceVersion": "100", "annotations": END}
        line = json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
        for at in range(len(line)):
            server.streams[-1].feed(line[at : at + 1])
        await stage.clock.advance(0)
    assert stage.informer.lists == 1


async def test_the_bookmark_may_begin_in_the_text_that_ends_the_last_object() -> None:
    """The object is stored at once, and so is the end of the list when the rest of its line has come."""
    stage = Stage()
    async with stage.running() as server:
        added = json.dumps({"type": "ADDED", "object": server.present("a", 7)}).encode() + b"\n"
        end = {"resourceVersion": "100", "annotations": END}
        bookmark = json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
        server.streams[-1].feed(added + bookmark[:30])
        await stage.clock.advance(0)
        assert (stage.told, stage.informer.lists) == (["+a"], 0)
        server.streams[-1].feed(bookmark[30:])
        await stage.clock.advance(0)
    assert stage.informer.lists == 1


async def test_an_object_that_looks_like_a_bookmark_does_not_split_the_rest_of_the_list() -> None:
    """The object itself is stored at once; those after it wait for one another as before."""
    stage = Stage()
    async with stage.running() as server:
        likeness = server.present("a", 7)
        likeness["metadata"]["annotations"] = {"kind": "BOOKMARK"}
        server.send_event("ADDED", likeness)
        server.send_event("ADDED", server.present("b", 8))
        await stage.clock.advance(0)
        assert stage.told == ["+a"]
        server.end_list()
        await stage.clock.advance(0)
    assert stage.told == ["+a", "+b"]


@pytest.mark.parametrize("size", [1, 7, 90, 1000])
async def test_objects_may_come_in_any_pieces(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read once, whole, however the connection splits the lines."""
    monkeypatch.setattr(lists, "_CHUNK", 200)
    stage = Stage()
    async with stage.running() as server:
        trees = [server.present(f"p{number}", number) for number in range(1, 30)]
        lines = b"".join(json.dumps({"type": "ADDED", "object": tree}).encode() + b"\n" for tree in trees)
        for at in range(0, len(lines), size):
            server.streams[-1].feed(lines[at : at + size])
        server.end_list()
        await stage.informer.wait_synced()
    assert stage.told == [f"+p{number}" for number in range(1, 30)]


async def test_a_list_that_ends_within_a_line_is_incomplete() -> None:
    """The objects before it are stored; the line is not taken for a malformed one."""
    stage = Stage()
    async with stage.running() as server:
        server.send_event("ADDED", server.present("a", 7))
        server.streams[-1].feed(b'{"type": "ADDED", "object": {"metad')
        server.streams[-1].end()
        await stage.clock.advance(0)
        assert "ended before the list was complete" in stage.informer.problem
    assert stage.told == ["+a"]


@pytest.mark.parametrize(("pods", "returns"), [(2, 0), (3, 1)])
async def test_free_memory_is_returned_after_a_large_list(
    pods: int, returns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C library keeps it otherwise: a tenth of what the pods take."""
    returned: list[int] = []
    monkeypatch.setattr(informers, "_MANY", 3)
    stage = Stage()
    monkeypatch.setattr(informers, "return_free_memory", lambda: returned.append(len(stage.informer.store)))
    async with stage.running() as server:
        for number in range(pods):
            server.send_event("ADDED", server.present(f"p{number}", 7))
        server.end_list()
        await stage.informer.wait_synced()
    assert returned == [pods] * returns


async def test_changes_may_come_before_the_list_is_complete() -> None:
    """Also within one piece of the stream, in which an object is deleted and made again."""
    stage = Stage()
    async with stage.running() as server:
        again = server.present("b", 12)
        again["metadata"]["uid"] = "another"
        events = [
            ("ADDED", server.present("a", 7)),
            ("ADDED", server.present("b", 8)),
            ("MODIFIED", server.present("a", 9, "n1")),
            ("DELETED", server.present("b", 10)),
            ("ADDED", again),
            ("ADDED", server.present("c", 13)),
            ("DELETED", server.present("c", 14)),
        ]
        lines = [json.dumps({"type": kind, "object": tree}).encode() + b"\n" for kind, tree in events]
        server.streams[-1].feed(b"".join(lines))
        server.end_list()
        await stage.clock.advance(0)
    assert stage.told == ["+a", "+b", "-b", "+b", "+c", "-c"]
    assert [pod.spec.node_name for pod in stage.informer.store] == ["n1", ""]


async def test_objects_that_are_missing_are_deleted_when_the_list_is_complete() -> None:
    """Not before: the others of the list may still come."""
    stage = Stage()
    async with stage.running() as server:
        for name in "ab":
            server.send_event("ADDED", server.present(name, 7))
        server.end_list()
        await stage.clock.advance(10)
        server.expire_watches()
        await stage.clock.advance(10)
        server.send_event("ADDED", server.present("b", 7))
        await stage.clock.advance(0)
        assert stage.told == ["+a", "+b"]
        server.end_list(120)
        await stage.clock.advance(0)
    assert stage.told == ["+a", "+b", "-a"]


@pytest.mark.parametrize(
    "fail",
    [
        pytest.param(lambda server: server.streams[-1].cut(), id="the connection is cut"),
        pytest.param(lambda server: server.streams[-1].end(), id="the server ends it"),
        pytest.param(lambda server: server.streams[-1].feed(Timeout("silence")), id="nothing comes"),
        pytest.param(lambda server: server.expire_list(), id="expired"),
        pytest.param(
            lambda server: server.send_event("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
            id="a server that ignores the option sends a bookmark",
        ),
    ],
)
async def test_a_list_that_fails_is_read_in_pages(fail: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is deleted because of it; it is reported, and the next list is asked for as initial events again."""
    caplog.set_level(logging.INFO)
    stage = Stage()
    for name in "ab":
        stage.server.put(*PODS, pod_tree(name))
    async with stage.running() as server:
        first, second = server.objects("pods")
        server.send_event("ADDED", first)
        fail(server)
        await stage.clock.advance(0)
        assert stage.informer.lists == 0
        await stage.clock.advance(60)
        assert stage.informer.lists == 1
        assert stage.told == ["+a", "+b"]
        assert (server.asked, server.pages()) == (1, 1)
        assert stage.fallbacks == [("Pod", "failed")]
        assert "listed pods in pages, because the streamed list failed: " in caplog.text
        server.expire_watches()
        await stage.clock.advance(60)
        assert server.asked == 2
        server.send_event("ADDED", second)
        server.end_list(server.version)
        await stage.clock.advance(0)
    assert stage.told == ["+a", "+b", "-a"]
    assert len(stage.fallbacks) == 1, "streamed lists are not reported"


async def test_a_server_that_refuses_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """It is older, or the feature is off: pages are read at once, and for every later list; that is logged once."""
    caplog.set_level(logging.INFO)
    stage = Stage()
    stage.server.refuses = True
    stage.server.put(*PODS, pod_tree("a"))
    async with stage.running() as server:
        assert stage.informer.lists == 1
        server.expire_watches()
        await stage.clock.advance(60)
        assert (server.asked, server.pages()) == (1, 2)
    assert stage.told == ["+a"]
    assert stage.fallbacks == [("Pod", "refused")] * 2
    assert caplog.text.count("listed pods in pages, because the streamed list was refused: ") == 1


async def test_a_kind_that_is_not_served_is_no_list_in_pages() -> None:
    """Neither the stream nor the pages are there: nothing is reported until a list is complete."""
    stage = Stage()
    async with stage.running() as server:
        server.streams[-1].cut()
        server.intercept = lambda _: failure(404, "NotFound")
        await stage.clock.advance(60)
        assert stage.informer.lists == 0
    assert stage.fallbacks == []


async def test_an_object_that_cannot_be_read_does_not_stop_the_list(caplog: pytest.LogCaptureFixture) -> None:
    """It is reported, and the others are stored."""
    stage = Stage()
    async with stage.running() as server:
        strange = server.present("strange", 8)
        strange["spec"]["containers"] = "none"
        for tree in (server.present("a", 7), strange, server.present("b", 9)):
            server.send_event("ADDED", tree)
        server.end_list()
        await stage.clock.advance(0)
        assert stage.informer.lists == 1
    assert stage.told == ["+a", "+b"]
    assert "default/strange" in caplog.text


async def test_selectors_and_the_namespace_are_sent() -> None:
    """Only what the informer is for is listed."""
    clock = VirtualClock()
    server = Lists(clock)
    asked: list[Request] = []
    stream = server.stream

    async def note(request: Request) -> FakeStream:
        asked.append(request)
        return await stream(request)

    server.stream = note  # type: ignore[method-assign]
    informer = Informer(Client(server, clock=clock), Pod, namespace="n", label_selector="app=web")
    task = asyncio.create_task(informer.run())
    await clock.advance(0)
    await cancel(task)
    assert asked[0].path == "/api/v1/namespaces/n/pods"
    assert dict(asked[0].params) == {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "app=web",
    }
