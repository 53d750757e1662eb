"""Measures how late the main event loop is: everything in the process waits as long.

No request and no reconcile may keep the loop for more than 50 ms. This is what shows it in production.

A loop is also late while its thread waits: for a processor, because the CPU limit of the process is used up or the
node is busy, or for other threads of the process, which hold Python's lock while they read a large object. So the CPU
time of the thread is measured, too: what it has not used, it cannot have worked. The shorter the interval, the less of
that time is from before the loop was late. What the process has used shows whether other threads worked meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trimtab.app.busy_places import BusyPlaces
from trimtab.kube.clocks import SECOND, Clock

_INTERVAL = 0.02
"""Seconds between two measurements."""
_BUSY = 0.05
"""Seconds of work without a pause that are too many."""
_PLACES_PAUSE = 1.0
"""Seconds between two log lines that say what the work was, at least."""
_WORTH_LOGGING = 1.0
_STALLED = 10.0
"""Seconds without a measurement after which the loop counts as stalled."""
_STUCK = 60.0
"""Seconds after which it counts as stuck, and the process should be restarted."""

log = logging.getLogger(__name__)


class LoopMonitor:
    """Measures the lag of the loop that `run` runs in. Its properties may be read from other threads."""

    def __init__(
        self,
        clock: Clock,
        observe: Callable[[float, float], None],
        *,
        cpu_time: Callable[[], int] = time.thread_time_ns,
        process_cpu_time: Callable[[], int] = time.process_time_ns,
    ) -> None:
        """`observe` is called with the seconds by which the loop was late, and how many of them it worked at most."""
        self._clock = clock
        self._observe = observe
        self._cpu_time = cpu_time
        self._process_cpu_time = process_cpu_time
        self._expected: int | None = None
        """When the next measurement is due."""
        self._place_logged: int | None = None

    @property
    def lag(self) -> float:
        """Seconds by which the loop is late at this moment."""
        if self._expected is None:
            return 0.0
        return max(0.0, (self._clock.monotonic() - self._expected) / SECOND)

    @property
    def is_stuck(self) -> bool:
        """Whether the loop has not run for so long that only a restart helps."""
        return self.lag > _STUCK

    @property
    def problems(self) -> list[str]:
        """A line while the loop is stalled."""
        late = self.lag
        return [f"the event loop has been busy for {late:.0f} s"] if late > _STALLED else []

    async def run(self) -> None:
        """Measure until cancelled."""
        with BusyPlaces(_BUSY) as busy:
            while True:
                await self._measure(busy)

    async def _measure(self, busy: BusyPlaces) -> None:
        self._expected = self._clock.monotonic() + round(_INTERVAL * SECOND)
        before, process_before = self._cpu_time(), self._process_cpu_time()
        busy.restart()
        await self._clock.sleep(_INTERVAL)
        late = self.lag
        used = self._cpu_time() - before
        work = min(late, used / SECOND)
        self._observe(late, work)
        if late >= _WORTH_LOGGING:
            _log_lag(late, work, (self._process_cpu_time() - process_before - used) / SECOND)
        if work > _BUSY and busy.place:
            self._log_place(work, busy.place)

    def _log_place(self, work: float, place: str) -> None:
        now = self._clock.monotonic()
        if self._place_logged is None or now - self._place_logged >= round(_PLACES_PAUSE * SECOND):
            self._place_logged = now
            log.info("the event loop was busy for %.0f ms without a pause, in %s", work * 1000, place)


def _log_lag(late: float, work: float, others: float) -> None:
    """`others` is the CPU time of all other threads."""
    text = "the event loop was late by %.1f s, of which it worked %.1f s; every request and watch waited as long"
    if work < late / 2 <= others:
        text += ". It had to wait for other threads of the process, which worked for as long"
    elif work < late / 2:
        text += ". It had to wait for a processor: compare its CPU limit, and the load of its node"
    log.warning(text, late, work)
