"""Values with their own decoding in Go: quantities, times, bytes, integers or strings."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from trimtab.api import quantities, times
from trimtab.api.errors import InvalidError

Path = tuple[Any, ...] | None
"""A position in a tree: None at the root, else (path of the parent, key or index)."""
Reader = Callable[[Any, Path, list[str]], Any]
"""Given a value, its path, and the list of unknown fields to extend: returns the value as Go would write it."""

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)


class WrongTypeError(Exception):
    """A value that Go cannot decode into its field. Its text is Go's message."""

    def __init__(self, value: str, wanted: str = "") -> None:
        super().__init__(value)
        self._value = value
        self._wanted = wanted
        self._struct = ""
        self._steps: list[str] = []

    def inside(self, struct: str, step: str) -> WrongTypeError:
        """The same error with the field in which it happened; the message names the innermost struct."""
        self._struct = self._struct or struct
        self._steps.insert(0, step)
        return self

    def __str__(self) -> str:
        if not self._wanted:
            return self._value
        place = f"struct field {self._struct}.{'.'.join(self._steps)}" if self._struct else "value"
        return f"json: cannot unmarshal {self._value} into Go {place} of type {self._wanted}"


def json_type(value: Any) -> str:
    """Go's name for the type of a JSON value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case None:
            return "null"
        case _:
            return "number"


_QUANTITY = r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)"
_QUANTITY_FORMAT = f"quantities must match the regular expression '^{_QUANTITY}$'"


@lru_cache(maxsize=8192, typed=True)
def _canonical(value: str | int | float) -> str:
    text = value.strip() if isinstance(value, str) else value
    try:
        return quantities.parse(text).canonical
    except InvalidError:
        raise WrongTypeError(_quantity_problem(str(text))) from None


def _quantity_problem(text: str) -> str:
    match = re.fullmatch(_QUANTITY, text)
    if match is None:
        return _QUANTITY_FORMAT
    return (
        "unable to parse numeric part of quantity" if match[1].count(".") > 1 else "unable to parse quantity's suffix"
    )


def read_quantity(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if value is None:
        return "0"
    if isinstance(value, (dict, list, bool)):
        raise WrongTypeError(_QUANTITY_FORMAT)
    return _canonical(value)


def read_int_or_string(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if type(value) is str or (type(value) is int and value in INT32):
        return value
    name = json_type(value)
    raise WrongTypeError(f"number {value}" if name == "number" else name, "int32")


def read_float(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if type(value) not in (int, float):
        raise WrongTypeError(json_type(value), "float64")
    return value


# The pieces of Go's time layouts, and Go's names for them.
_DATE_PIECES = ((r"\d{4}", "2006"), ("-", "-"), (r"\d\d", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T"))
_CLOCK_PIECES = ((r"\d\d?", "15"), (":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d", "05"))
_ZONE = (r"Z|[+-]\d\d:\d\d", "Z07:00")
_MICROS = (r"\.\d{6}", ".000000")
_FRACTION = (r"(?:[.,]\d+)?", "")
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def read_time(value: Any, _path: Path, _unknown: list[str]) -> Any:
    return times.format_time(_time(value, _LAYOUT, _FRACTION))


def read_micro_time(value: Any, _path: Path, _unknown: list[str]) -> Any:
    return times.format_micro(_time(value, _MICRO_LAYOUT, _MICROS))


def _time(value: Any, layout: str, fraction: tuple[str, str]) -> int:
    if type(value) is not str:
        raise WrongTypeError(json_type(value), "string")
    rest = value
    for pattern, name in (*_DATE_PIECES, *_CLOCK_PIECES, fraction, _ZONE):
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            raise WrongTypeError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{name}"')
        rest = rest[match.end() :]
    try:
        return times.parse_ns(value)
    except InvalidError:
        problem = f": extra text: {json.dumps(rest)}" if rest else ": day out of range"
        raise WrongTypeError(f'parsing time "{value}"{problem}') from None


def read_bytes(value: Any, _path: Path, _unknown: list[str]) -> Any:
    if value is None:
        return ""
    if type(value) is not str:
        raise WrongTypeError(json_type(value), "[]uint8")
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise WrongTypeError(f"illegal base64 data at input byte {_first_illegal(value)}") from None
    return value


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _first_illegal(text: str) -> int:
    bad = (index for index, character in enumerate(text) if character not in _BASE64)
    return next(bad, len(text) // 4 * 4)


def read_anything(value: Any, _path: Path, _unknown: list[str]) -> Any:
    return value
