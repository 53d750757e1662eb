"""The causes of a 422: what is invalid about a field, with Kubernetes' messages.

A cause has the type that clients test for (`FieldValueRequired`, …), the path of the field, and a message with the kind
of the error, the value and, in most cases, the rule. Checks append causes to a list in the order in which Kubernetes
checks, because clients show them in that order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab_lab.apiserver.storage.store import Tree


@dataclass(frozen=True, slots=True)
class Cause:
    """One error of one field. `message` does not contain the path."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def tree(self) -> Tree:
        """The cause as in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


Causes = list[Cause]


def required(path: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", _with_detail("Required value", detail), path)


def forbidden(path: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", _with_detail("Forbidden", detail), path)


def invalid(path: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", _with_detail(f"Invalid value: {printed(value)}", detail), path)


def duplicate(path: str, value: Any, detail: str = "") -> Cause:
    return Cause("FieldValueDuplicate", _with_detail(f"Duplicate value: {printed(value)}", detail), path)


def not_found(path: str, value: Any, detail: str = "") -> Cause:
    return Cause("FieldValueNotFound", _with_detail(f"Not found: {printed(value)}", detail), path)


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Cause:
    """A value that is not among `supported`, which is in Kubernetes' order (mostly alphabetical)."""
    detail = "supported values: " + ", ".join(map(quoted, supported)) if supported else ""
    return Cause("FieldValueNotSupported", _with_detail(f"Unsupported value: {printed(value)}", detail), path)


def too_long(path: str, longest: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {longest} {_plural(longest, 'byte')}", path)


def too_many(path: str, count: int, most: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} {_plural(most, 'item')}", path)


def each(path: str, value: Any, faults: Iterable[str]) -> Causes:
    """One cause for each error of the same value."""
    return [invalid(path, value, fault) for fault in faults]


def immutable(path: str, value: Any, old: Any) -> Causes:
    """A cause if an immutable value was changed."""
    return [] if value == old else [invalid(path, value, "field is immutable")]


def printed(value: Any) -> str:
    """A value as messages show it: strings in quotes, plain numbers, anything else as JSON."""
    if isinstance(value, str):
        return quoted(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {'"': '\\"', "\\": "\\\\"}


def quoted(text: str) -> str:
    """Text as Go quotes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
