"""Expectations: writes of a controller that its informers have not shown yet.

A controller decides from its informers, which lag behind its own writes. After creating three pods it must not
reconcile before it has observed three, or it would create three more. So it records expectations before it writes,
lowers them as it observes, and does nothing for that owner while expectations are open.

Deletions are expected by UID, because one deletion is observed twice: as a terminating pod, then as a deleted one. An
expectation that is not met within five minutes counts as met: a needless reconcile is better than a controller that
waits for an event that never comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trimtab.kube.clocks import SECOND, Clock

K = TypeVar("K")

TIMEOUT = 300.0


@dataclass(slots=True)
class _OwnerExpectations:
    since: int
    creations: int = 0
    deletions: set[str] = field(default_factory=set)


class Expectations(Generic[K]):
    """Open expectations by owner."""

    def __init__(self, clock: Clock, *, timeout: float = TIMEOUT) -> None:
        self._clock = clock
        self._timeout = round(timeout * SECOND)
        self._open: dict[K, _OwnerExpectations] = {}

    def expect(self, owner: K, *, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Expect so many creations and the deletion of these UIDs; earlier expectations are dropped."""
        self._open[owner] = _OwnerExpectations(self._clock.monotonic(), creations, set(deletions))

    def created(self, owner: K, count: int = 1) -> None:
        """Lower the expected creations: they were observed, or they failed."""
        expected = self._open.get(owner)
        if expected is not None:
            expected.creations -= count

    def deleted(self, owner: K, uid: str) -> None:
        """Remove an expected deletion: it was observed, or it failed. Unexpected UIDs are ignored."""
        expected = self._open.get(owner)
        if expected is not None:
            expected.deletions.discard(uid)

    def satisfied(self, owner: K) -> bool:
        """Whether everything expected was observed, or the timeout has passed."""
        expected = self._open.get(owner)
        if expected is None:
            return True
        if expected.creations <= 0 and not expected.deletions:
            return True
        return self._clock.monotonic() - expected.since > self._timeout

    def expecting_deletion(self, owner: K) -> frozenset[str]:
        """The UIDs whose deletion is expected."""
        expected = self._open.get(owner)
        return frozenset(expected.deletions) if expected else frozenset()

    def forget(self, owner: K) -> None:
        """Drop the expectations of a deleted owner."""
        self._open.pop(owner, None)
