"""Recording of Kubernetes Events, without blocking the caller.

`record` only queues the event; a task of its own writes it: the first time as a new object, later as a patch that
increments its count, so that `kubectl describe` shows a repeated event as one line. As in client-go, ten events about
one object that differ only in their message become one "(combined from similar events)", and the events of one object
are rate-limited: 25 at once, then one every five minutes. Events that the caller paces (`PacedRecorder`) are exempt
from both: all of one reason about one object are one event, with the message of the last one.

An event that cannot be written is dropped with a log line, and counted by reason (`dropped_events`). Callers never wait
for events or fail because of them.

A recorder that is cancelled first writes what is queued, for the grace period at most. Events are also written after
leadership was lost: they report what this process did while it was the leader.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from trimtab.api import times
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectReference
from trimtab.kube.client import Client
from trimtab.kube.clocks import GRACE, SECOND, Clock, run_with_grace
from trimtab.kube.dropped_events import DropReason
from trimtab.kube.errors import AlreadyExists, KubeError, NotFound, ServerError, Unreachable
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import Resource
from trimtab.kube.retries import NO_RETRIES, Backoff
from trimtab.kube.stores import Object

V = TypeVar("V")

NORMAL = "Normal"
WARNING = "Warning"

_EVENTS = Resource.of(Event).raw
_REMEMBERED = 4096
_BACKLOG = 1000
_SIMILAR = 10
_SIMILAR_FOR = 600 * SECOND
_SPAM_BURST = 25
_SPAM_RATE = 1 / 300
_ATTEMPTS = 12
_BACKOFF = Backoff(initial=1.0, cap=10.0, jitter=0.5)
_LONGEST = 1024
"""The longest message, in characters, that an API server accepts."""
_LONGEST_NAME = 236
"""Characters of the object's name that leave room for the timestamp in the event's name."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event that is queued and not written yet."""

    about: ObjectReference
    severity: str
    reason: str
    message: str
    action: str
    at: int
    """When it happened, in nanoseconds; unique for each event of a recorder."""
    count: int = 1
    """How many times it happened since it was last recorded."""
    is_paced: bool = False

    @property
    def similarity(self) -> Hashable:
        """What similar events have in common: everything but the message."""
        return (_identity(self.about), self.severity, self.reason, self.action)


@dataclass(slots=True)
class _WrittenEvent:
    """An event object that exists, and its count."""

    name: str
    first: int
    count: int = 0


@dataclass(slots=True)
class _SimilarEvents:
    """The recent messages of similar events."""

    messages: set[str] = field(default_factory=set)
    last: int = 0


class _Cache(Generic[V]):
    """A least-recently-used cache."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: V) -> V:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return entry


class Correlator:
    """Decides which events are written, combined with similar ones, or dropped. Makes no calls itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: _Cache[_SimilarEvents] = _Cache(_REMEMBERED)
        self._buckets: _Cache[TokenBucket] = _Cache(_REMEMBERED)

    def correlate(self, event: PendingEvent) -> tuple[Hashable, PendingEvent] | None:
        """The event to write with the key to count it under, or None if the rate limit is exceeded."""
        if event.is_paced:
            return event.similarity, event
        similar = self._similar.get(event.similarity)
        if similar is None or event.at - similar.last > _SIMILAR_FOR:
            similar = self._similar.put(event.similarity, _SimilarEvents())
        similar.last = event.at
        if len(similar.messages) < _SIMILAR:
            similar.messages.add(event.message)
        if not self._bucket(event).take():
            return None
        if len(similar.messages) < _SIMILAR:
            return (event.similarity, event.message), event
        return event.similarity, replace(event, message=f"(combined from similar events): {event.message}")

    def _bucket(self, event: PendingEvent) -> TokenBucket:
        key = (_identity(event.about), event.severity)
        return self._buckets.get(key) or self._buckets.put(key, TokenBucket(_SPAM_RATE, _SPAM_BURST, self._clock))


class Recorder:
    """Queues events; `run` writes them."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str = "",
        backlog: int = _BACKLOG,
        rng: random.Random | None = None,
        before_write: Callable[[], Awaitable[None]] | None = None,
        writers: int = 1,
        grace: float = GRACE,
    ) -> None:
        """`before_write` is awaited before each event: what is more urgent goes first. `writers` is how many events are
        written at the same time, `grace` the seconds for those that are left when it stops."""
        self._client = client.using(retry=NO_RETRIES, before_write=None)
        self._clock = client.clock
        self._component = component
        self._instance = instance
        self._rng = rng or random.Random()  # noqa: S311 - jitter of retries, not a secret
        self._before_write = before_write
        self._writers = writers
        self._grace = grace
        self._backlog: asyncio.Queue[PendingEvent] = asyncio.Queue(backlog)
        self._correlator = Correlator(client.clock)
        self._written: _Cache[_WrittenEvent] = _Cache(_REMEMBERED)
        self._last = 0
        self.pending = 0
        """How many events are recorded and neither written nor dropped yet."""

    def record(
        self, about: Object | ObjectReference, severity: str, reason: str, message: str, *, action: str = ""
    ) -> None:
        """Queue an event about an object. Never waits, never raises."""
        self._last = max(self._clock.now(), self._last + 1)
        self._queue(PendingEvent(_referenced(about), severity, reason, message[:_LONGEST], action, self._last))

    def record_paced(self, about: ObjectReference, severity: str, reason: str, message: str, count: int) -> None:
        """Queue an event that happened so many times, with the message of the last time."""
        self._last = max(self._clock.now(), self._last + 1)
        self._queue(PendingEvent(about, severity, reason, message[:_LONGEST], "", self._last, count, is_paced=True))

    def _queue(self, event: PendingEvent) -> None:
        try:
            self._backlog.put_nowait(event)
        except asyncio.QueueFull:
            about = _label(event.about)
            log.warning("dropped an event about %s, the queue is full: %s: %s", about, event.reason, event.message)
            self._count_dropped(DropReason.QUEUE_FULL)
        else:
            self.pending += 1

    async def run(self) -> None:
        """Write queued events until cancelled, and then those that are left."""
        await run_with_grace(
            self._clock, self._write_all(), finish=self.flush, on_timeout=self._report_unwritten, grace=self._grace
        )

    async def flush(self) -> None:
        """Wait until every queued event is written or dropped."""
        await self._backlog.join()

    def _report_unwritten(self) -> None:
        log.warning(
            "dropped %d events of %s: they could not be written within %g s of the stop",
            *(self.pending, self._component, self._grace),
        )
        for _ in range(self.pending):
            self._count_dropped(DropReason.STOPPED)

    async def _write_all(self) -> None:
        await asyncio.gather(*(self._write_queued() for _ in range(self._writers)))

    async def _write_queued(self) -> None:
        while True:
            event = await self._backlog.get()
            try:
                if self._before_write is not None:
                    await self._before_write()
                await self._handle(event)
            except Exception:
                log.exception("dropped an event about %s", _label(event.about))
                self._count_dropped(DropReason.FAILED)
            finally:
                self.pending -= 1
                self._backlog.task_done()

    async def _handle(self, event: PendingEvent) -> None:
        correlated = self._correlator.correlate(event)
        if correlated is None:
            log.debug("dropped an event about %s, too many events: %s", _label(event.about), event.reason)
            self._count_dropped(DropReason.RATE_LIMITED)
            return
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._write(*correlated)
            except (ServerError, Unreachable) as error:
                log.debug("event about %s could not be written, will retry: %s", _label(event.about), error)
                await self._clock.sleep(_BACKOFF.delay(attempt, self._rng))
            except KubeError as error:
                log.warning("dropped an event about %s: %s", _label(event.about), error)
                self._count_dropped(DropReason.REFUSED)
                return
            else:
                return
        log.warning(
            "dropped an event about %s: the API server was unavailable for %d attempts", _label(event.about), _ATTEMPTS
        )
        self._count_dropped(DropReason.UNAVAILABLE)

    def _count_dropped(self, reason: DropReason) -> None:
        self._client.dropped_events.report(self._component, reason)

    async def _write(self, under: Hashable, event: PendingEvent) -> None:
        known = self._written.get(under)
        if known is None or not await self._count_up(known, event):
            await self._create(under, event)

    async def _count_up(self, known: _WrittenEvent, event: PendingEvent) -> bool:
        """Increment the count; return False if the event has expired (API servers keep events for an hour)."""
        count = known.count + event.count
        patch = {"count": count, "lastTimestamp": times.format_time(event.at), "message": event.message}
        try:
            await self._client.patch(_EVENTS, known.name, patch, namespace=_namespace(event.about))
        except NotFound:
            return False
        known.count = count
        return True

    async def _create(self, under: Hashable, event: PendingEvent) -> None:
        name = f"{event.about.name[:_LONGEST_NAME]}.{event.at:x}"
        with contextlib.suppress(AlreadyExists):  # an earlier attempt whose response was lost
            await self._client.create(_EVENTS, self._body(name, event), namespace=_namespace(event.about))
        self._written.put(under, _WrittenEvent(name, event.at, event.count))

    def _body(self, name: str, event: PendingEvent) -> JSON:
        at = times.format_time(event.at)
        body: JSON = {
            "metadata": {"name": name, "namespace": _namespace(event.about)},
            "involvedObject": _reference(event.about),
            "type": event.severity,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": event.count,
        }
        return body | ({"action": event.action} if event.action else {})


def _referenced(about: Object | ObjectReference) -> ObjectReference:
    return about if isinstance(about, ObjectReference) else reference_to(about)


def reference_to(an_object: Object) -> ObjectReference:
    """The reference to a typed object."""
    resource = Resource.of(type(an_object))
    metadata = an_object.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _reference(about: ObjectReference) -> JSON:
    fields = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
        "resourceVersion": about.resource_version,
        "fieldPath": about.field_path,
    }
    return {name: value for name, value in fields.items() if value}


def _label(about: ObjectReference) -> str:
    return f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"


def _identity(about: ObjectReference) -> Hashable:
    return (about.api_version, about.kind, about.namespace, about.name, about.uid, about.field_path)


def _namespace(about: ObjectReference) -> str:
    """The namespace of the event; events of cluster-scoped objects are in `default`."""
    return about.namespace or "default"
