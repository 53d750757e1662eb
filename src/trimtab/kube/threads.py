"""Reading of large objects, and long computations, in another thread, so that the event loop goes on meanwhile.

Whoever may create an object decides how large it is: an API server stores more than a megabyte, whose values take tens
of milliseconds to find and to check. The interpreter changes between threads every few milliseconds, so the loop is
late by the longest call of C code at most.

What is computed from a snapshot is computed from a copy of it, which no event changes. The caller decides again, or
discards the result, where it matters that something has changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar


class Copyable(Protocol):
    """A view of the cluster that can be copied."""

    def copy(self: C) -> C:
        """The same view, which no event changes."""
        ...


C = TypeVar("C", bound=Copyable)
T = TypeVar("T")

LARGE_REVIEW = 1 << 14
"""Bytes of a review, or of one of its objects, that are read on the event loop at most."""
LARGE_OBJECT = 1 << 17
"""Bytes of an object of a list or watch that are read on the event loop at most: a millisecond or two. Hardly any
object is larger."""


async def read_beside(size: int, read: Callable[..., T], *arguments: Any, limit: int = LARGE_REVIEW) -> T:
    """Call a function that reads `size` bytes, in another thread if there are more than `limit`."""
    if size <= limit:
        return read(*arguments)
    return await asyncio.to_thread(read, *arguments)


async def compute_beside(
    executor: Executor | None,
    snapshot: C,
    compute: Callable[[C], T],
    *,
    delay: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Compute something from a snapshot as it is now: in a thread of the executor, on a copy, perhaps after a delay.

    Without an executor it is computed at once, on the event loop.
    """
    if executor is None:
        return compute(snapshot)
    copy = snapshot.copy()
    if delay is not None:
        await delay()
    return await asyncio.get_running_loop().run_in_executor(executor, compute, copy)
