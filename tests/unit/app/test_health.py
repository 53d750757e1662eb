"""The port for health and metrics: what it serves, and that whoever reaches it cannot keep it busy or full."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from trimtab.admission.connections import Limits
from trimtab.api.configuration import Serving
from trimtab.app import health
from trimtab.testing.clocks import VirtualClock


class Page:
    """The port of a process, and a client of it."""

    def __init__(self, port: int, registry: CollectorRegistry, clock: VirtualClock) -> None:
        self.port = port
        self.registry = registry
        self.clock = clock

    async def call(self, path: str, method: str = "GET", **options: Any) -> tuple[int, str]:
        """The status and the text of an answer, over a connection of its own."""
        url = f"http://127.0.0.1:{self.port}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, url, **options) as answer:
            return answer.status, await answer.text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has been used once."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        await reader.readuntil(b"ok\n")
        return reader, writer


@asynccontextmanager
async def paged(limits: Limits = health.LIMITS, **documents: Callable[[], Any]) -> AsyncIterator[Page]:
    """A port without components, on virtual time."""
    registry, clock = CollectorRegistry(), VirtualClock()
    named = {f"/{name}": document for name, document in documents.items()}
    serving = Serving(host="127.0.0.1", port=0)
    async with health.served(serving, {}, registry, named, clock=clock, limits=limits) as port:
        yield Page(port, registry, clock)


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        pytest.param({"path": "/healthz"}, 200, "ok\n", id="healthz"),
        pytest.param({"path": "/readyz?verbose"}, 200, "ok\n", id="readyz"),
        pytest.param({"path": "/records"}, 200, "[1]", id="a document"),
        pytest.param({"path": "/healthz", "method": "HEAD"}, 200, "", id="the head of a page"),
        pytest.param({"path": "/healthz", "method": "POST"}, 405, "pages are read with GET\n", id="a write"),
        pytest.param(
            {"path": "/"}, 404, "there are only /healthz, /readyz, /metrics, /records\n", id="no page of that name"
        ),
        pytest.param(
            {"path": "/healthz", "data": b"x" * 2000}, 413, "the body is larger than 1024 bytes\n", id="a body"
        ),
    ],
)
async def test_what_is_served(request_: Mapping[str, Any], status: int, text: str) -> None:
    """Nothing but the pages."""
    async with paged(records=lambda: [1]) as page:
        assert await page.call(**request_) == (status, text)


async def test_connections_that_are_only_kept_open_keep_out_no_probe() -> None:
    """Of too many, the one that was idle longest is closed."""
    async with paged(Limits(connections=3)) as page:
        opened = []
        for _ in range(3):
            opened.append(await page.connect())
            await page.clock.advance(1)
        assert await page.call("/readyz") == (200, "ok\n")
        assert await opened[0][0].read() == b""
        assert not opened[1][0].at_eof()
        for _, writer in opened:
            writer.close()


async def test_connections_that_send_nothing_keep_out_no_probe() -> None:
    """Any pod may open them."""
    async with paged() as page:
        silent = [await asyncio.open_connection("127.0.0.1", page.port) for _ in range(2 * health.LIMITS.connections)]
        assert await page.call("/healthz") == (200, "ok\n")
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize(
    "sent", [pytest.param(b"", id="nothing"), pytest.param(b"GET /healthz HTTP/1.1\r\n", id="half of a request")]
)
async def test_connections_without_a_request_are_closed(sent: bytes) -> None:
    """They have the time that requests have to arrive."""
    async with paged(Limits(request_seconds=0.01)) as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()


async def test_idle_connections_are_closed() -> None:
    """The limit is that of the webhooks: aiohttp's own is an hour."""
    assert health.LIMITS.idle_seconds == Limits().idle_seconds == 120
    async with paged(Limits(idle_seconds=0.01)) as page:
        reader, writer = await page.connect()
        assert await reader.read() == b""
        writer.close()


async def test_pages_are_rendered_ten_times_a_second_at_most() -> None:
    """However many ask for them: rendering takes milliseconds."""
    numbers = itertools.count(1)
    async with paged(records=lambda: next(numbers)) as page:
        counter = Counter("asked", "Requests.", registry=page.registry)
        seen = []
        for seconds in (0.0, 0.05, 0.05, 0.09, 0.01):
            counter.inc()
            await page.clock.advance(seconds)
            _, metrics = await page.call("/metrics")
            _, record = await page.call("/records")
            (line,) = [each for each in metrics.splitlines() if each.startswith("asked_total ")]
            seen.append((line, record))
    assert seen == [(f"asked_total {number}.0", record) for number, record in zip("11335", "11223", strict=True)]


async def test_a_page_that_cannot_be_rendered_is_tried_again() -> None:
    """Nothing else is served in its place."""
    answers = iter([1])

    def fails_once() -> int:
        if next(answers, None):
            raise RuntimeError("changed meanwhile")
        return 2

    async with paged(records=fails_once) as page:
        assert [(await page.call("/records"))[0] for _ in range(2)] == [500, 200]
