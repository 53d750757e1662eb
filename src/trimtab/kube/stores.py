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


class Store(Generic[T]):
    """Objects by key. Only its informer writes to it."""

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def get(self, key: Key) -> T | None:
        """The object of that key, if there is one."""
        return self._objects.get(key)

    def keys_not_in(self, present: Set[Key]) -> list[Key]:
        """The keys in the store that are not among these."""
        return [key for key in self._objects if key not in present]

    def by(self, index: str, value: str) -> list[T]:
        """The objects under a value of an index."""
        return list(self._indexes[index].get(value, {}).values())

    def values(self, index: str) -> list[str]:
        """The values of an index that have objects."""
        return list(self._indexes[index])

    def put(self, key: Key, an_object: T) -> T | None:
        """Store an object; return the one that it replaces. If an index function fails, nothing is changed."""
        old = self._objects.get(key)
        if old is None:
            key = Key(sys.intern(key))  # other tables of the process hold the same one
        values = {name: dict.fromkeys(function(an_object)) for name, function in self._functions.items()}
        self._objects[key] = an_object
        for name, function in self._functions.items():
            self._update_index(self._indexes[name], key, an_object, values[name], () if old is None else function(old))
        return old

    def remove(self, key: Key) -> T | None:
        """Remove an object; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, function in self._functions.items():
                for value in function(old):
                    _drop(self._indexes[name], value, key)
        return old

    @staticmethod
    def _update_index(
        index: dict[str, dict[Key, T]], key: Key, new: T, values: Mapping[str, None], before: Iterable[str]
    ) -> None:
        for value in before:
            if value not in values:
                _drop(index, value, key)
        for value in values:
            index.setdefault(value, {})[key] = new


def _drop(index: dict[str, dict[Key, T]], value: str, key: Key) -> None:
    objects = index.get(value)
    if objects is not None and objects.pop(key, None) is not None and not objects:
        del index[value]
