"""A typed copy of one kind of objects, kept up to date: list once, then watch, for ever.

**What is promised.** The store goes through states that the server went through, object by object, and never back.
Every change that survives is reported exactly once: an object appears (`added`), changes (`updated`, with both
versions) or disappears (`deleted`, with its last known version). Changes that cancelled each other out while the
connection was down may be reported as one, or not at all; what is there in the end is always reported.

**How.** The version of the last event or bookmark is where a broken watch goes on from, so nothing is lost. An event
whose version is not newer than that has been seen before, so nothing is doubled. When the server has forgotten that
version (410), everything is listed again and compared with the store: what is equal is passed over, and what is not
in the list any more is reported as deleted. An object of the same name with another UID is another object: the old
one is reported as deleted, then the new one as added.

**Order.** The store has the new state before anybody is told. Handlers are plain functions and called in the order in
which they subscribed, within the informer's own task: they note what has changed and return (see `queues`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from trimtab.api.codec import SpecPool
from trimtab.api.pods import Pod
from trimtab.kube import versions
from trimtab.kube.client import PAGE, Client, Kind
from trimtab.kube.clocks import SECOND
from trimtab.kube.errors import ApiError, ConfigError, Gone, Malformed, NotFound
from trimtab.kube.resources import Key, Resource
from trimtab.kube.retries import Backoff
from trimtab.kube.stores import IndexFunction, Object, Store, key_of
from trimtab.kube.watches import DELETED, Page, RejectedObject, WatchEvent

T = TypeVar("T", bound=Object)

_BACKOFF = Backoff(initial=0.25, cap=30.0, jitter=1.0)
_WATCH_SECONDS = (300, 600)
"""A watch is asked to end after a time between these, so that clients spread over restarted servers again."""
_STEADY = 5 * SECOND
"""A watch that lasts so long works, whatever ends it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handler(Generic[T]):
    """Who wants to know of changes."""

    added: Callable[[T], None] | None = None
    updated: Callable[[T, T], None] | None = None
    deleted: Callable[[T], None] | None = None


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
    ) -> None:
        self.resource: Resource[T] = kind if isinstance(kind, Resource) else Resource.of(kind)
        self.store: Store[T] = Store(indexes)
        self.problem = ""
        """What keeps it from being up to date, or empty: for health pages."""
        self.absent = False
        """Whether the API server said, when it last said anything of the kind, that it does not know it."""
        self._client = client
        self._clock = client.clock
        self._scope = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        self._page = page
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self._handlers: list[Handler[T]] = []
        self._stale = True
        self._version = ""
        self._number = -1
        self._synced = asyncio.Event()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._failures = 0
        self._reported = ""
        self._pool = SpecPool() if self.resource.model is Pod else None

    # What others ask.

    @property
    def synced(self) -> bool:
        """Whether the store has held all objects at least once."""
        return self._synced.is_set()

    @property
    def version(self) -> str:
        """How far the store has seen: the version of the last list, event or bookmark."""
        return self._version

    async def wait_synced(self) -> None:
        """Wait until the store holds all objects."""
        await self._synced.wait()

    def get(self, key: Key) -> T | None:
        """The object of that key, if there is one."""
        return self.store.get(key)

    def subscribe(
        self,
        *,
        added: Callable[[T], None] | None = None,
        updated: Callable[[T, T], None] | None = None,
        deleted: Callable[[T], None] | None = None,
    ) -> None:
        """Be told of changes from now on; what is there already is told first, as added."""
        handler = Handler(added, updated, deleted)
        for an_object in self.store:
            self._tell(handler.added, an_object)
        self._handlers.append(handler)

    async def wait_for(self, condition: Callable[[Store[T]], bool]) -> None:
        """Wait until the store looks like that. Bound it with `clocks.within`."""
        await self._until(lambda: condition(self.store))

    async def wait_seen(self, key: Key, resource_version: str) -> None:
        """Wait until a write that answered with this version is in the store, or has been overtaken by a later one."""
        await self._until(lambda: self.has_seen(key, resource_version))

    def has_seen(self, key: Key, resource_version: str) -> bool:
        """Whether a write that answered with this version is in the store."""
        held = self.store.get(key)
        if held is not None and versions.reached(held.metadata.resource_version, resource_version):
            return True
        return self.synced and versions.reached(self._version, resource_version)

    # The loop.

    async def run(self) -> None:
        """Keep the store up to date until cancelled. Failures are waited out, however long they last."""
        while True:
            try:
                if self._stale:
                    await self._list()
                await self._watch()
            except Gone as error:
                log.info("%s: reading anew: %s", self.resource.plural, error)
                self._stale = True
                await self._pause("")
            except (ApiError, ConfigError) as error:
                self._stale = self._stale or isinstance(error, Malformed)
                self.absent = self.absent or isinstance(error, NotFound)
                await self._pause(str(error))

    async def _pause(self, problem: str) -> None:
        """Wait longer with each failure in a row, and by chance, so that many clients do not return at once."""
        if problem and problem != self._reported:
            log.warning("%s: %s", self.resource.plural, problem)
            self._reported = problem
        self.problem = problem
        self._failures += 1
        await self._clock.sleep(_BACKOFF.delay(self._failures, self._rng))

    async def _list(self) -> None:
        """Read everything; what is not there any more goes last, when all of the list is known."""
        present: set[Key] = set()
        version = ""
        parts = self._client.pages(self.resource, limit=self._page, **self._scope)
        async with aclosing(parts):
            async for part in parts:
                self._take_page(part, present)
                version = part.resource_version
        for key in self.store.keys_not_in(present):
            self._remove(key)
        self._stale = False
        self._arrive(version, versions.number(version))
        self._synced.set()
        self._wake()
        self.absent = False
        self.problem = ""

    def _take_page(self, part: Page[T], present: set[Key]) -> None:
        for an_object in part.items:
            key = key_of(an_object)
            present.add(key)
            if not self._holds(key, an_object):
                self._put(key, an_object)
        for rejected in part.rejected:
            present.add(rejected.key)
            self._complain(rejected)
        self._wake()

    def _holds(self, key: Key, listed: T) -> bool:
        """Whether that very version is in the store. Older ones count too: a restored backup goes back."""
        held = self.store.get(key)
        if held is None or held.metadata.uid != listed.metadata.uid:
            return False
        return held.metadata.resource_version == listed.metadata.resource_version

    async def _watch(self) -> None:
        """Follow changes until the server ends the watch. One that ends long before its time is a failure."""
        started = self._clock.monotonic()
        followed = False
        try:
            async with self._client.watch(
                self.resource,
                resource_version=self._version,
                timeout_seconds=self._rng.randint(*_WATCH_SECONDS),
                **self._scope,
            ) as events:
                self.problem = ""
                async for event in events:
                    self._take(event)
                    followed = True
        finally:
            steady = self._clock.monotonic() - started >= _STEADY
            if followed or steady:
                self._failures = 0
                self._reported = ""
        if not steady:
            await self._pause("" if followed else "the server ends every watch at once")

    def _take(self, event: WatchEvent[T]) -> None:
        number = versions.number(event.resource_version)
        if number is not None and number <= self._number:
            return
        if event.rejected is not None:
            self._complain(event.rejected)
        if event.type == DELETED:
            self._forget(event)
        elif event.object is not None:
            self._put(key_of(event.object), event.object)
        if event.resource_version:
            self._arrive(event.resource_version, number)
        if self._waiting:
            self._wake()

    def _forget(self, event: WatchEvent[T]) -> None:
        if event.object is not None:
            self._remove(key_of(event.object), event.object)
        elif event.rejected is not None:
            self._remove(event.rejected.key)

    # Changes.

    def _put(self, key: Key, new: T) -> None:
        old = self.store.get(key)
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._remove(key)
            old = None
        if self._pool is not None:
            self._pool.adopt(cast("Pod", new))
        self.store.put(key, new)
        for handler in self._handlers:
            if old is None:
                self._tell(handler.added, new)
            else:
                self._tell(handler.updated, old, new)

    def _arrive(self, version: str, number: int | None) -> None:
        """So far everything has been seen."""
        self._version = version
        self._number = -1 if number is None else number

    def _remove(self, key: Key, final: T | None = None) -> None:
        known = self.store.remove(key)
        if known is not None:
            for handler in self._handlers:
                self._tell(handler.deleted, final if final is not None else known)

    def _tell(self, function: Callable[..., None] | None, *arguments: T) -> None:
        """A handler that fails is its own problem: the store and the other handlers go on."""
        if function is None:
            return
        try:
            function(*arguments)
        except Exception:
            log.exception("%s: a handler failed for %s", self.resource.plural, key_of(arguments[-1]))

    def _complain(self, rejected: RejectedObject) -> None:
        """What is known of the object stays: to take it for deleted would undo what it asked for."""
        log.error("%s %s cannot be read and is passed over: %s", self.resource.kind, rejected.key, rejected.error)

    # Those who wait.

    async def _until(self, condition: Callable[[], bool]) -> None:
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiting.append(entry)
        try:
            await future
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _wake(self) -> None:
        still = []
        for condition, future in self._waiting:
            if future.done():
                continue
            try:
                if condition():
                    future.set_result(None)
                else:
                    still.append((condition, future))
            except Exception as error:  # noqa: BLE001 - it is raised where the condition is waited for
                future.set_exception(error)
        self._waiting = still
