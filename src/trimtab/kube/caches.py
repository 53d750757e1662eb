"""The caches of a process: one watch and one copy of each kind, whatever number of components reads it.

    caches = Caches(client, Snapshot(), KINDS)             # one for the process; `app` passes it to every component
    pods = caches.open(Pod, {"controller": by_controller}) # a Cache: store, indexes and events of the shared informer
    pods.subscribe(added=…)
    await pods.run()                                       # the watch runs while any cache of it runs

**Scopes.** Informers are shared by kind, namespace and selectors; another scope is another watch.

**One snapshot.** Objects of the `mirrored` kinds are in the snapshot before any other handler is called: a handler
never sees a store that is newer than the snapshot. It is for reading; a component that assumes pods has its own.

**Terms.** A component that is created anew for each leader term opens its caches in a `term`. Another process may have
written since the shared informer last listed, and that component must not decide without what was written: its caches
count as synced after a list that began in the term, so the informer lists again. `close` removes the handlers and
indexes of everything that was opened in a term or scope; an informer that no cache uses any longer ends, and its
objects leave the snapshot.

**A kind that is not installed** is asked for again at once when a cache of it is opened: it may be installed by now.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from trimtab.api.pooling import PodPool
from trimtab.kube.client import Client, Kind
from trimtab.kube.clocks import cancel
from trimtab.kube.informers import Handler, Informer
from trimtab.kube.resources import Key, Resource
from trimtab.kube.stores import IndexFunction, Object, Store

T = TypeVar("T", bound=Object)


class Mirror(Protocol):
    """A view that is kept current with the caches, such as a snapshot."""

    @property
    def pool(self) -> PodPool:
        """Keeps one copy of the parts that pods have in common."""
        ...

    def put(self, watched: Any, /) -> None:
        """Add or update an object."""
        ...

    def put_all(self, watched: Sequence[Any], /) -> None:
        """Add objects of a list. If it raises, they are put one by one."""
        ...

    def drop(self, kind: type[Any], namespace: str, name: str, /) -> None:
        """Delete an object."""
        ...


M = TypeVar("M", bound=Mirror | None)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What one watch is for."""

    resource: Resource[Any]
    namespace: str
    label_selector: str
    field_selector: str


@dataclass(slots=True)
class _Process:
    """What all scopes of a process share."""

    informers: dict[_Scope, _SharedInformer[Any]] = field(default_factory=dict)
    terms: int = 0


class Cache(Generic[T]):
    """The objects of one kind, for one component: a shared informer, with the component's own handlers and indexes."""

    def __init__(self, shared: _SharedInformer[T], indexes: Mapping[str, IndexFunction[T]], *, is_fresh: bool) -> None:
        self._shared = shared
        self.informer = shared.informer
        """The shared informer."""
        self._indexes = tuple(indexes)
        self._handlers: list[Handler[T]] = []
        self._lists, self._answers = (shared.lists, shared.answers) if is_fresh else (1, 1)

    @property
    def resource(self) -> Resource[T]:
        """The kind."""
        return self.informer.resource

    @property
    def store(self) -> Store[T]:
        """The objects."""
        return self.informer.store

    @property
    def problem(self) -> str:
        """Why the store is not up to date, for health endpoints; empty if it is."""
        return self.informer.problem

    @property
    def absent(self) -> bool:
        """Whether the API server last answered that it does not serve this kind (404)."""
        return self.informer.absent

    @property
    def version(self) -> str:
        """The resourceVersion of the last list, event or bookmark."""
        return self.informer.version

    @property
    def synced(self) -> bool:
        """Whether the first list, in a term the first of the term, is complete."""
        return self.informer.lists >= self._lists

    @property
    def is_known(self) -> bool:
        """Whether that list is complete, or the API server has said that there is no such kind."""
        return self.synced or (self.absent and self.informer.answers >= self._answers)

    async def wait_synced(self) -> None:
        """Wait until the cache has synced."""
        await self.informer.wait_for(lambda _: self.synced)

    async def wait_known(self) -> None:
        """Wait until the cache has synced, or the API server has said that there is no such kind."""
        await self.informer.wait_for(lambda _: self.is_known)

    async def wait_for(self, condition: Callable[[Store[T]], bool]) -> None:
        """Wait until the condition holds for the store."""
        await self.informer.wait_for(condition)

    async def wait_seen(self, key: Key, resource_version: str) -> None:
        """Wait until the store has a write that returned this version, or a later one."""
        await self.informer.wait_seen(key, resource_version)

    def has_seen(self, key: Key, resource_version: str) -> bool:
        """Whether the store has a write that returned this version, or a later one."""
        return self.informer.has_seen(key, resource_version)

    def get(self, key: Key) -> T | None:
        """The object of that key, if there is one."""
        return self.informer.get(key)

    def subscribe(
        self,
        *,
        added: Callable[[T], None] | None = None,
        updated: Callable[[T, T], None] | None = None,
        deleted: Callable[[T], None] | None = None,
        added_all: Callable[[Sequence[T]], None] | None = None,
    ) -> None:
        """Call these functions on changes; objects already in the store are reported as added (see `wait_reported`)."""
        handler = self.informer.subscribe(added=added, updated=updated, deleted=deleted, added_all=added_all)
        self._handlers.append(handler)

    async def wait_reported(self) -> None:
        """Wait until its handlers have been told of everything that was in the store when they subscribed."""
        for handler in self._handlers:
            await self.informer.wait_reported(handler)

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        await self._shared.run()

    def close(self) -> None:
        """Remove its handlers and indexes."""
        for handler in self._handlers:
            self.informer.unsubscribe(handler)
        self._handlers.clear()
        self._shared.leave(self, self._indexes)


class _SharedInformer(Generic[T]):
    """An informer, and what uses it."""

    def __init__(self, informer: Informer[T], term: int) -> None:
        self.informer = informer
        self.term = term
        """The term in which its list began, or begins."""
        self.lists = self.answers = 1
        """How many lists, or answers, have been received when the first of that term is complete."""
        self.caches: list[Cache[T]] = []
        self._functions: dict[str, IndexFunction[T]] = {}
        self._uses: Counter[str] = Counter()
        self._runs = 0
        self._task: asyncio.Future[None] | None = None
        self._failed: asyncio.Future[None] | None = None

    def join(self, indexes: Mapping[str, IndexFunction[T]], *, is_fresh: bool) -> Cache[T]:
        """A cache with these indexes."""
        for name, function in indexes.items():
            if self._functions.setdefault(name, function) != function:
                kind = self.informer.resource.kind
                raise ValueError(f"there is another index {name!r} of {kind}: choose another name")
        for name, function in indexes.items():
            if not self._uses[name]:
                self.informer.add_index(name, function)
            self._uses[name] += 1
        made = Cache(self, indexes, is_fresh=is_fresh)
        self.caches.append(made)
        return made

    def leave(self, cache: Cache[T], indexes: Iterable[str]) -> None:
        """Remove a cache, and the indexes that no other uses."""
        if cache not in self.caches:
            return
        self.caches.remove(cache)
        for name in indexes:
            self._uses[name] -= 1
            if not self._uses[name]:
                self.informer.store.remove_index(name)
                del self._functions[name], self._uses[name]

    def renew(self, term: int) -> None:
        """List again from now on."""
        self.term = term
        self.lists, self.answers = self.informer.lists + 1, self.informer.answers + 1
        self.informer.expire()
        if self._task is not None:
            self._task.cancel()
            self._start()

    async def run(self) -> None:
        """Run the informer while any of its caches runs."""
        self._runs += 1
        if self._task is None:
            self._failed = asyncio.get_running_loop().create_future()
            self._start()
        failed = self._failed
        try:
            if failed is not None:
                await asyncio.wait((failed,))
                failed.result()
        finally:
            self._runs -= 1
            if not self._runs and self._task is not None:
                task, self._task = self._task, None
                await cancel(task)

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self.informer.run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[None]) -> None:
        """Report to everything that runs it that the informer failed, which it never should."""
        if task is self._task and self._failed is not None and not self._failed.done():
            error = None if task.cancelled() else task.exception()
            self._failed.set_exception(error or RuntimeError(f"the watch of {self.informer.resource.plural} ended"))


class Caches(Generic[M]):
    """The caches of a process, or of one part of it."""

    def __init__(
        self,
        client: Client,
        snapshot: M,
        mirrored: Collection[type[Any]] = (),
        *,
        namespace: str = "",
        rng: random.Random | None = None,
    ) -> None:
        """`mirrored` are the kinds of the snapshot; `namespace` is the only one to watch, if not all are."""
        self.client = client
        self.snapshot: M = snapshot
        self.pool = PodPool() if snapshot is None else snapshot.pool
        """Of the pods of the caches, and of all snapshots that they are put into."""
        self._mirrored = frozenset(mirrored)
        self._namespace = namespace
        self._rng = rng
        self._process = _Process()
        self._term = 0
        self._opened: list[Cache[Any]] = []
        self._on_close: list[Callable[[], None]] = []

    def scope(self) -> Caches[M]:
        """The same caches, for a part of the process that ends before the process: `close` it then."""
        return self._part(self._term)

    def term(self) -> Caches[M]:
        """A scope whose caches are no older than now."""
        self._process.terms += 1
        return self._part(self._process.terms)

    def open(
        self,
        kind: Kind[T],
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Cache[T]:
        """The cache of a kind, with these indexes. Raises ValueError if one has the name of another."""
        resource: Resource[T] = kind if isinstance(kind, Resource) else Resource.of(kind)
        within = namespace or (self._namespace if resource.namespaced else "")
        scope = _Scope(resource, within, label_selector, field_selector)
        shared = self._shared(scope)
        must_list = shared.term < self._term or shared.informer.absent
        if must_list:
            shared.renew(self._process.terms)
        made = shared.join(indexes or {}, is_fresh=must_list or self._term > 0)
        self._opened.append(made)
        return made

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call this before the caches are closed: it removes what would read them later."""
        self._on_close.append(callback)

    def close(self) -> None:
        """Close everything that was opened here, and end the informers that nothing else uses."""
        for callback in self._on_close:
            callback()
        self._on_close.clear()
        for cache in self._opened:
            cache.close()
        self._opened.clear()
        for scope, shared in list(self._process.informers.items()):
            if not shared.caches:
                del self._process.informers[scope]
                self._unmirror(scope, shared.informer)

    def _part(self, term: int) -> Caches[M]:
        made: Caches[M] = Caches(self.client, self.snapshot, self._mirrored, namespace=self._namespace, rng=self._rng)
        made._process, made._term, made.pool = self._process, term, self.pool
        return made

    def _shared(self, scope: _Scope) -> _SharedInformer[Any]:
        found = self._process.informers.get(scope)
        if found is None:
            informer = Informer(
                self.client,
                scope.resource,
                namespace=scope.namespace,
                label_selector=scope.label_selector,
                field_selector=scope.field_selector,
                rng=self._rng,
                pool=self.pool,
            )
            self._mirror(scope, informer)
            found = self._process.informers[scope] = _SharedInformer(informer, self._process.terms)
        return found

    def _mirror(self, scope: _Scope, informer: Informer[Any]) -> None:
        """Keep the snapshot current: the first subscription, so that it is called before all others."""
        snapshot, kind = self.snapshot, scope.resource.model
        if snapshot is not None and self._is_mirrored(scope):
            informer.subscribe(
                added=snapshot.put,
                updated=lambda _, new: snapshot.put(new),
                deleted=lambda old: snapshot.drop(kind, old.metadata.namespace, old.metadata.name),
                added_all=snapshot.put_all,
            )

    def _unmirror(self, scope: _Scope, informer: Informer[Any]) -> None:
        if self.snapshot is not None and self._is_mirrored(scope):
            for old in informer.store:
                self.snapshot.drop(scope.resource.model, old.metadata.namespace, old.metadata.name)

    def _is_mirrored(self, scope: _Scope) -> bool:
        is_whole = scope.namespace in ("", self._namespace) and not scope.label_selector and not scope.field_selector
        return is_whole and scope.resource.model in self._mirrored
