"""Work beside the measuring process, which would share its interpreter, and work in several tasks."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Awaitable, Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def worker(target: Callable[..., None], *arguments: object) -> Iterator[tuple[Connection, int]]:
    """A function in a process of its own: a pipe to it, which is also its first argument, and its process id.

    At the end it is sent "end". Reading from the pipe raises EOFError if the process ends before it has sent anything.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(there, *arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield here, process.pid or 0
    finally:
        with contextlib.suppress(OSError):
            here.send("end")
        process.join(10)
        if process.is_alive():
            process.terminate()


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[object]], *, at_once: int = 16) -> None:
    """Do some work for each item, for so many at once."""
    left = iter(items)

    async def take() -> None:
        for item in left:
            await work(item)

    await asyncio.gather(*(take() for _ in range(at_once)))
