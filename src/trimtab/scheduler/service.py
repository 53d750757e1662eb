"""The scheduler as a service: informers in, bindings out.

    client → informers ──events──→ SchedulerState ──attempts──→ Binder, Reporter → client

`run` starts the informers at once, so that a process which waits for the lease already knows the cluster when it
becomes the leader. It schedules when all informers have synced, and while it holds the lease. Its state is rebuilt from
the API server at the start: pods that a process left unbound when it died are scheduled like any others, and pods that
it had bound are observed on their nodes.

**Namespaces.** With a list of namespaces, it schedules only their pods, and only their services and workloads count.
Alone in its process it watches these in those namespaces only; beside other components, which watch all of them, it
uses the same watches. Nodes and pods are read from the whole cluster: every pod uses resources of its node and counts
for spreading and affinity.

**Shutdown.** When `run` is cancelled, no more pods are taken; bindings in flight may finish within a grace period, and
are cancelled then. A cancelled binding may still have reached the API server: the next process observes the result.
Events are written after the lease was released: they must not delay the next leader.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from trimtab.api.annotations import Reason
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.core import Service as KubeService
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.components import run_together
from trimtab.kube.leases import Elector, LeaseCalls
from trimtab.kube.limits import TokenBucket
from trimtab.kube.stores import Object
from trimtab.scheduler.binding import Binder, BindingOutcome, BindingResult
from trimtab.scheduler.bursts import Bursts
from trimtab.scheduler.configuration import Configuration, RateLimit
from trimtab.scheduler.metrics import Metrics, Result
from trimtab.scheduler.queuedpods import QueueState
from trimtab.scheduler.reports import Reporter
from trimtab.scheduler.state import Attempt, SchedulerState
from trimtab.snapshot.view import Group

T = TypeVar("T", bound=Object)

GRACE = 5.0
"""Seconds that bindings in flight may take when the service stops."""
_UNCONFIRMED = 30 * SECOND
"""How long the watch may take to show a binding that the API server has confirmed."""
_CHECK_PERIOD = 10.0

_NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_GROUPS: tuple[type[Group], ...] = (KubeService, ReplicationController, ReplicaSet, StatefulSet, CloneSet)
"""What the selectors of default constraints are deduced from. A cluster may not have the kind CloneSet."""

log = logging.getLogger(__name__)


class Service:
    """A scheduler for the pods that name one of the configuration's profiles."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
        identity: str = "",
        leases: LeaseCalls | None = None,
        caches: Caches[Any] | None = None,
        shares_watches: bool = False,
    ) -> None:
        """`caches` are those of the process; without them, it has its own. With `shares_watches` other components watch
        all objects, finished pods and other namespaces included, and so does the scheduler."""
        self.configuration = configuration
        self.metrics = metrics or Metrics()
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}"
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        self._clock = client.clock
        self._caches = caches or Caches(client, None, rng=self._rng)
        self._shares_watches = shares_watches
        self.elector = self._candidate(leases or LeaseCalls(client))
        writer = _limited(client, configuration.rate_limit)
        if self.elector is not None:
            writer = writer.using(before_write=self.elector.check)
        self.state = SchedulerState(
            configuration.profiles,
            client.clock,
            self._rng,
            backoff=configuration.backoff,
            observer=self.metrics,
            namespaces=configuration.namespaces,
            pool=self._caches.pool,
        )
        bursts = Bursts(client.clock)
        self.binder = Binder(
            writer,
            limit=configuration.bindings,
            bursts=bursts,
            is_assumed=self.state.is_assumed,
            on_result=self._finish_binding,
            rng=self._rng,
        )
        event_client = _limited(client, configuration.rate_limit)
        self.reporter = Reporter(
            event_client, writer, configuration.profiles, bursts=bursts, instance=socket.gethostname()
        )
        self.informers = self._informers()
        self._ready = asyncio.Event()
        self.state.queue.on_ready = self._ready.set
        self._watch_metrics()

    @property
    def synced(self) -> bool:
        """Whether all informers have synced, those of kinds that are not installed aside."""
        return all(informer.is_known if _is_optional(informer) else informer.synced for informer in self.informers)

    @property
    def problems(self) -> list[str]:
        """The problems of the informers, for health pages."""
        absent = [informer for informer in self.informers if _is_optional(informer) and informer.absent]
        watched = [informer for informer in self.informers if informer.problem and informer not in absent]
        return [f"{informer.resource.plural}: {informer.problem}" for informer in watched]

    async def run(self) -> None:
        """Schedule until cancelled. Raises LeadershipLost if another process becomes the leader."""
        for name, profile in self.configuration.profiles.items():
            if profile.left_out:
                log.info("profile %s: plugins that Trimtab does not run: %s", name, ", ".join(profile.left_out))
        await run_together([self._serve()], [*(each.run() for each in self.informers), self.reporter.run()])

    async def _serve(self) -> None:
        for informer in self.informers:
            await (informer.wait_known() if _is_optional(informer) else informer.wait_synced())
        await (self._lead() if self.elector is None else self.elector.run(self._lead))

    async def _lead(self) -> None:
        log.info("scheduling pods of the profiles %s", ", ".join(self.configuration.profiles))
        try:
            await run_together([self._schedule()], [self._check_assumed()])
        finally:
            await self.binder.finish(GRACE)

    # Scheduling.

    async def _schedule(self) -> None:
        """Decide on one pod at a time; events of the API server are handled between decisions."""
        while True:
            await self.binder.wait_for_capacity()
            attempt = self.state.attempt()
            if attempt is None:
                await self._wait()
            else:
                self._act(attempt)
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until there may be a pod to take."""
        due = self.state.queue.next_due
        self._ready.clear()
        if due is None:
            await self._ready.wait()
            return
        left = (due - self._clock.monotonic()) / SECOND
        waits = (asyncio.ensure_future(self._ready.wait()), asyncio.ensure_future(self._clock.sleep(max(left, 0.0))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(*waits)

    def _act(self, attempt: Attempt) -> None:
        self.metrics.observe_decision(self._since(attempt.started))
        if attempt.node:
            self.binder.start(attempt)
        elif attempt.failed:
            self._report_failed(attempt, Result.ERROR, Reason.SCHEDULER_ERROR, attempt.message)
        else:
            self._report_failed(attempt, Result.UNSCHEDULABLE, Reason.UNSCHEDULABLE, attempt.message)

    def _finish_binding(self, attempt: Attempt, result: BindingResult) -> None:
        """Handle the result of a binding."""
        status = "Success" if result.error is None else "Error"
        self.metrics.observe_binding(status, attempt.queued.profile, result.seconds)
        match result.outcome:
            case BindingOutcome.BOUND:
                self.state.mark_bound(attempt)
                self._report_bound(attempt)
            case BindingOutcome.NOT_BOUND:
                if self.state.mark_failed(attempt):
                    message = f'running Bind plugin "DefaultBinder": {_error_message(result)}'
                    self._report_failed(attempt, Result.ERROR, Reason.SCHEDULER_ERROR, message)
            case BindingOutcome.DELETED:
                self.state.mark_deleted(attempt)
            case BindingOutcome.SETTLED if self.state.is_placed(attempt):
                self._report_bound(attempt)
            case BindingOutcome.BOUND_ELSEWHERE | BindingOutcome.SETTLED:
                log.info("pod %s was bound or deleted by another component: %s", attempt.pod.key, result.error)
        if result.live is not None and result.live.spec.node_name:
            self.state.pod_updated(None, result.live)

    def _report_bound(self, attempt: Attempt) -> None:
        queued = attempt.queued
        self.metrics.count_attempt(Result.SCHEDULED, queued.profile, self._since(attempt.started))
        first = attempt.started if queued.first_active is None else queued.first_active
        self.metrics.count_scheduled(queued.attempts, self._since(first), flushed=queued.flushed)
        self.reporter.report_scheduled(attempt.pod, attempt.node)

    def _report_failed(self, attempt: Attempt, result: Result, reason: Reason, message: str) -> None:
        self.metrics.count_attempt(result, attempt.queued.profile, self._since(attempt.started))
        self.reporter.report_failed(attempt.queued.pod, message, reason)

    async def _check_assumed(self) -> None:
        """Look up the pods whose confirmed binding the watch does not show."""
        while True:
            await self._clock.sleep(_CHECK_PERIOD)
            for attempt in self.state.unconfirmed(_UNCONFIRMED):
                result = await self.binder.look_up(attempt)
                if result.outcome is BindingOutcome.NOT_BOUND:
                    log.error(
                        "pod %s was bound to node %s and now has no node; it is requeued", attempt.pod.key, attempt.node
                    )
                    self.state.mark_failed(attempt)
                elif result.outcome is BindingOutcome.DELETED:
                    self.state.mark_deleted(attempt)
                elif result.live is not None:
                    self.state.pod_updated(None, result.live)

    def _since(self, moment: int) -> float:
        return (self._clock.monotonic() - moment) / SECOND

    # Parts.

    def _candidate(self, leases: LeaseCalls) -> Elector | None:
        election = self.configuration.election
        if election is None:
            return None
        return leases.candidate(
            name=election.name,
            namespace=election.namespace,
            identity=self.identity,
            timings=election.terms,
            rng=self._rng,
        )

    def _informers(self) -> list[Cache[Any]]:
        state = self.state
        pod_selector = "" if self._shares_watches else _NOT_FINISHED
        namespaces = () if self._shares_watches else sorted(self.configuration.namespaces)
        return [
            self._informer(Node, state.node_updated, state.node_deleted),
            self._informer(Namespace, state.namespace_updated, state.namespace_deleted),
            *(
                self._informer(kind, state.group_updated, state.group_deleted, namespace=namespace)
                for kind in _GROUPS
                for namespace in namespaces or ("",)
            ),
            self._informer(
                Pod,
                state.pod_updated,
                state.pod_deleted,
                on_add_all=state.pods_added,
                field_selector=pod_selector,
            ),
        ]

    def _informer(
        self,
        kind: type[T],
        on_update: Callable[[Any, Any], None],
        on_delete: Callable[[Any], None],
        *,
        on_add_all: Callable[[Sequence[Any]], None] | None = None,
        namespace: str = "",
        field_selector: str = "",
    ) -> Cache[T]:
        informer: Cache[T] = self._caches.open(kind, namespace=namespace, field_selector=field_selector)
        informer.subscribe(
            added=lambda new: on_update(None, new), updated=on_update, deleted=on_delete, added_all=on_add_all
        )
        return informer

    def _watch_metrics(self) -> None:
        queue, snapshot = self.state.queue, self.state.snapshot
        states = (QueueState.ACTIVE, QueueState.BACKING_OFF, QueueState.UNSCHEDULABLE, QueueState.GATED)
        self.metrics.watch_queue((state.value, partial(queue.length, state)) for state in states)
        self.metrics.watch_known(
            (
                ("nodes", lambda: float(snapshot.nodes.known.sum())),
                ("pods", lambda: len(snapshot.pods.rows.index)),
                ("assumed_pods", lambda: len(self.state.assumed)),
            )
        )
        self.metrics.watch_bindings(lambda: self.binder.in_flight)
        self.metrics.watch_events(lambda: self.reporter.pending)


def _is_optional(informer: Cache[Any]) -> bool:
    """Whether a cluster may not have the kind."""
    return informer.resource.model is CloneSet


def _limited(client: Client, limit: RateLimit | None) -> Client:
    """A client over the same connections with a rate limit of its own."""
    if limit is None:
        return client
    return client.using(limiter=TokenBucket(limit.rate, limit.burst, client.clock))


def _error_message(result: BindingResult) -> str:
    error = result.error
    return "the pod was not bound" if error is None else getattr(error, "message", str(error))
