"""The broadcast of committed events to watchers: each event is encoded once for all equal watches, and sent in batches.

A `Feed` is shared by watchers of the same kind, selection and output format. When an object is committed, the
broadcaster flushes the feeds of its collection in the next iteration of the event loop: all events since the last flush
become one piece of bytes, framed as an HTTP chunk, and every watcher of the feed receives the same piece.

A flush is followed by a pause twice as long as the flush took. A single watcher therefore receives an event at once,
and with a hundred watchers the batches grow until two thirds of the time are left for requests.

A watcher that does not read is disconnected, as in Kubernetes: what the connection cannot take is queued up to
`QUEUE_LIMIT` bytes, then the connection is aborted. Its client resumes from the last version that it received.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable

from trimtab_lab.apiserver.storage.selections import Selection
from trimtab_lab.apiserver.storage.store import Collection, CompactedError, Entry, Event, EventType, Store

BUFFER_LIMIT = 256 * 1024
"""Bytes in the buffer of a connection above which later pieces are queued."""
QUEUE_LIMIT = 16 * 1024 * 1024
RETRY = 0.005
"""Seconds until queued pieces are sent again."""
PAUSE = 2
"""The pause after a flush, in multiples of the time that the flush took."""
BOOKMARK_INTERVAL = 60.0

Render = Callable[[EventType, Entry], bytes]
"""Encodes one event as a line of a watch."""


def chunk(data: bytes) -> bytes:
    """Frame a piece of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Watcher:
    """One connection that watches. `done` is set when the watch is to end."""

    __slots__ = ("_queue", "_queued", "_transport", "bookmark", "done", "header")

    def __init__(self, transport: asyncio.WriteTransport, *, header: Render | None = None) -> None:
        self._transport = transport
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self.bookmark: Callable[[int], bytes] | None = None
        self.header = header
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def waiting(self) -> bool:
        """Whether pieces are queued."""
        return bool(self._queue)

    def send(self, piece: bytes) -> None:
        """Send a framed piece: to the connection if it keeps up, to the queue if not.

        A closed connection may still be among the watchers for a moment; it must not disturb the others.
        """
        if self._transport.is_closing():
            self.cut()
            return
        if not self._queue and self._transport.get_write_buffer_size() < BUFFER_LIMIT:
            self._transport.write(piece)
            return
        self._queue.append(piece)
        self._queued += len(piece)
        if self._queued > QUEUE_LIMIT:
            self.cut()

    def drain(self) -> None:
        """Move queued pieces to the connection, as far as it takes them."""
        if self._transport.is_closing():
            self.cut()
        while self._queue and self._transport.get_write_buffer_size() < BUFFER_LIMIT:
            piece = self._queue.popleft()
            self._queued -= len(piece)
            self._transport.write(piece)

    def finish(self) -> None:
        """End the watch after what has been sent."""
        if not self.done.done():
            self.done.set_result(None)

    def cut(self) -> None:
        """End the watch by aborting the connection."""
        self._queue.clear()
        self._queued = 0
        if not self._transport.is_closing():
            abort = getattr(self._transport, "abort", self._transport.close)
            abort()
        self.finish()


class Feed:
    """The event stream that watchers of the same kind, selection and output format share."""

    def __init__(self, collection: Collection, selection: Selection, render: Render) -> None:
        self.collection = collection
        self.selection = selection
        self.render = render
        self.position = 0
        self.watchers: set[Watcher] = set()

    def lines(self, events: Iterable[Event], header: Render | None = None) -> list[bytes]:
        """The selected events, each encoded as a line; the first one with a header if one is given."""
        views = (self.selection.view(event) for event in events)
        shown = [view for view in views if view is not None]
        lines = [self.render(*one) for one in shown]
        if lines and header is not None:
            lines[0] = header(*shown[0])
        return lines

    def flush(self) -> None:
        """Send the events since the last flush."""
        try:
            events = self.collection.since(self.position)
        except CompactedError:
            for watcher in tuple(self.watchers):
                watcher.cut()
            return
        if not events:
            return
        self.position = events[-1].version
        lines = self.lines(events)
        if not lines:
            return
        piece = chunk(b"".join(lines))
        for watcher in tuple(self.watchers):
            if watcher.header is None:
                watcher.send(piece)
            else:
                watcher.send(chunk(b"".join(self.lines(events, watcher.header))))
                watcher.header = None


class Broadcaster:
    """The feeds of all collections of a store."""

    def __init__(self, store: Store, bookmark_interval: float = BOOKMARK_INTERVAL) -> None:
        self._store = store
        self._feeds: dict[str, dict[Hashable, Feed]] = {}
        self._dirty: set[str] = set()
        self._scheduled = False
        self._not_before = 0.0
        self._bookmark_interval = bookmark_interval
        self._bookmarks: asyncio.TimerHandle | None = None
        store.listen(self._on_event)

    def join(self, key: Hashable, feed: Feed, watcher: Watcher) -> Feed:
        """Add a watcher that has received everything so far to the feed with this key; if there is none, `feed` becomes
        it."""
        present = self._feeds.setdefault(feed.collection.name, {}).setdefault(key, feed)
        if present is feed:
            feed.position = self._store.version
        else:
            present.flush()
        present.watchers.add(watcher)
        if self._bookmarks is None:
            self._bookmarks = asyncio.get_running_loop().call_later(self._bookmark_interval, self._bookmark)
        return present

    def leave(self, key: Hashable, feed: Feed, watcher: Watcher) -> None:
        """Remove a watcher from its feed."""
        feed.watchers.discard(watcher)
        feeds = self._feeds[feed.collection.name]
        if not feed.watchers and feeds.get(key) is feed:
            del feeds[key]

    def watchers(self) -> list[Watcher]:
        """All watchers."""
        return [w for feeds in self._feeds.values() for feed in feeds.values() for w in feed.watchers]

    def watching(self, collection: str) -> list[Watcher]:
        """All watchers of a collection."""
        return [watcher for feed in self._feeds.get(collection, {}).values() for watcher in feed.watchers]

    def close(self) -> None:
        """End all watches."""
        if self._bookmarks is not None:
            self._bookmarks.cancel()
            self._bookmarks = None
        for watcher in self.watchers():
            watcher.finish()

    def _on_event(self, collection: Collection, _event: Event) -> None:
        if self._feeds.get(collection.name):
            self._dirty.add(collection.name)
            self._schedule()

    def _schedule(self, delay: float = 0.0) -> None:
        if self._scheduled:
            return
        self._scheduled = True
        loop = asyncio.get_running_loop()
        at = max(self._not_before, loop.time() + delay)
        if at <= loop.time():
            loop.call_soon(self._flush)
        else:
            loop.call_at(at, self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        clock = asyncio.get_running_loop().time
        start = clock()
        dirty, self._dirty = self._dirty, set()
        for name in dirty:
            for feed in tuple(self._feeds.get(name, {}).values()):
                feed.flush()
        slow = [watcher for watcher in self.watchers() if watcher.waiting]
        for watcher in slow:
            watcher.drain()
        end = clock()
        self._not_before = end + PAUSE * (end - start)
        if slow:
            self._schedule(RETRY)

    def _bookmark(self) -> None:
        self._bookmarks = None
        for feeds in self._feeds.values():
            for feed in feeds.values():
                feed.flush()
                for watcher in feed.watchers:
                    if watcher.bookmark is not None and not watcher.waiting:
                        watcher.send(watcher.bookmark(self._store.version))
        if self.watchers():
            self._bookmarks = asyncio.get_running_loop().call_later(self._bookmark_interval, self._bookmark)
