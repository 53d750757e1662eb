"""The work queue: which keys need to be looked at, each by one worker at a time.

A key is in one of four places:

```
          add                 get                 done
 (nowhere) ──→ waiting in line ──→ being worked on ──→ (nowhere)
                     ↑                  │ add: marked dirty
                     └──────────────────┘ done, if it is dirty
```

So a key that is added ten times while it waits is worked on once; one that is added while it is worked on is worked
on again, afterwards; and none is ever worked on twice at once. `add_after` keeps a key aside until its time, the
earliest if it is asked for several times. `retry` does so with a delay that grows with every failure of that key
until `forget`.
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
"""As client-go has it: 5 ms, doubled with every failure, up to a quarter of an hour."""


class ShutDown(Exception):  # noqa: N818 - not an error: there is no more work
    """There is nothing more to work on, and there never will be."""


class QueueObserver(Protocol):
    """Who counts what happens in a queue."""

    def added(self, depth: int) -> None:
        """A key came into line, which is now so long."""
        ...

    def started(self, depth: int, waited: float) -> None:
        """A worker took a key that waited so many seconds."""
        ...

    def finished(self, worked: float) -> None:
        """A worker was done after so many seconds."""
        ...

    def retried(self) -> None:
        """A key failed."""
        ...


class WorkQueue(Generic[K]):
    """Keys that need to be looked at. It belongs to one event loop."""

    def __init__(
        self, clock: Clock, *, backoff: Backoff = RETRY_BACKOFF, observer: QueueObserver | None = None
    ) -> None:
        self._clock = clock
        self._backoff = backoff
        self._observer = observer
        self._line: deque[K] = deque()
        self._dirty: dict[K, int] = {}
        self._processing: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._delayed = _Delays[K](clock, self.add)

    def __len__(self) -> int:
        """How many wait in line; not those that are worked on, and not those kept aside."""
        return len(self._line)

    @property
    def closed(self) -> bool:
        """Whether it takes no more keys."""
        return self._closed

    def add(self, key: K) -> None:
        """Have a key looked at, once or once more."""
        if self._closed or key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self._idle.clear()
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have a key looked at later."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
        else:
            self._delayed.put(key, seconds)

    def retry(self, key: K) -> float:
        """Have a key that failed looked at again, after a delay that grows with each failure; the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.delay(failures)
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key has not failed: the next failure is its first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, which is now being worked on until `done`. Raises ShutDown when there is no more."""
        while not self._line:
            if self._closed:
                raise ShutDown
            await self._come_by()
        key = self._line.popleft()
        now = self._clock.monotonic()
        waited = now - self._dirty.pop(key)
        self._processing[key] = now
        if self._observer is not None:
            self._observer.started(len(self._line), waited / SECOND)
        return key

    def done(self, key: K) -> None:
        """The key is not being worked on any more."""
        started = self._processing.pop(key)
        if self._observer is not None:
            self._observer.finished((self._clock.monotonic() - started) / SECOND)
        if key in self._dirty:
            self._enqueue(key)
        elif not self._dirty and not self._processing:
            self._idle.set()

    def shut_down(self) -> None:
        """Take no more keys. Those in line are still handed out; those kept aside are dropped."""
        self._closed = True
        self._delayed.stop()
        while self._getters:
            self._wake_one()

    async def drain(self) -> None:
        """Take no more keys, and wait until all that are in line or being worked on are done."""
        self.shut_down()
        await self._idle.wait()
        await self._delayed.stopped()

    def _enqueue(self, key: K) -> None:
        self._line.append(key)
        if self._observer is not None:
            self._observer.added(len(self._line))
        self._wake_one()

    async def _come_by(self) -> None:
        """Wait for a key. A worker that was woken and cancelled in one breath wakes another in its place."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._getters:
                self._getters.remove(future)
            elif self._line:
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            future = self._getters.popleft()
            if not future.done():
                future.set_result(None)
                return


class _Delays(Generic[K]):
    """Keys that are kept aside until their time; one task waits for the earliest."""

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
