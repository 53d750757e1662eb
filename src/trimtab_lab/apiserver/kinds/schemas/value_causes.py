"""Why a value is invalid by a schema: errors of jsonschema-rs as the causes of a Status.

Reasons and fields are those of Kubernetes, the words after the first two are the library's. Where no alternative of
`anyOf` or `oneOf` fits, one cause says so, and not what is wrong with each alternative.

Of an update only the changed values are checked: a value from before its schema got stricter may stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs

from trimtab_lab.apiserver.kinds.schemas.nodes import Node
from trimtab_lab.apiserver.kinds.validation.causes import Cause

MISSING: Any = object()
"""Stands for the old value where there is none."""

_REASONS: Mapping[str, tuple[str, str]] = {
    "required": ("FieldValueRequired", "Required value"),
    "type": ("FieldValueTypeInvalid", "Invalid value"),
    "format": ("FieldValueTypeInvalid", "Invalid value"),
    "enum": ("FieldValueNotSupported", "Unsupported value"),
    "maxLength": ("FieldValueTooLong", "Too long"),
    "maxItems": ("FieldValueTooMany", "Too many"),
    "maxProperties": ("FieldValueTooMany", "Too many"),
}
"""The reason and the first words of a cause, by keyword."""
_INVALID = ("FieldValueInvalid", "Invalid value")

Steps = Sequence[str | int]


def causes(
    errors: Iterable[jsonschema_rs.ValidationError], root: Node, value: Any, old: Any = MISSING
) -> Iterator[Cause]:
    """The errors of a value as causes, but for parts of it that are the same in `old`."""
    for error in errors:
        if not _is_unchanged(error.instance_path, root, value, old):
            yield _cause(error)


def _cause(error: jsonschema_rs.ValidationError) -> Cause:
    keyword = error.kind.name
    reason, words = _REASONS.get(keyword, _INVALID)
    steps = [*error.instance_path, *([error.kind.value] if keyword == "required" else ())]
    return Cause(reason, f"{words}: {error.message}", _field(steps))


def _field(steps: Steps) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or "<nil>"


def _is_unchanged(steps: Steps, node: Node | None, value: Any, old: Any) -> bool:
    """Whether the value at a place, or something around it, is as it was."""
    for step in steps:
        if value == old:
            return True
        if isinstance(step, int):
            old = _same_keys(value[step], node.keys if node else (), old)
        else:
            old = old.get(step, MISSING) if isinstance(old, dict) else MISSING
        node = node.inside(step) if node else None
        value = value[step]
    return bool(value == old)


def _same_keys(item: Any, keys: Sequence[str], old: Any) -> Any:
    """The element of the old list with the same keys; only lists with keys have one."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return MISSING
    found = (other for other in old if isinstance(other, dict) and all(other.get(k) == item.get(k) for k in keys))
    return next(found, MISSING)
