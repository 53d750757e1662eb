"""Strategic merge patch, exactly as a Kubernetes API server applies it.

The idea: a patch is the part of the object that should change. Objects are merged field by field, `null` deletes a
field, and a list is either replaced whole or, where its schema names a merge key (`mergekeys`), merged element by
element. What cannot be said by resembling the object is said by directives inside the patch:

    $patch: delete | replace          in an object, or in an element of a merged list
    $deleteFromPrimitiveList/FIELD    scalars to take out of a list
    $setElementOrder/FIELD            the order that a list shall have afterwards
    $retainKeys                       the fields of an object that stay; all others go

The rest is surprises. They are kept, for a lab that answers better than Kubernetes would teach wrong lessons:

1. New elements of a merged list come *before* the elements that only the original has.
2. An element with `$patch: replace` replaces the list by the *other* elements of the patch; its own content is lost.
3. A new field is cleaned: nulls go, and so does every object in it that carries `$patch`, whatever the directive says.
   A new *element* of a merged list is not cleaned: nulls and directives inside it stay as they are written.
4. In a list or object that is replaced whole, directives and nulls are ordinary content and stay.
5. A field that is unknown to the schema is an error only where both documents have an object, or both a list, there.
   `$setElementOrder` is an error where neither list has an element.
6. When an element is sorted by a list that does not name it, Kubernetes calls it the smaller one whichever way it is
   asked, so that the outcome depends on the algorithm: `_sorted_by` has to be an insertion sort.
7. Elements that a patch deletes leave traces in the list against which the order is computed (`_Window`).

Two things that Kubernetes leaves to chance are settled here. Fields are taken in the order of the patch, but
`$deleteFromPrimitiveList` first (Go visits a map in random order). And a merge never overwrites the original through
spare capacity, which would matter only where a merged list of scalars holds duplicates. What makes the Go program
panic, such as a merge key that is itself an object, is an `InvalidError` like every other refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from trimtab.api.errors import InvalidError
from trimtab.api.patches.mergekeys import Merging, Schema

Object = dict[str, Any]
List = list[Any]
P = ParamSpec("P")
T = TypeVar("T")

_MARKER = "$patch"
_RETAIN_KEYS = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

_OBJECT = "an object"
_LIST = "a list"
_KINDS = {dict: _OBJECT, list: _LIST, str: "a string", bool: "a boolean", int: "an integer", float: "a number"}
_KINDS[type(None)] = "null"
_INT64 = range(-(2**63), 2**63)

_PLAIN_STEP = re.compile(r"[A-Za-z_]\w*|\$[A-Za-z]+(/\w+)?")
_DROPPED = object()


def strategic_merge(original: Any, patch: Any, schema: Schema) -> Object:
    """The object that `original` becomes under `patch`; neither is changed. `null` stands for an empty object."""
    try:
        return _merge_objects(_document(original, "object"), _document(patch, "patch"), schema)
    except RecursionError:
        raise InvalidError("", "is nested too deeply to be patched") from None


def _document(value: Any, what: str) -> Object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidError("", f"the {what} must be an object, not {_kind(value)}")
    return {key: _copy(item) for key, item in value.items()}


# Objects. From here on everything is a private copy, and is changed in place.


def _merge_objects(original: Object, patch: Object, schema: Schema) -> Object:
    if _MARKER in patch:
        return _obey_marker(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        if key in patch:
            _at(key, _set_element_order, original, patch, key, schema)
    for key in sorted(patch, key=lambda key: not key.startswith(_DELETE_FROM)):
        _at(key, _merge_field, original, key, patch[key], schema)
    return original


def _obey_marker(patch: Object) -> Object:
    directive = patch.pop(_MARKER)
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
    elif name not in original or _kind(original[name]) != _kind(value):
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
    cleaned = _without_directives(_without_nulls(value))
    if cleaned is _DROPPED:
        original.pop(name, None)
    else:
        original[name] = cleaned


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        if _MARKER in value:
            return _DROPPED
        kept = ((key, _without_directives(item)) for key, item in value.items())
        return {key: item for key, item in kept if item is not _DROPPED}
    if isinstance(value, list):
        return [item for item in map(_without_directives, value) if item is not _DROPPED]
    return value


# Lists.


@dataclass(slots=True)
class _Window:
    """The first `length` items of a list, edited in place while others go on looking at the whole of it.

    A deletion moves the items behind it forward and leaves the last one standing twice; an addition writes over what
    was left standing. `$setElementOrder` then takes its order from this list.
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
    if _element_kind(original, patch) == _OBJECT:
        return _merge_elements(window, patch, merging)
    if deleting:
        gone = {_scalar(item) for item in patch}
        return [item for item in original if _scalar(item) not in gone]
    # With nothing to add the original itself is deduplicated, and that is the order it is then sorted by.
    merged = _deduplicated(original + patch if patch else original)
    return _ordered(merged, patch, original, merging.key, scalars=True)


def _merge_elements(window: _Window, patch: List, merging: Merging) -> List:
    if not merging.key:
        raise InvalidError("", "its elements are objects, but no merge key tells which is which")
    window, plain = _obey_element_markers(window, patch, merging.key)
    before = window.view()
    for element in plain:
        _merge_element(window, element, merging)
    return _ordered(window.view(), plain, before, merging.key, scalars=False)


def _obey_element_markers(window: _Window, patch: List, key: str) -> tuple[_Window, List]:
    plain: List = []
    replacing = False
    for element in patch:
        if _MARKER not in element:
            plain.append(element)
            continue
        directive = element[_MARKER]
        if directive == "delete":
            _delete_matching(window, key, _merge_key(element, key))
        elif directive == "replace":
            replacing = True
        else:
            raise _bad_marker(directive)
    return (_Window(plain, len(plain)), []) if replacing else (window, plain)


def _delete_matching(window: _Window, key: str, value: Any) -> None:
    while (place := _find(window.view(), key, value)) is not None:
        window.delete(place)


def _merge_element(window: _Window, element: Object, merging: Merging) -> None:
    value = _merge_key(element, merging.key)
    place = _find(window.view(), merging.key, value)
    if place is None:
        window.append(element)
    else:
        step = f"[{merging.key}={json.dumps(value)}]"
        window.items[place] = _at(step, _merge_objects, window.items[place], element, merging.schema)


def _deduplicated(items: List) -> List:
    """Each scalar once. The place of a duplicate is taken by the last item, in `items` itself too."""
    length = len(items)
    at = 0
    while at < length:
        other = at + 1
        while other < length:
            if _equal(items[at], items[other]):
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
        raise InvalidError("", f"must be a list, not {_kind(order)}")
    name = _target(key, _ORDER)
    current, changes = _list_at(original, name, "object"), _list_at(patch, name, "patch")
    merging = schema.list_field(name)
    _check_order(changes or [], order, merging.key)
    if current is None and changes is None:
        return
    patch.pop(name, None)
    before = _Window(current or [], len(current or []))
    if changes is None:
        merged = before.view()
    elif current is None:
        merged = _without_directives(changes)
    else:
        merged = _merge_lists(_Window(current, len(current)), changes, merging, deleting=False)
    scalars = _element_kind(before.view(), changes or []) != _OBJECT
    original[name] = _ordered(merged, order, before.view(), merging.key, scalars=scalars)


def _list_at(holder: Object, name: str, what: str) -> List | None:
    if name not in holder:
        return None
    value = holder[name]
    if not isinstance(value, list):
        raise InvalidError("", f"orders {name}, which is {_kind(value)} in the {what}")
    return value


def _check_order(changes: List, order: List, key: str) -> None:
    """Every element of the patch that is not a deletion has to be named by the order, in the same sequence."""
    if not order or not changes:
        return
    waiting = _deletions_apart(changes)[0] if key else changes
    place = 0
    for named in order:
        while place < len(waiting) and _has_marker(waiting[place]):
            place += 1
        if place == len(waiting):
            return
        if key:
            place += _equal(_merge_key(waiting[place], key), _merge_key(named, key))
        else:
            place += _equal(waiting[place], named)
    if place < len(waiting):
        raise InvalidError("", f"does not name {_brief(waiting[place])}, or not in the order of the patch")


def _ordered(merged: List, named: List, before: List, key: str, *, scalars: bool) -> List:
    """The merged list, in three precedences: the order of `named`, then that of `before`, then what is named first."""
    in_named, others = _partition(merged, named, key)
    identify: Callable[[Any], Any] = (lambda item: item) if scalars else (lambda item: _merge_key(item, key))
    by_before = _Places(before, identify)
    first = _sorted_by(_Places(named, identify), in_named, scalars=scalars)
    second = _sorted_by(by_before, others, scalars=scalars)
    return _interleaved(first, second, by_before)


def _partition(items: List, named: List, key: str) -> tuple[List, List]:
    if key:
        found = [_find(named, key, _merge_key(item, key)) is not None for item in items]
    else:
        names = {_scalar(item) for item in named}
        found = [_scalar(item) in names for item in items]
    inside = [item for item, known in zip(items, found, strict=True) if known]
    outside = [item for item, known in zip(items, found, strict=True) if not known]
    return inside, outside


class _Places:
    """Where each element first stands in a list that sets an order."""

    def __init__(self, items: List, identify: Callable[[Any], Any]) -> None:
        self._identify = identify
        self._places: dict[tuple[str, Any], int] = {}
        for place, item in enumerate(items):
            value = identify(item)
            nested = isinstance(value, (dict, list))
            self._places.setdefault((_kind(value), None if nested else value), place)

    def of(self, item: Any) -> int | None:
        value = self._identify(item)
        if not isinstance(value, (dict, list)):
            return self._places.get((_kind(value), value))
        if (_kind(value), None) in self._places:
            raise _incomparable(value)
        return None


def _sorted_by(places: _Places, items: List, *, scalars: bool) -> List:
    deletions: List = []
    if not scalars:
        items, deletions = _deletions_apart(items)
    ordered: List = []
    for item in items:
        at = len(ordered)
        while at > 0 and _before(places, item, ordered[at - 1]):
            at -= 1
        ordered.insert(at, item)
    return ordered + deletions


def _before(places: _Places, left: Any, right: Any) -> bool:
    ours = places.of(left)
    if ours is None:
        return True
    theirs = places.of(right)
    return theirs is None or ours < theirs


def _interleaved(first: List, second: List, places: _Places) -> List:
    """Both lists in their own order; an element of `second` goes before one of `first` where it stood before it."""
    ordered: List = []
    waiting = list(reversed(second))
    for item in first:
        while waiting and _stood_before(places, waiting[-1], item):
            ordered.append(waiting.pop())
        ordered.append(item)
    return ordered + waiting[::-1]


def _stood_before(places: _Places, left: Any, right: Any) -> bool:
    ours, theirs = places.of(left), places.of(right)
    return ours is not None and theirs is not None and ours < theirs


def _deletions_apart(items: List) -> tuple[List, List]:
    for item in items:
        if not isinstance(item, dict):
            raise InvalidError("", f"has {_kind(item)} among its elements, which should be objects")
    kept = [item for item in items if item.get(_MARKER) != "delete"]
    return kept, [item for item in items if item.get(_MARKER) == "delete"]


# Single values.


def _at(step: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`; what it refuses, it refuses under `step`."""
    try:
        return function(*args, **kwargs)
    except InvalidError as error:
        plain = step.startswith("[") or _PLAIN_STEP.fullmatch(step)
        raise error.under(step if plain else f"[{step}]") from None


def _target(key: str, directive: str) -> str:
    prefix, slash, name = key.partition("/")
    if prefix != directive or not slash:
        raise InvalidError("", f"must be written {directive}/FIELD")
    return name


def _merge_key(element: Any, key: str) -> Any:
    if not isinstance(element, dict):
        raise InvalidError("", f"has {_kind(element)} among its elements, which should be objects")
    if key not in element:
        raise InvalidError("", f"the element {_brief(element)} lacks the merge key {key}")
    return element[key]


def _find(items: List, key: str, value: Any) -> int | None:
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidError("", f"has {_kind(item)} among its elements, which should be objects")
        if key in item and _equal(item[key], value):
            return place
    return None


def _has_marker(item: Any) -> bool:
    return isinstance(item, dict) and _MARKER in item


def _element_kind(*lists: List) -> str:
    kinds = {_kind(item) for items in lists for item in items}
    if len(kinds) != 1:
        mixed = " and ".join(sorted(kinds)) or "no elements at all"
        raise InvalidError("", f"must have elements of one kind, in the object and the patch together, not {mixed}")
    kind = kinds.pop()
    if kind in (_LIST, "null"):
        raise InvalidError("", f"has {kind} among its elements, which cannot be merged")
    return kind


def _kind(value: Any) -> str:
    """What Kubernetes takes the value for. An integer that does not fit 64 bits is read as a floating point number."""
    if type(value) is int and value not in _INT64:
        return "a number"
    return _KINDS.get(type(value)) or type(value).__name__


def _equal(left: Any, right: Any) -> bool:
    if _kind(left) != _kind(right):
        return False
    if isinstance(left, (dict, list)):
        raise _incomparable(left)
    return bool(left == right)


def _scalar(value: Any) -> tuple[str, Any]:
    """The value such that 1, 1.0 and true are three."""
    if isinstance(value, (dict, list)):
        raise _incomparable(value)
    return _kind(value), value


def _incomparable(value: Any) -> InvalidError:
    return InvalidError("", f"cannot tell its elements apart by {_kind(value)}: {_brief(value)}")


def _bad_marker(directive: Any) -> InvalidError:
    return InvalidError(_MARKER, f'must be "delete" or "replace", not {_brief(directive)}')


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
