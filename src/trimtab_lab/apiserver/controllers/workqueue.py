"""Work that nobody waits for: keys in a queue, each once, handled one after the other by a task of its own.

What fails is tried again a little later: a webhook may be down, or refuse for the moment.
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

AGAIN = 0.5
"""Seconds until something that failed is tried again."""


class WorkQueue(Generic[Key]):
    """A queue and its worker. The worker runs while there is something to do."""

    def __init__(self, work: Callable[[Key], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: dict[Key, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits, nothing is being done, and nothing will be tried again."""
        return not self._waiting and self._task is None and not self._timers

    def add(self, key: Key) -> None:
        """Have something done soon."""
        if self._closed:
            return
        self._waiting[key] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop, in the middle of whatever is being done."""
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
            await asyncio.sleep(0)  # let requests in between
        self._task = None

    async def _try(self, key: Key) -> None:
        try:
            await self._work(key)
        except (StatusError, ConflictError) as error:
            _log.debug("%s: %s; will be tried again", key, error)
            self._later(key)
        except Exception:  # noqa: BLE001 – whatever it is, the next one must be tried
            _log.exception("%s: cannot be done", key)

    def _later(self, key: Key) -> None:
        def again() -> None:
            self._timers.discard(timer)
            self.add(key)

        timer = asyncio.get_running_loop().call_later(AGAIN, again)
        self._timers.add(timer)
