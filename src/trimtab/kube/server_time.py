"""The API server's time of day, estimated from the `Date` headers of its answers.

Ages of pods are compared by the clocks of the control plane, not by ours, and certificates are checked by them. A Date
header has a resolution of one second and was written at some moment between sending and receiving, so each answer
bounds the difference between the server's clock and our monotonic clock from both sides:

    date − received  ≤  difference  <  date + 1 s − sent

The bounds of successive answers are intersected, and widened a little with time, because no two clocks run equally
fast. If they contradict one another, the server's clock was set, or another server answered: the newest bounds count.
"""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from trimtab.api.times import to_ns
from trimtab.kube.clocks import SECOND, Clock

_DRIFT = 200
"""Parts in a million by which two clocks may run apart."""


class ServerTime:
    """An estimate of the API server's clock; our own clock's time until an answer was observed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bounds: tuple[int, int] | None = None
        self._observed = 0

    def observe(self, date: str | None, *, sent: int, received: int) -> None:
        """Take the Date header of one answer into account; the times are of the monotonic clock."""
        moment = _parsed(date)
        if moment is None:
            return
        newest = (moment - received, moment + SECOND - sent)
        known = self._current()
        self._observed = received
        if known is None or newest[0] > known[1] or newest[1] < known[0]:
            self._bounds = newest
        else:
            self._bounds = (max(known[0], newest[0]), min(known[1], newest[1]))

    def now(self) -> int:
        """The server's time of day in nanoseconds, as far as it is known."""
        bounds = self._current()
        if bounds is None:
            return self._clock.now()
        return self._clock.monotonic() + (bounds[0] + bounds[1]) // 2

    @property
    def error(self) -> float:
        """By how many seconds the estimate may be wrong; 0 before the first answer."""
        bounds = self._current()
        return 0.0 if bounds is None else (bounds[1] - bounds[0]) / 2 / SECOND

    @property
    def offset(self) -> float:
        """How many seconds the server's clock is ahead of ours."""
        return (self.now() - self._clock.now()) / SECOND

    def limited(self, own: int) -> int:
        """This time of day of ours, or the nearest one that does not contradict the answers."""
        bounds = self._current()
        if bounds is None:
            return own
        now = self._clock.monotonic()
        return min(max(own, now + bounds[0]), now + bounds[1])

    def _current(self) -> tuple[int, int] | None:
        if self._bounds is None:
            return None
        drift = max(0, self._clock.monotonic() - self._observed) * _DRIFT // 1_000_000
        return self._bounds[0] - drift, self._bounds[1] + drift


class CorrectedClock:
    """Our own clock, corrected where the answers of the API server contradict it.

    It is for times that one process writes and another one compares, such as that of a reservation: neither may depend
    on a clock that is wrong. Where clocks are right, processes agree as exactly as their clocks do; the estimate of the
    server's time may be off by half a second.
    """

    def __init__(self, clock: Clock, server_time: ServerTime) -> None:
        self._clock = clock
        self._server_time = server_time

    def now(self) -> int:
        """The time of day: nanoseconds since the epoch."""
        return self._server_time.limited(self._clock.now())

    def monotonic(self) -> int:
        """That of our own clock."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await self._clock.sleep(seconds)


@lru_cache(maxsize=4)
def _parsed(date: str | None) -> int | None:
    if not date:
        return None
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return to_ns(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
