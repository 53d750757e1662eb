"""What every long-running process needs: an event loop, shutdown on signals, and logging to standard error."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["console", "json"]
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD."""
FIELDS = "fields"
"""The name in `extra` of further fields of a JSON log line: `log.info(..., extra={FIELDS: {...}})`."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop where it is installed, otherwise asyncio's own.

    Most of what a process does for a request is TLS and the loop itself, and uvloop has both in C.
    """
    try:
        import uvloop
    except ImportError:  # there is none for Windows and PyPy
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_until_stopped(work: Callable[[], Any]) -> None:
    """Run the work of a long-running process in an event loop of its own; see `until_stopped`."""
    gc.freeze()  # modules and types are never garbage: looking for some takes tens of milliseconds less without them
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(until_stopped(work))


async def until_stopped(work: Callable[[], Any]) -> None:
    """Run the work until it ends or the process receives SIGINT or SIGTERM, which cancel it."""
    task = asyncio.ensure_future(work())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await task
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def collect_less_often() -> None:
    """Let the garbage collector run after every 50,000 new containers instead of 700.

    Decoding a large document creates hundreds of thousands at once and no garbage; the collector would look at all of
    them several times, which takes longer than decoding. Nothing else of ours depends on it: objects form no cycles.
    """
    gc.set_threshold(50_000, 20, 20)


def set_up_memory() -> None:
    """Let the C library return large buffers to the system when they are freed, and keep small ones for the next.

    From a MiB on they are returned, such as pages of lists. glibc raises that limit with each such buffer that is
    freed, up to 32 MiB: later ones come from its heap, where the objects that are kept stand between them, and a
    process keeps 10 MiB that it does not use.

    Below, up to 8 MiB at the end of the heap are kept. glibc would return anything above 128 KiB, and the next part of
    a list would get the same pages again, one fault after the other: a sixth of the time to receive a list.
    """
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 1 << 20)
        library.mallopt(_TRIM_THRESHOLD, 1 << 23)


def return_free_memory() -> None:
    """Return what is free to the system, where the C library can (glibc): it keeps freed memory for later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def prefer_event_loop() -> None:
    """Let a thread that computes give way after half a millisecond instead of five.

    An admission review passes through the interpreter lock about ten times, and waits for it that long each time.
    """
    sys.setswitchinterval(0.0005)


class _JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(form: LogFormat = "console", level: str = "info") -> None:
    """Log to standard error in this format, from this level on; after a crash, what each thread did."""
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(_JsonLines() if form == "json" else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
