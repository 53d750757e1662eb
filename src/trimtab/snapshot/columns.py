"""Growing arrays: the storage of the tables of pods and nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

IntColumn = npt.NDArray[np.int64]
SmallColumn = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_FIRST_CAPACITY = 64
_GROWTH = 4
"""Arrays grow by a fourth: copying is cheap, and the unused half of doubled ones would count as memory of pods."""


class Rows:
    """The row of each name. Rows are dense, and freed rows are reused, so that columns stay as short as possible."""

    __slots__ = ("_free", "index", "names")

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """The number of rows, in use or free: the length of the columns."""
        return len(self.names)

    def __iter__(self) -> Iterator[int]:
        return iter(self.index.values())

    def take(self, name: str) -> int:
        """Assign a row to a name that has none. Names are interned: a store may hold the same one."""
        name = sys.intern(name)
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = len(self.names)
            self.names.append(name)
        self.index[name] = row
        return row

    def release(self, name: str) -> int:
        """Free the row of a name."""
        row = self.index.pop(name)
        self.names[row] = None
        self._free.append(row)
        return row

    def copy(self) -> Rows:
        """The same rows; changes of one do not affect the other."""
        made = Rows()
        made.index, made.names, made._free = dict(self.index), list(self.names), list(self._free)
        return made


class Columns(dict[str, npt.NDArray[Any]]):
    """Named arrays of one length, grown together."""

    def __init__(self, **kinds: npt.DTypeLike) -> None:
        super().__init__((name, np.zeros(_FIRST_CAPACITY, dtype=kind)) for name, kind in kinds.items())
        self.capacity = _FIRST_CAPACITY

    def reserve(self, rows: int) -> bool:
        """Grow to that many rows; true if the arrays were replaced."""
        if rows <= self.capacity:
            return False
        self.capacity = max(rows, self.capacity + self.capacity // _GROWTH)
        for name, array in self.items():
            self[name] = grown(array, self.capacity)
        return True

    def copy(self) -> Columns:
        """The same arrays; changes of one do not affect the other."""
        made = Columns()
        made.update((name, array.copy()) for name, array in self.items())
        made.capacity = self.capacity
        return made


def grown(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """A copy with more rows, which are zero. Each column is contiguous in memory, since columns are scanned."""
    larger = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype, order="F")
    larger[: len(array)] = array
    return larger
