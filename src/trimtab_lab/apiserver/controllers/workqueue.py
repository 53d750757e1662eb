"""A work queue: keys without duplicates, handled one after the other by a task.

A key whose handler fails with a conflict or an API error is retried a little later: a webhook may be down for the
moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.storage.store import ConflictError

Key = TypeVar("Key", bound=Hashable)

_log = logging.getLogger(__name__)

RETRY_DELAY = 0.5
"""Seconds until a failed key is retried."""


class WorkQueue(Generic[Key]):
    """A queue and its worker task, which runs while there are keys."""

    def __init__(self, handle: Callable[[Key], Awaitable[None]]) -> None:
        self._handle = handle
        self._waiting: dict[Key, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no key is queued, handled or waiting for a retry."""
        return not self._waiting and self._task is None and not self._timers

    def add(self, key: Key) -> None:
        """Queue a key."""
        if self._closed:
            return
        self._waiting[key] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, and cancel the running handler."""
        self._closed = True
        self._waiting.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            del self._waiting[key]
            await self._try(key)
            await asyncio.sleep(0)  # let requests run in between
        self._task = None

    async def _try(self, key: Key) -> None:
        try:
            await self._handle(key)
        except (StatusError, ConflictError) as error:
            _log.debug("%s: %s; will be retried", key, error)
            self._retry_later(key)
        except Exception:  # noqa: BLE001 – the next key must be handled
            _log.exception("%s: handler failed", key)

    def _retry_later(self, key: Key) -> None:
        def again() -> None:
            self._timers.discard(timer)
            self.add(key)

        timer = asyncio.get_running_loop().call_later(RETRY_DELAY, again)
        self._timers.add(timer)


class QueueController(Generic[Key]):
    """A controller that handles the keys of one queue."""

    def __init__(self) -> None:
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return self._queue.idle

    async def close(self) -> None:
        """Stop the worker."""
        await self._queue.close()

    async def _reconcile(self, key: Key) -> None:
        raise NotImplementedError
