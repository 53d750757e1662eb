"""Watches over the wire: which events, in which order, from which version, and how a watch ends."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.lab.wire import CONFIG_MAPS, PODS, TABLE, TOKEN, Wire, config_map, connected, pod
from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.storage import broadcaster
from trimtab_lab.apiserver.wire.server import Server

WATCH = f"{CONFIG_MAPS}?watch=1"


async def _version(wire: Wire) -> str:
    return str((await wire.get(CONFIG_MAPS))["metadata"]["resourceVersion"])


async def test_every_change_is_one_event(wire: Wire) -> None:
    """Created, changed, deleted, in order; an update without changes is no event."""
    async with wire.watch(f"{WATCH}&resourceVersion={await _version(wire)}") as stream:
        await wire.create(CONFIG_MAPS, config_map("a"))
        await wire.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await wire.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await wire.call("DELETE", f"{CONFIG_MAPS}/a")
        events = [await stream.event() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["data"] == {"k": "v"}


@pytest.mark.parametrize("version", ["", "&resourceVersion=0"])
async def test_without_a_version_present_objects_come_first(wire: Wire, version: str) -> None:
    """As ADDED, in the order of the names."""
    for name in ("b", "a"):
        await wire.create(CONFIG_MAPS, config_map(name))
    async with wire.watch(WATCH + version) as stream:
        assert [name for _, name in await stream.events(3)] == ["a", "b", "kube-root-ca.crt"]
        await wire.create(CONFIG_MAPS, config_map("c"))
        assert await stream.events(1) == [("ADDED", "c")]


async def test_initial_events_end_with_a_bookmark(wire: Wire) -> None:
    """It has the version of the initial events."""
    await wire.create(CONFIG_MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with wire.watch(f"{WATCH}&{query}") as stream:
        await stream.events(2)
        bookmark = await stream.event()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == await _version(wire)


async def test_objects_enter_and_leave_a_selection(wire: Wire) -> None:
    """An object that starts to match is ADDED, one that stops is DELETED in its last matching state."""
    async with wire.watch(f"{WATCH}&resourceVersion={await _version(wire)}&labelSelector=tier%3Dfront") as stream:
        await wire.create(CONFIG_MAPS, config_map("a", tier="back"))
        await wire.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "front"}}})
        await wire.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        left = await wire.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"tier": "back"}}})
        await wire.call("DELETE", f"{CONFIG_MAPS}/a")
        events = [await stream.event() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["metadata"]["labels"] == {"tier": "front"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_pods_of_a_node_are_watched(wire: Wire) -> None:
    """A pod enters when the selected field is set."""
    async with wire.watch(f"{PODS}?watch=1&fieldSelector=spec.nodeName%3Dn1") as stream:
        await wire.create(PODS, pod("a"))
        target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
        assert (await wire.call("POST", f"{PODS}/a/binding", target)).status == 201
        assert await stream.events(1) == [("ADDED", "a")]


async def test_one_object_is_watched_by_its_name(wire: Wire) -> None:
    """By a field selector, and by the deprecated path."""
    old = CONFIG_MAPS.replace("/api/v1/", "/api/v1/watch/")
    for path in (f"{WATCH}&fieldSelector=metadata.name%3Da", f"{old}/a"):
        async with wire.watch(path) as stream:
            await wire.create(CONFIG_MAPS, config_map("b"))
            await wire.create(CONFIG_MAPS, config_map("a"))
            assert await stream.events(1) == [("ADDED", "a")]
        for name in "ab":
            await wire.call("DELETE", f"{CONFIG_MAPS}/{name}")


async def test_a_table_names_its_columns_once(wire: Wire) -> None:
    """In the first event; kubectl prints them as the header."""
    async with wire.watch(f"{WATCH}&resourceVersion={await _version(wire)}", accept=TABLE) as stream:
        for name in "ab":
            await wire.create(CONFIG_MAPS, config_map(name))
        first, second = await stream.event(), await stream.event()
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert [event["object"]["rows"][0]["cells"][0] for event in (first, second)] == ["a", "b"]


async def test_a_watch_ends_when_its_time_is_up(wire: Wire) -> None:
    """The response ends regularly, so that the connection can be reused."""
    async with wire.watch(f"{WATCH}&timeoutSeconds=1&resourceVersion={await _version(wire)}") as stream:
        assert await stream.rest() == []
    assert (await wire.call("GET", "/readyz")).text == "ok"


async def test_a_compacted_version_is_an_error_event(wire: Wire, server: Server) -> None:
    """An ERROR with a Status of 410, then the end."""
    version = await _version(wire)
    await wire.create(CONFIG_MAPS, config_map("a"))
    server.cluster.store.compact()
    async with wire.watch(f"{WATCH}&resourceVersion={version}") as stream:
        (event,) = await stream.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[Wire]:
    """A client of a server with frequent bookmarks and a short history."""
    tokens = {TOKEN: User("tester", ())}
    quick_server = Server(tmp_path / "quick", tokens=tokens, history=50, bookmark_interval=0.05)
    async with quick_server as server, connected(server) as wire:
        yield wire


async def test_bookmarks_report_the_version_of_a_watch(quick: Wire) -> None:
    """Also without matching events; only watches that asked for them receive them."""
    version = await _version(quick)
    async with (
        quick.watch(f"{WATCH}&resourceVersion={version}&allowWatchBookmarks=true&labelSelector=x") as asked,
        quick.watch(f"{WATCH}&resourceVersion={version}&labelSelector=x") as silent,
    ):
        created = await quick.create(PODS, pod("a"))
        while (event := await asked.event())["object"]["metadata"]["resourceVersion"] == version:
            assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])
        await quick.create(CONFIG_MAPS, config_map("seen", x="y"))
        assert await silent.events(1) == [("ADDED", "seen")]


async def test_the_history_is_bounded(quick: Wire) -> None:
    """After many events the server compacts, and an old version is expired."""
    version = await _version(quick)
    for number in range(120):
        await quick.create(CONFIG_MAPS, config_map(f"m{number}"))
    async with quick.watch(f"{WATCH}&resourceVersion={version}") as stream:
        assert (await stream.event())["object"]["code"] == 410


async def test_many_watchers_receive_the_same_events(wire: Wire) -> None:
    """Equal watches share their work, and each receives every event, whenever it started."""
    version = await _version(wire)

    async def seen(last: int) -> list[str]:
        async with wire.watch(f"{WATCH}&resourceVersion={version}") as stream:
            return [name for _, name in await stream.events(last)]

    early = [asyncio.create_task(seen(40)) for _ in range(10)]
    for number in range(20):
        await wire.create(CONFIG_MAPS, config_map(f"m{number:02}"))
    late = [asyncio.create_task(seen(40)) for _ in range(10)]
    for number in range(20, 40):
        await wire.create(CONFIG_MAPS, config_map(f"m{number:02}"))
    expected = [f"m{number:02}" for number in range(40)]
    assert all(names == expected for names in await asyncio.gather(*early, *late))


async def test_a_watcher_that_does_not_read_is_disconnected(
    wire: Wire, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It delays no other watcher, and the queued memory is bounded."""
    monkeypatch.setattr(broadcaster, "QUEUE_LIMIT", 256 * 1024)
    monkeypatch.setattr(broadcaster, "BUFFER_LIMIT", 64 * 1024)
    version = await _version(wire)
    slow = await asyncio.to_thread(_watch_without_reading, server, version)
    try:
        async with wire.watch(f"{WATCH}&resourceVersion={version}") as stream:
            while len(server.cluster.broadcaster.watchers()) < 2:
                await asyncio.sleep(0)
            number = 0
            while len(server.cluster.broadcaster.watchers()) == 2:
                await wire.create(CONFIG_MAPS, config_map(f"m{number}") | {"data": {"k": "x" * 500_000}})
                assert (await stream.event())["object"]["metadata"]["name"] == f"m{number}"
                number += 1
    finally:
        slow.close()


def _watch_without_reading(server: Server, version: str) -> ssl.SSLSocket:
    trust = ssl.create_default_context(cadata=server.identity.authority.decode())
    port = int(server.url.rpartition(":")[2])
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", port))
    connection = trust.wrap_socket(raw, server_hostname="127.0.0.1")
    request = f"GET {WATCH}&resourceVersion={version} HTTP/1.1\r\nHost: lab\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    connection.sendall(request.encode())
    return connection


async def test_events_of_the_new_group_are_those_of_the_old_one(wire: Wire) -> None:
    """The two Event kinds are the same objects, in lists and in watches."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    async with wire.watch(f"{path}?watch=1") as stream:
        about = {"kind": "Pod", "namespace": "default", "name": "web"}
        event = {
            "metadata": {"name": "e"},
            "involvedObject": about,
            "reason": "Placed",
            "message": "why",
            "type": "Normal",
        }
        await wire.create("/api/v1/namespaces/default/events", event)
        seen = (await stream.event())["object"]
    assert (seen["apiVersion"], seen["note"], seen["regarding"]) == ("events.k8s.io/v1", "why", about)
    assert json.loads((await wire.call("GET", path)).text)["items"][0]["note"] == "why"
