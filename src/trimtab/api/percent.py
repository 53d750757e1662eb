"""Int-or-percent values: `maxSurge: 3` or `maxSurge: "25%"`.

The JSON type decides, not the text: `"3"` is neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.api.errors import InvalidError

_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A number, or a percentage of a total."""

    number: int
    is_percent: bool

    def of(self, total: int, *, round_up: bool) -> int:
        """The number itself, or the percentage of `total`, computed exactly."""
        if not self.is_percent:
            return self.number
        product = self.number * total
        return -(-product // 100) if round_up else product // 100

    def __str__(self) -> str:
        return f"{self.number}%" if self.is_percent else str(self.number)


def parse(value: object) -> IntOrPercent:
    """Parse the raw JSON value of an int-or-percent field."""
    if isinstance(value, str):
        return IntOrPercent(_percentage(value), is_percent=True)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidError("", f'{value!r} is neither a whole number nor a percentage; write 3 or "30%"')
    if value not in _INT32:
        raise InvalidError("", f"{value} does not fit into 32 bits")
    return IntOrPercent(value, is_percent=False)


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """The value as a number: itself, or the percentage of `total`."""
    return parse(value).of(total, round_up=round_up)


def _percentage(text: str) -> int:
    digits = text.removesuffix("%")
    if _WHOLE.fullmatch(digits) is None or int(digits) not in _INT64:
        raise InvalidError("", f'"{text}" is not a percentage; write 3 or "30%"')
    if digits == text:
        raise InvalidError("", f'"{text}" is not a percentage; write {text} or "{text}%"')
    return int(digits)
