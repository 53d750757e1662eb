"""The pods that wait for a node, in the order of their priority.

A pod is in one of five places:

```
            add                    take                  (bound: it leaves)
 (nowhere) ─────→ ACTIVE ───────────────────→ IN_FLIGHT ──→
    │  gated        ↑  ↑ ↖ the back-off ends     │ │
    └────→ GATED ───┘  │  ╲  (or nothing else    │ │ failed
     gates removed     │    ╲  is active)        │ ↓
                       │      BACKING_OFF ←──────┼─┘
                       │           ↑             │ refused
      a change helps,  │           │ a change    ↓
      back-off is over └───────────┴──── UNSCHEDULABLE
```

1. Active pods are taken by priority, then by how long they have waited.
2. A pod that no node would take is kept aside until a change could help it (see `hints`), for five minutes at most.
3. A pod that is tried again waits first, the longer the more often it was refused: from `initial` to `longest` seconds,
   doubling. A back-off ends with a full second, so that those of one second come out by priority.
4. Where nothing is active, those backing off are taken early: waiting only serves the others. But one that backs off
   because of a *failure* (the API server, say) waits to the end: what failed needs the time.
5. A pod that needs what Trimtab does not judge waits for its own change alone.

Pods kept aside that are alike (the pods of a template, refused by the same plugins) are asked about once a change, not
once a pod. Nothing here waits or knows an event loop; time is asked of the clock, and `due` says when to look again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import msgspec

from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.retries import Backoff
from trimtab.placement import changes, requeue
from trimtab.placement.changes import Change, RequestsOf
from trimtab.placement.requeue import UNSUPPORTED

KEPT_ASIDE = 300 * SECOND
"""How long a pod is kept aside at most: a change that nobody thought of may have helped it."""

BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
ATTEMPT_FAILURE = "ScheduleAttemptFailure"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
POD_ADD = "UnschedulablePodAdd"

_pack = msgspec.msgpack.Encoder().encode


class Place(Enum):
    """Where a pod is, as metrics name it."""

    ACTIVE = "active"
    BACKING_OFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod that waits, and what came of its attempts. Times are those of the clock's `monotonic`."""

    pod: Pod
    since: int
    place: Place = Place.ACTIVE
    attempts: int = 0
    refusals: int = 0
    failures: int = 0
    """In a row."""
    refused_by: frozenset[str] = frozenset()
    first_active: int | None = None
    flushed: bool = False
    ticket: int = 0
    """The number of its entry in a heap: entries with other numbers are left over, and mean nothing."""
    alike: bytes = b""
    """What it has in common with others that are kept aside."""

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.metadata.uid

    @property
    def profile(self) -> str:
        """Who schedules it."""
        return self.pod.spec.scheduler_name

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller goes first."""
        return (-(self.pod.spec.priority or 0), self.since)


class Observer(Protocol):
    """Who counts what happens in the queue."""

    def incoming(self, place: str, event: str) -> None:
        """A pod came to a place because of an event."""

    def refused(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """One pod more (1) or less (-1) waits that these plugins refused."""


Helps = Callable[[Pod, frozenset[str], Change], bool]
"""Whether a change could help a pod that these plugins refused: `Hints.help`."""

_Heap = list[tuple[int, tuple[int, int], int, Waiting]]
"""By moment and rank; the number is the ticket."""

_Group = dict[str, Waiting]
"""Pods that are alike, by UID."""


@dataclass(slots=True)
class _Aside:
    """The pods kept aside: by who refused them and what they have in common, and in the order in which they came."""

    groups: dict[frozenset[str], dict[bytes, _Group]] = field(default_factory=dict)
    order: dict[str, Waiting] = field(default_factory=dict)

    def put(self, waiting: Waiting) -> None:
        self._file(waiting)
        if UNSUPPORTED not in waiting.refused_by:
            self.order[waiting.uid] = waiting

    def replace(self, waiting: Waiting, pod: Pod) -> None:
        """The pod has changed. It keeps its turn: it has been here no less long."""
        self._unfile(waiting)
        waiting.pod = pod
        self._file(waiting)

    def remove(self, waiting: Waiting) -> None:
        self._unfile(waiting)
        self.order.pop(waiting.uid, None)

    def concerned(self, change: Change) -> Iterator[_Group]:
        """The groups that a change of this kind may help at all."""
        concerns = requeue.concerns(change)
        for refused_by, groups in self.groups.items():
            if concerns(refused_by):
                yield from groups.values()

    def _file(self, waiting: Waiting) -> None:
        waiting.alike = _alike(waiting.pod)
        groups = self.groups.setdefault(waiting.refused_by, {})
        groups.setdefault(waiting.alike, {})[waiting.uid] = waiting

    def _unfile(self, waiting: Waiting) -> None:
        groups = self.groups[waiting.refused_by]
        group = groups[waiting.alike]
        del group[waiting.uid]
        if not group:
            del groups[waiting.alike]
        if not groups:
            del self.groups[waiting.refused_by]


class Queue:
    """All pods that wait, by UID."""

    def __init__(
        self, clock: Clock, helps: Helps, requests: RequestsOf, *, backoff: Backoff, observer: Observer | None = None
    ) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        """Called when there is something to take, or an earlier moment to look again."""
        self._clock = clock
        self._helps = helps
        self._requests = requests
        self._backoff = backoff
        self._observer = observer
        self._pods: dict[str, Waiting] = {}
        self._active: _Heap = []
        self._refused: _Heap = []
        self._failed: _Heap = []
        self._aside = _Aside()
        self._tickets = itertools.count(1)
        self._lengths = dict.fromkeys(Place, 0)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> Waiting | None:
        """The pod of that UID, if it waits."""
        return self._pods.get(uid)

    @property
    def keeps_aside(self) -> bool:
        """Whether there is anybody whom a change could help."""
        return bool(self._aside.groups)

    def length(self, place: Place) -> int:
        """How many are there."""
        return self._lengths[place]

    # What is observed of the pods that wait.

    def put(self, pod: Pod) -> None:
        """A pod that has no node came, or changed."""
        known = self._pods.get(pod.metadata.uid)
        if known is None:
            self._add(pod)
        else:
            self._update(known, pod)

    def drop(self, uid: str) -> None:
        """A pod is gone, or has a node."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            self._leave(waiting)
            self._lengths[waiting.place] -= 1
            self._forget_refusals(waiting)

    def notice(self, change: Change) -> None:
        """Something has changed that may help some of those kept aside."""
        helped = [group for group in self._aside.concerned(change) if self._helped(group, change)]
        for group in helped:
            for waiting in list(group.values()):
                self._again(waiting, change.label)

    # Attempts.

    def take(self) -> Waiting | None:
        """The next pod to try, which is in flight now; None if there is none."""
        self._release()
        waiting = _pop(self._active)
        if waiting is None:
            waiting = _pop(self._refused)
            if waiting is None:
                return None
            self._count(Place.ACTIVE, POP_FROM_BACKOFF)
        self._set(waiting, Place.IN_FLIGHT)
        self._forget_refusals(waiting)
        waiting.attempts += 1
        return waiting

    def refused(self, waiting: Waiting, by: frozenset[str]) -> None:
        """No node would take the pod."""
        if not self._holds(waiting):
            return
        waiting.refused_by = by
        waiting.refusals += 1
        waiting.failures = 0
        self._returned(waiting)
        self._keep_aside(waiting, ATTEMPT_FAILURE)
        if self._observer is not None:
            self._observer.refused(by, waiting.profile, 1)

    def failed(self, waiting: Waiting) -> None:
        """The attempt came to nothing, whoever is to blame for that; the pod backs off."""
        if not self._holds(waiting):
            return
        waiting.failures += 1
        self._returned(waiting)
        self._again(waiting, ATTEMPT_FAILURE)

    @property
    def due(self) -> int | None:
        """When there may be something to take although nothing changes; None if never."""
        _skip_stale(self._failed)
        back_offs = [moment for moment, *_ in self._failed[:1]]
        time_outs = [oldest.since + KEPT_ASIDE for oldest in itertools.islice(self._aside.order.values(), 1)]
        return min(back_offs + time_outs, default=None)

    # The moves.

    def _add(self, pod: Pod) -> None:
        waiting = Waiting(pod, self._clock.monotonic())
        self._pods[waiting.uid] = waiting
        self._lengths[Place.ACTIVE] += 1
        if pod.spec.scheduling_gates:
            self._set(waiting, Place.GATED)
            self._count(Place.UNSCHEDULABLE, POD_ADD)
        else:
            self._activate(waiting, POD_ADD)

    def _update(self, waiting: Waiting, pod: Pod) -> None:
        before = waiting.pod
        if waiting.place is Place.UNSCHEDULABLE:
            self._aside.replace(waiting, pod)
            self._consider(waiting, before)
        else:
            waiting.pod = pod
            if waiting.place is Place.GATED and not pod.spec.scheduling_gates:
                self._activate(waiting, f"{changes.Subject.WAITING_POD}{changes.Action.POD_GATES_ELIMINATED}")

    def _consider(self, waiting: Waiting, before: Pod) -> None:
        for change in changes.of_pod(before, waiting.pod, self._requests):
            if self._helps(waiting.pod, waiting.refused_by, change):
                self._again(waiting, change.label)
                return

    def _helped(self, group: _Group, change: Change) -> bool:
        sample = next(iter(group.values()))
        return self._helps(sample.pod, sample.refused_by, change)

    def _release(self) -> None:
        """Let go of those whose back-off is over, and of those that were kept aside for too long."""
        now = self._clock.monotonic()
        for heap in (self._failed, self._refused):
            while (waiting := _pop(heap, now)) is not None:
                self._activate(waiting, BACKOFF_COMPLETE)
        for waiting in list(self._overdue(now)):
            waiting.flushed = True
            self._again(waiting, UNSCHEDULABLE_TIMEOUT)

    def _overdue(self, now: int) -> Iterator[Waiting]:
        return itertools.takewhile(lambda waiting: waiting.since + KEPT_ASIDE <= now, self._aside.order.values())

    def _again(self, waiting: Waiting, event: str) -> None:
        """To be tried again, when its back-off is over."""
        self._leave(waiting)
        ends = self._back_off_ends(waiting)
        if ends <= self._clock.monotonic():
            self._activate(waiting, event)
            return
        self._set(waiting, Place.BACKING_OFF)
        self._push(self._failed if waiting.failures else self._refused, waiting, ends)
        self._count(Place.BACKING_OFF, event)
        self.on_ready()

    def _activate(self, waiting: Waiting, event: str) -> None:
        self._set(waiting, Place.ACTIVE)
        if waiting.first_active is None:
            waiting.first_active = self._clock.monotonic()
        self._push(self._active, waiting, 0)
        self._count(Place.ACTIVE, event)
        self.on_ready()

    def _keep_aside(self, waiting: Waiting, event: str) -> None:
        self._set(waiting, Place.UNSCHEDULABLE)
        self._aside.put(waiting)
        self._count(Place.UNSCHEDULABLE, event)

    def _leave(self, waiting: Waiting) -> None:
        """Take it out of where it is. Entries of heaps stay behind, and mean nothing any more."""
        waiting.ticket = 0
        if waiting.place is Place.UNSCHEDULABLE:
            self._aside.remove(waiting)

    def _returned(self, waiting: Waiting) -> None:
        waiting.since = self._clock.monotonic()
        waiting.flushed = False

    def _back_off_ends(self, waiting: Waiting) -> int:
        count = waiting.failures or waiting.refusals
        if not count or not self._backoff.cap:
            return 0
        return ((waiting.since + round(self._backoff.delay(count) * SECOND)) // SECOND + 1) * SECOND

    def _push(self, heap: _Heap, waiting: Waiting, moment: int) -> None:
        waiting.ticket = next(self._tickets)
        heapq.heappush(heap, (moment, waiting.rank, waiting.ticket, waiting))

    def _set(self, waiting: Waiting, place: Place) -> None:
        self._lengths[waiting.place] -= 1
        self._lengths[place] += 1
        waiting.place = place

    def _holds(self, waiting: Waiting) -> bool:
        return self._pods.get(waiting.uid) is waiting

    def _forget_refusals(self, waiting: Waiting) -> None:
        if waiting.refused_by and self._observer is not None:
            self._observer.refused(waiting.refused_by, waiting.profile, -1)
        waiting.refused_by = frozenset()

    def _count(self, place: Place, event: str) -> None:
        if self._observer is not None:
            self._observer.incoming(place.value, event)


def _pop(heap: _Heap, until: int | None = None) -> Waiting | None:
    """The first of a heap; only if its moment has come, where one is given."""
    _skip_stale(heap)
    if not heap or (until is not None and heap[0][0] > until):
        return None
    return heapq.heappop(heap)[-1]


def _skip_stale(heap: _Heap) -> None:
    while heap and heap[0][-1].ticket != heap[0][2]:
        heapq.heappop(heap)


def _alike(pod: Pod) -> bytes:
    """What the answer to "could this change help?" depends on, besides who refused the pod."""
    metadata = pod.metadata
    return _pack((metadata.namespace, metadata.labels, metadata.owner_references, pod.spec))
