"""The scheduler as a service: informers in, bindings out.

    client → informers ──events──→ Cycle ──attempts──→ Binder, Reporter → client

`run` keeps the informers going from the start, so that a process which waits for the lease knows the cluster when its
time comes. It schedules once it has seen everything, and while it holds the lease. All that it knows is rebuilt from
the API server at the start: pods that a process left unbound when it died are pods without a node, and are taken like
any others; pods that it had bound are observed on their nodes.

**Namespaces.** Told to look after some namespaces, it schedules their pods alone, and reads what groups pods (services,
replica sets) in them alone. Nodes and pods are read from all: whoever is on a node takes room there, and counts for
spreading and affinity, whosever pod it is.

**The end.** When `run` is cancelled, no more pods are taken; bindings under way may finish within a grace period, and
are cut off then. One that is cut off may still have reached the API server: the next process sees what became of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import Namespace, ReplicationController
from trimtab.api.core import Service as KubeService
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.informers import Informer
from trimtab.kube.leases import Elector
from trimtab.kube.limits import TokenBucket
from trimtab.kube.stores import Object
from trimtab.scheduler.binding import Binder, Fate, Outcome
from trimtab.scheduler.configuration import Configuration, RateLimit
from trimtab.scheduler.cycle import Attempt, Cycle
from trimtab.scheduler.metrics import Metrics, Result
from trimtab.scheduler.queue import Place
from trimtab.scheduler.reports import SCHEDULER_ERROR, UNSCHEDULABLE, Reporter
from trimtab.snapshot.view import Group

T = TypeVar("T", bound=Object)

GRACE = 5.0
"""Seconds that bindings under way are given when the service ends."""
_LAST_WORDS = 1.0
_UNCONFIRMED = 30 * SECOND
"""How long the watch may take to show what the API server has said to be done."""
_LOOK_EVERY = 10.0

_NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_GROUPS: tuple[type[Group], ...] = (KubeService, ReplicationController, ReplicaSet, StatefulSet)

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
    ) -> None:
        self.configuration = configuration
        self.metrics = metrics or Metrics()
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}"
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties, guards nothing
        self._clock = client.clock
        self._client = client
        self.elector = self._candidate()
        writer = _limited(client, configuration.rate_limit)
        if self.elector is not None:
            writer = writer.using(before_write=self.elector.check)
        self.cycle = Cycle(
            configuration.profiles,
            client.clock,
            self._rng,
            backoff=configuration.backoff,
            observer=self.metrics,
            namespaces=configuration.namespaces,
        )
        self.binder = Binder(
            writer,
            limit=configuration.bindings,
            is_open=self.cycle.is_open,
            settled=self._settled,
            rng=self._rng,
        )
        narrator = _limited(client, configuration.rate_limit)
        self.reporter = Reporter(narrator, writer, configuration.profiles, instance=socket.gethostname())
        self.informers = self._informers()
        self._ready = asyncio.Event()
        self.cycle.queue.on_ready = self._ready.set
        self._watch_metrics()

    @property
    def synced(self) -> bool:
        """Whether everything has been seen at least once."""
        return all(informer.synced for informer in self.informers)

    @property
    def problems(self) -> list[str]:
        """What keeps it from seeing the cluster as it is, for health pages."""
        return [f"{informer.resource.plural}: {informer.problem}" for informer in self.informers if informer.problem]

    async def run(self) -> None:
        """Schedule until cancelled. Raises LeadershipLost if another process has taken over."""
        for name, profile in self.configuration.profiles.items():
            if profile.left_out:
                log.info("%s: not part of Trimtab, and left out: %s", name, ", ".join(profile.left_out))
        await _beside(self._serve(), *(informer.run() for informer in self.informers), self.reporter.run())

    async def _serve(self) -> None:
        for informer in self.informers:
            await informer.wait_synced()
        if self.elector is None:
            await self._lead()
        else:
            await self.elector.run(self._lead)

    async def _lead(self) -> None:
        log.info("scheduling for %s", ", ".join(self.configuration.profiles))
        try:
            await _beside(self._schedule(), self._check_assumed())
        finally:
            await self.binder.finish(GRACE)
            await self.reporter.flush(_LAST_WORDS)

    # The loop.

    async def _schedule(self) -> None:
        """Decide about one pod after the other; what comes from the API server is taken in between."""
        while True:
            await self.binder.room()
            attempt = self.cycle.attempt()
            if attempt is None:
                await self._wait()
            else:
                self._act(attempt)
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until there may be a pod to take."""
        due = self.cycle.queue.due
        self._ready.clear()
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._ready.wait())]
        if due is not None:
            left = (due - self._clock.monotonic()) / SECOND
            waits.append(asyncio.ensure_future(self._clock.sleep(max(left, 0.0))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(*waits)

    def _act(self, attempt: Attempt) -> None:
        self.metrics.decided(self._since(attempt.started))
        if attempt.node:
            self.binder.start(attempt)
        elif attempt.failed:
            self._tell_failed(attempt, Result.ERROR, SCHEDULER_ERROR, attempt.sentence)
        else:
            self._tell_failed(attempt, Result.UNSCHEDULABLE, UNSCHEDULABLE, attempt.sentence)

    def _settled(self, attempt: Attempt, outcome: Outcome) -> None:
        """What became of a binding."""
        status = "Success" if outcome.error is None else "Error"
        self.metrics.bind_answered(status, attempt.waiting.profile, outcome.seconds)
        match outcome.fate:
            case Fate.BOUND:
                self.cycle.bound(attempt)
                self._tell_bound(attempt)
            case Fate.UNBOUND:
                if self.cycle.failed(attempt):
                    sentence = f'running Bind plugin "DefaultBinder": {_words(outcome)}'
                    self._tell_failed(attempt, Result.ERROR, SCHEDULER_ERROR, sentence)
            case Fate.GONE:
                self.cycle.lost(attempt)
            case Fate.SETTLED if self.cycle.is_placed(attempt):
                self._tell_bound(attempt)
            case Fate.ELSEWHERE | Fate.SETTLED:
                log.info("%s: settled without us: %s", attempt.pod.key, outcome.error)
        if outcome.live is not None and outcome.live.spec.node_name:
            self.cycle.pod_seen(None, outcome.live)

    def _tell_bound(self, attempt: Attempt) -> None:
        waiting = attempt.waiting
        self.metrics.attempted(Result.SCHEDULED, waiting.profile, self._since(attempt.started))
        first = attempt.started if waiting.first_active is None else waiting.first_active
        self.metrics.scheduled(waiting.attempts, self._since(first), flushed=waiting.flushed)
        self.reporter.scheduled(attempt.pod, attempt.node)

    def _tell_failed(self, attempt: Attempt, result: Result, reason: str, sentence: str) -> None:
        self.metrics.attempted(result, attempt.waiting.profile, self._since(attempt.started))
        self.reporter.failed(attempt.waiting.pod, sentence, reason)

    async def _check_assumed(self) -> None:
        """Look live at those that the API server has said to be bound and the watch does not show."""
        while True:
            await self._clock.sleep(_LOOK_EVERY)
            for attempt in self.cycle.unconfirmed(_UNCONFIRMED):
                outcome = await self.binder.look(attempt)
                if outcome.fate is Fate.UNBOUND:
                    log.error("%s was bound to %s, and is not any more", attempt.pod.key, attempt.node)
                    self.cycle.failed(attempt)
                elif outcome.fate is Fate.GONE:
                    self.cycle.lost(attempt)
                elif outcome.live is not None:
                    self.cycle.pod_seen(None, outcome.live)

    def _since(self, moment: int) -> float:
        return (self._clock.monotonic() - moment) / SECOND

    # The parts.

    def _candidate(self) -> Elector | None:
        election = self.configuration.election
        if election is None:
            return None
        return Elector(
            self._client,
            name=election.name,
            namespace=election.namespace,
            identity=self.identity,
            timings=election.terms,
            rng=self._rng,
        )

    def _informers(self) -> list[Informer[Any]]:
        cycle = self.cycle
        return [
            self._informer(Node, cycle.node_seen, cycle.node_gone),
            self._informer(Namespace, cycle.namespace_seen, cycle.namespace_gone),
            *(
                self._informer(kind, cycle.group_seen, cycle.group_gone, namespace=namespace)
                for kind in _GROUPS
                for namespace in sorted(self.configuration.namespaces) or ("",)
            ),
            self._informer(Pod, cycle.pod_seen, cycle.pod_gone, field_selector=_NOT_FINISHED),
        ]

    def _informer(
        self,
        kind: type[T],
        seen: Callable[[Any, Any], None],
        gone: Callable[[Any], None],
        *,
        namespace: str = "",
        field_selector: str = "",
    ) -> Informer[T]:
        informer: Informer[T] = Informer(
            self._client, kind, namespace=namespace, field_selector=field_selector, rng=self._rng
        )
        informer.subscribe(added=lambda new: seen(None, new), updated=seen, deleted=gone)
        return informer

    def _watch_metrics(self) -> None:
        queue, snapshot = self.cycle.queue, self.cycle.snapshot
        places = (Place.ACTIVE, Place.BACKING_OFF, Place.UNSCHEDULABLE, Place.GATED)
        self.metrics.watch_queue((place.value, partial(queue.length, place)) for place in places)
        self.metrics.watch_known(
            (
                ("nodes", lambda: float(snapshot.nodes.known.sum())),
                ("pods", lambda: len(snapshot.pods.rows.index)),
                ("assumed_pods", lambda: len(self.cycle.assumed)),
            )
        )
        self.metrics.watch_bindings(lambda: self.binder.under_way)


def _limited(client: Client, limit: RateLimit | None) -> Client:
    """A client over the same connections that keeps to a limit of its own."""
    if limit is None:
        return client
    bucket = TokenBucket(limit.rate, limit.burst, client.clock)
    return Client(client.transport, settings=client.settings, clock=client.clock, limiter=bucket)


def _words(outcome: Outcome) -> str:
    error = outcome.error
    return "the pod was not bound" if error is None else getattr(error, "message", str(error))


async def _beside(work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Do the work while the others run. Whichever ends or fails first ends all, the work before what it relies on."""
    working = asyncio.ensure_future(work)
    running = [asyncio.ensure_future(each) for each in others]
    try:
        done, _ = await asyncio.wait((working, *running), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel(working)
        await cancel(*running)
