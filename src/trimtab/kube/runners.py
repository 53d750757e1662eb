"""The runner of reconciles: workers that take keys from a queue, and requeue them by outcome.

| outcome | the key is requeued |
|---|---|
| `Result()` | when something changes |
| `Result(requeue_after=5)` | in five seconds, or earlier when something changes |
| an exception | after a delay that grows with each failure in a row |
| `TerminalError` | when something changes; a retry would not help |

A runner that is cancelled accepts no more keys. Those that are queued may be reconciled within the grace period; what
is left then is cancelled, and the next start repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trimtab.kube.clocks import GRACE, cancel, run_with_grace
from trimtab.kube.errors import AlreadyExists, ApiError, Conflict
from trimtab.kube.queues import ShutDown, WorkQueue

K = TypeVar("K")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """A successful reconcile; the key is requeued after `requeue_after` seconds at the latest."""

    requeue_after: float | None = None


class TerminalError(Exception):
    """A failure that a retry would not fix: something must change first."""


class Synced(Protocol):
    """What is filled at some time: a cache, or an informer."""

    async def wait_synced(self) -> None:
        """Wait until it is filled."""
        ...


class Runner(Generic[K]):
    """Runs `reconcile(key)` for the keys of a queue, several keys concurrently, each key once at a time."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        queue: WorkQueue[K],
        *,
        workers: int = 1,
        after: Sequence[Synced] = (),
        observe: Callable[[K, BaseException | None], None] | None = None,
        grace: float = GRACE,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._after = after
        self._observe = observe
        self._grace = grace
        self._has_started = False

    async def run(self) -> None:
        """Run until the queue is shut down and empty, or until cancelled and stopped."""
        await run_with_grace(
            self.queue.clock, self._run(), finish=self.stop, on_timeout=self._report_unfinished, grace=self._grace
        )

    async def _run(self) -> None:
        for informer in self._after:
            await informer.wait_synced()
        self._has_started = True
        workers = [asyncio.create_task(self._work(), name=f"{self.name}-{n}") for n in range(self._workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            await cancel(*workers)

    async def stop(self) -> None:
        """Accept no more keys, and wait until the queued ones are processed. Then `run` returns.

        Before the first reconcile, while informers have not synced, there is nothing to wait for.
        """
        if self._has_started:
            await self.queue.drain()

    def _report_unfinished(self) -> None:
        log.warning(
            "%s: %d reconciles were not finished within %g s of the stop; the next start repeats them",
            *(self.name, self.queue.unfinished, self._grace),
        )

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            try:
                await self._attempt(key)
            finally:
                self.queue.done(key)

    async def _attempt(self, key: K) -> None:
        try:
            result = await self._reconcile(key)
        except TerminalError as error:
            self.queue.forget(key)
            log.error("%s %s failed, not retried until something changes: %s", self.name, key, error)
            self._note(key, error)
        except Exception as error:  # noqa: BLE001 - any failure requeues the key
            delay = self.queue.retry(key)
            self._report(key, error, delay)
            self._note(key, error)
        else:
            self.queue.forget(key)
            if result.requeue_after is not None:
                self.queue.add_after(key, result.requeue_after)
            self._note(key, None)

    def _report(self, key: K, error: Exception, delay: float) -> None:
        """Log a failure: conflicts, which are normal with optimistic concurrency, at debug level; refusals by the API
        server (a quota, a webhook) with its message; anything else with a traceback."""
        if isinstance(error, (AlreadyExists, Conflict)):
            log.debug("%s %s: %s; retrying in %.3g s", self.name, key, error, delay)
        elif isinstance(error, ApiError):
            log.warning("%s %s: %s; retrying in %.3g s", self.name, key, error, delay)
        else:
            log.error("%s %s failed, retrying in %.3g s", self.name, key, delay, exc_info=error)

    def _note(self, key: K, error: BaseException | None) -> None:
        if self._observe is not None:
            self._observe(key, error)
