"""Slow twins of the parts of strategic merge patches that must be fast: lists are scanned for each element, deleted
from one at a time, and sorted by insertion.

The rest of a merge is the same for both: `in_place` puts the twins where it looks for those parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from trimtab.api.patches import elements, strategic
from trimtab.api.patches.elements import MARKER, List, Object, _checked, _Places, equal, merge_key, scalar
from trimtab.api.patches.mergekeys import Merging
from trimtab.api.patches.strategic import _at, _bad_marker, _merge_objects, _Window


@contextmanager
def in_place() -> Iterator[None]:
    """Merge with the twins. What they replace is removed, so that using it would be an error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategic, "_apply_element_markers", _apply_element_markers)
        patch.setattr(strategic, "_merge_element", _merge_element)
        patch.setattr(strategic, "MergeKeyIndex", lambda *_: None)
        patch.setattr(strategic, "_deduplicated", deduplicated)
        patch.setattr(elements, "_partition", _partition)
        patch.setattr(elements, "_sorted_by", _sorted_by)
        for name in ("MergeKeyIndex", "_places_of", "_sort_keys"):
            patch.delattr(elements, name)
        patch.delattr(_Window, "delete")
        yield


def _find(items: List, key: str, value: Any) -> int | None:
    """The index of the first element with this value of its merge key."""
    for place, item in enumerate(items):
        if key in _checked(item) and equal(item[key], value):
            return place
    return None


def _apply_element_markers(window: _Window, patch: List, key: str) -> tuple[_Window, List]:
    """Delete what an element of the patch deletes before the next one is looked at."""
    plain: List = []
    replacing = False
    for element in patch:
        if MARKER not in element:
            plain.append(element)
        elif element[MARKER] == "delete":
            _delete(window, key, merge_key(element, key))
        elif element[MARKER] == "replace":
            replacing = True
        else:
            raise _bad_marker(element[MARKER])
    return (_Window(plain, len(plain)), []) if replacing else (window, plain)


def _delete(window: _Window, key: str, value: Any) -> None:
    """Move the items behind each deleted one forward; the last one stays behind the window too."""
    while (place := _find(window.view(), key, value)) is not None:
        window.items[place : window.length - 1] = window.items[place + 1 : window.length]
        window.length -= 1


def _merge_element(window: _Window, _: None, element: Object, merging: Merging) -> None:
    """Merge the element with the first that has its merge key by now, or append it; there is no index."""
    value = merge_key(element, merging.key)
    place = _find(window.view(), merging.key, value)
    if place is None:
        window.append(element)
    else:
        step = f"[{merging.key}={json.dumps(value)}]"
        window.items[place] = _at(step, _merge_objects, window.items[place], element, merging.schema)


def deduplicated(items: List) -> List:
    """Compare each scalar with all behind it. The last item replaces a duplicate, in `items` itself too."""
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


def _partition(items: List, named: List, key: str) -> tuple[List, List]:
    """The items that are named, and the others."""
    parts: tuple[List, List] = ([], [])
    names = [] if key else [scalar(item) for item in named]
    for item in items:
        known = _find(named, key, merge_key(item, key)) is not None if key else scalar(item) in names
        parts[not known].append(item)
    return parts


def _sorted_by(places: _Places, items: List, *, scalars: bool) -> List:
    """An insertion sort, with the deletions at the end."""
    kept, deletions = (items, []) if scalars else elements.split_deletions(items)
    result: List = []
    for item in kept:
        at = len(result)
        while at > 0 and _before(places, item, result[at - 1]):
            at -= 1
        result.insert(at, item)
    return result + deletions


def _before(places: _Places, left: Any, right: Any) -> bool:
    """Whether the sort puts `left` first. An item without a place is before all others."""
    ours = places.of(left)
    if ours is None:
        return True
    theirs = places.of(right)
    return theirs is None or ours < theirs
