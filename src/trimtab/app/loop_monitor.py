"""Measures how late the main event loop is: everything in the process waits as long.

No request and no reconcile may keep the loop for more than 50 ms. This is what shows it in production.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from trimtab.kube.clocks import SECOND, Clock

_INTERVAL = 0.1
"""Seconds between two measurements."""
_WORTH_LOGGING = 1.0
_STALLED = 10.0
"""Seconds without a measurement after which the loop counts as stalled."""
_STUCK = 60.0
"""Seconds after which it counts as stuck, and the process should be restarted."""

log = logging.getLogger(__name__)


class LoopMonitor:
    """Measures the lag of the loop that `run` runs in. Its properties may be read from other threads."""

    def __init__(self, clock: Clock, observe: Callable[[float], None]) -> None:
        self._clock = clock
        self._observe = observe
        self._expected: int | None = None
        """When the next measurement is due."""

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
        while True:
            self._expected = self._clock.monotonic() + round(_INTERVAL * SECOND)
            await self._clock.sleep(_INTERVAL)
            late = self.lag
            self._observe(late)
            if late >= _WORTH_LOGGING:
                log.warning("the event loop was busy for %.1f s; every request and watch waited as long", late)
