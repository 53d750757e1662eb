"""Watch: first the present objects, if requested, then every event.

The start depends on `resourceVersion`: without one, or with 0, the watch starts with the present objects as ADDED; with
a version, with the events after it. With `sendInitialEvents` the present objects come first, followed by a bookmark.

The first part is written by the task of the request, as fast as the client reads. When it has caught up, the watcher
joins a feed (`storage.broadcaster`) without awaiting in between, so that no event is lost or sent twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from trimtab_lab.apiserver.kinds.errors import status_error
from trimtab_lab.apiserver.storage.broadcaster import Feed, Watcher, chunk
from trimtab_lab.apiserver.storage.store import CompactedError, encode
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.verbs.encoding import ResponseEncoder
from trimtab_lab.apiserver.verbs.negotiation import negotiate
from trimtab_lab.apiserver.verbs.options import ListOptions, check_list, list_options
from trimtab_lab.apiserver.verbs.reads import expired, too_large
from trimtab_lab.apiserver.verbs.requests import Request
from trimtab_lab.apiserver.verbs.selectors import select

Write = Callable[[bytes], Awaitable[None]]
"""Sends a piece of the response, and waits until the connection has taken it."""

_DEFAULT_TIMEOUT = 1800
_LAST_BOOKMARK = 2
_PIECE = 256 * 1024


class Watch:
    """One watch."""

    def __init__(self, cluster: Cluster, request: Request) -> None:
        """Read the options. Raises StatusError before anything is sent."""
        options = list_options(request.query)
        output = negotiate(request.accept, options.include_object)
        options = _as_watch(options)
        check_list(options)
        kind = request.kind
        self._cluster = cluster
        self._options = options
        self._collection = cluster.store.collection(kind.collection)
        self._encoder = ResponseEncoder(kind, output, cluster.clock)
        self._selection = select(kind, request.namespace, request.name, options.labels, options.fields)
        self._feed = Feed(self._collection, self._selection, self._encoder.render())
        self._key = kind, self._selection, output
        self._position = _start(options, cluster.store.version)

    async def run(self, write: Write, transport: asyncio.WriteTransport, cut_after: float | None = None) -> None:
        """Send events until the timeout, or until the watch is ended."""
        watcher = Watcher(transport, header=self._encoder.header())
        try:
            await self._catch_up(write, watcher)
        except CompactedError as error:
            await write(_error_line(str(error)))
            return
        if self._options.bookmarks:
            watcher.bookmark = lambda version: chunk(self._encoder.bookmark(version))
        await self._follow(watcher, cut_after)

    async def _catch_up(self, write: Write, watcher: Watcher) -> None:
        """Send everything from the start of the watch to the present."""
        if self._position is None:
            self._position = self._cluster.store.version
            present = [e for e in self._collection.present(self._selection.prefix) if self._selection.matches(e)]
            header, render = watcher.header, self._feed.render
            if present and header is not None:
                await write(header("ADDED", present.pop(0)))
                watcher.header = None
            await _write_all(write, (render("ADDED", entry) for entry in present))
            if self._options.initial_events and self._options.bookmarks:
                await write(self._encoder.bookmark(self._position, initial=True))
        while events := self._collection.since(self._position):
            self._position = events[-1].version
            lines = self._feed.lines(events, watcher.header)
            watcher.header = None if lines else watcher.header
            await _write_all(write, lines)

    async def _follow(self, watcher: Watcher, cut_after: float | None) -> None:
        loop = asyncio.get_running_loop()
        feed = self._cluster.broadcaster.join(self._key, self._feed, watcher)
        seconds = self._options.timeout or _DEFAULT_TIMEOUT + random.randrange(_DEFAULT_TIMEOUT)  # noqa: S311 – spreads the renewals
        timers = [loop.call_later(seconds, watcher.finish)]
        if seconds > _LAST_BOOKMARK:
            timers.append(loop.call_later(seconds - _LAST_BOOKMARK, self._bookmark, feed, watcher))
        if cut_after is not None:
            timers.append(loop.call_later(cut_after, watcher.cut))
        try:
            await watcher.done
        finally:
            self._cluster.broadcaster.leave(self._key, feed, watcher)
            for timer in timers:
                timer.cancel()

    def _bookmark(self, feed: Feed, watcher: Watcher) -> None:
        """Send a bookmark shortly before the end: the next watch of the client continues there."""
        feed.flush()
        if watcher.bookmark is not None and not watcher.waiting:
            watcher.send(watcher.bookmark(self._cluster.store.version))


def _as_watch(options: ListOptions) -> ListOptions:
    """The options of a request that is a watch by its path."""
    return options if options.watch else replace(options, watch=True)


def _start(options: ListOptions, present: int) -> int | None:
    """The version after which to start; None to start with the present objects."""
    text = options.version
    if text and (not text.isascii() or not text.isdigit()):
        problem = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise status_error(500, problem, reason="")
    requested = int(text or 0)
    if options.initial_events:
        if requested > present:
            raise too_large(requested, present)
        return None
    if options.initial_events is False and not requested:
        return present
    return requested or None


async def _write_all(write: Write, lines: Iterable[bytes]) -> None:
    """Send lines in pieces."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _PIECE:
            await write(b"".join(waiting))
            waiting, size = [], 0
    if waiting:
        await write(b"".join(waiting))


def _error_line(message: str) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % encode(expired(message).status)
