"""The work queue: keys to reconcile, each by one worker at a time.

The states of a key:

```
          add           get                done
 (absent) ──→ queued ──→ being processed ──→ (absent)
                ↑               │ add: becomes dirty
                └───────────────┘ done, if dirty
```

So a key that is added ten times while queued is processed once; one that is added while being processed is processed
again afterwards; and no key is processed twice concurrently. `add_after` delays a key, up to the earliest time
requested. `retry` does so with a delay that grows with each failure of that key until `forget`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from trimtab.kube.clocks import SECOND, Clock, cancel
from trimtab.kube.retries import Backoff

K = TypeVar("K")

RETRY_BACKOFF = Backoff(initial=0.005, cap=1000.0)
"""As in client-go: 5 ms, doubled with each failure, up to 1000 s."""


class ShutDown(Exception):  # noqa: N818 - not an error: there is no more work
    """The queue is shut down and empty."""


class QueueObserver(Protocol):
    """Callbacks for metrics of a queue."""

    def added(self, depth: int) -> None:
        """A key was queued; `depth` is the new length."""
        ...

    def started(self, depth: int, waited: float) -> None:
        """A worker took a key that was queued for so many seconds."""
        ...

    def finished(self, worked: float) -> None:
        """A worker finished a key after so many seconds."""
        ...

    def retried(self) -> None:
        """A key failed and will be retried."""
        ...


class WorkQueue(Generic[K]):
    """Keys to reconcile. For one event loop; not thread-safe."""

    def __init__(
        self, clock: Clock, *, backoff: Backoff = RETRY_BACKOFF, observer: QueueObserver | None = None
    ) -> None:
        self._clock = clock
        self._backoff = backoff
        self._observer = observer
        self._queue: deque[K] = deque()
        self._dirty: dict[K, int] = {}
        self._processing: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._delayed = _Delays[K](clock, self.add)

    def __len__(self) -> int:
        """The number of queued keys, without those being processed and those delayed."""
        return len(self._queue)

    @property
    def clock(self) -> Clock:
        """The clock that delays are measured on."""
        return self._clock

    @property
    def unfinished(self) -> int:
        """The number of keys that are queued or being processed, without those delayed."""
        return len(self._dirty.keys() | self._processing.keys())

    @property
    def closed(self) -> bool:
        """Whether it accepts no more keys."""
        return self._closed

    def add(self, key: K) -> None:
        """Queue a key; if it is being processed, process it again afterwards."""
        if self._closed or key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self._idle.clear()
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key after a delay."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
        else:
            self._delayed.put(key, seconds)

    def retry(self, key: K) -> float:
        """Requeue a key that failed, with back-off; return the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures)
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of a key, and so its back-off."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """The number of consecutive failures of a key."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Take the next key, to be processed until `done`. Raises ShutDown at the end."""
        while not self._queue:
            if self._closed:
                raise ShutDown
            await self._wait_for_key()
        key = self._queue.popleft()
        now = self._clock.monotonic()
        waited = now - self._dirty.pop(key)
        self._processing[key] = now
        if self._observer is not None:
            self._observer.started(len(self._queue), waited / SECOND)
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed."""
        started = self._processing.pop(key)
        if self._observer is not None:
            self._observer.finished((self._clock.monotonic() - started) / SECOND)
        if key in self._dirty:
            self._enqueue(key)
        elif not self._dirty and not self._processing:
            self._idle.set()

    def shut_down(self) -> None:
        """Accept no more keys. Queued keys are still processed; delayed keys are dropped."""
        self._closed = True
        self._delayed.stop()
        while self._getters:
            self._wake_one()

    async def drain(self) -> None:
        """Shut down, and wait until all queued keys are processed."""
        self.shut_down()
        await self._idle.wait()
        await self._delayed.stopped()

    def _enqueue(self, key: K) -> None:
        self._queue.append(key)
        if self._observer is not None:
            self._observer.added(len(self._queue))
        self._wake_one()

    async def _wait_for_key(self) -> None:
        """Wait for a key. A worker that is woken and cancelled at the same time wakes another instead."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._getters:
                self._getters.remove(future)
            elif self._queue:
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            future = self._getters.popleft()
            if not future.done():
                future.set_result(None)
                return


class _Delays(Generic[K]):
    """Delayed keys; one task waits for the earliest."""

    def __init__(self, clock: Clock, release: Callable[[K], None]) -> None:
        self._clock = clock
        self._release = release
        self._due: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._order = itertools.count()
        self._timer: asyncio.Task[None] | None = None
        self._waits_until = 0

    def put(self, key: K, seconds: float) -> None:
        due = self._clock.monotonic() + round(seconds * SECOND)
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        if self._timer is None or self._timer.done() or due < self._waits_until:
            self._start()

    def stop(self) -> None:
        self._due.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    async def stopped(self) -> None:
        if self._timer is not None:
            await cancel(self._timer)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._run())
        self._waits_until = self._heap[0][0]

    async def _run(self) -> None:
        while self._heap:
            due, _, key = self._heap[0]
            self._waits_until = due
            left = due - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left / SECOND)
                continue
            heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self._release(key)
