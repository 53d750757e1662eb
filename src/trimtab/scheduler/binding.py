"""Telling the API server where a pod goes, and finding out what became of that.

The API server binds a pod at most once: a pod that has a node refuses another, and the pod's UID is part of the
request. So nothing that happens here can bind a pod twice. What can go wrong is not to know:

| the answer | what it means |
|---|---|
| yes | bound |
| no (4xx), or the request never left | not bound, for certain |
| 404, 409 | the pod is not as we know it: look |
| none, a timeout, 5xx | nobody knows: look |

To look is to read the pod from the API server itself, not from a cache, again and again until there is an answer or
the watch has settled the matter. A request that is still on its way may arrive after we have looked; then the pod is
bound to the node we had chosen first, the watch shows it, and a second binding is refused.
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
from trimtab.scheduler.cycle import Attempt

_LOOK_AGAIN = Backoff(initial=0.5, cap=10.0, jitter=0.5)


class Fate(Enum):
    """What became of a pod that was to be bound."""

    BOUND = auto()
    ELSEWHERE = auto()
    """Somebody else has bound it to another node."""
    GONE = auto()
    """It does not exist any more, or is on its way out."""
    UNBOUND = auto()
    SETTLED = auto()
    """The watch knew before we did."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pod's fate; `live` is the pod as it was read, if it was, and `error` why it is not bound."""

    fate: Fate
    live: Pod | None = None
    error: KubeError | None = None
    seconds: float = 0.0
    """How long the first answer took, or its absence."""


class Binder:
    """Binds pods, so many at once at most. `settled` is told what became of each."""

    def __init__(
        self,
        client: Client,
        *,
        limit: int,
        is_open: Callable[[Attempt], bool],
        settled: Callable[[Attempt, Outcome], None],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._limit = limit
        self._is_open = is_open
        self._settled = settled
        self._rng = rng
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def under_way(self) -> int:
        """How many pods are being bound."""
        return len(self._tasks)

    async def room(self) -> None:
        """Wait until one more may be bound."""
        await self._room.wait()

    def start(self, attempt: Attempt) -> None:
        """Bind a pod to the node that it was given."""
        task = asyncio.get_running_loop().create_task(self._run(attempt), name=f"bind {attempt.pod.key}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if len(self._tasks) >= self._limit:
            self._room.clear()

    async def finish(self, seconds: float) -> None:
        """Let those under way come to an end, for so long at most; what is left then is cut off."""
        if not self._tasks:
            return
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        ended = asyncio.ensure_future(asyncio.wait(set(self._tasks)))
        try:
            await asyncio.wait((alarm, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(alarm, ended, *self._tasks)

    async def look(self, attempt: Attempt, error: KubeError | None = None) -> Outcome:
        """Find out from the API server itself where a pod is."""
        failures = 0
        pod = attempt.pod.metadata
        while self._is_open(attempt):
            try:
                live = await self._client.get(Pod, pod.name, namespace=pod.namespace)
            except NotFound:
                return Outcome(Fate.GONE, error=error)
            except KubeError:
                failures += 1
                await self._clock.sleep(_LOOK_AGAIN.delay(failures, self._rng))
            else:
                return Outcome(_fate(live, attempt), live, error)
        return Outcome(Fate.SETTLED)

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
            outcome = Outcome(Fate.BOUND, seconds=seconds)
        elif is_certain(error):
            outcome = Outcome(Fate.UNBOUND, error=error, seconds=seconds)
        else:
            looked = await self.look(attempt, error)
            outcome = Outcome(looked.fate, looked.live, error, seconds)
        self._settled(attempt, outcome)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()


def is_certain(error: KubeError) -> bool:
    """Whether a binding that failed so did not happen, and the pod is as we know it."""
    if not isinstance(error, ApiError) or was_not_executed(error):
        return True
    return not isinstance(error, (Conflict, NotFound, ServerError, Unreachable))


def _fate(live: Pod, attempt: Attempt) -> Fate:
    if live.metadata.uid != attempt.pod.metadata.uid:
        return Fate.GONE
    if live.spec.node_name:
        return Fate.BOUND if live.spec.node_name == attempt.node else Fate.ELSEWHERE
    return Fate.GONE if live.terminating else Fate.UNBOUND
