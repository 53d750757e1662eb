"""Reading of large objects in another thread, so that the event loop goes on meanwhile.

Whoever may create an object decides how large it is: an API server stores more than a megabyte, whose values take tens
of milliseconds to find and to check. The interpreter changes between threads every few milliseconds, so the loop is
late by the longest call of C code at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

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
