"""The scheduler's state: the snapshot, the queue and the assumed pods; and the decisions, one pod at a time.

No method here waits. Events and decisions are handled one after the other, in the order in which the event loop calls
them; so a decision never sees half an event, and no event comes between a decision and its assumption.

**Assumed pods.** A pod counts on the node that was chosen for it from the decision on (`Snapshot.assume`), before the
API server binds it. An assumption ends as follows:

| event | effect |
|---|---|
| the watch shows the pod on a node, ours or another | the observed pod replaces the assumed one |
| the pod is deleted, or terminates | it is removed from the snapshot and from the queue |
| the pod changes | the assumption stays, with the changed pod |
| the binding certainly failed | it is removed from the snapshot, and requeued after a back-off |
| the binding was confirmed, and the watch never shows it | the pod is looked up by an uncached read (see `service`) |

The snapshot holds only pods that have a node or are assumed to. Pods that wait are only in the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimtab.api.core import Namespace
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.pooling import PodPool
from trimtab.kube.clocks import Clock
from trimtab.kube.retries import Backoff
from trimtab.placement import changes
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.decisions import Outcome
from trimtab.placement.engine import RandomSource, place
from trimtab.placement.profiles import Profile
from trimtab.placement.requeue import NO_NODES, UNSUPPORTED, RequeueHints
from trimtab.scheduler.queue import Observer, Queue
from trimtab.scheduler.queuedpods import QueuedPod
from trimtab.snapshot import Snapshot
from trimtab.snapshot.view import Group

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One attempt to place a pod: the chosen node, or a message why there is none.

    `failed` means that the decision failed; otherwise, without a node, all nodes were refused.
    """

    queued: QueuedPod
    pod: Pod
    started: int
    node: str = ""
    message: str = ""
    failed: bool = False


@dataclass(slots=True, eq=False)
class Assumption:
    """A pod that counts on a node before the watch shows it; `bound` is when the API server confirmed the binding."""

    attempt: Attempt
    bound: int | None = None


class SchedulerState:
    """All pods that wait or are assumed, and the snapshot of the cluster."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        clock: Clock,
        rng: RandomSource,
        *,
        backoff: Backoff,
        observer: Observer | None = None,
        namespaces: frozenset[str] = frozenset(),
        pool: PodPool | None = None,
    ) -> None:
        """`pool` is that of the caches."""
        self.profiles = profiles
        self.namespaces = namespaces
        self.snapshot = Snapshot(pool)
        hints = RequeueHints(profiles, self.snapshot)
        self.queue = Queue(clock, hints.can_help, self.snapshot.requests, backoff=backoff, observer=observer)
        self.assumed: dict[str, Assumption] = {}
        self._clock = clock
        self._rng = rng

    # Decisions.

    def attempt(self) -> Attempt | None:
        """Take the next pod and choose a node, on which it is assumed; None if no pod waits."""
        queued = self.queue.take()
        if queued is None:
            return None
        started = self._clock.monotonic()
        try:
            return self._decide(queued, started)
        except InvalidError as error:
            return self._give_up(queued, started, str(error))
        except Exception as error:
            log.exception("scheduling pod %s failed", queued.pod.key)
            return self._give_up(queued, started, f"{type(error).__name__}: {error}")

    def _decide(self, queued: QueuedPod, started: int) -> Attempt:
        pod = queued.pod
        decision = place(pod, self.snapshot, self.profiles[queued.profile], self._rng)
        if decision.node is not None:
            attempt = Attempt(queued, pod, started, node=decision.node)
            self.snapshot.assume(pod, decision.node)
            self.assumed[queued.uid] = Assumption(attempt)
            return attempt
        if decision.outcome is Outcome.UNSUPPORTED:
            refused_by = frozenset((UNSUPPORTED,))
        else:
            refused_by = frozenset(refusal.plugin for refusal in decision.refusals) or frozenset((NO_NODES,))
        self.queue.record_refusal(queued, refused_by)
        return Attempt(queued, pod, started, message=decision.message)

    def _give_up(self, queued: QueuedPod, started: int, message: str) -> Attempt:
        self.queue.record_failure(queued)
        return Attempt(queued, queued.pod, started, message=message, failed=True)

    # Results of bindings.

    def is_assumed(self, attempt: Attempt) -> bool:
        """Whether the pod is still assumed because of this attempt."""
        assumption = self.assumed.get(attempt.queued.uid)
        return assumption is not None and assumption.attempt is attempt

    def is_placed(self, attempt: Attempt) -> bool:
        """Whether the snapshot has the pod on the node that this attempt chose."""
        known = self.snapshot.pod(attempt.pod.key)
        return known is not None and (known.metadata.uid, known.spec.node_name) == (attempt.queued.uid, attempt.node)

    def mark_bound(self, attempt: Attempt) -> None:
        """Record that the API server confirmed the binding, which the watch has not shown yet."""
        if self.is_assumed(attempt):
            self.assumed[attempt.queued.uid].bound = self._clock.monotonic()
            self.queue.drop(attempt.queued.uid)

    def mark_failed(self, attempt: Attempt) -> bool:
        """Drop the assumption of a pod that is certainly not bound, and requeue it.

        False if the pod was not assumed any more.
        """
        if not self.is_assumed(attempt):
            return False
        self._drop_assumption(attempt.queued.uid)
        if self.queue.get(attempt.queued.uid) is None:
            self.queue.put(attempt.queued.pod)
        else:
            self.queue.record_failure(attempt.queued)
        return True

    def mark_deleted(self, attempt: Attempt) -> None:
        """Drop the assumption of a pod that was deleted or terminates."""
        if self.is_assumed(attempt):
            self._drop_assumption(attempt.queued.uid)
            self.queue.drop(attempt.queued.uid)

    def unconfirmed(self, nanoseconds: int) -> list[Attempt]:
        """The bindings that were confirmed at least so long ago and that the watch has not shown."""
        latest = self._clock.monotonic() - nanoseconds
        return [each.attempt for each in self.assumed.values() if each.bound is not None and each.bound <= latest]

    def _drop_assumption(self, uid: str) -> None:
        """Remove an assumed pod from the snapshot."""
        key = self.assumed.pop(uid).attempt.pod.key
        self._remove_from_snapshot(key)

    def _remove_from_snapshot(self, key: str) -> None:
        was = self.snapshot.pod(key)
        if was is not None:
            self.snapshot.drop(Pod, was.metadata.namespace, was.metadata.name)
            self._requeue_helped((Change(Subject.ASSIGNED_POD, Action.DELETE, was, None),))

    # Observations.

    def pod_updated(self, old: Pod | None, new: Pod) -> None:
        """Handle a pod that was added or updated."""
        uid = new.metadata.uid
        if new.finished:
            self.pod_deleted(new)
        elif new.spec.node_name:
            self._assigned(old, new)
        elif uid in self.assumed:
            self._changed_while_assumed(new)
        elif self._is_ours(new) and not new.terminating:
            self.queue.put(new)
        else:
            self.queue.drop(uid)

    def pods_added(self, pods: Sequence[Pod]) -> None:
        """Handle pods that are listed together: as `pod_updated` for each, which may follow if this raises."""
        placed = [pod for pod in pods if self._is_placed_by_others(pod)]
        self.snapshot.put_all(placed)
        for pod in placed:
            self.queue.drop(pod.metadata.uid)
        self._requeue_helped(Change(Subject.ASSIGNED_POD, Action.ADD, None, pod) for pod in placed)
        for pod in pods if len(placed) < len(pods) else ():
            if not self._is_placed_by_others(pod):
                self.pod_updated(None, pod)

    def _is_placed_by_others(self, pod: Pod) -> bool:
        """Whether a pod has a node, uses it, and is not one that is assumed."""
        return bool(pod.spec.node_name) and not pod.finished and pod.metadata.uid not in self.assumed

    def _is_ours(self, pod: Pod) -> bool:
        return self._is_managed(pod.metadata.namespace) and pod.spec.scheduler_name in self.profiles

    def _is_managed(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces

    def pod_deleted(self, pod: Pod) -> None:
        """Handle a pod that was deleted or has finished."""
        self.assumed.pop(pod.metadata.uid, None)
        self.queue.drop(pod.metadata.uid)
        known = self.snapshot.pod(pod.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            self._remove_from_snapshot(pod.key)

    def _assigned(self, old: Pod | None, new: Pod) -> None:
        assumption = self.assumed.pop(new.metadata.uid, None)
        self.queue.drop(new.metadata.uid)
        if assumption is not None and assumption.attempt.node != new.spec.node_name:
            self._remove_from_snapshot(new.key)
        self.snapshot.put(new)
        if old is None or not old.spec.node_name:
            self._requeue_helped((Change(Subject.ASSIGNED_POD, Action.ADD, None, new),))
        else:
            self._requeue_helped(changes.of_pod(old, new, self.snapshot.requests))

    def _changed_while_assumed(self, new: Pod) -> None:
        attempt = self.assumed[new.metadata.uid].attempt
        if new.terminating:
            self.mark_deleted(attempt)
        else:
            attempt.queued.pod = new
            self.snapshot.assume(new, attempt.node)

    def node_updated(self, old: Node | None, new: Node) -> None:
        """Handle a node that was added or updated."""
        self.snapshot.put(new)
        self._requeue_helped(changes.of_node(old, new))

    def node_deleted(self, node: Node) -> None:
        """Handle a node that was deleted."""
        self.snapshot.drop(Node, "", node.metadata.name)
        self._requeue_helped(changes.of_node(node, None))

    def namespace_updated(self, old: Namespace | None, new: Namespace) -> None:
        """Handle a namespace that was added or updated."""
        self.snapshot.put(new)
        self._requeue_helped(changes.of_namespace(old, new))

    def namespace_deleted(self, namespace: Namespace) -> None:
        """Handle a namespace that was deleted."""
        self.snapshot.drop(Namespace, "", namespace.metadata.name)
        self._requeue_helped(changes.of_namespace(namespace, None))

    def group_updated(self, old: Group | None, new: Group) -> None:
        """Handle a service or workload that was added or updated."""
        if not self._is_managed(new.metadata.namespace):
            return
        self.snapshot.put(new)
        self._requeue_helped(changes.of_group(old, new))

    def group_deleted(self, group: Group) -> None:
        """Handle a service or workload that was deleted."""
        if not self._is_managed(group.metadata.namespace):
            return
        self.snapshot.drop(type(group), group.metadata.namespace, group.metadata.name)
        self._requeue_helped(changes.of_group(group, None))

    def _requeue_helped(self, observed: Iterable[Change]) -> None:
        """Requeue the pods that these changes may help. They are computed only if there are unschedulable pods."""
        if self.queue.has_unschedulable:
            for change in observed:
                self.queue.requeue_helped(change)

    def queued_pods(self) -> Iterator[QueuedPod]:
        """The pods in the queue."""
        return iter(self.queue)
