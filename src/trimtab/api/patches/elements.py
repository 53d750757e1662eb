"""Values and list elements: identity and order.

Elements are identified by their merge key or, if they are scalars, by their value. Values are compared as Kubernetes
compares them: 1, 1.0 and true are three different values, and comparing two objects is an error.

When Kubernetes sorts by a list that does not name an element, it treats the element as smaller in both directions of
the comparison. That is not an order, and the result depends on the algorithm: for up to twenty elements Kubernetes
uses an insertion sort, and ours gives the same result (`_sort_keys`). (It sorts longer lists in blocks. Only an empty
`$setElementOrder` with a list that is not empty gets here, and no known client sends that.)

Patches are as long as their authors make them, so nothing here takes longer than sorting the lists does: elements are
found through a `MergeKeyIndex`, never by a scan for each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from trimtab.api.errors import InvalidError

Object = dict[str, Any]
List = list[Any]

MARKER = "$patch"

OBJECT = "an object"
LIST = "a list"
_KINDS = {dict: OBJECT, list: LIST, str: "a string", bool: "a boolean", int: "an integer", float: "a number"}
_KINDS[type(None)] = "null"
_INT64 = range(-(2**63), 2**63)


def kind_of(value: Any) -> str:
    """The JSON type of the value. Kubernetes reads an integer beyond 64 bits as a floating point number."""
    if type(value) is int and value not in _INT64:
        return "a number"
    return _KINDS.get(type(value)) or type(value).__name__


def equal(left: Any, right: Any) -> bool:
    if kind_of(left) != kind_of(right):
        return False
    if isinstance(left, (dict, list)):
        raise _incomparable(left)
    return bool(left == right)


def scalar(value: Any) -> tuple[str, Any]:
    """The value as an element of a set in which 1, 1.0 and true are different."""
    if isinstance(value, (dict, list)):
        raise _incomparable(value)
    return kind_of(value), value


def _incomparable(value: Any) -> InvalidError:
    return InvalidError("", f"its elements cannot be identified by {kind_of(value)}: {brief(value)}")


def brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def copied(value: Any) -> Any:
    """A deep copy of the value, without shared objects."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def without_nulls(value: Any) -> Any:
    """A deep copy without null fields, also in lists; null elements stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def element_kind(*lists: List) -> str:
    """The JSON type of all elements of the lists; raises InvalidError if they differ."""
    kinds = {kind_of(item) for items in lists for item in items}
    if len(kinds) != 1:
        mixed = " and ".join(sorted(kinds)) or "no elements at all"
        raise InvalidError("", f"must have elements of one kind, in the object and the patch together, not {mixed}")
    kind = kinds.pop()
    if kind in (LIST, "null"):
        raise InvalidError("", f"has {kind} among its elements, which cannot be merged")
    return kind


def merge_key(element: Any, key: str) -> Any:
    if key not in _checked(element):
        raise InvalidError("", f"the element {brief(element)} lacks the merge key {key}")
    return element[key]


class MergeKeyIndex:
    """The places of the elements of a list by the values of their merge key.

    A lookup answers as a scan from the front with `equal` would. So an element that is not an object is an error for
    every value that no element before it has, and an object as merge key for every other object.
    """

    def __init__(self, items: List, key: str) -> None:
        objects = list(takewhile(lambda item: isinstance(item, dict), items))
        self._misfit = items[len(objects) : len(objects) + 1]
        self._places: dict[tuple[str, Any], list[int]] = {}
        """The places of each scalar, the last one first."""
        self._nested: dict[str, Any] = {}
        """The first object and the first list among the values."""
        for place in range(len(objects) - 1, -1, -1):
            if key in objects[place]:
                self.add(objects[place][key], place)

    def add(self, value: Any, place: int) -> None:
        """Add an element, before all others that have the same value."""
        if isinstance(value, (dict, list)):
            self._nested[kind_of(value)] = value
        else:
            self._places.setdefault(scalar(value), []).append(place)

    def remove_first(self, value: Any) -> None:
        """Remove the first element with this value, which has lost its merge key."""
        self._places[scalar(value)].pop()

    def first(self, value: Any) -> int | None:
        """The place of the first element with this value."""
        found = self.places(value)
        return found[-1] if found else None

    def places(self, value: Any) -> Sequence[int]:
        """The places of all elements with this value, the last one first."""
        is_nested = isinstance(value, (dict, list))
        if is_nested and kind_of(value) in self._nested:
            raise _incomparable(self._nested[kind_of(value)])
        found = () if is_nested else self._places.get(scalar(value), ())
        if not found:
            for item in self._misfit:
                _checked(item)
        return found


def split_deletions(items: List) -> tuple[List, List]:
    """The elements to keep, and those with the directive to delete them."""
    kept = [item for item in items if _checked(item).get(MARKER) != "delete"]
    return kept, [item for item in items if item.get(MARKER) == "delete"]


def _checked(element: Any) -> Object:
    if not isinstance(element, dict):
        raise InvalidError("", f"has {kind_of(element)} among its elements, which should be objects")
    return element


def ordered(merged: List, named: List, before: List, key: str, *, scalars: bool) -> List:
    """The merged list in its final order: elements in `named` in that order, the others as they were in `before`.

    An element that was before a named element goes before it; otherwise the named elements come first.
    """
    in_named, others = _partition(merged, named, key)
    identify: Callable[[Any], Any] = (lambda item: item) if scalars else (lambda item: merge_key(item, key))
    by_before = _Places(before, identify)
    first = _sorted_by(_Places(named, identify), in_named, scalars=scalars)
    second = _sorted_by(by_before, others, scalars=scalars)
    return _interleaved(first, second, by_before)


def _partition(items: List, named: List, key: str) -> tuple[List, List]:
    if key:
        index = MergeKeyIndex(named, key)
        found = [index.first(merge_key(item, key)) is not None for item in items]
    else:
        names = {scalar(item) for item in named}
        found = [scalar(item) in names for item in items]
    inside = [item for item, known in zip(items, found, strict=True) if known]
    outside = [item for item, known in zip(items, found, strict=True) if not known]
    return inside, outside


class _Places:
    """The first index of each element in a list that defines an order."""

    def __init__(self, items: List, identify: Callable[[Any], Any]) -> None:
        self._identify = identify
        self._places: dict[tuple[str, Any], int] = {}
        for place, item in enumerate(items):
            value = identify(item)
            nested = isinstance(value, (dict, list))
            self._places.setdefault((kind_of(value), None if nested else value), place)

    def of(self, item: Any) -> int | None:
        value = self._identify(item)
        if not isinstance(value, (dict, list)):
            return self._places.get((kind_of(value), value))
        if (kind_of(value), None) in self._places:
            raise _incomparable(value)
        return None


def _sorted_by(places: _Places, items: List, *, scalars: bool) -> List:
    deletions: List = []
    if not scalars:
        items, deletions = split_deletions(items)
    keys = _sort_keys(_places_of(items, places))
    return [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])] + deletions


def _places_of(items: List, places: _Places) -> list[int | None]:
    """The place of each item, as an insertion sort asks for them: that of the first when another one has a place."""
    found: list[int | None] = [None]
    first = items[:1]
    for item in items[1:]:
        found.append(places.of(item))
        if found[-1] is not None and first:
            found[0] = places.of(first.pop())
    return found[: len(items)]


def _sort_keys(places: Sequence[int | None]) -> Iterator[tuple[float, bool, int]]:
    """Keys that give the order of an insertion sort in which an item without a place is before all that are sorted
    already, and each item with a place is before those without one.

    Items with places end up in order. One without goes to the front, and stays before all that are there by then; a
    later item gets past it only if its place is before all of these.
    """
    least = math.inf
    for at, place in enumerate(places):
        if place is None:
            yield least, False, -at
        else:
            yield place, True, at
            least = min(least, place)


def _interleaved(first: List, second: List, places: _Places) -> List:
    """Both lists in their own order; an element of `second` goes before one of `first` if it was before it."""
    result: List = []
    waiting = second[::-1]
    for item in first:
        while waiting and _was_before(places, waiting[-1], item):
            result.append(waiting.pop())
        result.append(item)
    return result + waiting[::-1]


def _was_before(places: _Places, left: Any, right: Any) -> bool:
    ours, theirs = places.of(left), places.of(right)
    return ours is not None and theirs is not None and ours < theirs
