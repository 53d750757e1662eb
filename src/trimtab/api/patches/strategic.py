"""Strategic merge patch, exactly as a Kubernetes API server applies it.

A patch is the part of the object that should change. Objects are merged field by field, `null` deletes a field, and a
list is either replaced or, if its schema has a merge key (`mergekeys`), merged element by element. Directives in the
patch express everything else:

    $patch: delete | replace          in an object, or in an element of a merged list
    $deleteFromPrimitiveList/FIELD    scalars to remove from a list
    $setElementOrder/FIELD            the final order of a list
    $retainKeys                       the fields of an object to keep; all others are removed

Kubernetes' surprising behaviour is kept, so that the lab does not differ from a real API server:

1. New elements of a merged list come *before* the elements that only the original has.
2. An element with `$patch: replace` replaces the list with the *other* elements of the patch; its own content is lost.
3. A new field is cleaned: nulls are removed, and every object in it with `$patch`, whatever the directive.
   A new *element* of a merged list is not cleaned: nulls and directives inside it stay.
4. In a list or object that is replaced, directives and nulls are ordinary content and stay.
5. A field that is unknown to the schema is an error only if both documents have an object there, or both a list.
   `$setElementOrder` is an error if neither list has an element.
6. Elements that a patch deletes affect the list from which the order is computed (`_Window`); and some elements are
   in no order (`elements`).

Where Kubernetes' result is random, it is deterministic here. Fields are processed in the order of the patch, but
`$deleteFromPrimitiveList` first (Go iterates over a map in random order). A merge never overwrites the original through
spare capacity, which would matter only if a merged list of scalars has duplicates. A list for a field that is not a
list is always refused (Go accepts it if the field is a pointer, which no published schema shows). Input that makes the
Go program panic, such as an object as merge key, is an `InvalidError`.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from trimtab.api.errors import InvalidError
from trimtab.api.patches.elements import (
    MARKER,
    OBJECT,
    List,
    MergeKeyIndex,
    Object,
    brief,
    copied,
    element_kind,
    equal,
    kind_of,
    merge_key,
    ordered,
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
    names = set(retained)
    for key, value in patch.items():
        if value is not None and key not in names and not key.startswith((_DELETE_FROM, _ORDER)):
            raise InvalidError(_RETAIN_KEYS, f"does not name {key}, which the patch sets")
    for key in [key for key in original if key not in names]:
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

    def delete(self, places: Iterable[int]) -> None:
        """Delete the items at these places, one after the other in this order; no other was deleted before."""
        gone: set[int] = set()
        leftovers: List = []
        last = self.length - 1
        for place in places:
            leftovers.append(self.items[last])
            gone.add(place)
            while last in gone:
                last -= 1
        kept = [item for place, item in enumerate(self.view()) if place not in gone]
        self.items[: self.length] = kept + leftovers[::-1]
        self.length = len(kept)

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
    index = MergeKeyIndex(before, merging.key)
    for element in plain:
        _merge_element(window, index, element, merging)
    return ordered(window.view(), plain, before, merging.key, scalars=False)


def _apply_element_markers(window: _Window, patch: List, key: str) -> tuple[_Window, List]:
    plain: List = []
    replacing = False
    index = MergeKeyIndex(window.view(), key)
    gone: dict[int, None] = {}
    for element in patch:
        if MARKER not in element:
            plain.append(element)
            continue
        directive = element[MARKER]
        if directive == "delete":
            gone |= dict.fromkeys(reversed(index.places(merge_key(element, key))))
        elif directive == "replace":
            replacing = True
        else:
            raise _bad_marker(directive)
    window.delete(gone)
    return (_Window(plain, len(plain)), []) if replacing else (window, plain)


def _merge_element(window: _Window, index: MergeKeyIndex, element: Object, merging: Merging) -> None:
    value = merge_key(element, merging.key)
    place = index.first(value)
    if place is None:
        index.add(value, window.length)
        window.append(element)
        return
    step = f"[{merging.key}={json.dumps(value)}]"
    merged = _at(step, _merge_objects, window.items[place], element, merging.schema)
    window.items[place] = merged
    if merging.key not in merged:  # the value is null, which deletes the field
        index.remove_first(value)


def _deduplicated(items: List) -> List:
    """Each scalar once. The last item replaces a duplicate, in `items` itself too."""
    places: dict[tuple[str, Any], list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(scalar(item), []).append(place)
    length = len(items)
    at = 0
    while at < length:
        same = places[scalar(items[at])]  # a heap, in which places that are cut off may remain
        while same and (place := heapq.heappop(same)) < length:
            if place > at:
                length -= 1
                items[place] = items[length]
                heapq.heappush(places[scalar(items[place])], place)
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
