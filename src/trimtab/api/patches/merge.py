"""JSON merge patch (RFC 7386), as a Kubernetes API server applies it.

Objects are merged field by field, `null` deletes a field, and any other value replaces the old one. One detail is
specific to Kubernetes: a value that does not replace an object loses the nulls of all objects in it, even inside lists.
"""

from __future__ import annotations

from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.patches.elements import Object, copied, kind_of, without_nulls


def json_merge(original: Any, patch: Any) -> Object:
    """Apply `patch` to `original`; neither is changed. An original that is not an object counts as empty."""
    if not isinstance(patch, dict):
        raise InvalidError("", f"the patch must be an object, not {kind_of(patch)}")
    try:
        return _merge(original if isinstance(original, dict) else {}, patch)
    except RecursionError:
        raise InvalidError("", "is nested too deeply to be patched") from None


def _merge(original: Object, patch: Object) -> Object:
    merged = {key: copied(value) for key, value in original.items() if key not in patch}
    for key, value in patch.items():
        if value is None:
            continue
        if not isinstance(original.get(key), dict):
            merged[key] = without_nulls(value)
        elif isinstance(value, dict):
            merged[key] = _merge(original[key], value)
        else:
            merged[key] = copied(value)
    return merged
