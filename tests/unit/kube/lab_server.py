"""A fake server whose answers come from the lab's API server: it misbehaves as tests ask, and is right otherwise."""

from __future__ import annotations

import copy
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.unit.kube.fakes import Change, FakeServer
from trimtab.api.documents import JSON
from trimtab.kube.transport import Request, Response
from trimtab_lab.apiserver.controllers import bootstrap
from trimtab_lab.apiserver.kinds import objects
from trimtab_lab.apiserver.kinds.errors import StatusError
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.storage.store import Collection, Event, encode, key_of
from trimtab_lab.apiserver.verbs.cluster import Cluster
from trimtab_lab.apiserver.wire.paths import PathParser
from trimtab_lab.testing.wire import Wire

T = TypeVar("T")


def immediately(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


async def _no_webhooks(*_: object) -> bytes:
    raise AssertionError("there are no webhooks here")


@dataclass(slots=True)
class LabServer(FakeServer):
    """A `Transport` that ends in the lab's API server."""

    cluster: Cluster = field(init=False)
    _wire: Wire = field(init=False)
    _paths: PathParser = field(init=False)
    _known: dict[str, tuple[tuple[str, str], Kind]] = field(default_factory=dict)
    """The kinds that were used, and their places in paths, by the name of their collection."""

    def __post_init__(self) -> None:
        self.cluster = Cluster(clock=self.clock.now, call=_no_webhooks, seed=self.rng.randrange(2**32))
        immediately(bootstrap.create_default_objects(self.cluster))
        self._wire, self._paths = Wire(self.cluster), PathParser(self.cluster.registry)
        self.version = self.cluster.store.version
        self.cluster.store.listen(self._record)

    def objects(self, plural: str) -> list[JSON]:
        """All objects of a kind, by its plural."""
        found = [(name, kind) for name, ((_, known), kind) in self._known.items() if known == plural]
        return [_shown(kind, entry.data) for name, kind in found for entry in self._collection(name).present()]

    def put(self, root: str, plural: str, tree: JSON) -> JSON:
        """Create or overwrite an object, with its defaults, and without a check."""
        kind = self._kind(root, plural)
        tree, collection = copy.deepcopy(tree), self._collection(kind.collection)
        metadata = tree["metadata"]
        old = collection.entries.get(key_of(metadata.get("namespace", ""), metadata["name"]))
        objects.conform(kind, tree)
        objects.complete(kind, tree)
        if old is not None:
            metadata |= {"uid": old.uid}
            return _shown(kind, self.cluster.store.replace(collection, old, tree).data)
        objects.fill_system_fields(tree, self.cluster.now(), self.cluster.rng)
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        return _shown(kind, self.cluster.store.insert(collection, key, tree).data)

    def drop(self, root: str, plural: str, key: str) -> None:
        """Remove an object."""
        collection = self._collection(self._kind(root, plural).collection)
        self.cluster.store.remove(collection, collection.entries[key])

    def _respond(self, request: Request) -> Response:
        target = self._paths.find(request.path)
        if target is not None:
            self._kind(request.path.partition(f"/{target.kind.plural}")[0], target.kind.plural)
        try:
            status, body = immediately(self._wire.answer(request))
        except StatusError as error:
            status, body = error.code, encode(error.status)
        return Response(status, {}, body)

    def _kind(self, root: str, plural: str) -> Kind:
        root = root.partition("/namespaces/")[0]
        target = self._paths.find(f"{root}/{plural}")
        assert target is not None, f"{root}/{plural}"
        self._known.setdefault(target.kind.collection, ((root, plural), target.kind))
        return target.kind

    def _collection(self, name: str) -> Collection:
        return self.cluster.store.collection(name)

    def _record(self, collection: Collection, event: Event) -> None:
        """Show a change to those who watch."""
        self.version = event.version
        if collection.name in self._known:
            place, kind = self._known[collection.name]
            change = Change(event.version, event.type, place, _shown(kind, event.entry.data))
            self._changes.append(change)
            for watcher in list(self._watchers):
                self._tell(watcher, change)


def _shown(kind: Kind, data: bytes) -> JSON:
    tree: JSON = json.loads(kind.wrap(data))
    return tree
