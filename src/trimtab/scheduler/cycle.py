"""What is known, and what is decided: one pod at a time, on the live snapshot.

No method here waits. An event is taken in as a whole and a decision is made as a whole, in the order in which the
event loop calls them; so a decision never sees half an event, and no event comes between a decision and its
assumption.

**Assumed pods.** A pod that was given a node counts there from that moment (`Snapshot.assume`), although the API
server has yet to hear of it. What becomes of an assumption:

| what comes | then |
|---|---|
| the watch shows the pod on a node, ours or another | what is observed counts; the assumption is over |
| the pod is deleted, or on its way out | its place is free again; the pod leaves the queue |
| the pod changes | it counts as changed, still on the assumed node |
| binding failed for certain | its place is free again; the pod is tried again after a back-off |
| binding is said to have worked, and the watch never shows it | it is looked at live (see `service`) |

Only pods that have a node, or are assumed to, are in the snapshot. Those that wait are in the queue alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.clocks import Clock
from trimtab.kube.retries import Backoff
from trimtab.placement import changes
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import RandomSource, place
from trimtab.placement.profiles import Profile
from trimtab.placement.requeue import NO_NODES, UNSUPPORTED, RequeueHints
from trimtab.scheduler.queue import Observer, Queue, Waiting
from trimtab.snapshot import Snapshot
from trimtab.snapshot.view import Group

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One attempt to place a pod: the node it was given, or a sentence that says why there is none.

    `failed` means that nothing was decided at all, where without it no node would do.
    """

    waiting: Waiting
    pod: Pod
    started: int
    node: str = ""
    sentence: str = ""
    failed: bool = False


@dataclass(slots=True, eq=False)
class Assumption:
    """A pod that counts on a node before that has been observed; `bound` is when the API server said yes."""

    attempt: Attempt
    bound: int | None = None


class Cycle:
    """All pods that wait or are assumed, and the cluster they are placed in."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        clock: Clock,
        rng: RandomSource,
        *,
        backoff: Backoff,
        observer: Observer | None = None,
        namespaces: frozenset[str] = frozenset(),
    ) -> None:
        self.profiles = profiles
        self.namespaces = namespaces
        self.snapshot = Snapshot()
        hints = RequeueHints(profiles, self.snapshot)
        self.queue = Queue(clock, hints.can_help, self.snapshot.requests, backoff=backoff, observer=observer)
        self.assumed: dict[str, Assumption] = {}
        self._clock = clock
        self._rng = rng

    # What is decided.

    def attempt(self) -> Attempt | None:
        """Take the next pod and decide; None if there is none. A pod that got a node is assumed to be there."""
        waiting = self.queue.take()
        if waiting is None:
            return None
        started = self._clock.monotonic()
        try:
            return self._decide(waiting, started)
        except InvalidError as error:
            return self._give_up(waiting, started, str(error))
        except Exception as error:
            log.exception("deciding about %s failed", waiting.pod.key)
            return self._give_up(waiting, started, f"{type(error).__name__}: {error}")

    def _decide(self, waiting: Waiting, started: int) -> Attempt:
        pod = waiting.pod
        decision = place(pod, self.snapshot, self.profiles[waiting.profile], self._rng)
        if decision.node is not None:
            attempt = Attempt(waiting, pod, started, node=decision.node)
            self.snapshot.assume(pod, decision.node)
            self.assumed[waiting.uid] = Assumption(attempt)
            return attempt
        if decision.outcome is Outcome.UNSUPPORTED:
            refused_by = frozenset((UNSUPPORTED,))
        else:
            refused_by = frozenset(refusal.plugin for refusal in decision.refusals) or frozenset((NO_NODES,))
        self.queue.refused(waiting, refused_by)
        return Attempt(waiting, pod, started, sentence=decision.sentence)

    def _give_up(self, waiting: Waiting, started: int, sentence: str) -> Attempt:
        self.queue.failed(waiting)
        return Attempt(waiting, waiting.pod, started, sentence=sentence, failed=True)

    # What became of it.

    def is_open(self, attempt: Attempt) -> bool:
        """Whether nothing has settled yet what becomes of an assumption."""
        assumption = self.assumed.get(attempt.waiting.uid)
        return assumption is not None and assumption.attempt is attempt

    def is_placed(self, attempt: Attempt) -> bool:
        """Whether the pod is on the node that it was given, as far as is known."""
        known = self.snapshot.pod(attempt.pod.key)
        return known is not None and (known.metadata.uid, known.spec.node_name) == (attempt.waiting.uid, attempt.node)

    def bound(self, attempt: Attempt) -> None:
        """The API server says that the pod is on its node; the watch has yet to show it."""
        if self.is_open(attempt):
            self.assumed[attempt.waiting.uid].bound = self._clock.monotonic()
            self.queue.drop(attempt.waiting.uid)

    def failed(self, attempt: Attempt) -> bool:
        """The pod is not on its node, for certain: take the assumption back, and have the pod tried again.

        False if that had been settled already.
        """
        if not self.is_open(attempt):
            return False
        self._forget(attempt.waiting.uid)
        if self.queue.get(attempt.waiting.uid) is None:
            self.queue.put(attempt.waiting.pod)
        else:
            self.queue.failed(attempt.waiting)
        return True

    def lost(self, attempt: Attempt) -> None:
        """The pod does not exist any more, or is on its way out."""
        if self.is_open(attempt):
            self._forget(attempt.waiting.uid)
            self.queue.drop(attempt.waiting.uid)

    def unconfirmed(self, seconds: int) -> list[Attempt]:
        """Whom the API server has said to be bound for so long (nanoseconds) without the watch showing it."""
        latest = self._clock.monotonic() - seconds
        return [each.attempt for each in self.assumed.values() if each.bound is not None and each.bound <= latest]

    def _forget(self, uid: str) -> None:
        """Take an assumption back: the place is free for others."""
        key = self.assumed.pop(uid).attempt.pod.key
        self._vacate(key)

    def _vacate(self, key: str) -> None:
        was = self.snapshot.pod(key)
        if was is not None:
            self.snapshot.drop(Pod, was.metadata.namespace, was.metadata.name)
            self._notice((Change(Subject.ASSIGNED_POD, Action.DELETE, was, None),))

    # What is observed.

    def pod_seen(self, old: Pod | None, new: Pod) -> None:
        """A pod came or changed."""
        uid = new.metadata.uid
        if new.finished:
            self.pod_gone(new)
        elif new.spec.node_name:
            self._assigned(old, new)
        elif uid in self.assumed:
            self._changed_while_assumed(new)
        elif self._is_ours(new) and not new.terminating:
            self.queue.put(new)
        else:
            self.queue.drop(uid)

    def _is_ours(self, pod: Pod) -> bool:
        if self.namespaces and pod.metadata.namespace not in self.namespaces:
            return False
        return pod.spec.scheduler_name in self.profiles

    def pod_gone(self, pod: Pod) -> None:
        """A pod was deleted, or has finished."""
        self.assumed.pop(pod.metadata.uid, None)
        self.queue.drop(pod.metadata.uid)
        known = self.snapshot.pod(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            self._vacate(pod.key)

    def _assigned(self, old: Pod | None, new: Pod) -> None:
        assumption = self.assumed.pop(new.metadata.uid, None)
        self.queue.drop(new.metadata.uid)
        if assumption is not None and assumption.attempt.node != new.spec.node_name:
            self._vacate(new.key)
        self.snapshot.put(new)
        if old is None or not old.spec.node_name:
            self._notice((Change(Subject.ASSIGNED_POD, Action.ADD, None, new),))
        else:
            self._notice(changes.of_pod(old, new, self.snapshot.requests))

    def _changed_while_assumed(self, new: Pod) -> None:
        attempt = self.assumed[new.metadata.uid].attempt
        if new.terminating:
            self.lost(attempt)
        else:
            attempt.waiting.pod = new
            self.snapshot.assume(new, attempt.node)

    def node_seen(self, old: Node | None, new: Node) -> None:
        """A node came or changed."""
        self.snapshot.put(new)
        self._notice(changes.of_node(old, new))

    def node_gone(self, node: Node) -> None:
        """A node was deleted."""
        self.snapshot.drop(Node, "", node.metadata.name)
        self._notice(changes.of_node(node, None))

    def namespace_seen(self, old: Namespace | None, new: Namespace) -> None:
        """A namespace came or changed."""
        self.snapshot.put(new)
        self._notice(changes.of_namespace(old, new))

    def namespace_gone(self, namespace: Namespace) -> None:
        """A namespace was deleted."""
        self.snapshot.drop(Namespace, "", namespace.metadata.name)
        self._notice(changes.of_namespace(namespace, None))

    def group_seen(self, old: Group | None, new: Group) -> None:
        """What groups pods came or changed."""
        self.snapshot.put(new)
        self._notice(changes.of_group(old, new))

    def group_gone(self, group: Group) -> None:
        """What groups pods was deleted."""
        self.snapshot.drop(type(group), group.metadata.namespace, group.metadata.name)
        self._notice(changes.of_group(group, None))

    def _notice(self, found: Iterable[Change]) -> None:
        """Tell the queue; what has changed is not even worked out where nobody waits for a change."""
        if self.queue.keeps_aside:
            for change in found:
                self.queue.notice(change)

    def waiting(self) -> Iterator[Waiting]:
        """The pods that wait."""
        return iter(self.queue)
