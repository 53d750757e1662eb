"""TCP proxies: bytes pass, connections can be cut, and the balancer passes over what does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bench.promise.processes import free_port
from bench.soak.proxies import Proxy


@asynccontextmanager
async def echoing(prefix: bytes) -> AsyncIterator[int]:
    """A server that answers each line with its name; its port."""

    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                writer.write(prefix + line)
        await closed(writer)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*serving)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, and wait until it is."""
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def proxying(*ports: int) -> AsyncIterator[Proxy]:
    """A proxy before these ports."""
    proxy = Proxy(lambda: ports)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


async def ask(proxy: Proxy) -> bytes:
    """What a new connection is answered; nothing if it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(b"hello\n")
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        await closed(writer)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the connection ends, in whatever way."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_bytes_pass_in_both_directions() -> None:
    async with echoing(b"a ") as port, proxying(port) as proxy:
        assert await ask(proxy) == b"a hello\n"


async def test_cutting_ends_all_connections_and_new_ones_pass() -> None:
    async with echoing(b"a ") as port, proxying(port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"a hello\n"
        assert proxy.cut() == 1
        assert await _rest(reader) == b""
        await closed(writer)
        assert await ask(proxy) == b"a hello\n"


async def test_a_closed_proxy_passes_nothing_on_until_it_is_opened() -> None:
    async with echoing(b"a ") as port, proxying(port) as proxy:
        proxy.is_open = False
        assert await ask(proxy) == b""
        proxy.is_open = True
        assert await ask(proxy) == b"a hello\n"


async def test_connections_go_to_the_targets_in_turn_and_pass_over_a_dead_one() -> None:
    async with echoing(b"a ") as one, echoing(b"b ") as other, proxying(one, free_port(), other) as proxy:
        answers = [await ask(proxy) for _ in range(6)]
    assert set(answers) == {b"a hello\n", b"b hello\n"}
