"""Reports a clock of this process that differs from the API server's.

Every use of the API server's time is by its own clock (see `server_time`), so that a wrong clock here does no harm to
scale-downs and certificates. The timestamps of our events, logs and leases are still wrong, so an administrator has to
know.
"""

from __future__ import annotations

import logging

from trimtab.kube.clocks import Clock
from trimtab.kube.server_time import ServerTime

TOLERANCE = 60.0
"""Seconds by which clocks may differ without a report."""
_INTERVAL = 10.0
_INTERVAL_BEFORE_ANSWER = 1.0
"""Seconds between checks while the API server has not answered yet."""

log = logging.getLogger(__name__)


def describe_offset(server_time: ServerTime) -> str:
    """How far our clock is from the API server's; empty within the tolerance."""
    offset = server_time.offset
    if abs(offset) <= TOLERANCE:
        return ""
    return f"this process's clock is {abs(offset):.0f} s {'behind' if offset > 0 else 'ahead of'} the API server's"


class ClockMonitor:
    """Logs once that the clocks differ by more than the tolerance, and once that they no longer do."""

    def __init__(self, server_time: ServerTime, clock: Clock) -> None:
        self._server_time = server_time
        self._clock = clock
        self._is_off = False

    async def run(self) -> None:
        """Compare the clocks until cancelled."""
        while True:
            self.check()
            await self._clock.sleep(_INTERVAL if self._server_time.error else _INTERVAL_BEFORE_ANSWER)

    def check(self) -> None:
        """Compare the clocks now."""
        difference = describe_offset(self._server_time)
        if bool(difference) == self._is_off:
            return
        self._is_off = bool(difference)
        if difference:
            log.warning("%s; synchronize the clocks of both machines, for example with chrony", difference)
        else:
            log.info("this process's clock agrees with the API server's again")
