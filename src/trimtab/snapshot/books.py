"""Values that are computed once for all pods that are alike, found by the packed form of what they depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_LIMIT = 16_384
_BYTES = 32 << 20
"""A book of this size holds mostly templates that no longer exist, and is cleared; so is one with keys of so many
bytes, since users choose how large a template is."""


class Book(Generic[T]):
    """The values by key."""

    __slots__ = ("_bytes", "_values", "times_cleared")

    def __init__(self) -> None:
        self._values: dict[bytes, T] = {}
        self._bytes = 0
        self.times_cleared = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: bytes, compute: Callable[[], T]) -> T:
        """The value of a key, computed if it is new."""
        found = self._values.get(key)
        if found is None:
            if len(self._values) >= _LIMIT or self._bytes + len(key) > _BYTES:
                self._values.clear()
                self._bytes = 0
                self.times_cleared += 1
            found = self._values[key] = compute()
            self._bytes += len(key)
        return found
