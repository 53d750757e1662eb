"""Sorting by many columns at once, fast: columns are packed into one integer, and only ties are compared again.

Comparing pods criterion by criterion costs a walk through the criteria for each comparison. Here the criteria become
the bits of one number, the first criterion its highest bits, and numpy sorts the numbers. Most columns need few bits: a
column that is the same for all pods needs none.

Large arrays are changed in place where no other reference exists: with 100,000 pods, allocating memory costs more than
the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trimtab.snapshot.columns import IntColumn, Mask, SmallColumn

SECOND = 10**9

_WIDEST = 63
_LARGE = 31
_INT32 = 2**31 - 1

Finer = Callable[[IntColumn], npt.NDArray[Any]]
"""From members to keys, so that these are worked out for those alone that need them."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Keys from 0 on, of at most `width` bits, that sort as the columns did that they were made from."""

    keys: IntColumn
    width: int

    def within(self, bits: int) -> Packed:
        """The same order in no more bits than that, which must be enough to number the keys."""
        return self if self.width <= bits else Packed(*_dense(self.keys))


def packed(columns: Sequence[npt.NDArray[Any]]) -> Packed:
    """One key for all columns of equal length: the first decides, then the second, and so on; smaller sorts first."""
    result = Packed(np.zeros(len(columns[0]), dtype=np.int64), 0)
    for column in columns:
        result = _with(result, column)
    return result


def stable_order(key: Packed) -> tuple[IntColumn, IntColumn]:
    """The places in the order of their keys, equal keys in the order of their places; and the keys in that order.

    Sorting numbers that hold the key and the place takes a sixth of the time of a stable argsort. Uses up the key.
    """
    size = len(key.keys)
    bits = max(size - 1, 0).bit_length()
    together = key.within(_WIDEST - bits).keys
    together <<= bits
    together += np.arange(size, dtype=np.int32)
    together.sort()
    places = together & ((1 << bits) - 1)
    together >>= bits
    return places, together


def newest_first(times: IntColumn, never: int) -> IntColumn:
    """Times as keys: the later sorts first, and a time that is not known before all others."""
    if not len(times):
        return times
    return np.where(times == never, -(times.max() + SECOND), -times)


def descending(values: npt.NDArray[np.float64]) -> IntColumn:
    """Numbers as keys: the greater sorts first, equal ones are equal."""
    codes: IntColumn = np.unique(-values, return_inverse=True)[1]
    return codes


def whole_seconds(times: IntColumn) -> IntColumn | SmallColumn:
    """Times as numbers that are equal if the times are, half as large if the times have whole seconds, as nearly all
    do."""
    if not len(times):
        return times
    since: IntColumn = times - times.min()
    seconds: IntColumn = since // SECOND
    return since if (seconds * SECOND != since).any() or seconds.max() > _INT32 else seconds.astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Ties:
    """Places of a sorted list that stand in runs of equal keys, run by run, and the number of each one's run."""

    places: IntColumn
    run: SmallColumn

    def __bool__(self) -> bool:
        return len(self.places) > 0


def ties(sorted_keys: npt.NDArray[Any]) -> Ties:
    """Where neighbours have equal keys."""
    return _runs(None, sorted_keys[1:] == sorted_keys[:-1])


def numbered(sorted_keys: npt.NDArray[Any]) -> SmallColumn:
    """The number of each run of equal keys, from 0 on."""
    numbers = np.zeros(len(sorted_keys), dtype=np.int32)
    np.cumsum(sorted_keys[1:] != sorted_keys[:-1], dtype=np.int32, out=numbers[1:])
    return numbers


def break_ties(order: IntColumn, tied: Ties, finer: Iterable[Finer]) -> None:
    """Order the members of each run by finer and finer keys, in place, for as long as some are still tied."""
    for key in finer:
        if not tied:
            return
        members = order[tied.places]
        keys = key(members)
        by = np.lexsort((keys, tied.run))
        order[tied.places] = members[by]
        keys = keys[by]
        tied = _runs(tied.places, (tied.run[1:] == tied.run[:-1]) & (keys[1:] == keys[:-1]))


def _runs(places: IntColumn | None, equal: Mask) -> Ties:
    """Ties among these places (all, where None), each of which is equal to the next or not."""
    member = np.zeros(len(equal) + 1, dtype=np.bool_)
    member[1:] = equal
    starts = ~member
    member[:-1] |= equal
    chosen = np.flatnonzero(member)
    return Ties(chosen if places is None else places[chosen], np.cumsum(starts[chosen], dtype=np.int32))


def _with(key: Packed, column: npt.NDArray[Any]) -> Packed:
    """The key, which it uses up, with a column below it."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    bits = (high - low).bit_length()
    if not bits:
        return key
    if bits >= _LARGE:
        column, bits = _narrow(column, bits)
        low = 0
    if key.width + bits > _WIDEST:
        key = Packed(*_dense(key.keys))
    if key.width + bits > _WIDEST:
        column, bits = _dense(column)
        low = 0
    keys = key.keys
    keys <<= bits
    keys += column
    keys -= low  # whatever ran over in the line before comes back here
    return Packed(keys, key.width + bits)


def _narrow(column: IntColumn, bits: int) -> tuple[npt.NDArray[Any], int]:
    """A column of large numbers, from 0 on: times in fewer bits, and numbers too far apart for any arithmetic."""
    if bits > _WIDEST:
        return _dense(column)
    seconds = whole_seconds(column)
    return seconds, int(seconds.max()).bit_length()


def _dense(keys: npt.NDArray[Any]) -> tuple[IntColumn, int]:
    """The same order in as few numbers as there are different keys."""
    distinct, codes = np.unique(keys, return_inverse=True)
    return codes, (len(distinct) - 1).bit_length()
