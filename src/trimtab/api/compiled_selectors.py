"""Compiled label selectors of cached objects: each is compiled once for a version of its object.

To compile a selector takes from some microseconds to some milliseconds, and reconciles look the same selectors up again
and again. The compiled form is kept by the identity of the selector as written, which a cache replaces together with
its object: nothing has to be invalidated. What is kept is limited in bytes: objects that are reviewed and refused have
selectors, too, whose identity does not recur.
"""

from __future__ import annotations

from trimtab.api import selectors
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.selectors import NOTHING, Selector

_VALUE_WEIGHT = 100
"""Bytes that a label, an expression or a value takes in memory besides its text."""

_kept: BoundedCache[int, tuple[LabelSelector, Selector | InvalidError]] = BoundedCache()
"""The compiled form, or the error, by the identity of a selector; the selector is held, so that it keeps that."""


def compiled(selector: LabelSelector | None) -> Selector:
    """The same as `selectors.compile`, computed once for a selector. Raises InvalidError each time."""
    if selector is None:
        return NOTHING
    known = _kept.get(id(selector))
    if known is None:
        known = _kept.put(id(selector), (selector, _compile(selector)), _weight(selector))
    result = known[1]
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


def _weight(selector: LabelSelector) -> int:
    """About the bytes that a selector and its compiled form take, or its error, which quotes a value."""
    texts = [text for label in selector.match_labels.items() for text in label]
    for each in selector.match_expressions:
        texts += [each.key, *each.values]
    return 2 * (_VALUE_WEIGHT * (1 + len(texts)) + sum(map(len, texts)))
