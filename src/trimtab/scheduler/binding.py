"""Binding pods to nodes, and determining whether a binding took effect.

The API server binds a pod at most once: it refuses to bind a pod that has a node, and the pod's UID is part of the
request. So a pod is never bound twice; but the result of a request may be unknown:

| response | meaning |
|---|---|
| success | bound |
| 4xx, or the request was not sent | certainly not bound |
| 404, 409 | the pod has changed: look it up |
| none, a timeout, 5xx | unknown: look it up |

A look-up is an uncached read of the pod, repeated until it succeeds or the watch shows the result. A request that is
still in transit may take effect after the look-up; then the pod is bound to the node that was chosen first, the watch
shows it, and a second binding is refused.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from trimtab.api.pods import Pod
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, cancel
from trimtab.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerError, Unreachable
from trimtab.kube.retries import Backoff, was_not_executed
from trimtab.scheduler.bursts import Bursts
from trimtab.scheduler.state import Attempt

_LOOK_UP_BACKOFF = Backoff(initial=0.5, cap=10.0, jitter=0.5)


class BindingOutcome(Enum):
    """The outcome of a binding."""

    BOUND = auto()
    BOUND_ELSEWHERE = auto()
    """Another scheduler has bound the pod to another node."""
    DELETED = auto()
    """The pod was deleted, or is terminating."""
    NOT_BOUND = auto()
    SETTLED = auto()
    """The watch showed the outcome first."""


@dataclass(frozen=True, slots=True)
class BindingResult:
    """The outcome of a binding; `live` is the pod if it was looked up, and `error` why it is not bound."""

    outcome: BindingOutcome
    live: Pod | None = None
    error: KubeError | None = None
    seconds: float = 0.0
    """The duration of the request."""


class Binder:
    """Binds pods, at most `limit` at a time, and passes each result to `on_result`."""

    def __init__(
        self,
        client: Client,
        *,
        limit: int,
        bursts: Bursts,
        is_assumed: Callable[[Attempt], bool],
        on_result: Callable[[Attempt, BindingResult], None],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._limit = limit
        self._bursts = bursts
        self._is_assumed = is_assumed
        self._on_result = on_result
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()
        self._capacity = asyncio.Event()
        self._capacity.set()

    @property
    def in_flight(self) -> int:
        """The number of bindings in flight."""
        return len(self._tasks)

    async def wait_for_capacity(self) -> None:
        """Wait until another binding may start."""
        await self._capacity.wait()

    def start(self, attempt: Attempt) -> None:
        """Start to bind a pod to the node that was chosen for it."""
        task = asyncio.get_running_loop().create_task(self._run(attempt), name=f"bind {attempt.pod.key}")
        self._tasks.add(task)
        self._bursts.begin_binding()
        task.add_done_callback(self._discard)
        if len(self._tasks) >= self._limit:
            self._capacity.clear()

    async def finish(self, seconds: float) -> None:
        """Wait for the bindings in flight, at most that long, and then cancel them."""
        if not self._tasks:
            return
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        ended = asyncio.ensure_future(asyncio.wait(set(self._tasks)))
        try:
            await asyncio.wait((alarm, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(alarm, ended, *self._tasks)

    async def look_up(self, attempt: Attempt, error: KubeError | None = None) -> BindingResult:
        """Determine the outcome of a binding by an uncached read of the pod."""
        failures = 0
        pod = attempt.pod.metadata
        while self._is_assumed(attempt):
            try:
                live = await self._client.get(Pod, pod.name, namespace=pod.namespace)
            except NotFound:
                return BindingResult(BindingOutcome.DELETED, error=error)
            except KubeError:
                failures += 1
                await self._clock.sleep(_LOOK_UP_BACKOFF.delay(failures, self._rng))
            else:
                return BindingResult(_outcome(live, attempt), live, error)
        return BindingResult(BindingOutcome.SETTLED)

    async def _run(self, attempt: Attempt) -> None:
        started = self._clock.monotonic()
        pod = attempt.pod.metadata
        error: KubeError | None = None
        try:
            await self._client.bind(pod.name, namespace=pod.namespace, node=attempt.node, uid=pod.uid)
        except KubeError as failure:
            error = failure
        seconds = (self._clock.monotonic() - started) / SECOND
        if error is None:
            result = BindingResult(BindingOutcome.BOUND, seconds=seconds)
        elif is_certainly_unbound(error):
            result = BindingResult(BindingOutcome.NOT_BOUND, error=error, seconds=seconds)
        else:
            found = await self.look_up(attempt, error)
            result = BindingResult(found.outcome, found.live, error, seconds)
        self._on_result(attempt, result)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._bursts.end_binding()
        self._capacity.set()


def is_certainly_unbound(error: KubeError) -> bool:
    """Whether a binding with this error certainly took no effect, on a pod that has not changed."""
    if not isinstance(error, ApiError) or was_not_executed(error):
        return True
    return not isinstance(error, (Conflict, NotFound, ServerError, Unreachable))


def _outcome(live: Pod, attempt: Attempt) -> BindingOutcome:
    if live.metadata.uid != attempt.pod.metadata.uid:
        return BindingOutcome.DELETED
    if live.spec.node_name:
        return BindingOutcome.BOUND if live.spec.node_name == attempt.node else BindingOutcome.BOUND_ELSEWHERE
    return BindingOutcome.DELETED if live.terminating else BindingOutcome.NOT_BOUND
