"""The connections of a port, with limits: whoever reaches it cannot keep it busy or full.

These are the limits of the admission server. Health and metrics are served without TLS, with lower ones.

| limit | value | what happens beyond it |
|---|---|---|
| connections | 256 | the one that was idle longest is closed |
| TLS handshakes at a time | 500, of which four begin at once | the one silent longest is closed, or the new one |
| TLS handshake, from when the connection is accepted | 5 s | closed |
| time from the first byte of a request to the last | 5 s | closed |
| time between two requests | 2 min, more than API servers keep an idle connection | closed |
| headers | 32, of 8 KiB each: three times as many as API servers send | 400 |
| requests at a time on a connection | 1, and one that follows while the answer is sent | closed |
| body | 7 MiB: two objects as large as an API server takes, and the review around them | 413, before it is read |
| body in chunks | none: in small ones, reading it would take seconds | 411 |
| bodies in memory | 64 MiB in all | 503 |

What is closed or refused is counted by reason (`CloseReason`).

A connection notes when the first byte of its request arrived, so that a deadline can be counted from there and not from
when the server got around to it.

Connections are accepted here and not by the event loop's own server, which cannot refuse one: asyncio's leaves the
socket to the garbage collector, and uvloop's never accepts another one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.processes import return_free_memory

MAX_BODY = 7 * 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits, see the module's table. Times are in seconds."""

    connections: int = 256
    handshakes: int = 500
    handshake_seconds: float = 5.0
    request_seconds: float = 5.0
    idle_seconds: float = 120.0
    headers: int = 32
    body: int = MAX_BODY
    buffered: int = 64 * 1024 * 1024


class CloseReason(StrEnum):
    """Why a connection was closed by the server."""

    TOO_MANY_CONNECTIONS = "too-many-connections"
    TOO_MANY_HANDSHAKES = "too-many-handshakes"
    HANDSHAKE_FAILED = "handshake-failed"
    """The TLS handshake failed or took too long."""
    REQUEST_TIMEOUT = "request-timeout"
    """A request, or the first one, did not arrive in time."""
    IDLE = "idle"
    """There was no further request for long, which is nothing unusual."""
    MALFORMED = "malformed"
    """What arrived is no HTTP request, or has too many headers."""
    PIPELINED = "pipelined"
    """Further requests arrived before the first was answered, which API servers do not do."""
    LENGTH_UNKNOWN = "length-unknown"
    """The body was sent in chunks."""
    BODY_TOO_LARGE = "body-too-large"
    TOO_MANY_BODIES = "too-many-bodies"
    """The bodies of all requests together were too large."""


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of ours
    """A request that is refused with a status and a reason, and its connection closed."""

    def __init__(self, status: int, reason: str, close_reason: CloseReason | None = None) -> None:
        """`close_reason` is the limit that was exceeded, if one was."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.close_reason = close_reason

    def response(self) -> web.Response:
        """The answer."""
        answer = web.Response(status=self.status, text=f"{self.reason}\n")
        answer.force_close()
        return answer


class Connection(web.RequestHandler):
    """A connection that is closed when a request takes too long to arrive, or none arrives."""

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._owner = manager
        self._alarm: asyncio.TimerHandle | None = None
        self.arrived: int | None = None
        """When the first byte of the current request arrived, on the monotonic clock."""
        self.deciding = False
        """Whether a request has arrived completely and is being answered."""
        self.last_active = manager.now()
        """When a request last began to arrive or was answered or, without one, when the connection was made."""
        self.is_aborted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request: the TLS handshake is done."""
        super().connection_made(transport)
        self._expect(self._owner.limits.request_seconds, CloseReason.REQUEST_TIMEOUT)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins to arrive."""
        if self.arrived is None:
            self.arrived = self.last_active = self._owner.now()
            self._expect(self._owner.limits.request_seconds, CloseReason.REQUEST_TIMEOUT)
        super().data_received(data)
        if len(self._messages) > 1:
            self.abort(CloseReason.PIPELINED)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop waiting."""
        self._cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse what is no HTTP request, which is not logged: whoever reaches the port may send a lot of it."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._owner.on_close(CloseReason.MALFORMED)
        return Refusal(status, message or "this is no HTTP request").response()

    def complete(self) -> None:
        """Note that the request has arrived: what it takes to answer is not the sender's time."""
        self.deciding = True
        self._cancel()

    def answered(self) -> None:
        """Note that the request is answered, and wait for the next."""
        self.deciding, self.arrived, self.last_active = False, None, self._owner.now()
        self._expect(self._owner.limits.idle_seconds, CloseReason.IDLE)

    def abort(self, reason: CloseReason) -> None:
        """Close the connection at once."""
        if self.transport is not None and not self.is_aborted:
            self.is_aborted = True
            self.transport.abort()
            self._owner.on_close(reason)

    def _expect(self, seconds: float, reason: CloseReason) -> None:
        self._cancel()
        self._alarm = asyncio.get_running_loop().call_later(seconds, self.abort, reason)

    def _cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


Respond = Callable[[web.BaseRequest, Connection, bytes], Awaitable[web.Response]]
"""Answers a request whose body has arrived."""


class Connections(web.Server):
    """The connections of one server, and the factory of their protocols."""

    def __init__(
        self,
        respond: Respond,
        *,
        clock: Clock,
        limits: Limits,
        lag: Callable[[], float] = lambda: 0.0,
        on_close: Callable[[CloseReason], None] = lambda _: None,
    ) -> None:
        """`lag` is how many seconds the event loop is late: what it reads now has been in the socket since then.

        `on_close` is called for each connection that the server closes or refuses, with the reason.
        """
        keepalive = 2 * limits.idle_seconds  # aiohttp's own limit: ours comes first, and is counted
        super().__init__(
            self._handle,
            access_log=None,
            keepalive_timeout=keepalive,
            lingering_time=0.0,
            max_headers=limits.headers,
            auto_decompress=False,
        )
        self.limits = limits
        self.on_close = on_close
        self._respond = respond
        self._clock = clock
        self._lag = lag
        self._buffered = 0
        self._quiet = True
        self._handshakes: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[Any], None] = {}
        """Handshakes of clients that have not sent anything yet, the oldest first."""
        self._beginning = asyncio.Semaphore(_BEGINNING)

    def __call__(self) -> Connection:
        """The protocol of a connection that was accepted."""
        self._quiet = False
        return Connection(self, loop=asyncio.get_running_loop(), **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Add a connection; if there are too many, close the one that was idle longest.

        A connection on which an API server sends reviews was active later than one that is only kept open.
        """
        super().connection_made(handler, transport)
        kept = [each for each in self.connections if isinstance(each, Connection) and not each.is_aborted]
        waiting = [each for each in kept if not each.deciding and each is not handler]
        if len(kept) > self.limits.connections and waiting:
            min(waiting, key=lambda each: each.last_active).abort(CloseReason.TOO_MANY_CONNECTIONS)

    def now(self) -> int:
        """When what the event loop reads now has arrived at the socket, at the latest."""
        return self._clock.monotonic() - round(self._lag() * SECOND)

    @asynccontextmanager
    async def listening(
        self, host: str, port: int, context: ssl.SSLContext | None, *, grace: float
    ) -> AsyncIterator[Any]:
        """Accept connections until the block ends; then answer what is being decided. Yields the address.

        Without a context, connections have no TLS.

        Should accepting fail for good, the block is cancelled and the error raised: a port that nobody answers must not
        look like one that is served.
        """
        listeners = _listeners(host, port)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._accept(each, context)) for each in listeners]
                if context is not None:  # otherwise connections have no buffers to speak of
                    tasks.append(group.create_task(self._trim()))
                yield listeners[0].getsockname()
                await cancel(*tasks)
        finally:
            for each in listeners:
                each.close()
            await cancel(*self._handshakes)
            self.pre_shutdown()
            await self.shutdown(grace)

    async def _accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept connections; one that is too many is closed before any buffers are allocated for it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("cannot accept a connection, will retry: %s", error)
                await asyncio.sleep(_ACCEPT_SECONDS)
                continue
            if len(self._handshakes) >= self.limits.handshakes and not self._drop_silent():
                accepted.close()
                self.on_close(CloseReason.TOO_MANY_HANDSHAKES)
            else:
                handshake = loop.create_task(self._shake_hands(accepted, context))
                self._handshakes.add(handshake)
                handshake.add_done_callback(self._handshakes.discard)
            await asyncio.sleep(0)  # for other tasks, however many connections are waiting

    def _drop_silent(self) -> bool:
        """Close the connection that has been silent longest, and say whether there was one."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        del self._silent[oldest]
        self._handshakes.discard(oldest)
        oldest.cancel()
        self.on_close(CloseReason.TOO_MANY_HANDSHAKES)
        return True

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.limits.handshake_seconds
        try:
            if context is not None:
                await self._wait_to_begin(accepted, ends)
            await self._handshake(accepted, context, max(ends - loop.time(), _LEAST_SECONDS))
        except OSError as error:
            log.debug("a connection was not made: %s", error)
            self.on_close(CloseReason.HANDSHAKE_FAILED)

    async def _wait_to_begin(self, accepted: socket.socket, ends: float) -> None:
        """Wait until the client has sent something, and then for its turn: a few handshakes begin at a time.

        So a client that is silent takes no more than its socket, and the event loop is free between handshakes.
        """
        try:
            async with asyncio.timeout_at(ends):
                await self._wait_for_data(accepted)
                async with self._beginning:
                    await asyncio.sleep(_BEGINNING_SECONDS)
        except BaseException:
            accepted.close()
            raise

    async def _wait_for_data(self, accepted: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        self._silent[task] = None
        try:
            await _wait_for_data(accepted)
        finally:
            self._silent.pop(task, None)

    async def _handshake(self, accepted: socket.socket, context: ssl.SSLContext | None, seconds: float) -> None:
        connection, timeout = self(), None if context is None else seconds
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=context, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            connection.connection_lost(error)  # it and its parser refer to one another, and the collector runs rarely
            raise

    async def _handle(self, http: web.BaseRequest) -> web.Response:
        connection = cast("Connection", http.protocol)
        size = 0
        try:
            if hdrs.TRANSFER_ENCODING in http.headers:
                raise Refusal(411, "the request does not say how long its body is", CloseReason.LENGTH_UNKNOWN)
            self._check(http.content_length or 0, self._buffered + (http.content_length or 0))
            body = bytearray()
            while chunk := await http.content.readany():
                size += len(chunk)
                self._buffered += len(chunk)
                self._check(size, self._buffered)
                body += chunk
            connection.complete()
            return await self._respond(http, connection, bytes(body))
        except Refusal as refusal:
            if refusal.close_reason is not None:
                self.on_close(refusal.close_reason)
            return refusal.response()
        except ConnectionError:
            return Refusal(400, "the connection was closed before the request was complete").response()
        finally:
            self._buffered -= size
            connection.answered()

    def _check(self, size: int, in_all: int) -> None:
        if size > self.limits.body:
            raise Refusal(413, f"the body is larger than {self.limits.body} bytes", CloseReason.BODY_TOO_LARGE)
        if in_all > self.limits.buffered:
            raise Refusal(503, "too many large requests are being read", CloseReason.TOO_MANY_BODIES)

    async def _trim(self) -> None:
        """Return the memory of closed connections to the system: each had half a megabyte of buffers.

        C libraries keep freed memory for later, and after a burst of connections that may be hundreds of megabytes.
        """
        while True:
            await asyncio.sleep(_TRIM_SECONDS)
            if not self._quiet and len(self.connections) <= self.limits.connections // 8:
                self._quiet = True
                await asyncio.to_thread(return_free_memory)


async def _wait_for_data(accepted: socket.socket) -> None:
    """Wait until there is something to read. Raises ConnectionError if the client closes the connection instead."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(accepted)
    if not accepted.recv(1, socket.MSG_PEEK):
        raise ConnectionResetError("the client closed the connection before it sent anything")


def _listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on each address of a host; those of a family that the machine does not have are left out."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made, failed = list[socket.socket](), list[OSError]()
    for family, address in dict.fromkeys((each[0], each[4]) for each in found):
        try:
            made.append(socket.create_server(address, family=family, backlog=_BACKLOG))
        except OSError as error:
            failed.append(error)
    fatal = [error for error in failed if error.errno not in _NO_SUCH_FAMILY or not made]
    for each in made:
        each.close() if fatal else each.setblocking(False)
    if fatal:
        raise fatal[0]
    return made


_NO_SUCH_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_ACCEPT_SECONDS = 1.0
"""After an error, such as too many open files."""
_BACKLOG = 1024
_TRIM_SECONDS = 10.0
_BEGINNING, _BEGINNING_SECONDS = 4, 0.002
"""How many handshakes begin at a time, each of which takes about a millisecond of CPU, and the pause before them."""
_LEAST_SECONDS = 0.001
"""The time for a handshake that has waited for its turn until its time was over; it must be positive."""
