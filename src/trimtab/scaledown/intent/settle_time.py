"""How long to wait until a controller has seen costs that the own watch has shown. Pure, but for its memory.

A controller decides from a cache of its own, which nobody else can look into. How far that cache lags behind is learned
from what it does: pods that went although the costs spared them are misses. Each scale-down with a miss makes the time
half as long again, up to a limit; a long run of scale-downs without any makes it shorter, down to where it began.
"""

from __future__ import annotations

INITIAL = 0.3
LONGEST = 1.2
_GROWTH = 1.5
_CALM = 20
"""So many scale-downs as planned, one after the other, make the time shorter."""


class Settling:
    """The settle time, in seconds."""

    def __init__(self, initial: float = INITIAL, longest: float = LONGEST) -> None:
        self.seconds = initial
        self._initial = initial
        self._longest = max(initial, longest)
        self._calm = 0

    def missed(self) -> None:
        """A scale-down went another way because the controller had not seen its costs."""
        self.seconds = min(self._longest, max(self.seconds, 0.01) * _GROWTH)
        self._calm = 0

    def followed(self) -> None:
        """A scale-down went as planned."""
        self._calm += 1
        if self._calm >= _CALM:
            self._calm = 0
            self.seconds = max(self._initial, self.seconds / _GROWTH)
