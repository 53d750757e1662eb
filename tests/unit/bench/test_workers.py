"""Work in another process."""

from __future__ import annotations

from multiprocessing.connection import Connection

import pytest

from bench.workers import worker


def echo(pipe: Connection, text: str) -> None:
    """Send the text, then all that is received, until the end."""
    pipe.send(text)
    while (received := pipe.recv()) != "end":
        pipe.send(received)


def fail(pipe: Connection) -> None:
    """End without a word."""
    pipe.close()
    raise SystemExit(1)


def test_a_worker_talks_over_its_pipe() -> None:
    """Its arguments come after the pipe."""
    with worker(echo, "first") as (pipe, pid):
        assert pid > 0
        assert pipe.recv() == "first"
        pipe.send("second")
        assert pipe.recv() == "second"


def test_a_worker_that_fails_is_not_waited_for() -> None:
    """Otherwise a measurement would never end."""
    with worker(fail) as (pipe, _), pytest.raises(EOFError):
        pipe.recv()
