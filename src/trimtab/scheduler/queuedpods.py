"""A pod in the queue, its state, and the heaps that order such pods."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum

from trimtab.api.pods import Pod


class QueueState(Enum):
    """The state of a pod in the queue, as metrics name it."""

    ACTIVE = "active"
    BACKING_OFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that waits for a node, and the results of its attempts. Times are those of the clock's `monotonic`."""

    pod: Pod
    since: int
    state: QueueState = QueueState.ACTIVE
    attempts: int = 0
    refusals: int = 0
    failures: int = 0
    """Consecutive ones."""
    refused_by: frozenset[str] = frozenset()
    first_active: int | None = None
    flushed: bool = False
    ticket: int = 0
    """The number of its entry in a heap: entries with other numbers are stale."""
    similarity: bytes = b""
    """The key that it shares with similar unschedulable pods."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.metadata.uid

    @property
    def profile(self) -> str:
        """The name of the profile that schedules the pod."""
        return self.pod.spec.scheduler_name

    @property
    def rank(self) -> tuple[int, int]:
        """The order among active pods: the smallest goes first."""
        return (-(self.pod.spec.priority or 0), self.since)


class PodHeap:
    """Pods by time and rank. A pod leaves by a change of its ticket, which makes its entry stale."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, tuple[int, int], int, QueuedPod]] = []

    def push(self, queued: QueuedPod, time: int, ticket: int) -> None:
        """Add a pod, with a ticket that no entry has had before."""
        queued.ticket = ticket
        heapq.heappush(self._entries, (time, queued.rank, ticket, queued))

    def pop(self, until: int | None = None) -> QueuedPod | None:
        """Remove and return the first pod; None if there is none, or (with `until`) if its time has not come."""
        first = self.first_time()
        if first is None or (until is not None and first > until):
            return None
        return heapq.heappop(self._entries)[-1]

    def first_time(self) -> int | None:
        """The time of the first pod; None if there is none."""
        entries = self._entries
        while entries and entries[0][-1].ticket != entries[0][2]:
            heapq.heappop(entries)
        return entries[0][0] if entries else None
