"""Objects by key, and by whatever they are looked for: the memory of an informer.

An index is a function from an object to the values that it is to be found under. Values and objects are kept in the
order they came in, so that what is read from an index does not depend on hashes.
"""

from __future__ import annotations

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
    """An index: the objects of a namespace."""
    return (an_object.metadata.namespace,)


def by_controller(an_object: Object) -> Iterable[str]:
    """An index: the objects that a controller owns, by its UID."""
    owner = an_object.metadata.controller
    return (owner.uid,) if owner else ()


class Store(Generic[T]):
    """Objects by key. Only its informer writes; everybody else reads."""

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
        """The keys that are not among these."""
        return [key for key in self._objects if key not in present]

    def by(self, index: str, value: str) -> list[T]:
        """The objects that an index has under a value."""
        return list(self._indexes[index].get(value, {}).values())

    def values(self, index: str) -> list[str]:
        """The values that an index has objects under."""
        return list(self._indexes[index])

    def put(self, key: Key, an_object: T) -> T | None:
        """Keep an object under its key; the one it takes the place of."""
        old = self._objects.get(key)
        self._objects[key] = an_object
        for name, function in self._functions.items():
            self._place(self._indexes[name], key, an_object, old, function)
        return old

    def remove(self, key: Key) -> T | None:
        """Forget an object; the one that was there."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, function in self._functions.items():
                for value in function(old):
                    _drop(self._indexes[name], value, key)
        return old

    @staticmethod
    def _place(index: dict[str, dict[Key, T]], key: Key, new: T, old: T | None, function: IndexFunction[T]) -> None:
        values = dict.fromkeys(function(new))
        if old is not None:
            for value in function(old):
                if value not in values:
                    _drop(index, value, key)
        for value in values:
            index.setdefault(value, {})[key] = new


def _drop(index: dict[str, dict[Key, T]], value: str, key: Key) -> None:
    held = index.get(value)
    if held is not None and held.pop(key, None) is not None and not held:
        del index[value]
