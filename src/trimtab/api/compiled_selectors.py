"""Compiled label selectors of cached objects: each is compiled once for a version of its object.

To compile a selector takes from some microseconds to some milliseconds, and reconciles look the same selectors up again
and again. The compiled form is kept by the identity of the selector as written, which a cache replaces together with
its object: nothing has to be invalidated. What is kept is limited; when it is full, it is cleared.
"""

from __future__ import annotations

from trimtab.api import selectors
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.selectors import NOTHING, Selector

_LIMIT = 500_000
"""Labels, expressions and values of all selectors that are kept, and one for each."""


class _Kept:
    """The compiled form, or the error, by the identity of a selector; the selector is held, so that it keeps that."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[LabelSelector, Selector | InvalidError]] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._results)

    def get(self, selector: LabelSelector) -> Selector | InvalidError:
        """The compiled form, or the error."""
        known = self._results.get(id(selector))
        if known is None:
            size = 1 + selectors.entries(selector)
            known = (selector, _compile(selector))
            if size <= selectors.MAX_ENTRIES:  # a larger one is invalid, which is found at once
                self._add(known, size)
        return known[1]

    def _add(self, known: tuple[LabelSelector, Selector | InvalidError], size: int) -> None:
        if self._size + size > _LIMIT:
            self._results.clear()
            self._size = 0
        self._results[id(known[0])] = known
        self._size += size


_kept = _Kept()


def compiled(selector: LabelSelector | None) -> Selector:
    """The same as `selectors.compile`, computed once for a selector. Raises InvalidError each time."""
    if selector is None:
        return NOTHING
    result = _kept.get(selector)
    if isinstance(result, InvalidError):
        raise InvalidError(result.path, result.reason)  # a new one: an error keeps the frames that it was raised in
    return result


def compiled_or_nothing(selector: LabelSelector | None) -> Selector:
    """The compiled selector; one that is invalid matches nothing."""
    try:
        return compiled(selector)
    except InvalidError:
        return NOTHING


def _compile(selector: LabelSelector) -> Selector | InvalidError:
    try:
        return selectors.compile(selector)
    except InvalidError as error:
        return InvalidError(error.path, error.reason)
