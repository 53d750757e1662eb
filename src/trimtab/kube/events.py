"""Events: what happened to an object, told to people, without ever getting in the way.

`record` only notes the event and returns. A task of its own writes: the first time as a new object, and after that as
a patch that counts up, so that what happens again and again is one line for whoever looks. As in client-go, ten
events of one kind about one object that differ in their text only become one "(combined from similar events)", and an
object about which there is no end of news is cut off: 25 at once, then one every five minutes.

What cannot be written is dropped with a line in the log. Nobody waits for events, and nobody may fail because of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from trimtab.api import times
from trimtab.api.core import Event
from trimtab.api.documents import JSON
from trimtab.api.meta import ObjectReference
from trimtab.kube.client import Client
from trimtab.kube.clocks import SECOND, Clock
from trimtab.kube.errors import AlreadyExists, KubeError, NotFound, ServerError, Unreachable
from trimtab.kube.limits import TokenBucket
from trimtab.kube.resources import RESOURCES, Resource
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
"""Characters of a message; an API server takes no more."""
_LONGEST_NAME = 236
"""Characters of an object's name that leave room for the moment in the event's own name."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """One thing that happened."""

    about: ObjectReference
    severity: str
    reason: str
    message: str
    action: str
    at: int
    """When: no two news have the same moment."""

    @property
    def kind(self) -> Hashable:
        """What similar news have in common: everything but the text."""
        return (_identity(self.about), self.severity, self.reason, self.action)


@dataclass(slots=True)
class _Written:
    """An event that was written: what to count up."""

    name: str
    first: int
    count: int = 0


@dataclass(slots=True)
class _Similar:
    """The texts of similar news, lately."""

    messages: set[str] = field(default_factory=set)
    last: int = 0


class _Memory(Generic[V]):
    """Keeps the most recently used of its entries."""

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
    """Decides what becomes of news: dropped, combined with similar ones, or passed on. It knows no API server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: _Memory[_Similar] = _Memory(_REMEMBERED)
        self._buckets: _Memory[TokenBucket] = _Memory(_REMEMBERED)

    def correlate(self, news: PendingEvent) -> tuple[Hashable, PendingEvent] | None:
        """The news to write and what they are to be counted under, or nothing if there have been too many."""
        similar = self._similar.get(news.kind)
        if similar is None or news.at - similar.last > _SIMILAR_FOR:
            similar = self._similar.put(news.kind, _Similar())
        similar.last = news.at
        if len(similar.messages) < _SIMILAR:
            similar.messages.add(news.message)
        if not self._bucket(news).take():
            return None
        if len(similar.messages) < _SIMILAR:
            return (news.kind, news.message), news
        return news.kind, replace(news, message=f"(combined from similar events): {news.message}")

    def _bucket(self, news: PendingEvent) -> TokenBucket:
        key = (_identity(news.about), news.severity)
        return self._buckets.get(key) or self._buckets.put(key, TokenBucket(_SPAM_RATE, _SPAM_BURST, self._clock))


class Recorder:
    """Notes what happens; `run` writes it down."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str = "",
        backlog: int = _BACKLOG,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client.using(retry=NO_RETRIES)
        self._clock = client.clock
        self._component = component
        self._instance = instance
        self._rng = rng or random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._backlog: asyncio.Queue[PendingEvent] = asyncio.Queue(backlog)
        self._correlator = Correlator(client.clock)
        self._written: _Memory[_Written] = _Memory(_REMEMBERED)
        self._last = 0

    def record(
        self, about: Object | ObjectReference, severity: str, reason: str, message: str, *, action: str = ""
    ) -> None:
        """Note that something happened to an object. Never waits, never raises."""
        reference = about if isinstance(about, ObjectReference) else reference_to(about)
        self._last = max(self._clock.now(), self._last + 1)
        news = PendingEvent(reference, severity, reason, message[:_LONGEST], action, self._last)
        try:
            self._backlog.put_nowait(news)
        except asyncio.QueueFull:
            log.warning("too many events at once; dropped: %s %s: %s", reference.name, reason, message)

    async def run(self) -> None:
        """Write down what is noted, until cancelled."""
        while True:
            news = await self._backlog.get()
            try:
                await self._handle(news)
            except Exception:
                log.exception("event about %s is dropped", news.about.name)
            finally:
                self._backlog.task_done()

    async def flush(self) -> None:
        """Wait until everything that was noted is written, or dropped."""
        await self._backlog.join()

    async def _handle(self, news: PendingEvent) -> None:
        correlated = self._correlator.correlate(news)
        if correlated is None:
            log.debug("too many events about %s; dropped: %s", news.about.name, news.reason)
            return
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._write(*correlated)
            except (ServerError, Unreachable) as error:
                log.debug("event about %s: %s", news.about.name, error)
                await self._clock.sleep(_BACKOFF.delay(attempt, self._rng))
            except KubeError as error:
                log.warning("event about %s is dropped: %s", news.about.name, error)
                return
            else:
                return
        log.warning("event about %s is dropped: the server has been away for too long", news.about.name)

    async def _write(self, under: Hashable, news: PendingEvent) -> None:
        known = self._written.get(under)
        if known is None or not await self._count_up(known, news):
            await self._create(under, news)

    async def _count_up(self, known: _Written, news: PendingEvent) -> bool:
        """Whether there is still an event to count up: API servers keep them for an hour."""
        patch = {"count": known.count + 1, "lastTimestamp": times.format_time(news.at), "message": news.message}
        try:
            await self._client.patch(_EVENTS, known.name, patch, namespace=_namespace(news.about))
        except NotFound:
            return False
        known.count += 1
        return True

    async def _create(self, under: Hashable, news: PendingEvent) -> None:
        name = f"{news.about.name[:_LONGEST_NAME]}.{news.at:x}"
        with contextlib.suppress(AlreadyExists):  # an attempt whose answer was lost
            await self._client.create(_EVENTS, self._body(name, news), namespace=_namespace(news.about))
        self._written.put(under, _Written(name, news.at, 1))

    def _body(self, name: str, news: PendingEvent) -> JSON:
        at = times.format_time(news.at)
        body: JSON = {
            "metadata": {"name": name, "namespace": _namespace(news.about)},
            "involvedObject": _reference(news.about),
            "type": news.severity,
            "reason": news.reason,
            "message": news.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        return body | ({"action": news.action} if news.action else {})


def reference_to(an_object: Object) -> ObjectReference:
    """A pointer to a typed object."""
    resource: Resource[Any] | None = RESOURCES.get(type(an_object))
    metadata = an_object.metadata
    return ObjectReference(
        api_version=resource.api_version if resource else "",
        kind=resource.kind if resource else type(an_object).__name__,
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


def _identity(about: ObjectReference) -> Hashable:
    return (about.api_version, about.kind, about.namespace, about.name, about.uid, about.field_path)


def _namespace(about: ObjectReference) -> str:
    """Events of objects without a namespace live in `default`."""
    return about.namespace or "default"
