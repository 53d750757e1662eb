"""The queue of pods that wait for a node, in the order of their priority.

A pod is in one of five states:

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

1. Active pods are taken by priority, then by the time that they have waited.
2. A pod that all nodes refused is unschedulable until a change may help it (see `placement.requeue`), for five minutes
   at most.
3. A pod that is requeued backs off first, the longer the more often it was refused: from `initial` to `cap` seconds,
   doubling. A back-off ends at a full second, so that pods of the same second are taken by priority.
4. If no pod is active, pods that back off after a refusal are taken early: their waiting only serves other pods. Pods
   that back off after a *failure* (of the API server, for instance) wait to the end.
5. A pod that needs what Trimtab does not support is requeued only by a change of the pod itself.

Nothing here waits or uses an event loop; the time comes from the clock, and `next_due` is when to call `take` again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

from trimtab.api.pods import Pod
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.retries import Backoff
from trimtab.placement import changes
from trimtab.placement.changes import Action, Change, RequestsOf, Subject
from trimtab.scheduler.queuedpods import PodHeap, QueuedPod, QueueState
from trimtab.scheduler.unschedulable import SimilarPods, UnschedulablePods

MAX_UNSCHEDULABLE = 300 * SECOND
"""How long a pod is unschedulable at most: a change without a hint may have helped it."""

BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
ATTEMPT_FAILURE = "ScheduleAttemptFailure"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
POD_ADD = "UnschedulablePodAdd"


class Observer(Protocol):
    """Counts what happens in the queue."""

    def count_incoming(self, queue: str, event: str) -> None:
        """Count a pod that entered a state because of an event."""

    def count_refused(self, plugins: frozenset[str], profile: str, sign: int) -> None:
        """Count one pod more (1) or less (-1) that waits because these plugins refused it."""


CanHelp = Callable[[Pod, frozenset[str], Change], bool]
"""Whether a change may help a pod that these plugins refused: `RequeueHints.can_help`."""


class Queue:
    """All pods that wait, by UID."""

    def __init__(
        self,
        clock: Clock,
        can_help: CanHelp,
        requests: RequestsOf,
        *,
        backoff: Backoff,
        observer: Observer | None = None,
    ) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        """Called when a pod can be taken, or when `next_due` may have become earlier."""
        self._clock = clock
        self._can_help = can_help
        self._requests = requests
        self._backoff = backoff
        self._observer = observer
        self._pods: dict[str, QueuedPod] = {}
        self._active = PodHeap()
        self._refused = PodHeap()
        self._failed = PodHeap()
        self._unschedulable = UnschedulablePods()
        self._tickets = itertools.count(1)
        self._lengths = dict.fromkeys(QueueState, 0)

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> QueuedPod | None:
        """The pod of that UID, if it waits."""
        return self._pods.get(uid)

    @property
    def has_unschedulable(self) -> bool:
        """Whether there are pods that a change may help."""
        return bool(self._unschedulable)

    def length(self, state: QueueState) -> int:
        """The number of pods in that state."""
        return self._lengths[state]

    # Observations.

    def put(self, pod: Pod) -> None:
        """Add a pod without a node, or update it."""
        known = self._pods.get(pod.metadata.uid)
        if known is None:
            self._add(pod)
        else:
            self._update(known, pod)

    def drop(self, uid: str) -> None:
        """Remove a pod that was deleted or has a node."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave_state(queued)
            self._lengths[queued.state] -= 1
            self._clear_refusals(queued)

    def requeue_helped(self, change: Change) -> None:
        """Requeue the unschedulable pods that a change may help."""
        helped = [group for group in self._unschedulable.concerned(change) if self._is_helped(group, change)]
        for group in helped:
            for queued in list(group.values()):
                self._requeue(queued, change.label)

    # Attempts.

    def take(self) -> QueuedPod | None:
        """The next pod to try, which is in flight from now on; None if there is none."""
        self._release_due()
        queued = self._active.pop()
        if queued is None:
            queued = self._refused.pop()
            if queued is None:
                return None
            self._count_incoming(QueueState.ACTIVE, POP_FROM_BACKOFF)
        self._set_state(queued, QueueState.IN_FLIGHT)
        self._clear_refusals(queued)
        queued.attempts += 1
        return queued

    def record_refusal(self, queued: QueuedPod, refused_by: frozenset[str]) -> None:
        """End an attempt in which all nodes were refused: the pod is unschedulable."""
        if not self._contains(queued):
            return
        queued.refused_by = refused_by
        queued.refusals += 1
        queued.failures = 0
        self._restart_wait(queued)
        self._set_state(queued, QueueState.UNSCHEDULABLE)
        self._unschedulable.add(queued)
        self._count_incoming(QueueState.UNSCHEDULABLE, ATTEMPT_FAILURE)
        if self._observer is not None:
            self._observer.count_refused(refused_by, queued.profile, 1)

    def record_failure(self, queued: QueuedPod) -> None:
        """End an attempt that failed, for whatever reason: the pod backs off."""
        if not self._contains(queued):
            return
        queued.failures += 1
        self._restart_wait(queued)
        self._requeue(queued, ATTEMPT_FAILURE)

    @property
    def next_due(self) -> int | None:
        """When there may be a pod to take without any change; None if never."""
        back_off, refusal = self._failed.first_time(), self._unschedulable.oldest_time()
        time_out = None if refusal is None else refusal + MAX_UNSCHEDULABLE
        return min((time for time in (back_off, time_out) if time is not None), default=None)

    # Transitions.

    def _add(self, pod: Pod) -> None:
        queued = QueuedPod(pod, self._clock.monotonic())
        self._pods[queued.uid] = queued
        self._lengths[QueueState.ACTIVE] += 1
        if pod.spec.scheduling_gates:
            self._set_state(queued, QueueState.GATED)
            self._count_incoming(QueueState.UNSCHEDULABLE, POD_ADD)
        else:
            self._activate(queued, POD_ADD)

    def _update(self, queued: QueuedPod, pod: Pod) -> None:
        before = queued.pod
        if queued.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.replace(queued, pod)
            self._requeue_if_helped(queued, before)
        else:
            queued.pod = pod
            if queued.state is QueueState.GATED and not pod.spec.scheduling_gates:
                self._activate(queued, f"{Subject.WAITING_POD}{Action.POD_GATES_ELIMINATED}")

    def _requeue_if_helped(self, queued: QueuedPod, before: Pod) -> None:
        for change in changes.of_pod(before, queued.pod, self._requests):
            if self._can_help(queued.pod, queued.refused_by, change):
                self._requeue(queued, change.label)
                return

    def _is_helped(self, group: SimilarPods, change: Change) -> bool:
        sample = next(iter(group.values()))
        return self._can_help(sample.pod, sample.refused_by, change)

    def _release_due(self) -> None:
        """Activate the pods whose back-off has ended, and requeue those that were unschedulable for too long."""
        now = self._clock.monotonic()
        for heap in (self._failed, self._refused):
            while (queued := heap.pop(now)) is not None:
                self._activate(queued, BACKOFF_COMPLETE)
        for queued in self._unschedulable.older_than(now - MAX_UNSCHEDULABLE):
            queued.flushed = True
            self._requeue(queued, UNSCHEDULABLE_TIMEOUT)

    def _requeue(self, queued: QueuedPod, event: str) -> None:
        """Activate a pod as soon as its back-off has ended."""
        self._leave_state(queued)
        back_off_end = self._back_off_end(queued)
        if back_off_end <= self._clock.monotonic():
            self._activate(queued, event)
            return
        self._set_state(queued, QueueState.BACKING_OFF)
        heap = self._failed if queued.failures else self._refused
        heap.push(queued, back_off_end, next(self._tickets))
        self._count_incoming(QueueState.BACKING_OFF, event)
        self.on_ready()

    def _activate(self, queued: QueuedPod, event: str) -> None:
        self._set_state(queued, QueueState.ACTIVE)
        if queued.first_active is None:
            queued.first_active = self._clock.monotonic()
        self._active.push(queued, 0, next(self._tickets))
        self._count_incoming(QueueState.ACTIVE, event)
        self.on_ready()

    def _leave_state(self, queued: QueuedPod) -> None:
        """Remove a pod from the structures of its state. Its entries in heaps become stale."""
        queued.ticket = 0
        if queued.state is QueueState.UNSCHEDULABLE:
            self._unschedulable.remove(queued)

    def _restart_wait(self, queued: QueuedPod) -> None:
        queued.since = self._clock.monotonic()
        queued.flushed = False

    def _back_off_end(self, queued: QueuedPod) -> int:
        count = queued.failures or queued.refusals
        if not count or not self._backoff.cap:
            return 0
        return ((queued.since + round(self._backoff.delay(count) * SECOND)) // SECOND + 1) * SECOND

    def _set_state(self, queued: QueuedPod, state: QueueState) -> None:
        self._lengths[queued.state] -= 1
        self._lengths[state] += 1
        queued.state = state

    def _contains(self, queued: QueuedPod) -> bool:
        return self._pods.get(queued.uid) is queued

    def _clear_refusals(self, queued: QueuedPod) -> None:
        if queued.refused_by and self._observer is not None:
            self._observer.count_refused(queued.refused_by, queued.profile, -1)
        queued.refused_by = frozenset()

    def _count_incoming(self, state: QueueState, event: str) -> None:
        if self._observer is not None:
            self._observer.count_incoming(state.value, event)
