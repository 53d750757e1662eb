"""A stand-in for the kubelets of simulated nodes: it serves the ports and the log of a process as those of pods.

`kubectl logs` and `kubectl port-forward` ask the API server, which asks the kubelet of the pod's node over HTTPS. To
forward ports, the connection is upgraded to SPDY. Each connection that kubectl accepts is a pair of streams: one for
data, one on which the kubelet reports an error.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.spdy import DATA, GOAWAY, PING, RST_STREAM, SYN_STREAM, Frame, Frames
from tests.unit.kube.certificates import Authority
from trimtab_lab.supervisor import find_free_port

LOOPBACK = "127.0.0.1"
UPGRADED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n"
)
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
_REQUEST = re.compile(rb"[A-Z]+ /(containerLogs|portForward)/[^/ ]+/[^/? ]+")
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Container:
    """What a process on this machine has of a container."""

    ports: Mapping[int, int]
    """The process's port by the container's."""
    log: Path


@asynccontextmanager
async def kubelet(container: Container, folder: Path) -> AsyncIterator[int]:
    """Serve the logs and ports of pods, each of which has this container, and yield the port of the kubelet."""
    pair = Authority().server(LOOPBACK)
    (folder / "kubelet.crt").write_bytes(pair.certificate)
    (folder / "kubelet.key").write_bytes(pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    port = find_free_port()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await _serve(reader, writer, container)
        writer.close()

    async with await asyncio.start_server(serve, LOOPBACK, port, ssl=context):
        yield port


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, container: Container) -> None:
    """Answer a request for the log, or forward ports until the client ends the connection."""
    request = _REQUEST.match(await reader.readuntil(b"\r\n\r\n"))
    assert request is not None
    if request[1] == b"containerLogs":
        writer.write(PLAIN + container.log.read_bytes())
        return
    writer.write(UPGRADED)
    forwarding = Forwarding(Frames(reader, writer), container.ports)
    try:
        await forwarding.run()
    finally:
        for each in forwarding.copying:
            each.cancel()


@dataclass(slots=True)
class Forwarding:
    """The streams of one `kubectl port-forward`."""

    frames: Frames
    ports: Mapping[int, int]
    errors: dict[str, int] = field(default_factory=dict)
    """The error stream of each request."""
    received: dict[int, asyncio.StreamReader] = field(default_factory=dict)
    """What the client sends, by data stream."""
    copying: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Handle frames until the client ends the connection."""
        while (frame := await self.frames.read()).kind != GOAWAY:
            if frame.kind == SYN_STREAM:
                await self._open(frame)
            elif frame.kind == PING:
                await self.frames.control(PING, frame.payload)
            elif frame.kind in (DATA, RST_STREAM) and frame.stream in self.received:
                self._receive(frame)

    async def _open(self, frame: Frame) -> None:
        """Accept a stream; the error stream of a request comes first."""
        await self.frames.accept(frame.stream)
        request = frame.headers["requestid"]
        if frame.headers["streamtype"] == "error":
            self.errors[request] = frame.stream
            return
        self.received[frame.stream] = received = asyncio.StreamReader()
        forward = self._forward(frame.stream, self.errors.pop(request), int(frame.headers["port"]), received)
        self.copying.add(asyncio.create_task(forward))

    def _receive(self, frame: Frame) -> None:
        received = self.received[frame.stream]
        if frame.kind == DATA:
            received.feed_data(frame.payload)
        if frame.is_last or frame.kind == RST_STREAM:
            received.feed_eof()
            del self.received[frame.stream]

    async def _forward(self, stream: int, errors: int, port: int, received: asyncio.StreamReader) -> None:
        """Connect a data stream with the process; afterwards both streams end."""
        message = b""
        try:
            await self._connect(stream, self.ports[port], received)
        except (KeyError, OSError) as error:
            message = f"port {port}: {error!r}".encode()
        await self.frames.data(stream, b"", is_last=True)
        await self.frames.data(errors, message, is_last=True)

    async def _connect(self, stream: int, port: int, received: asyncio.StreamReader) -> None:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        sending = asyncio.create_task(_send(received, writer))
        try:
            while chunk := await reader.read(_CHUNK):
                await self.frames.data(stream, chunk)
        finally:
            sending.cancel()
            writer.close()


async def _send(received: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send to the process what the client sends."""
    while chunk := await received.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()
