"""Bursts of bindings, during which events of bound pods wait.

Pods that are created together are bound as fast as the API server accepts requests: an event that is written meanwhile
delays a pod that has no node yet. A Normal event is needed by people, who can read it a moment later. So it waits until
no binding was in flight for `QUIET` seconds. A burst that lasts longer than `LONGEST` seconds is the usual load of the
cluster: from then on events are written beside bindings.
"""

from __future__ import annotations

from trimtab.kube.clocks import SECOND, Clock

QUIET = 0.1
"""Seconds without a binding after which a burst is over."""
LONGEST = 30.0
"""Seconds after which events are written although pods are still being bound."""


class Bursts:
    """The bindings in flight, and since when one has followed the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_flight = 0
        self._began: int | None = None
        self._ended: int | None = None
        """When the last binding ended."""

    def begin_binding(self) -> None:
        """Note that a binding begins."""
        if not self._in_flight and (self._ended is None or self._since(self._ended) >= QUIET):
            self._began = self._clock.monotonic()
        self._in_flight += 1

    def end_binding(self) -> None:
        """Note that a binding has ended."""
        self._in_flight -= 1
        self._ended = self._clock.monotonic()

    @property
    def wait_seconds(self) -> float:
        """How long to wait before asking again; 0 if there is no burst."""
        if self._began is None:
            return 0.0
        quiet = 0.0 if self._in_flight or self._ended is None else self._since(self._ended)
        return max(0.0, min(QUIET - quiet, LONGEST - self._since(self._began)))

    async def wait(self) -> None:
        """Wait until there is no burst."""
        while (seconds := self.wait_seconds) > 0:
            await self._clock.sleep(seconds)

    def _since(self, moment: int) -> float:
        return (self._clock.monotonic() - moment) / SECOND
