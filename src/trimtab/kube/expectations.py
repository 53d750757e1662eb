"""What a controller has done and not seen yet.

A controller decides from what its informers show, and that lags behind what it wrote. Having created three pods, it
must not look again before it has seen three, or it would create three more. So it says what it expects before it
writes, lowers that as it observes, and does nothing for that owner while expectations are open.

Deletions are expected by UID, because one deletion shows twice: as a pod that is terminating, then as one that is gone.
An expectation that is not met within five minutes counts as met: better a superfluous look than a controller that waits
for an event that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trimtab.kube.clocks import SECOND, Clock

K = TypeVar("K")

TIMEOUT = 300.0


@dataclass(slots=True)
class _Expected:
    since: int
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations(Generic[K]):
    """Open expectations by owner."""

    def __init__(self, clock: Clock, *, timeout: float = TIMEOUT) -> None:
        self._clock = clock
        self._timeout = round(timeout * SECOND)
        self._open: dict[K, _Expected] = {}

    def expect(self, owner: K, *, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Expect so many creations, and these UIDs to go; what was expected before is dropped."""
        self._open[owner] = _Expected(self._clock.monotonic(), creations, set(deletions))

    def created(self, owner: K, count: int = 1) -> None:
        """Creations were observed, or will never be because they failed."""
        expected = self._open.get(owner)
        if expected is not None:
            expected.creations -= count

    def deleted(self, owner: K, uid: str) -> None:
        """A deletion was observed, or will never be because it failed. Whatever was not expected changes nothing."""
        expected = self._open.get(owner)
        if expected is not None:
            expected.deletions.discard(uid)

    def satisfied(self, owner: K) -> bool:
        """Whether everything has been seen, or has been waited for long enough."""
        expected = self._open.get(owner)
        if expected is None:
            return True
        if expected.creations <= 0 and not expected.deletions:
            return True
        return self._clock.monotonic() - expected.since > self._timeout

    def expecting_deletion(self, owner: K) -> frozenset[str]:
        """The UIDs that are expected to go."""
        expected = self._open.get(owner)
        return frozenset(expected.deletions) if expected else frozenset()

    def forget(self, owner: K) -> None:
        """The owner is gone."""
        self._open.pop(owner, None)
