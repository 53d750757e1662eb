"""Watchers: a lost connection does not disturb the others."""

from __future__ import annotations

import asyncio

import pytest

from trimtab_lab.apiserver.storage.broadcaster import Watcher


class Connection(asyncio.WriteTransport):
    """A connection that may be lost; then even its buffer size cannot be read."""

    def __init__(self, *, lost: bool) -> None:
        super().__init__()
        self.lost = lost
        self.sent = b""

    def is_closing(self) -> bool:
        """Whether it is lost."""
        return self.lost

    def get_write_buffer_size(self) -> int:
        """As TLS connections do it."""
        if self.lost:
            raise AttributeError("'NoneType' object has no attribute '_get_write_buffer_size'")
        return 0

    def write(self, data: object) -> None:
        """Accept data."""
        assert isinstance(data, bytes)
        self.sent += data

    def abort(self) -> None:
        """Break the connection."""
        self.lost = True


@pytest.mark.parametrize("act", ["send", "drain"])
async def test_a_lost_connection_ends_its_watch_and_nothing_else(act: str) -> None:
    """Sending to it raises nothing, so that the next watchers receive the event."""
    gone, there = Watcher(Connection(lost=True)), Watcher(connection := Connection(lost=False))
    for watcher in (gone, there):
        if act == "send":
            watcher.send(b"event")
        else:
            watcher.drain()
    assert gone.done.done()
    assert not there.done.done()
    assert connection.sent == (b"event" if act == "send" else b"")
