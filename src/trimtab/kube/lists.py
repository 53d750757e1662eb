"""Lists for informers: objects as they come, in parts of a few.

**Initial events (WatchList).** A watch that asks for them sends the present objects as ADDED, what happens meanwhile as
any event, and then a bookmark with the annotation `k8s.io/initial-events-end`: the list is complete at its version.
Lines are decoded as they come, a chunk of the stream at a time; no page of a list is held in memory, by the API server
neither.

**Pages**, where the server refuses that (a version without the feature, or with the feature off). A stream that fails,
ends or falls silent before the bookmark is a list that failed; the next attempt reads pages, so that a proxy that holds
back streams delays a list and does not prevent it. Lists in pages are counted by reason (`list_fallbacks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from trimtab.kube import watches
from trimtab.kube.client import Client
from trimtab.kube.errors import ApiError, BadRequest, Invalid, Malformed, Unreachable
from trimtab.kube.list_fallbacks import FallbackReason
from trimtab.kube.resources import Resource
from trimtab.kube.stores import Object, key_of
from trimtab.kube.threads import LARGE_OBJECT, read_beside
from trimtab.kube.transport import Request, Stream
from trimtab.kube.watches import BOOKMARK, DELETED, PART, Page, WatchEvent

T = TypeVar("T", bound=Object)

_SILENCE = 30.0
"""Seconds without data after which the initial events count as failed."""

_BOOKMARK = b"KMARK"
"""What a bookmark is found by, and hardly anything else. Python searches a large text for six bytes and more with
another algorithm, which takes three times as long."""
_CHUNK = 1 << 18
"""Bytes that are decoded at once: some thirty to seventy pods."""


class Lister(Generic[T]):
    """Lists the objects of one kind and scope, in the way that the server is known to serve."""

    def __init__(self, client: Client, resource: Resource[T], scope: dict[str, str], *, page: int) -> None:
        """`scope` is that of `Client.pages`: namespace and selectors."""
        self._client = client
        self._resource = resource
        self._scope = scope
        self._page = page
        self._fallback: tuple[FallbackReason, str] | None = None
        """Why the next list is read in pages, if it is: a reason and what the API server answered."""

    async def parts(self) -> AsyncGenerator[Page[T], None]:
        """The objects; the last part has the version of the list. Raises ApiError if the list cannot be completed."""
        if self._fallback is None:
            try:
                async for page in self._initial_events():
                    yield page
                return
            except (BadRequest, Invalid) as error:
                self._fallback = FallbackReason.REFUSED, str(error)
            except ApiError as error:
                self._fallback = FallbackReason.FAILED, str(error)
                raise
        async for page in self._client.pages(self._resource, limit=self._page, **self._scope):
            yield page
        reason, detail = self._fallback
        self._client.list_fallbacks.report(self._resource, reason, detail)
        if reason is FallbackReason.FAILED:
            self._fallback = None

    async def _initial_events(self) -> AsyncGenerator[Page[T], None]:
        stream = await self._client.open_stream(self._request())
        try:
            async for page in _parts(stream, self._resource.model):
                for rejected in page.rejected:
                    self._client.unreadable.report(self._resource, rejected)
                yield page
                await asyncio.sleep(0)
        finally:
            await stream.close()

    def _request(self) -> Request:
        params = {
            "watch": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "labelSelector": self._scope["label_selector"],
            "fieldSelector": self._scope["field_selector"],
        }
        path = self._resource.collection(self._scope["namespace"])
        return Request("GET", path, tuple((name, value) for name, value in params.items() if value), timeout=_SILENCE)


async def _parts(stream: Stream, model: type[T]) -> AsyncGenerator[Page[T], None]:
    """The parts of a list, up to the bookmark that ends the initial events."""
    read_all, read = watches.objects_reader(model), watches.reader(model)
    async for lines in _lines(stream):
        objects = await read_beside(len(lines), read_all, lines, limit=2 * _CHUNK)
        if objects is not None:
            for start in range(0, len(objects), PART):
                yield Page(tuple(objects[start : start + PART]), "")
            continue
        events = _events(lines, read)
        async with aclosing(events), aclosing(_grouped(events)) as pages:
            async for page in pages:
                yield page
                if page.resource_version:
                    return
    raise Unreachable("the initial events ended before the list was complete")


async def _lines(stream: Stream) -> AsyncGenerator[bytes, None]:
    """The stream in texts of many lines, since API servers send each alone; a bookmark is not kept waiting.

    An incomplete last line is dropped.
    """
    waiting, size, tail = list[bytes](), 0, b""
    has_bookmark = False
    while chunk := await stream.read():
        has_bookmark = has_bookmark or _has_bookmark(tail, chunk)
        tail = (tail + chunk[-len(_BOOKMARK) :])[-len(_BOOKMARK) :]
        end = chunk.rfind(b"\n") + 1
        size += len(chunk)
        if end and (has_bookmark or size >= _CHUNK):
            yield b"".join((*waiting, chunk[:end]))
            waiting, size = [chunk[end:]], len(chunk) - end
            has_bookmark = _BOOKMARK in waiting[0]
        else:
            waiting.append(chunk)
    rest = b"".join(waiting)
    yield rest[: rest.rfind(b"\n") + 1]


def _has_bookmark(tail: bytes, chunk: bytes) -> bool:
    """Whether there may be a bookmark in this chunk, or in the end of the one before."""
    return _BOOKMARK in chunk or _BOOKMARK in tail + chunk[: len(_BOOKMARK)]


async def _events(lines: bytes, read: Callable[[bytes], WatchEvent[T]]) -> AsyncGenerator[WatchEvent[T], None]:
    for line in lines.split(b"\n"):
        if line:
            yield await read_beside(len(line), read, line, limit=LARGE_OBJECT)


async def _grouped(events: AsyncGenerator[WatchEvent[T], None]) -> AsyncGenerator[Page[T], None]:
    """Parts of at most a few objects, in the order of the events."""
    items: list[T] = []
    async for event in events:
        is_item = event.object is not None and event.type != DELETED
        if items and (not is_item or len(items) == PART):
            yield Page(tuple(items), "")
            items = []
        if event.object is not None and is_item:
            items.append(event.object)
        else:
            yield _other(event)
    if items:
        yield Page(tuple(items), "")


def _other(event: WatchEvent[T]) -> Page[T]:
    """The part of an event that is no object of the list."""
    if event.type == BOOKMARK:
        if not event.ends_initial_events:
            raise Malformed("the server sends a bookmark before the initial events have ended")
        return Page((), event.resource_version)
    rejected = () if event.rejected is None else (event.rejected,)
    if event.type != DELETED:
        return Page((), "", rejected=rejected)
    keys = [each.key for each in rejected] if event.object is None else [key_of(event.object)]
    return Page((), "", deleted=tuple(keys))
