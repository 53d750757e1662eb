"""The speed of the lab's API server, compared with a bare aiohttp handler that echoes the same bytes over the same TLS.

Both run in one separate process, on the same event loop and with the same certificate; the load comes from this
process, with as little work as possible, so that the server is the limit. Rounds alternate between the two and take
about as long, and the best of each is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from bench.decoding import pod_tree
from bench.figures import Figure, Limit, best, resident_mib
from bench.workers import worker
from trimtab_lab.apiserver.admission.users import User
from trimtab_lab.apiserver.wire.server import Server

T = TypeVar("T")

TOKEN = "bench"  # noqa: S105 – of a server that lives for seconds
CONNECTIONS = 16
ECHOES = 480
CREATES = 160
TURNS = 40
WATCHERS = 100
WATCHED = 1_000
WATCHES = 5
LISTED = 5_000
LISTS = 60
KEPT = 50_000
MEBIBYTE = 1024 * 1024


def creates() -> Figure:
    """Pods created a second; the calibration is the echo of the same bytes."""

    async def measure(servers: _Servers) -> tuple[float, float]:
        request = _request("POST", _PODS, pod_body())
        lab, echo = await _Load.connect(servers, servers.lab), await _Load.connect(servers, servers.echo)
        created = echoed = 0.0
        for _ in range(TURNS):
            echoed = max(echoed, ECHOES / await echo.send(request, ECHOES))
            created = max(created, CREATES / await lab.send(request, CREATES))
        return created, echoed

    created, echoed = _measured(measure)
    return Figure(created, "pods/s", echoed, Limit(0.35, "of the echo", is_minimum=True))


def watches() -> Figure:
    """Events a second that 100 watchers receive together; the calibration is the rate of the echo."""

    async def measure(servers: _Servers) -> tuple[float, float]:
        request = _request("POST", _PODS, pod_body())
        lab, echo = await _Load.connect(servers, servers.lab), await _Load.connect(servers, servers.echo)
        delivered = echoed = 0.0
        for _ in range(WATCHES):
            for _ in range(TURNS // WATCHES):
                echoed = max(echoed, ECHOES / await echo.send(request, ECHOES))
            delivered = max(delivered, await _delivered(servers, lab))
        return delivered, echoed

    delivered, echoed = _measured(measure)
    return Figure(delivered, "events/s", echoed, Limit(10, "events for each echo", is_minimum=True))


def lists() -> Figure:
    """Milliseconds until a list of 5,000 pods has arrived; the calibration is the time to encode them once."""

    async def measure(servers: _Servers) -> tuple[float, float]:
        lab = await _Load.connect(servers, servers.lab)
        await lab.send(_request("POST", _PODS, pod_body()), LISTED)
        pods = msgspec.json.decode(await lab.get(_PODS))
        if len(pods["items"]) != LISTED:
            raise RuntimeError(f"the list has {len(pods['items'])} pods")
        fastest = encoded = float("inf")
        with _download(servers) as download:
            for _ in range(LISTS):
                fastest = min(fastest, best(lambda: download(_PODS), turns=1))
                encoded = min(encoded, best(lambda: msgspec.json.encode(pods), turns=1))
        return fastest, encoded

    fastest, encoded = _measured(measure)
    return Figure(fastest * 1e3, "ms", encoded * 1e3, Limit(3, "encodings"))


def memory() -> Figure:
    """Memory of a server with 50,000 pods, in MiB; the calibration is the limit of one GiB."""

    async def measure(servers: _Servers) -> float:
        lab = await _Load.connect(servers, servers.lab)
        await lab.send(_request("POST", _PODS, pod_body()), KEPT)
        return resident_mib(servers.process)

    return Figure(_measured(measure), "MiB", 1024, Limit(1, "a gibibyte"))


# --- the servers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Servers:
    process: int
    lab: int
    echo: int
    authority: str

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority)


def _measured(measure: Callable[[_Servers], Coroutine[Any, Any, T]]) -> T:
    """The result of a measurement against fresh servers."""
    with _servers() as servers:
        return asyncio.run(measure(servers))


@contextlib.contextmanager
def _servers() -> Iterator[_Servers]:
    """The lab and the echo, in a separate process."""
    with worker(_serve) as (pipe, process):
        lab, echo, authority = pipe.recv()
        yield _Servers(process, lab, echo, authority)


def _serve(pipe: Connection) -> None:
    asyncio.run(_run_servers(pipe))


async def _run_servers(pipe: Connection) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tokens = {TOKEN: User("bench", ("system:masters",))}
        async with Server(Path(folder), tokens=tokens) as lab:
            runner = web.ServerRunner(web.Server(_echo, access_log=None))
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=lab.identity.ssl_context()).start()
            authority = lab.identity.authority.decode()
            pipe.send((int(lab.url.rpartition(":")[2]), int(runner.addresses[0][1]), authority))
            await asyncio.to_thread(pipe.recv)
            await runner.cleanup()


async def _echo(request: web.BaseRequest) -> web.Response:
    body = await request.read()
    return web.Response(body=body, status=201, headers={"Content-Type": "application/json"})


# --- the load --------------------------------------------------------------------------------------------------------

_NAMESPACE = "default"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"


def pod_body() -> bytes:
    """A pod as a workload controller sends it: without status, with a generateName."""
    tree = pod_tree(random.Random(3), 1, 1)
    spec = tree["spec"]
    for field in ("nodeName", "priority", "preemptionPolicy", "serviceAccountName", "tolerations", "volumes"):
        spec.pop(field, None)
    for container in spec["containers"]:
        container.pop("volumeMounts", None)
    metadata = {"generateName": "web-6d4b75cb6d-", "labels": tree["metadata"]["labels"]}
    body: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: lab\r\nAuthorization: Bearer {TOKEN}\r\n"
    sent = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{head}{sent}\r\n".encode() + body


class _Connection(asyncio.Protocol):
    """One connection that repeats a request; `done` is set after the last response."""

    def __init__(self) -> None:
        self._request = b""
        self._left = 0
        self._pieces: list[bytes] = []
        self._missing = 0
        self._head = True
        self._transport: asyncio.Transport | None = None
        self.done: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def send(self, request: bytes, times: int) -> asyncio.Future[list[bytes]]:
        """Start; the result of `done` is the last response, in the pieces in which it arrived."""
        self._request, self._left = request, times
        self.done = asyncio.get_running_loop().create_future()
        self._write()
        return self.done

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._missing -= len(data)
        if self._head:
            self._read_head()
        if self._missing > 0 or self._head:
            return
        self._left -= 1
        self._head = True
        if self._left:
            self._write()
        elif not self.done.done():
            self.done.set_result(self._pieces)

    def _write(self) -> None:
        self._pieces = []
        if self._transport is not None:
            self._transport.write(self._request)

    def _read_head(self) -> None:
        """Read the length of the response from its head, once."""
        received = b"".join(self._pieces)
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = received[:end].lower()
        if not head.startswith(b"http/1.1 20") and not self.done.done():
            self.done.set_exception(RuntimeError(received[:500].decode()))
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        self._missing = end + 4 + length - len(received)
        self._pieces = [received[end + 4 :]]
        self._head = False


class _Load:
    """Several open connections to one server."""

    def __init__(self, callers: list[_Connection]) -> None:
        self._callers = callers

    @classmethod
    async def connect(cls, servers: _Servers, port: int) -> _Load:
        """Connect to one of the servers."""
        loop, context = asyncio.get_running_loop(), servers.context()
        pairs = [await loop.create_connection(_Connection, "127.0.0.1", port, ssl=context) for _ in range(CONNECTIONS)]
        return cls([caller for _, caller in pairs])

    async def send(self, request: bytes, total: int) -> float:
        """Seconds for a number of requests, on all connections concurrently."""
        start = time.perf_counter()
        shares = [(caller, len(range(index, total, CONNECTIONS))) for index, caller in enumerate(self._callers)]
        await asyncio.gather(*(caller.send(request, times) for caller, times in shares if times))
        return time.perf_counter() - start

    async def get(self, path: str) -> bytes:
        """The body of a response."""
        return b"".join(await self._callers[0].send(_request("GET", path), 1))


@contextlib.contextmanager
def _download(servers: _Servers) -> Iterator[Callable[[str], int]]:
    """A function that reads a response into preallocated memory and returns its length: the simplest possible
    client."""
    memory = bytearray(64 * MEBIBYTE)
    view = memoryview(memory)
    with (
        socket.create_connection(("127.0.0.1", servers.lab)) as raw,
        servers.context().wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):

        def download(path: str) -> int:
            connection.sendall(_request("GET", path))
            size = connection.recv_into(view)
            while (end := memory.find(b"\r\n\r\n", 0, size)) < 0:
                size += connection.recv_into(view[size:])
            head = bytes(memory[:end]).lower()
            whole = end + 4 + int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            while size < whole:
                size += connection.recv_into(view[size:])
            return whole

        yield download


class _Watcher(asyncio.Protocol):
    """Counts the events of a watch by their lines."""

    def __init__(self, request: bytes, count: Callable[[int], None]) -> None:
        self._request = request
        self._count = count
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport
            transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.started.done():
            self.started.set_result(None)
            data = data.partition(b"\r\n\r\n")[2]
        # Every event ends with "}\n", every chunk of HTTP with "\r\n".
        self._count(data.count(b"\n") - data.count(b"\r\n"))


async def _delivered(servers: _Servers, lab: _Load) -> float:
    """Events a second that reach the watchers while pods are created."""
    loop, context = asyncio.get_running_loop(), servers.context()
    finished = loop.create_future()
    seen = 0

    def count(lines: int) -> None:
        nonlocal seen
        seen += lines
        if seen >= WATCHERS * WATCHED and not finished.done():
            finished.set_result(None)

    version = msgspec.json.decode(await lab.get(f"{_PODS}?limit=1"))["metadata"]["resourceVersion"]
    request = _request("GET", f"{_PODS}?watch=1&resourceVersion={version}")
    watchers = []
    for _ in range(WATCHERS):
        made = await loop.create_connection(lambda: _Watcher(request, count), "127.0.0.1", servers.lab, ssl=context)
        watchers.append(made[1])
    await asyncio.gather(*(watcher.started for watcher in watchers))
    start = time.perf_counter()
    await asyncio.gather(lab.send(_request("POST", _PODS, pod_body()), WATCHED), finished)
    elapsed = time.perf_counter() - start
    for watcher in watchers:
        if watcher.transport is not None:
            watcher.transport.abort()
    return seen / elapsed
