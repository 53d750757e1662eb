"""Events that are written at most once in a while for each object and reason, with the right count.

The first event is written at once. Those that follow within the interval are counted, and written together when it is
over: as one update of the same event, with the message of the last. So what happens often stays one line of `kubectl
describe`, and its count is how often it happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trimtab.api.meta import ObjectReference
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.queues import WorkQueue
from trimtab.kube.runners import Result, Runner

INTERVAL = 120.0
"""Seconds between two writes about one object and reason."""


class PacedWriter(Protocol):
    """Writes events with a count."""

    def record_paced(self, about: ObjectReference, severity: str, reason: str, message: str, count: int) -> None:
        """Record an event that happened so many times."""
        ...


class _Kind(NamedTuple):
    about: str
    reason: str


@dataclass(slots=True)
class _Pace:
    """The events of one reason about one object since the last write."""

    about: ObjectReference
    severity: str
    message: str
    written: int
    """When one was last written, on the monotonic clock."""
    count: int = 0


class PacedRecorder:
    """Records events at a slow pace. A component: `run` writes those that were counted meanwhile."""

    def __init__(self, writer: PacedWriter, clock: Clock, interval: float = INTERVAL) -> None:
        self._writer = writer
        self._clock = clock
        self._interval = interval
        self._paces: dict[_Kind, _Pace] = {}
        self.queue: WorkQueue[_Kind] = WorkQueue(clock)
        self._runner = Runner("events", self.reconcile, self.queue, workers=1)

    def record(self, about: ObjectReference, severity: str, reason: str, message: str) -> None:
        """Record an event: at once, or counted until the interval is over."""
        kind, now = _Kind(about.uid or f"{about.kind}/{about.namespace}/{about.name}", reason), self._clock.monotonic()
        pace = self._paces.get(kind)
        if pace is None:
            self._writer.record_paced(about, severity, reason, message, 1)
            self._paces[kind] = _Pace(about, severity, message, now)
            self.queue.add_after(kind, self._interval)
            return
        pace.severity, pace.message, pace.count = severity, message, pace.count + 1

    async def run(self) -> None:
        """Write what was counted until cancelled, and then what is left: the writer has to run longer."""
        try:
            await self._runner.run()
        finally:
            for kind in list(self._paces):
                self._write(kind)

    async def reconcile(self, kind: _Kind) -> Result:
        """Write what was counted, once the interval is over; without any, forget the kind."""
        pace = self._paces.get(kind)
        if pace is None:
            return Result()
        left = self._interval - (self._clock.monotonic() - pace.written) / SECOND
        if left > 0:
            return Result(left)
        if not pace.count:
            del self._paces[kind]
            return Result()
        self._write(kind)
        return Result(self._interval)

    def _write(self, kind: _Kind) -> None:
        pace = self._paces[kind]
        if pace.count:
            self._writer.record_paced(pace.about, pace.severity, kind.reason, pace.message, pace.count)
            pace.count, pace.written = 0, self._clock.monotonic()
