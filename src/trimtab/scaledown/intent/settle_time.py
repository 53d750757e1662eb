"""How long to wait until a controller has seen costs that our own watch has shown. Pure, with state.

A controller decides from a cache of its own, which cannot be read. How far that cache lags behind is learned from what
the controller does: pods that it deletes although their costs keep them are misses. Each scale-down with a miss makes
the time half as long again, up to a limit; a long run of scale-downs without any makes it shorter, down to where it
began.
"""

from __future__ import annotations

INITIAL = 0.3
LONGEST = 1.2
_GROWTH = 1.5
_CALM = 20
"""How many scale-downs without a miss, one after the other, make the time shorter."""


class SettleTime:
    """The settle time, in seconds."""

    def __init__(self, initial: float = INITIAL, longest: float = LONGEST) -> None:
        self.seconds = initial
        self._initial = initial
        self._longest = max(initial, longest)
        self._calm = 0

    def within(self, seconds: float) -> float:
        """The time, where this is how long costs may be written and observed: what was learned takes half at most."""
        return min(self.seconds, max(self._initial, seconds / 2))

    def record_miss(self) -> None:
        """Increase the time: a controller had not seen the costs of a scale-down."""
        self.seconds = min(self._longest, max(self.seconds, 0.01) * _GROWTH)
        self._calm = 0

    def record_success(self) -> None:
        """Count a scale-down that went as planned."""
        self._calm += 1
        if self._calm >= _CALM:
            self._calm = 0
            self.seconds = max(self._initial, self.seconds / _GROWTH)
