"""A slow twin of `trimtab.api.patches.strategic`: lists are scanned for each element, deleted from one at a time, and
sorted by insertion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from trimtab.api.errors import InvalidError
from trimtab.api.patches.elements import (
    MARKER,
    OBJECT,
    List,
    Object,
    brief,
    copied,
    element_kind,
    equal,
    kind_of,
    merge_key,
    scalar,
    split_deletions,
    without_nulls,
)
from trimtab.api.patches.mergekeys import Merging, Schema

P = ParamSpec("P")
T = TypeVar("T")

_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

_PLAIN_STEP = re.compile(r"[A-Za-z_]\w*|\$[A-Za-z]+(/\w+)?")
_DROPPED = object()


def strategic_merge(original: Any, patch: Any, schema: Schema) -> Object:
    """Apply `patch` to `original`; neither is changed. `null` counts as an empty object."""
    try:
        return _merge_objects(_document(original, "object"), _document(patch, "patch"), schema)
    except RecursionError:
        raise InvalidError("", "is nested too deeply to be patched") from None


def _document(value: Any, what: str) -> Object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidError("", f"the {what} must be an object, not {kind_of(value)}")
    return {key: copied(item) for key, item in value.items()}


# Objects. From here on everything is a private copy, and is changed in place.


def _merge_objects(original: Object, patch: Object, schema: Schema) -> Object:
    if MARKER in patch:
        return _apply_marker(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _at(key, _set_element_order, original, patch, key, schema)
    for key in sorted(patch, key=lambda key: not key.startswith(_DELETE_FROM)):
        _at(key, _merge_field, original, key, patch[key], schema)
    return original


def _apply_marker(patch: Object) -> Object:
    directive = patch.pop(MARKER)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _bad_marker(directive)


def _retain_keys(original: Object, patch: Object) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list) or any(isinstance(key, (dict, list)) for key in retained):
        raise InvalidError(_RETAIN_KEYS, "must be a list of the fields to keep")
    for key, value in patch.items():
        if value is not None and key not in retained and not key.startswith((_DELETE_FROM, _ORDER)):
            raise InvalidError(_RETAIN_KEYS, f"does not name {key}, which the patch sets")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _merge_field(original: Object, key: str, value: Any, schema: Schema) -> None:
    deleting = key.startswith(_DELETE_FROM)
    name = (_target(key, _DELETE_FROM) or key) if deleting else key
    if value is None:
        original.pop(name, None)
    elif name not in original or kind_of(original[name]) != kind_of(value):
        if not deleting:
            _set_new(original, name, value)
    elif isinstance(value, dict):
        merging = schema.object_field(name)
        if merging.strategy != "replace":
            value = _merge_objects(original[name], value, merging.schema)
        original[name] = value
    elif isinstance(value, list):
        window = _Window(original[name], len(original[name]))
        original[name] = _merge_lists(window, value, schema.list_field(name), deleting=deleting)
    else:
        original[name] = value


def _set_new(original: Object, name: str, value: Any) -> None:
    cleaned = _without_directives(without_nulls(value))
    if cleaned is _DROPPED:
        original.pop(name, None)
    else:
        original[name] = cleaned


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        if MARKER in value:
            return _DROPPED
        kept = ((key, _without_directives(item)) for key, item in value.items())
        return {key: item for key, item in kept if item is not _DROPPED}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROPPED]
    return value


# Lists.


@dataclass(slots=True)
class _Window:
    """The first `length` items of a list, edited in place as Go edits a slice.

    A deletion moves the items behind it forward and leaves the last one in the list twice; an addition overwrites the
    leftover. `$setElementOrder` then takes its order from this list.
    """

    items: List
    length: int

    def view(self) -> List:
        return self.items[: self.length]

    def delete(self, place: int) -> None:
        self.items[place : self.length - 1] = self.items[place + 1 : self.length]
        self.length -= 1

    def append(self, item: Any) -> None:
        self.items[self.length : self.length + 1] = [item]
        self.length += 1


def _merge_lists(window: _Window, patch: List, merging: Merging, *, deleting: bool) -> List:
    original = window.items
    if merging.strategy != "merge" and not deleting:
        return patch
    if not original and not patch:
        return original
    if element_kind(original, patch) == OBJECT:
        return _merge_elements(window, patch, merging)
    if deleting:
        gone = {scalar(item) for item in patch}
        return [item for item in original if scalar(item) not in gone]
    # With nothing to add, the original itself is deduplicated, and defines the order.
    merged = _deduplicated(original + patch if patch else original)
    return ordered(merged, patch, original, merging.key, scalars=True)


def _merge_elements(window: _Window, patch: List, merging: Merging) -> List:
    if not merging.key:
        raise InvalidError("", "its elements are objects, but the schema has no merge key for them")
    window, plain = _apply_element_markers(window, patch, merging.key)
    before = window.view()
    for element in plain:
        _merge_element(window, element, merging)
    return ordered(window.view(), plain, before, merging.key, scalars=False)


def _apply_element_markers(window: _Window, patch: List, key: str) -> tuple[_Window, List]:
    plain: List = []
    replacing = False
    for element in patch:
        if MARKER not in element:
            plain.append(element)
            continue
        directive = element[MARKER]
        if directive == "delete":
            _delete_matching(window, key, merge_key(element, key))
        elif directive == "replace":
            replacing = True
        else:
            raise _bad_marker(directive)
    return (_Window(plain, len(plain)), []) if replacing else (window, plain)


def _delete_matching(window: _Window, key: str, value: Any) -> None:
    while (place := find(window.view(), key, value)) is not None:
        window.delete(place)


def _merge_element(window: _Window, element: Object, merging: Merging) -> None:
    value = merge_key(element, merging.key)
    place = find(window.view(), merging.key, value)
    if place is None:
        window.append(element)
    else:
        step = f"[{merging.key}={json.dumps(value)}]"
        window.items[place] = _at(step, _merge_objects, window.items[place], element, merging.schema)


def _deduplicated(items: List) -> List:
    """Each scalar once. The last item replaces a duplicate, in `items` itself too."""
    length = len(items)
    at = 0
    while at < length:
        other = at + 1
        while other < length:
            if equal(items[at], items[other]):
                length -= 1
                items[other] = items[length]
            else:
                other += 1
        at += 1
    return items[:length]


# The order of lists.


def _set_element_order(original: Object, patch: Object, key: str, schema: Schema) -> None:
    order = patch.pop(key)
    if not isinstance(order, list):
        raise InvalidError("", f"must be a list, not {kind_of(order)}")
    name = _target(key, _ORDER)
    current, changes = _list_at(original, name, "object"), _list_at(patch, name, "patch")
    merging = schema.list_field(name)
    _check_order(changes or [], order, merging.key)
    if current is None and changes is None:
        return
    patch.pop(name, None)
    held = current or []
    length = len(held)
    if changes is None:
        merged = held
    elif current is None:
        merged = _without_directives(changes)
    else:
        merged = _merge_lists(_Window(held, length), changes, merging, deleting=False)
    before = held[:length]  # as the merge has left it, not as it was
    scalars = element_kind(before, changes or []) != OBJECT
    original[name] = ordered(merged, order, before, merging.key, scalars=scalars)


def _list_at(holder: Object, name: str, what: str) -> List | None:
    if name not in holder:
        return None
    value = holder[name]
    if not isinstance(value, list):
        raise InvalidError("", f"orders {name}, which is {kind_of(value)} in the {what}")
    return value


def _check_order(changes: List, order: List, key: str) -> None:
    """Every element of the patch that is not a deletion must be in the order, in the same sequence."""
    if not order or not changes:
        return
    waiting = split_deletions(changes)[0] if key else changes
    place = 0
    for named in order:
        while place < len(waiting) and _has_marker(waiting[place]):
            place += 1
        if place == len(waiting):
            return
        if key:
            place += equal(merge_key(waiting[place], key), merge_key(named, key))
        else:
            place += equal(waiting[place], named)
    if place < len(waiting):
        raise InvalidError("", f"does not name {brief(waiting[place])}, or not in the order of the patch")


# Elements, found by scans.


def find(items: List, key: str, value: Any) -> int | None:
    """The index of the first element with this value of its merge key."""
    for place, item in enumerate(items):
        if key in _checked(item) and equal(item[key], value):
            return place
    return None


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
        found = [find(named, key, merge_key(item, key)) is not None for item in items]
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
            equal(value, value)  # raises: two objects cannot be compared
        return None


def _sorted_by(places: _Places, items: List, *, scalars: bool) -> List:
    deletions: List = []
    if not scalars:
        items, deletions = split_deletions(items)
    result: List = []
    for item in items:
        at = len(result)
        while at > 0 and _before(places, item, result[at - 1]):
            at -= 1
        result.insert(at, item)
    return result + deletions


def _before(places: _Places, left: Any, right: Any) -> bool:
    ours = places.of(left)
    if ours is None:
        return True
    theirs = places.of(right)
    return theirs is None or ours < theirs


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


# Single values.


def _at(step: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`, with `step` added to the paths of its errors."""
    try:
        return function(*args, **kwargs)
    except InvalidError as error:
        plain = step.startswith("[") or _PLAIN_STEP.fullmatch(step)
        raise error.under(step if plain else f"[{step}]") from None


def _has_marker(item: Any) -> bool:
    return isinstance(item, dict) and MARKER in item


def _target(key: str, directive: str) -> str:
    prefix, slash, name = key.partition("/")
    if prefix != directive or not slash:
        raise InvalidError("", f"must be written {directive}/FIELD")
    return name


def _bad_marker(directive: Any) -> InvalidError:
    return InvalidError(MARKER, f'must be "delete" or "replace", not {brief(directive)}')
