"""The store of an informer: objects by key and by index.

An index is a function from an object to the values under which it is found. Values and objects keep their insertion
order, so that reads from an index do not depend on hashes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Generic, Protocol, TypeVar

from trimtab.api.meta import ObjectMeta
from trimtab.kube.resources import Key, object_key


class Object(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""
        ...


T = TypeVar("T", bound=Object)

IndexFunction = Callable[[T], Iterable[str]]


def key_of(an_object: Object) -> Key:
    """The key of an object."""
    return object_key(an_object.metadata.namespace, an_object.metadata.name)


def by_namespace(an_object: Object) -> Iterable[str]:
    """Index of objects by namespace."""
    return (an_object.metadata.namespace,)


def by_controller(an_object: Object) -> Iterable[str]:
    """Index of objects by the UID of their controller."""
    owner = an_object.metadata.controller
    return (owner.uid,) if owner else ()


def orphans(an_object: Object) -> Iterable[str]:
    """Index of objects without a controller, by namespace."""
    return () if an_object.metadata.controller is not None else (an_object.metadata.namespace,)


class _Index(Generic[T]):
    """The objects under each value of a function."""

    __slots__ = ("function", "objects")

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self.objects: dict[str, dict[Key, T]] = {}

    def values_of(self, an_object: T) -> tuple[str, ...]:
        """The values under which an object is found."""
        return tuple(self.function(an_object))

    def former_values(self, old: T | None) -> tuple[str, ...]:
        """The values under which an object was found: none, if the function failed for it when the index was added."""
        if old is None:
            return ()
        try:
            return tuple(self.function(old))
        except Exception:  # noqa: BLE001 - it was reported when the index was added
            return ()

    def entries(self, objects: Mapping[Key, T]) -> list[tuple[str, Key, T]]:
        """The values of these objects, each with the key and the object; most indexes have none for most objects."""
        function = self.function
        return [(value, key, each) for key, each in objects.items() for value in function(each)]

    def add(self, entries: Iterable[tuple[str, Key, T]]) -> None:
        """Add entries."""
        for value, key, new in entries:
            self._under(value)[key] = new

    def update(self, key: Key, new: T, values: tuple[str, ...], before: tuple[str, ...]) -> None:
        """Set the values of an object that had others before."""
        for value in before:
            if value not in values:
                self.drop(key, value)
        for value in values:
            self._under(value)[key] = new

    def _under(self, value: str) -> dict[Key, T]:
        objects = self.objects.get(value)
        if objects is None:
            objects = self.objects[value] = {}
        return objects

    def drop(self, key: Key, value: str) -> None:
        """Remove an object from a value."""
        objects = self.objects.get(value)
        if objects is not None and objects.pop(key, None) is not None and not objects:
            del self.objects[value]


class Store(Generic[T]):
    """Objects by key. Only its informer writes to it."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes = {name: _Index(function) for name, function in (indexes or {}).items()}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def get(self, key: Key) -> T | None:
        """The object of that key, if there is one."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """The keys of all objects."""
        return list(self._objects)

    def has_none_of(self, keys: Iterable[Key]) -> bool:
        """Whether no object has any of these keys."""
        return self._objects.keys().isdisjoint(keys)

    def keys_not_in(self, present: Set[Key]) -> list[Key]:
        """The keys in the store that are not among these."""
        return [key for key in self._objects if key not in present]

    def by(self, index: str, value: str) -> list[T]:
        """The objects under a value of an index."""
        return list(self._indexes[index].objects.get(value, {}).values())

    def values(self, index: str) -> list[str]:
        """The values of an index that have objects."""
        return list(self._indexes[index].objects)

    def add_index(self, name: str, function: IndexFunction[T]) -> dict[Key, Exception]:
        """Add an index over what is stored, too; the objects for which the function fails are not in it."""
        failed: dict[Key, Exception] = {}
        index = self._indexes[name] = _Index(function)
        for key, an_object in self._objects.items():
            try:
                index.update(key, an_object, index.values_of(an_object), ())
            except Exception as error:  # noqa: BLE001 - no object may stop the others
                failed[key] = error
        return failed

    def remove_index(self, name: str) -> None:
        """Remove an index."""
        del self._indexes[name]

    def put(self, key: Key, an_object: T) -> T | None:
        """Store an object; return the one that it replaces. If an index function fails, nothing is changed."""
        old = self._objects.get(key)
        if old is None:
            self.insert_all({key: an_object})
            return None
        changes = [(index, index.values_of(an_object), index.former_values(old)) for index in self._indexes.values()]
        self._objects[key] = an_object
        for index, values, before in changes:
            if values or before:
                index.update(key, an_object, values, before)
        return old

    def insert_all(self, objects: Mapping[Key, T]) -> None:
        """Store objects that were not there. If an index function fails for one, nothing is changed."""
        interned = {Key(sys.intern(key)): new for key, new in objects.items()}  # other tables hold the same keys
        found = [(index, index.entries(interned)) for index in self._indexes.values()]
        self._objects.update(interned)
        for index, entries in found:
            index.add(entries)

    def remove(self, key: Key) -> T | None:
        """Remove an object; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                for value in index.former_values(old):
                    index.drop(key, value)
        return old
