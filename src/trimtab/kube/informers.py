"""A cache of the objects of one kind, kept up to date: list once (see `lists`), then watch.

**Guarantees.** Each object in the store passes through states that it had on the server, and never goes back. Every
lasting change is reported exactly once: an object is `added`, `updated` (with both versions) or `deleted` (with its
last known version). Changes that cancelled each other out while the connection was down may be reported as one, or not
at all; the final state is always reported.

**How.** A broken watch resumes at the version of the last event or bookmark, so no event is lost. An event whose
version is not newer has been handled before, so none is handled twice. When that version has expired (410), everything
is listed again and compared with the store: equal objects are skipped, and objects that are no longer in the list are
reported as deleted. An object of the same name with another UID is another object: the old one is reported as
deleted, then the new one as added.

**Objects that cannot be read** are skipped and reported (see `unreadable`). The last version that could be read stays
in the store until the object is corrected or deleted. Nothing that a list or a watch sends ends `run`.

**Order.** The store has the new state before handlers are called. Handlers are plain functions, called in the order of
subscription, in the informer's own task: they add keys to a work queue and return (see `queues`). New objects of a list
are stored a few at a time, and then reported to one handler after the other. A handler that subscribes later is told of
many stored objects a few at a time, too, by a task of its own: until it knows an object, a change to it is reported to
it as `added`, and its deletion not at all.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from trimtab.api.pods import Pod
from trimtab.api.pooling import PodPool, trim
from trimtab.kube import versions
from trimtab.kube.client import PAGE, Client, Kind
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import ApiError, ConfigError, Gone, Malformed, NotFound
from trimtab.kube.lists import Lister
from trimtab.kube.processes import return_free_memory
from trimtab.kube.resources import Key, Resource, split
from trimtab.kube.retries import Backoff
from trimtab.kube.stores import IndexFunction, Object, Store, key_of
from trimtab.kube.waiting import Waiters
from trimtab.kube.watches import DELETED, PART, Page, RejectedObject, WatchEvent

T = TypeVar("T", bound=Object)

_BACKOFF = Backoff(initial=0.25, cap=30.0, jitter=1.0)
_WATCH_SECONDS = (300, 600)
"""The range of a watch's timeout. It is random, so that clients spread over restarted servers again."""
_STEADY = 5 * SECOND
"""A watch that lasts this long counts as working, however it ends."""

_MANY = 5_000
"""Objects of a list after which free memory is returned: the buffers of the list, and columns that have grown since."""

_BURST = 32
"""How many events of a watch are handled before other tasks run, should as many have arrived: some milliseconds."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handler(Generic[T]):
    """Callbacks for changes."""

    added: Callable[[T], None] | None = None
    updated: Callable[[T, T], None] | None = None
    deleted: Callable[[T], None] | None = None
    added_all: Callable[[Sequence[T]], None] | None = None
    """Called in place of `added` with objects that are listed together. If it raises, `added` is called for each."""
    unreported: set[Key] = field(default_factory=set, compare=False, repr=False)
    """The objects that were in the store when it subscribed, and that it has not been told of yet."""


class Informer(Generic[T]):
    """Keeps a `Store` of one kind up to date while `run` runs."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        page: int = PAGE,
        rng: random.Random | None = None,
        pool: PodPool | None = None,
    ) -> None:
        """`pool` is that of the snapshots that its pods are put into."""
        self.resource: Resource[T] = kind if isinstance(kind, Resource) else Resource.of(kind)
        self.store: Store[T] = Store(indexes)
        self.problem = ""
        """Why the store is not up to date, for health endpoints; empty if it is."""
        self.absent = False
        """Whether the API server last answered that it does not serve this kind (404)."""
        self.lists = 0
        """How many lists have been completed."""
        self.answers = 0
        """How many lists have been completed, or answered with 404."""
        self._client = client
        self._clock = client.clock
        self._scope = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        self._lister = Lister(client, self.resource, self._scope, page=page)
        self._rng = rng or random.Random()  # noqa: S311 - jitter of reconnections, not a secret
        self._handlers: list[Handler[T]] = []
        self._replays: set[asyncio.Future[None]] = set()
        self._replaying = asyncio.Lock()
        self._stale = True
        self._version = ""
        self._number = -1
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._waiters = Waiters()
        self._failures = 0
        self._expirations = 0
        """How many watches in a row the server has ended because their version is too old."""
        self._reported = ""
        self._unreadable: set[Key] = set()
        self._pool = None if self.resource.model is not Pod else PodPool() if pool is None else pool

    # Reading.

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """The resourceVersion of the last list, event or bookmark."""
        return self._version

    @property
    def is_known(self) -> bool:
        """Whether the first list is complete, or the API server has said that there is no such kind."""
        return self.synced or self.absent

    async def wait_synced(self) -> None:
        """Wait until the first list is complete."""
        await self._synced.wait()

    async def wait_known(self) -> None:
        """Wait until the first list is complete, or the API server has said that there is no such kind."""
        await self._answered.wait()

    def get(self, key: Key) -> T | None:
        """The object of that key, if there is one."""
        return self.store.get(key)

    def subscribe(
        self,
        *,
        added: Callable[[T], None] | None = None,
        updated: Callable[[T, T], None] | None = None,
        deleted: Callable[[T], None] | None = None,
        added_all: Callable[[Sequence[T]], None] | None = None,
    ) -> Handler[T]:
        """Call these functions on changes; objects already in the store are reported as added."""
        handler = Handler(added, updated, deleted, added_all)
        if added is not None and self.store:
            self._replay(handler)
        self._handlers = [*self._handlers, handler]
        return handler

    def unsubscribe(self, handler: Handler[T]) -> None:
        """Do not call these functions any longer."""
        self._handlers = [each for each in self._handlers if each is not handler]
        handler.unreported.clear()

    async def wait_reported(self, handler: Handler[T]) -> None:
        """Wait until a handler has been told of everything that was in the store when it subscribed."""
        await self._waiters.until(lambda: not handler.unreported)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index. Objects for which the function fails stay in the store, and are reported."""
        for key, error in self.store.add_index(name, function).items():
            known = self.store.get(key)
            if known is not None:
                self._reject(_rejected(known, error))

    def expire(self) -> None:
        """List everything again when `run` is started the next time."""
        self._stale = True

    async def wait_for(self, condition: Callable[[Store[T]], bool]) -> None:
        """Wait until the condition holds for the store. Use `clocks.within` for a timeout."""
        await self._waiters.until(lambda: condition(self.store))

    async def wait_seen(self, key: Key, resource_version: str) -> None:
        """Wait until the store has a write that returned this version, or a later one."""
        await self._waiters.until(lambda: self.has_seen(key, resource_version))

    def has_seen(self, key: Key, resource_version: str) -> bool:
        """Whether the store has a write that returned this version, or a later one."""
        cached = self.store.get(key)
        if cached is not None and versions.reached(cached.metadata.resource_version, resource_version):
            return True
        return self.synced and versions.reached(self._version, resource_version)

    # The loop.

    async def run(self) -> None:
        """Keep the store up to date until cancelled. Failures are retried with back-off, without end."""
        while True:
            try:
                if self._stale:
                    await self._list()
                await self._watch()
            except Gone as error:
                log.info("listing %s again: %s", self.resource.plural, error)
                self._stale = True
                self._failures = self._expirations  # the server answers: what failed before it did does not count
                self._expirations += 1
                await self._pause("")
            except (ApiError, ConfigError) as error:
                self._stale = self._stale or isinstance(error, Malformed)
                if isinstance(error, NotFound):
                    self._mark_absent()
                await self._pause(str(error))
            except Exception as error:
                log.exception("the cache of %s failed and lists everything again", self.resource.plural)
                self._stale = True
                await self._pause(f"{type(error).__name__}: {error}")

    def _mark_absent(self) -> None:
        self.absent = True
        self.answers += 1
        self._answered.set()
        self._waiters.wake()

    async def _pause(self, problem: str) -> None:
        """Back off with jitter after a failure; log each new problem once."""
        if problem and problem != self._reported:
            log.warning("cannot list or watch %s, will retry: %s", self.resource.plural, problem)
            self._reported = problem
        self.problem = problem
        self._failures += 1
        await self._clock.sleep(_BACKOFF.delay(self._failures, self._rng))

    async def _list(self) -> None:
        """List all objects; then remove those that are no longer there, when the list is complete."""
        present: set[Key] = set()
        version = ""
        parts = self._lister.parts()
        async with aclosing(parts):
            async for page in parts:
                self._handle_page(page, present)
                version = page.resource_version
        for key in (*self.store.keys_not_in(present), *(self._unreadable - present)):
            self._remove(key)
        self._stale = False
        self._advance(version, versions.number(version))
        self.lists += 1
        self.answers += 1
        self.absent = False
        self.problem = ""
        self._synced.set()
        self._answered.set()
        self._waiters.wake()
        if len(present) >= _MANY:
            return_free_memory()

    def _handle_page(self, page: Page[T], present: set[Key]) -> None:
        listed = {key_of(each): each for each in page.items}
        present.update(listed)
        if self.store.has_none_of(listed):
            self._add(listed)
        else:
            self._merge(listed)
        for rejected in page.rejected:  # which the client has reported
            present.add(rejected.key)
            self._skip(rejected)
        for key in page.deleted:
            self._remove(key)
        self._waiters.wake()

    def _merge(self, listed: Mapping[Key, T]) -> None:
        """Store listed objects, of which some are in the store."""
        added: dict[Key, T] = {}
        for key, an_object in listed.items():
            if key not in self.store:
                added[key] = an_object
            elif not self._is_cached(key, an_object):
                self._put(key, an_object)
        self._add(added)

    def _is_cached(self, key: Key, listed: T) -> bool:
        """Whether the store has exactly this version. A restored backup may list an older one."""
        cached = self.store.get(key)
        if cached is None or cached.metadata.uid != listed.metadata.uid:
            return False
        return cached.metadata.resource_version == listed.metadata.resource_version

    async def _watch(self) -> None:
        """Watch until the server ends the watch. One that ends right away counts as a failure."""
        started = self._clock.monotonic()
        received = 0
        try:
            async with self._client.watch(
                self.resource,
                resource_version=self._version,
                timeout_seconds=self._rng.randint(*_WATCH_SECONDS),
                **self._scope,
            ) as events:
                self.problem = ""
                async for event in events:
                    self._handle_event(event)
                    received += 1
                    if not received % _BURST:
                        await asyncio.sleep(0)
        finally:
            steady = self._clock.monotonic() - started >= _STEADY
            if received or steady:
                self._failures = self._expirations = 0
                self._reported = ""
        if not steady:
            await self._pause("" if received else "the server ends the watch without any event")

    def _handle_event(self, event: WatchEvent[T]) -> None:
        number = versions.number(event.resource_version)
        if number is not None and number <= self._number:
            return
        if event.type == DELETED:
            self._forget(event)
        elif event.rejected is not None:
            self._reject(event.rejected)
        elif event.object is not None:
            self._put(key_of(event.object), event.object)
        if event.resource_version:
            self._advance(event.resource_version, number)
        if self._waiters:
            self._waiters.wake()

    def _forget(self, event: WatchEvent[T]) -> None:
        if event.object is not None:
            self._remove(key_of(event.object), event.object)
        elif event.rejected is not None:
            self._remove(event.rejected.key)

    # Changes.

    def _add(self, objects: Mapping[Key, T]) -> None:
        """Add objects that are not in the store."""
        added = self._store_all(objects)
        for handler in self._handlers if added else ():
            self._report_added(handler, added)

    def _report_added(self, handler: Handler[T], added: Sequence[T]) -> None:
        if not self._notify_all(handler, added):
            for new in added:
                self._notify(handler.added, new)

    def _put(self, key: Key, new: T) -> None:
        old = self.store.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._remove(key)
            old = None
        if not self._store(key, new, old):
            return
        for handler in self._handlers:
            if old is None or _is_unreported(handler, key):
                self._notify(handler.added, new)
            else:
                self._notify(handler.updated, old, new)

    def _store_all(self, objects: Mapping[Key, T]) -> Sequence[T]:
        """Store objects that are not in the store; returns those for which that did not fail."""
        try:
            for new in objects.values():
                self._adopt(new, None)
            self.store.insert_all(objects)
        except Exception:  # noqa: BLE001 - found again for the object that it is about
            return [new for key, new in objects.items() if self._store(key, new)]
        for key in self._unreadable.intersection(objects):
            self._resolve(key)
        return list(objects.values())

    def _replay(self, handler: Handler[T]) -> None:
        """Report everything in the store to a handler: a few objects now, many in parts."""
        if len(self.store) <= PART:
            self._report_added(handler, list(self.store))
            return
        keys = self.store.keys()
        handler.unreported.update(keys)
        task = asyncio.ensure_future(self._replay_in_parts(handler, keys))
        self._replays.add(task)
        task.add_done_callback(self._replays.discard)

    async def _replay_in_parts(self, handler: Handler[T], keys: Sequence[Key]) -> None:
        for start in range(0, len(keys), PART):
            async with self._replaying:  # one part at a time, however many handlers there are
                part = [key for key in keys[start : start + PART] if key in handler.unreported]
                handler.unreported.difference_update(part)
                self._report_added(handler, [each for each in map(self.store.get, part) if each is not None])
                await asyncio.sleep(0)
        self._waiters.wake()

    def _adopt(self, new: Any, old: Any) -> None:
        """Let a pod share what it has in common with its last version, and with other pods."""
        if self._pool is not None:
            self._pool.adopt(trim(new), old)

    def _store(self, key: Key, new: T, old: T | None = None) -> bool:
        """Store an object in place of its last version; false if that fails, and it is skipped."""
        try:
            self._adopt(new, old)
            self.store.put(key, new)
        except Exception as error:  # noqa: BLE001 - no object may end a watch
            self._reject(_rejected(new, error))
            return False
        if self._unreadable:
            self._resolve(key)
        return True

    def _advance(self, version: str, number: int | None) -> None:
        """Record that everything up to this version has been handled."""
        self._version = version
        self._number = -1 if number is None else number

    def _remove(self, key: Key, final: T | None = None) -> None:
        self._resolve(key)
        known = self.store.remove(key)
        if known is not None:
            for handler in self._handlers:
                if not _is_unreported(handler, key):
                    self._notify(handler.deleted, final if final is not None else known)

    def _notify(self, function: Callable[..., None] | None, *arguments: T) -> None:
        """Call a handler; an error is logged and does not affect the store or other handlers."""
        if function is None:
            return
        try:
            function(*arguments)
        except Exception:
            log.exception("a handler failed for %s %s", self.resource.kind, key_of(arguments[-1]))

    def _notify_all(self, handler: Handler[T], added: Sequence[T]) -> bool:
        """Report objects that were listed together; false if the handler has to be called for each."""
        if handler.added_all is None:
            return False
        try:
            handler.added_all(added)
        except Exception:  # noqa: BLE001 - logged for the object that it is about
            return False
        return True

    def _reject(self, rejected: RejectedObject) -> None:
        self._skip(rejected)
        self._client.unreadable.report(self.resource, rejected)

    def _skip(self, rejected: RejectedObject) -> None:
        """Skip an object. What is known of it stays, unless it was another object of the same name."""
        known = self.store.get(rejected.key)
        if known is not None and known.metadata.uid != rejected.uid:
            self._remove(rejected.key)
        self._unreadable.add(rejected.key)

    def _resolve(self, key: Key) -> None:
        if key in self._unreadable:
            self._unreadable.discard(key)
            self._client.unreadable.resolve(self.resource, *split(key))


def _is_unreported(handler: Handler[Any], key: Key) -> bool:
    """Whether a handler has not been told of an object yet; from now on, it has."""
    if key not in handler.unreported:
        return False
    handler.unreported.discard(key)
    return True


def _rejected(an_object: Object, error: Exception) -> RejectedObject:
    metadata = an_object.metadata
    return RejectedObject(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version, error)
