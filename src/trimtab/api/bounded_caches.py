"""Caches that users cannot fill: what they hold is limited in number and in weight."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRIES = 16_384
_WEIGHT = 32 << 20
_LARGEST_SHARE = 8


class BoundedCache(Generic[K, V]):
    """Values by key. A full cache is cleared: it holds mostly values of objects that no longer exist.

    The weight of a value is about the number of bytes that it keeps in memory, its key included. A value that would
    take an eighth of the cache is not kept. May be used by several threads: at worst a value is computed twice.
    """

    __slots__ = ("_entries", "_most", "_values", "_weight")

    def __init__(self, *, weight: int = _WEIGHT, entries: int = _ENTRIES) -> None:
        self._values: dict[K, tuple[V, int]] = {}
        """Each value and its weight."""
        self._weight = 0
        self._most = weight
        self._entries = entries

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key; None if it is not kept."""
        found = self._values.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V, weight: int) -> V:
        """Keep a value, and return it."""
        if weight > self._most // _LARGEST_SHARE:
            return value
        replaced = self._values.pop(key, None)
        if replaced is not None:
            self._weight -= replaced[1]
        if len(self._values) >= self._entries or self._weight + weight > self._most:
            self._values.clear()
            self._weight = 0
        self._values[key] = (value, weight)
        self._weight += weight
        return value
