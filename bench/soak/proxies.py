"""TCP proxies: connections that can be cut, and a balancer before the webhook replicas.

They pass bytes on, TLS included. A proxy stands between one process and the API server; cutting its connections ends
the watches of that process and nothing else. The balancer is what a Service is in a cluster: each connection goes to
one of the ready replicas in turn.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress

_CHUNK = 65536


class Proxy:
    """Listens on a port of the loopback address and connects to one of several other ports."""

    def __init__(self, targets: Callable[[], Sequence[int]]) -> None:
        self._targets = targets
        self._turns = itertools.count()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.is_open = True
        """Whether new connections are passed on; otherwise they are closed at once."""
        self.port = 0

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> int:
        """Cut all connections; how many there were."""
        count = len(self._connections) // 2
        for writer in self._connections:
            writer.transport.abort()
        return count

    async def close(self) -> None:
        """Stop listening, and cut all connections."""
        if self._server is not None:
            self._server.close()
        self.cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            backend = await self._connect() if self.is_open else None
            if backend is None:
                writer.transport.abort()
                return
            await self._pass_on((reader, writer), backend)
        finally:
            await _closed(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to the first target, beginning with the next in turn, that accepts one."""
        targets = self._targets()
        first = next(self._turns)
        for offset in range(len(targets)):
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", targets[(first + offset) % len(targets)])
        return None

    async def _pass_on(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        backend: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        writers = {client[1], backend[1]}
        self._connections |= writers
        try:
            await asyncio.gather(_copy(client[0], backend[1]), _copy(backend[0], client[1]))
        finally:
            self._connections -= writers
            for writer in writers:
                writer.transport.abort()
            await _closed(backend[1])


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
