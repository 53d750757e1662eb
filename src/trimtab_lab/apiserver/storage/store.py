"""Objects in memory: encoded bytes by key, one increasing version for all, and a history of events.

1. An object is kept as the JSON it was encoded to, without `kind` and `apiVersion` (they depend on the requested path).
   `Entry.tree` decodes a copy, which the caller may change. Decoding a pod takes about ten microseconds; keeping the
   decoded pod would take five times its memory.
2. Every change takes the next version, writes it into the object and appends an `Event` to the history of its
   collection. The event refers to the new entry and to the one that it replaced.
3. A watch resumes from the history. A list in pages is consistent because the state at an older version is the present
   state with the later events reverted (`Collection.at`).
4. A collection keeps the last `history` events. Older ones are compacted: asking for them raises `CompactedError`.

Nothing here awaits: between reading an entry and committing its successor no other task runs, unless the caller awaits.
`replace` and `remove` therefore take the entry that the caller read, and fail if it is no longer the present one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

import msgspec

Tree = dict[str, Any]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode
_version_of = attrgetter("version")

HISTORY = 20_000
"""How many events a collection keeps by default; about a minute of a busy lab."""


class KeyExistsError(Exception):
    """The key exists already; `entry` is the object that has it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.key)
        self.entry = entry


class ConflictError(Exception):
    """The entry is no longer the present one: the object was written in between."""


class CompactedError(Exception):
    """The history does not reach back to a version."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version = version
        self.oldest = oldest


class Entry:
    """One object at one version, with the fields that are needed without decoding it. A dry run has version 0."""

    __slots__ = ("data", "deleting", "fields", "key", "labels", "name", "namespace", "owners", "uid", "version")

    def __init__(self, key: str, tree: Tree, version: int) -> None:
        metadata = tree["metadata"]
        if version:
            metadata["resourceVersion"] = str(version)
        self.key = key
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.version = version
        self.labels: Mapping[str, str] = metadata.get("labels") or _NONE
        self.owners: tuple[str, ...] = tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ())
        self.deleting: bool = "deletionTimestamp" in metadata
        self.data: bytes = encode(tree)
        self.fields: Mapping[str, str] | None = None

    def rewrite(self, tree: Tree) -> None:
        """Show the object differently from now on, at the same version: the schema that it is read with has changed."""
        self.data = encode(tree)
        self.fields = None

    def tree(self) -> Tree:
        """A fresh copy of the object, without `kind` and `apiVersion`."""
        tree: Tree = decode(self.data)
        return tree


_NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Event:
    """A change of one object. `entry` is the object afterwards; for a deleted object, its last state."""

    version: int
    type: EventType
    entry: Entry
    previous: Entry | None


Listener = Callable[["Collection", Event], None]


class Collection:
    """The objects of one resource."""

    def __init__(self, name: str, history: int) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.events: list[Event] = []
        self.compacted = 0
        self._order: list[str] = []
        self._history = history

    def __len__(self) -> int:
        return len(self.entries)

    def present(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """The present objects in the order of their keys, optionally only those with a prefix, or after a key."""
        order, entries = self._order, self.entries
        if not prefix and not after:
            return map(entries.__getitem__, order)
        low = bisect_right(order, after) if after else bisect_left(order, prefix)
        high = bisect_left(order, _beyond(prefix)) if prefix else len(order)
        return map(entries.__getitem__, order[low:high])

    def at(self, version: int, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """The objects as they were at a version: later events are reverted."""
        changed = {event.entry.key: event.previous for event in reversed(self.since(version))}
        if not changed:
            yield from self.present(prefix, after)
            return
        for key in sorted(self.entries.keys() | changed.keys()):
            entry = changed[key] if key in changed else self.entries[key]
            if entry is not None and key.startswith(prefix) and key > after:
                yield entry

    def since(self, version: int) -> list[Event]:
        """The events after a version, oldest first. Raises CompactedError."""
        if version < self.compacted:
            raise CompactedError(version, self.compacted)
        if not self.events or self.events[-1].version <= version:
            return []
        return self.events[bisect_right(self.events, version, key=_version_of) :]

    def record(self, event: Event) -> None:
        """Apply an event, and append it to the history."""
        key = event.entry.key
        if event.type == "DELETED":
            del self.entries[key]
            del self._order[bisect_left(self._order, key)]
        else:
            if event.previous is None:
                insort(self._order, key)
            self.entries[key] = event.entry
        self.events.append(event)
        if len(self.events) >= 2 * self._history:
            self.forget(len(self.events) - self._history)

    def forget(self, count: int) -> None:
        """Compact the oldest events."""
        if count > 0:
            self.compacted = self.events[count - 1].version
            del self.events[:count]


class Store:
    """All collections, and the version that they share."""

    def __init__(self, history: int = HISTORY) -> None:
        self.version = 1
        self._collections: dict[str, Collection] = {}
        self._history = history
        self._listeners: list[Listener] = []

    def collection(self, name: str) -> Collection:
        """A collection by its name; it is created on first use."""
        collection = self._collections.get(name)
        if collection is None:
            collection = self._collections[name] = Collection(name, self._history)
        return collection

    def collections(self) -> list[Collection]:
        """All collections that were used so far."""
        return list(self._collections.values())

    def listen(self, listener: Listener) -> None:
        """Call a function with every event, right after its commit."""
        self._listeners.append(listener)

    def insert(self, collection: Collection, key: str, tree: Tree) -> Entry:
        """Store a new object. Raises KeyExistsError."""
        if key in collection.entries:
            raise KeyExistsError(collection.entries[key])
        entry = Entry(key, tree, self.version + 1)
        self._commit(collection, "ADDED", entry, None)
        return entry

    def replace(self, collection: Collection, seen: Entry, tree: Tree) -> Entry:
        """Store a new state of an object that the caller read as `seen`. Raises ConflictError."""
        self._check(collection, seen)
        entry = Entry(seen.key, tree, self.version + 1)
        self._commit(collection, "MODIFIED", entry, seen)
        return entry

    def remove(self, collection: Collection, seen: Entry, tree: Tree | None = None) -> Entry:
        """Delete an object that the caller read as `seen`; `tree` is its last state if that differs. Raises
        ConflictError."""
        self._check(collection, seen)
        entry = Entry(seen.key, seen.tree() if tree is None else tree, self.version + 1)
        self._commit(collection, "DELETED", entry, seen)
        return entry

    def compact(self) -> None:
        """Compact the whole history: watches and pages cannot resume from older versions."""
        for collection in self._collections.values():
            collection.forget(len(collection.events))
            collection.compacted = self.version

    def _check(self, collection: Collection, seen: Entry) -> None:
        if collection.entries.get(seen.key) is not seen:
            raise ConflictError(seen.key)

    def _commit(self, collection: Collection, kind: EventType, entry: Entry, previous: Entry | None) -> None:
        self.version = entry.version
        event = Event(entry.version, kind, entry, previous)
        collection.record(event)
        for listener in self._listeners:
            listener(collection, event)


def key_of(namespace: str, name: str) -> str:
    """The key of an object. Keys sort as in etcd: `a-b/x` before `a/x`."""
    return f"{namespace}/{name}" if namespace else name


def _beyond(prefix: str) -> str:
    """The first text that sorts after everything with the prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
