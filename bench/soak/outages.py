"""When the control plane, or the webhooks, were unavailable by a fault of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_GRACE = 1.0
"""Seconds after an outage in which calls may still fail: connections are made anew."""


@dataclass
class Outages:
    """Intervals of monotonic time."""

    intervals: list[tuple[float, float]] = field(default_factory=list)
    _open: list[float] = field(default_factory=list)

    @contextmanager
    def during(self) -> Iterator[None]:
        """An outage for as long as the context lasts."""
        began = time.monotonic()
        self._open.append(began)
        try:
            yield
        finally:
            self._open.remove(began)
            self.intervals.append((began, time.monotonic() + _GRACE))

    @property
    def is_now(self) -> bool:
        """Whether there is an outage at this moment."""
        return bool(self._open)

    def overlap(self, began: float, ended: float) -> bool:
        """Whether there was an outage between two moments."""
        is_past = any(start < ended and began < end for start, end in reversed(self.intervals))
        return is_past or any(start < ended for start in self._open)
