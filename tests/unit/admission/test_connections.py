"""Limits of the admission server's connections: nothing that arrives at the port keeps it busy or full."""

from __future__ import annotations

import asyncio
import errno
import gc
import gzip
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.admission.test_server import AUTHORITY, body, counted, decided, hook, never, no, post, served, yes
from tests.unit.kube.strange_objects import deep, wide
from trimtab.admission.connections import Connection, Connections, Limits
from trimtab.admission.server import AdmissionServer, Hook
from trimtab.api import admission, complexity
from trimtab.api.admission import UnreadableObjectError
from trimtab.api.errors import InvalidError
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.processes import new_event_loop
from trimtab.kube.threads import read_beside
from trimtab.testing.clocks import VirtualClock


class Caller:
    """A connection to the server, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.writer.get_extra_info("peername")[1])

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    def post(self, data: bytes, *, length: int | None = None) -> None:
        """Send a request, of which `length` may announce more than there is."""
        size = len(data) if length is None else length
        self.send(b"POST /h HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + data)

    async def status(self) -> int:
        """The status of the answer; 0 if the connection was closed without one."""
        try:
            line = await self.reader.readline()
            head = await self.reader.readuntil(b"\r\n\r\n") if line else b""
            headers = dict(each.split(b": ", 1) for each in head.lower().split(b"\r\n") if each)
            length = int(headers.get(b"content-length", 0))
            await self.reader.readexactly(length)
        except (ConnectionError, asyncio.IncompleteReadError):
            return 0
        return int(line.split()[1]) if line else 0

    async def closed(self) -> bool:
        """Wait until the server closes the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def calling(
    folder: Path, *, callers: int = 1, closed: Mapping[str, int] | None = None, **limits: Any
) -> AsyncIterator[list[Caller]]:
    """A server with these limits, and connections to it. In the end it has counted these as closed by itself."""
    async with served(folder, [hook(yes)], limits=Limits(**limits)) as (server, _):
        made = [await opened(server.port) for _ in range(callers)]
        yield made
        for each in made:
            each.writer.transport.abort()
    assert closed_connections(server) == (closed or {})


async def opened(port: int) -> Caller:
    """A new connection to a server."""
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    return Caller(*await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="127.0.0.1"))


def closed_connections(server: AdmissionServer) -> dict[str, float]:
    """How many connections a server has closed, by reason."""
    samples = [each for family in server.metrics.registry.collect() for each in family.samples]
    return {
        each.labels["reason"]: each.value for each in samples if each.name == "trimtab_webhook_connections_closed_total"
    }


async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Nothing but the headers was sent."""
    async with calling(tmp_path, body=1000, closed={"body-too-large": 1}) as (caller,):
        caller.post(b"", length=1001)
        assert await caller.status() == 413
        assert await caller.closed()


async def test_a_body_in_chunks_is_refused(tmp_path: Path) -> None:
    """API servers say how long a body is; one in chunks of a byte each would keep the event loop busy for seconds."""
    async with calling(tmp_path, closed={"length-unknown": 1}) as (caller,):
        caller.send(b"POST /h HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await caller.status() == 411
        assert await caller.closed()


async def test_a_compressed_body_is_not_decompressed(tmp_path: Path) -> None:
    """API servers send none, and it would take more memory than it announces."""
    async with calling(tmp_path) as (caller,):
        data = gzip.compress(body())
        caller.send(b"POST /h HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(data))
        caller.send(data)
        assert await caller.status() == 400


async def test_requests_that_do_not_wait_for_answers_are_closed(tmp_path: Path) -> None:
    """API servers wait; the headers of requests that are queued would take memory without a limit."""
    async with calling(tmp_path, closed={"pipelined": 1}) as (caller,):
        caller.send(b"POST /h HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n" * 20)
        assert await caller.closed()


async def test_bodies_of_all_connections_together_have_a_limit(tmp_path: Path) -> None:
    """Memory is limited, however many connections there are. It is free again after the answer."""
    async with calling(tmp_path, callers=3, buffered=1000, closed={"too-many-bodies": 1}) as (first, second, third):
        first.post(b"x" * 600, length=900)
        await asyncio.sleep(0.05)
        second.post(b"", length=500)
        assert await second.status() == 503
        first.send(b"x" * 300)
        assert await first.status() == 400
        third.post(body())
        assert await third.status() == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST /h HTTP/1.1\r\nHost", id="half of the headers"),
        pytest.param(b"POST /h HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{", id="a part of the body"),
    ],
)
async def test_a_request_that_does_not_arrive_is_closed(sent: bytes, tmp_path: Path) -> None:
    """However far it got."""
    async with calling(tmp_path, request_seconds=0.05, closed={"request-timeout": 1}) as (caller,):
        caller.send(sent)
        assert await caller.closed()


async def test_an_idle_connection_is_closed_after_its_own_time(tmp_path: Path) -> None:
    """It is not the time for a request to arrive."""
    async with calling(tmp_path, idle_seconds=0.05, request_seconds=60, closed={"idle": 1}) as (caller,):
        caller.post(body())
        assert await caller.status() == 200
        assert await caller.closed()


async def test_a_connection_is_used_for_several_requests(tmp_path: Path) -> None:
    """As API servers do."""
    async with calling(tmp_path, request_seconds=60) as (caller,):
        for _ in range(3):
            caller.post(body())
            assert await caller.status() == 200


async def test_of_too_many_connections_the_one_that_waited_longest_is_closed(tmp_path: Path) -> None:
    """A new one is always accepted: it may be an API server's."""
    closed = {"too-many-connections": 2}
    async with calling(tmp_path, callers=4, connections=2, closed=closed) as (first, second, third, last):
        assert await first.closed()
        assert await second.closed()
        for each in (third, last):
            each.post(body())
            assert await each.status() == 200


async def test_a_connection_that_is_used_does_not_count_as_waiting_since_it_was_made(tmp_path: Path) -> None:
    """That of an API server is older than all that somebody else opens."""
    async with calling(tmp_path, callers=2, connections=2, closed={"too-many-connections": 1}) as callers:
        used, silent = callers
        used.post(body())
        assert await used.status() == 200
        callers.append(await opened(used.port))
        assert await silent.closed()
        used.post(body())
        assert await used.status() == 200


async def test_connections_that_are_made_at_once_are_limited(tmp_path: Path) -> None:
    """Handshakes that are under way at the same time do not make room for one another."""
    async with served(tmp_path, [hook(yes)], limits=Limits(connections=3)) as (server, _):
        callers = await asyncio.gather(*(opened(server.port) for _ in range(10)))
        await asyncio.wait(closing := [asyncio.ensure_future(each.closed()) for each in callers], timeout=0.5)
        assert sum(each.done() for each in closing) == 7
        assert closed_connections(server) == {"too-many-connections": 7}
        for each in callers:
            each.writer.transport.abort()
        await asyncio.wait(closing)


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "trimtab run"])
def test_tls_handshakes_at_a_time_are_limited(
    make_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Each takes memory before a byte of a request has arrived. When they fail, there is room again."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(exceed_handshakes(tmp_path))


async def exceed_handshakes(folder: Path) -> None:
    """Begin more handshakes than a server allows, and call it when these are over."""
    limits = Limits(handshakes=2, handshake_seconds=0.3)
    async with served(folder, [hook(yes)], limits=limits) as (server, _):
        silent = [Caller(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(3)]
        assert await silent[0].closed(), "the first, which is silent longest, makes room for the third"
        assert closed_connections(server) == {"too-many-handshakes": 1}
        for each in silent[1:]:
            each.send(b"\x16\x03")  # the first bytes of a handshake, and no more
        await asyncio.sleep(0.1)
        late = Caller(*await asyncio.open_connection("127.0.0.1", server.port))
        assert await late.closed(), "none is silent, so the new one is refused"
        assert closed_connections(server) == {"too-many-handshakes": 2}
        assert await silent[1].closed(), "the others are closed when their time is over"
        assert await silent[2].closed()
        assert closed_connections(server) == {"too-many-handshakes": 2, "handshake-failed": 2}
        caller = await opened(server.port)
        caller.post(body())
        assert await caller.status() == 200
        for each in (*silent, late, caller):
            each.writer.transport.abort()


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "trimtab run"])
def test_a_silent_client_takes_no_more_than_its_socket(
    make_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """Nothing is allocated for TLS and HTTP before it sends something; it may also leave again."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(connect_silently(tmp_path))


async def connect_silently(folder: Path) -> None:
    """Open connections that send nothing; one begins to speak, the others leave."""
    async with served(folder, [hook(yes)]) as (server, _):
        before = sum(isinstance(each, Connection) for each in gc.get_objects())
        silent = [Caller(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert sum(isinstance(each, Connection) for each in gc.get_objects()) == before
        for each in silent:
            each.writer.transport.abort()
        while closed_connections(server) != {"handshake-failed": 5}:
            await asyncio.sleep(0.01)
        caller = await opened(server.port)
        caller.post(body())
        assert await caller.status() == 200
        caller.writer.transport.abort()


async def test_few_handshakes_begin_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop is free between them, however many clients speak at once."""
    begun = [0]
    """How many began in each turn of the event loop."""

    async def count_turns() -> None:
        while True:
            begun.append(0)
            await asyncio.sleep(0)

    class CountedConnection(Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            begun[-1] += 1

    monkeypatch.setattr("trimtab.admission.connections.Connection", CountedConnection)
    async with served(tmp_path, [hook(yes)]) as (server, _):
        counting = asyncio.ensure_future(count_turns())
        callers = [Caller(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(40)]
        await asyncio.sleep(0.05)  # they are accepted
        assert sum(begun) == 0
        for each in callers:
            each.send(b"no handshake")
        while closed_connections(server) != {"handshake-failed": 40}:
            await asyncio.sleep(0.01)
        await cancel(counting)
        assert sum(begun) == 40
        assert max(begun) <= 4
        for each in callers:
            each.writer.transport.abort()


async def test_a_handshake_that_is_none_is_counted(tmp_path: Path) -> None:
    """And answered by closing the connection."""
    async with served(tmp_path, [hook(yes)]) as (server, _):
        caller = Caller(*await asyncio.open_connection("127.0.0.1", server.port))
        caller.send(b"GET / HTTP/1.1\r\n\r\n")
        await caller.reader.read()
        caller.writer.transport.abort()
    assert closed_connections(server) == {"handshake-failed": 1}


def test_nothing_is_left_of_handshakes_that_failed(tmp_path: Path) -> None:
    """Also if the garbage collector does not run, which it does rarely. asyncio's own TLS needs it."""
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(fail_handshakes(tmp_path))
    finally:
        gc.enable()


async def fail_handshakes(folder: Path) -> None:
    """Begin handshakes that fail: some say something else, some nothing."""
    async with served(folder, [hook(yes)], limits=Limits(handshake_seconds=0.2)) as (server, _):
        callers = [Caller(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(6)]
        for each in callers[:3]:
            each.send(b"GET / HTTP/1.1\r\n\r\n")
        for each in callers:
            with suppress(ConnectionError):
                await each.reader.read()
            each.writer.transport.abort()
        await asyncio.sleep(0.05)
        assert closed_connections(server) == {"handshake-failed": 6}
        assert not [each for each in gc.get_objects() if isinstance(each, Connection)]


@pytest.mark.parametrize(
    ("number", "fails"),
    [
        pytest.param(errno.EAFNOSUPPORT, False, id="no such family"),
        pytest.param(errno.EADDRNOTAVAIL, False, id="no address of that family"),
        pytest.param(errno.EADDRINUSE, True, id="the port is in use"),
    ],
)
async def test_a_server_listens_on_the_families_that_the_machine_has(
    number: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel may be built or started without IPv6, although a host name has an address of it."""
    create = socket.create_server
    addresses = [(socket.AF_INET6, ("::1", 0, 0, 0)), (socket.AF_INET, ("127.0.0.1", 0))]
    found = [(family, socket.SOCK_STREAM, 6, "", address) for family, address in addresses]

    def create_server(address: Any, *, family: int, backlog: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "refused")
        return create(address, family=family, backlog=backlog)

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_server", create_server)
    connections = Connections(unused, clock=VirtualClock(), limits=Limits())
    listening = connections.listening("h", 0, ssl.create_default_context(), grace=0.0)
    with pytest.raises(OSError, match="refused") if fails else nullcontext():
        async with listening as address:
            assert address[0] == "127.0.0.1"


async def test_a_server_that_cannot_accept_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the process ends, and is restarted; after an error that may pass, it tries again."""
    errors: list[Exception] = [OSError(errno.EMFILE, "too many open files"), RuntimeError("broken")]

    async def accept(_: object) -> Any:
        raise errors.pop(0)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_accept", accept)
    monkeypatch.setattr("trimtab.admission.connections._ACCEPT_SECONDS", 0.01)
    connections = Connections(unused, clock=VirtualClock(), limits=Limits())
    with pytest.raises(ExceptionGroup) as caught:
        async with connections.listening("127.0.0.1", 0, ssl.create_default_context(), grace=0.0):
            await asyncio.sleep(60)
    assert [str(each) for each in caught.value.exceptions] == ["broken"]
    assert not errors


async def unused(*_: Any) -> Any:
    """A function that is not called."""
    raise AssertionError


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        pytest.param(b"GET /h", 405, id="another method"),
        pytest.param(b"POST /other", 404, id="another path"),
        pytest.param(b"POST /h?timeout=", 400, id="an empty timeout, and no review"),
    ],
)
async def test_other_requests_are_refused(request_line: bytes, status: int, tmp_path: Path) -> None:
    """With what is wrong."""
    async with calling(tmp_path) as (caller,):
        caller.send(request_line + b" HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
        assert await caller.status() == status


async def test_headers_are_limited(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In size and number. Nothing is logged: whoever reaches the port may send a lot of them."""
    async with calling(tmp_path, callers=2, closed={"malformed": 2}) as (large, many):
        large.send(b"POST /h HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 10_000 + b"\r\n\r\n")
        assert await large.status() == 400
        many.send(b"POST /h HTTP/1.1\r\nHost: h\r\n" + b"X: x\r\n" * 40 + b"\r\n")
        assert await many.status() == 400
    assert not caplog.records


async def test_the_budget_counts_from_the_arrival_of_the_request() -> None:
    """A request that has waited longer than its budget is admitted without calling the hook."""
    (response, took), server, reasons = await decided(yes, waited=3.0)
    assert response.allowed
    assert response.warnings == ()
    assert reasons == ["no decision within 2 s"]
    assert counted(server, "late") == 1
    assert took < 0.1


async def test_what_is_left_of_the_budget_is_used() -> None:
    """1.5 of 2 seconds have passed: half a second is left."""
    (_, took), _, _ = await decided(never, waited=1.5)
    assert took == pytest.approx(0.5, abs=0.1)


async def test_the_lag_of_the_event_loop_counts_as_waiting() -> None:
    """What a busy loop reads now has been in the socket since it became busy."""
    clock = VirtualClock()
    connections = Connections(unused, clock=clock, limits=Limits(), lag=lambda: 1.5)
    assert clock.monotonic() - connections.now() == 3 * SECOND // 2


def test_a_large_review_that_does_not_fit_is_not_searched() -> None:
    """The search takes time; a small one names the field."""
    review: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    review["request"] = {"uid": "u", "userInfo": {"groups": [1]}}
    with pytest.raises(InvalidError, match=r"^request\.userInfo\.groups\[0\]: 1: expected `str`, got `int`"):
        admission.read_review(json.dumps(review).encode())
    review["request"]["object"] = {"a": "x" * 70_000}
    with pytest.raises(InvalidError, match=r"^cannot be read: Expected `str`, got `int`"):
        admission.read_review(json.dumps(review).encode())


def test_objects_of_a_review_keep_every_field() -> None:
    """And null is no object."""
    tree = {"uid": "u", "object": {"b": [1, {"c": None}], "a": "é"}, "oldObject": None}
    read = admission.read_review(body(**tree))
    assert read.object is not None
    assert read.object.tree() == tree["object"]
    assert read.old_object is None


@pytest.mark.parametrize("value", [[], "x", 1, True])
def test_an_object_that_is_no_object_is_refused(value: Any) -> None:
    """By its field."""
    with pytest.raises(InvalidError, match=r"^request\.object: is not an object"):
        admission.read_review(body(object=value))


@pytest.mark.parametrize(
    ("strange", "reason"),
    [
        pytest.param(deep(200), complexity.TOO_DEEP, id="deep"),
        pytest.param(deep(1200), complexity.TOO_DEEP, id="too deep to be decoded"),
        pytest.param(wide(complexity.MAX_VALUES), complexity.TOO_MANY_VALUES, id="of many values"),
    ],
)
@pytest.mark.parametrize("refuses", [pytest.param(True, id="by validation"), pytest.param(False, id="by the others")])
async def test_an_object_that_is_too_complex(strange: str, reason: str, refuses: bool, tmp_path: Path) -> None:
    """A clear refusal where the hook says whether an object is valid; a request is never blocked by the others."""
    data = body(object="@").replace(b'"@"', strange.encode())
    want = {"allowed": not refuses, "message": f"request.object: {reason}" if refuses else None}
    only = Hook("h", "/h", no, 2.0, refuses_unreadable=refuses)
    async with served(tmp_path, [only]) as (server, session):
        status, answer = await post(server, session, data)
    response = answer["response"]
    assert status == 200
    assert {"allowed": response["allowed"], "message": response.get("status", {}).get("message")} == want
    assert counted(server, "denied" if refuses else "failed") == 1


@pytest.mark.parametrize(
    ("operation", "is_corrected", "allowed"),
    [
        pytest.param("UPDATE", True, True, id="an update that corrects it"),
        pytest.param("UPDATE", False, True, id="an update that leaves it so: finalizers can be removed"),
        pytest.param("CREATE", False, False, id="a creation"),
    ],
)
async def test_an_object_that_was_stored_too_complex(
    operation: str, is_corrected: bool, allowed: bool, tmp_path: Path
) -> None:
    """Before there were limits, or while there was no webhook. It must be possible to correct and to delete it."""
    strange = wide(complexity.MAX_VALUES).encode()
    data = body(operation=operation, object={} if is_corrected else "@", oldObject="@").replace(b'"@"', strange)
    only = Hook("h", "/h", yes, 2.0, refuses_unreadable=True)
    async with served(tmp_path, [only]) as (server, session):
        _, answer = await post(server, session, data)
    assert answer["response"]["allowed"] is allowed
    assert counted(server, "allowed" if is_corrected else "failed" if allowed else "denied") == 1


@pytest.mark.parametrize("levels", [pytest.param(200, id="deep"), pytest.param(1200, id="too deep to be decoded")])
def test_managed_fields_may_be_deep(levels: int) -> None:
    """Nothing reads them: the object is as complete as any other."""
    fields = b'[{"fieldsV1":%s}]' % deep(levels).encode()
    whole = {"spec": {"replicas": 3}, "metadata": {"name": "web", "managedFields": "@", "labels": {"a": "b"}}}
    data = body(operation="UPDATE", object=whole, oldObject=whole).replace(b'"@"', fields)
    request = admission.read_review(data)
    want = {"spec": {"replicas": 3}, "metadata": {"name": "web", "labels": {"a": "b"}}}
    assert [each and each.tree() for each in (request.object, request.old_object)] == [want, want]


@pytest.mark.parametrize("levels", [200, 1200])
@pytest.mark.parametrize(
    "whole",
    [
        pytest.param({"metadata": {"managedFields": [], "labels": "@"}}, id="labels"),
        pytest.param({"metadata": {"managedFields": "@"}, "spec": "@"}, id="both"),
        pytest.param({"metadata": "@"}, id="metadata"),
        pytest.param({"managedFields": "@"}, id="a field of that name elsewhere"),
        pytest.param({"metadata": 1, "spec": "@"}, id="no metadata"),
    ],
)
def test_nothing_else_may_be_deep(levels: int, whole: Any) -> None:
    """Nothing that is read is ever incomplete."""
    data = body(object=whole).replace(b'"@"', deep(levels).encode())
    with pytest.raises(UnreadableObjectError, match="nested more than 128 levels deep"):
        admission.read_review(data)


async def test_large_reviews_are_read_in_another_thread() -> None:
    """So that the event loop goes on; small ones are read at once."""

    def read(data: bytes) -> tuple[int, str]:
        return len(data), threading.current_thread().name

    assert await read_beside(10_000, read, b"abc") == (3, "MainThread")
    size, name = await read_beside(20_000, read, b"abc")
    assert size == 3
    assert name != "MainThread"
