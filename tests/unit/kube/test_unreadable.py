"""Objects that cannot be read: skipped, reported once, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.kube.fakes import FakeStream, refused
from tests.unit.kube.strange_objects import CASES, Case, deep, tree
from trimtab.api import codec
from trimtab.api.cloneset import CloneSet
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Informer
from trimtab.kube.resources import Resource, split
from trimtab.kube.stores import key_of
from trimtab.kube.transport import Request, Response
from trimtab.kube.unreadable import UnreadableObject
from trimtab.kube.watches import RejectedObject
from trimtab.snapshot.view import MIRRORED, Snapshot
from trimtab.testing.clocks import VirtualClock

_PARTS = 8
"""More parts than any list here is read in."""


class TextServer:
    """A transport that lists the given texts as objects, and streams further ones."""

    def __init__(self, *items: str, version: int = 10) -> None:
        self.items = list(items)
        self.version = version
        self.lists = 0
        self.watch = FakeStream()

    async def send(self, request: Request) -> Response:
        """A list of all objects."""
        assert request.method == "GET"
        self.lists += 1
        text = f'{{"metadata":{{"resourceVersion":"{self.version}"}},"items":[{",".join(self.items)}]}}'
        return Response(200, {}, text.encode())

    async def stream(self, request: Request) -> FakeStream:
        """The stream that `tell` writes to."""
        if "sendInitialEvents" in dict(request.params):
            return refused()
        self.watch = FakeStream()
        return self.watch

    async def close(self) -> None:
        """Nothing is open."""

    def tell(self, kind: str, text: str) -> None:
        """Send an event."""
        self.watch.feed(b'{"type":"%s","object":%s}\n' % (kind.encode(), text.encode()))


class Stage:
    """A server, a cache of one kind, and a snapshot that is kept current with it."""

    def __init__(self, model: type[Any], *items: str) -> None:
        self.clock = VirtualClock()
        self.server = TextServer(*items)
        self.client = Client(self.server, clock=self.clock)
        self.reports: list[UnreadableObject] = []
        self.client.unreadable.on_report = self.reports.append
        self.snapshot = Snapshot()
        cache: Cache[Any] = Caches(self.client, self.snapshot, (*MIRRORED, CloneSet)).open(model)
        self.informer = cache.informer
        self.deleted: list[str] = []
        self.informer.subscribe(deleted=lambda each: self.deleted.append(each.metadata.name))
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        self.task = asyncio.create_task(cache.run())

    async def settle(self) -> None:
        """Let everything that was sent be handled; the informer must still run.

        Large objects are read in a thread: it has done what it was given before when it has done what it is given here.
        """
        for _ in range(_PARTS):
            await self.clock.advance(0)
            await asyncio.to_thread(lambda: None)
        await self.clock.advance(0)
        assert not self.task.done()

    async def tell(self, kind: str, text: str) -> None:
        """Send an event, and let it be handled."""
        self.server.tell(kind, text)
        await self.settle()

    @property
    def names(self) -> set[str]:
        """The names in the store."""
        return {each.metadata.name for each in self.informer.store}

    async def close(self) -> None:
        """Stop the informer."""
        await cancel(self.task)


def good(model: type[Any], name: str, version: int) -> str:
    """The text of a valid object."""
    return json.dumps(tree(model, name, str(version)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_no_object_stops_the_others(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in a list nor in a watch, and what can be read is; the snapshot takes it, too."""
    stage = Stage(case.model, good(case.model, "before", 8), case.text, good(case.model, "listed", 9))
    await stage.settle()
    assert stage.names >= {"before", "listed"}
    assert stage.informer.problem == ""
    await stage.tell("MODIFIED", case.text.replace('"resourceVersion": "7"', '"resourceVersion": "11"'))
    await stage.tell("ADDED", good(case.model, "watched", 12))
    assert stage.names >= {"before", "listed", "watched"}
    assert stage.server.lists == 1, "an object made the informer list again"
    if case.is_readable is not None:
        assert (len(stage.reports) == 0) is case.is_readable, stage.reports
        assert ("strange" in stage.names) is case.is_readable
    await stage.tell("DELETED", case.text.replace('"resourceVersion": "7"', '"resourceVersion": "13"'))
    assert "strange" not in stage.names
    assert "a handler failed" not in caplog.text
    await stage.close()


def policy(name: str, version: int, levels: int, uid: str = "uid-a") -> str:
    """A policy whose strategy has arguments of some depth."""
    whole = tree(ScaleDownPolicy, name, str(version))
    whole["metadata"]["uid"] = uid
    whole["spec"] = {"strategies": [{"name": "Balance", "args": "@"}]}
    return json.dumps(whole).replace('"@"', deep(levels) if levels else "{}")


async def test_an_object_is_reported_once_by_name(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever finds it, and however often; a later version counts again, and is logged if the reason differs."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 1200))
    second: Informer[Any] = Informer(stage.client, ScaleDownPolicy)
    task = asyncio.create_task(second.run())
    await stage.settle()
    await stage.tell("MODIFIED", policy("a", 11, 1300))
    assert [each.about.resource_version for each in stage.reports] == ["5", "11"]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "ScaleDownPolicy n/a cannot be read: spec.strategies[0]: is nested more than 128 levels deep" in errors[0]
    assert [str(each)[:35] for each in stage.client.unreadable.current] == ["ScaleDownPolicy n/a cannot be read:"]
    await cancel(task)
    await stage.close()


async def test_the_last_good_version_stays_until_the_object_is_corrected_or_deleted() -> None:
    """An object that exists must not be treated as deleted."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 0), policy("b", 6, 0))
    await stage.settle()
    await stage.tell("MODIFIED", policy("a", 11, 1200))
    await stage.tell("MODIFIED", policy("b", 12, 1200))
    assert {each.metadata.name: each.metadata.resource_version for each in stage.informer.store} == {"a": "5", "b": "6"}
    assert len(stage.client.unreadable.current) == 2
    await stage.tell("MODIFIED", policy("a", 13, 0))
    await stage.tell("DELETED", policy("b", 14, 1200))
    assert {each.metadata.name: each.metadata.resource_version for each in stage.informer.store} == {"a": "13"}
    assert stage.deleted == ["b"]
    assert stage.client.unreadable.current == ()
    await stage.close()


async def test_what_another_reader_cannot_read_stays_reported() -> None:
    """An informer that can read the object again withdraws its own report, once."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 1200))
    await stage.settle()
    await stage.tell("MODIFIED", policy("a", 11, 0))
    assert not stage.client.unreadable.current
    stage.client.unreadable.report(
        Resource.of(ScaleDownPolicy), RejectedObject("n", "a", "u", "11", ValueError("not by me"))
    )
    await stage.tell("MODIFIED", policy("a", 12, 0))
    assert [each.reason for each in stage.client.unreadable.current] == ["not by me"]
    await stage.close()


async def test_an_unreadable_successor_of_the_same_name_replaces_the_old_object() -> None:
    """The old object is gone: its state says nothing about the new one."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 0, uid="old"))
    await stage.settle()
    await stage.tell("MODIFIED", policy("a", 11, 1200, uid="new"))
    assert stage.names == set()
    assert stage.deleted == ["a"]
    await stage.close()


async def test_an_object_that_is_gone_from_the_next_list_is_no_longer_reported() -> None:
    """Even if the watch missed its deletion."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 1200))
    await stage.settle()
    assert len(stage.client.unreadable.current) == 1
    stage.server.items = []
    stage.server.version = 20
    await stage.tell("ERROR", json.dumps({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))
    await stage.clock.advance(60)
    assert stage.server.lists == 2
    assert stage.client.unreadable.current == ()
    await stage.close()


async def test_an_object_that_the_next_list_has_in_a_readable_form_is_no_longer_reported() -> None:
    """It is stored with the others of the list."""
    stage = Stage(ScaleDownPolicy, policy("a", 5, 1200), policy("b", 6, 0))
    await stage.settle()
    assert stage.names == {"b"}
    stage.server.items = [policy("a", 15, 0), policy("b", 6, 0), policy("c", 16, 0)]
    stage.server.version = 20
    await stage.tell("ERROR", json.dumps({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))
    await stage.clock.advance(60)
    assert stage.names == {"a", "b", "c"}
    assert stage.client.unreadable.current == ()
    await stage.close()


async def test_an_object_that_an_index_cannot_take_is_skipped_too() -> None:
    """The store stays as it was."""
    server = TextServer(good(Node, "a", 5), good(Node, "b", 6))
    client = Client(server, clock=VirtualClock())

    def index(node: Node) -> list[str]:
        if node.metadata.name == "a":
            raise ValueError("no such name")
        return [node.metadata.name]

    informer: Informer[Node] = Informer(client, Node, indexes={"name": index})
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    assert [each.metadata.name for each in informer.store] == ["b"]
    assert informer.store.values("name") == ["b"]
    assert [str(each) for each in client.unreadable.current] == ["Node a cannot be read: no such name"]
    await cancel(task)


async def test_an_uncached_list_skips_and_reports_them_too() -> None:
    """One object of a namespace must not prevent a decision about another."""
    server = TextServer(policy("a", 5, 1200), policy("b", 6, 0))
    client = Client(server, clock=VirtualClock())
    page = await client.list(ScaleDownPolicy)
    assert [each.metadata.name for each in page.items] == ["b"]
    assert [each.key for each in page.rejected] == ["n/a"]
    assert len(client.unreadable.current) == 1


async def test_plain_json_is_never_read_in_part() -> None:
    """It may be written back: an object that is too deep to be read whole is skipped."""
    levels = 1_000_000  # more than any Python reads: 3.11 a thousand, newer ones as many as the stack holds
    whole = json.dumps(tree(Pod)).replace('"metadata"', f'"deep": {deep(levels)}, "metadata"', 1)
    client = Client(TextServer(whole, good(Pod, "b", 6)), clock=VirtualClock())
    page = await client.list(Resource.of(Pod).raw)
    assert [each["metadata"]["name"] for each in page.items] == ["b"]
    assert [each.key for each in page.rejected] == ["n/strange"]


async def test_many_of_them_take_limited_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Every one is counted; a thousand are remembered and logged."""
    stage = Stage(ScaleDownPolicy, *(policy(f"p{n}", n, 130) for n in range(1, 1101)))
    await stage.informer.wait_synced()
    assert len(stage.reports) == 1100
    assert len(stage.client.unreadable.current) == 1000
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1000
    await stage.close()


def test_a_typed_view_of_a_deep_object_is_complete() -> None:
    """What is removed from the text is nothing that a type has."""
    text = json.dumps(tree(CloneSet)).replace('"template": {}', f'"template": {deep(126)}', 1)
    with_deep_fields = text.replace('"metadata": {', f'"metadata": {{"managedFields": {deep(5000)}, ', 1)
    assert codec.decode(with_deep_fields.encode(), CloneSet) == codec.decode(text.encode(), CloneSet)
    assert split(key_of(codec.decode(with_deep_fields.encode(), CloneSet))) == ("n", "strange")


async def test_a_fault_of_ours_does_not_end_a_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything is listed again, after a pause; until then the cache says what is wrong."""
    stage = Stage(Node, good(Node, "a", 5))
    await stage.settle()

    def fails(_: Any) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(stage.informer, "_handle_event", fails)
        await stage.tell("ADDED", good(Node, "b", 11))
    assert stage.informer.problem == "RuntimeError: a bug"
    assert "the cache of nodes failed and lists everything again" in caplog.text
    stage.server.items.append(good(Node, "b", 11))
    await stage.clock.advance(60)
    assert stage.names == {"a", "b"}
    assert stage.informer.problem == ""
    await stage.close()
