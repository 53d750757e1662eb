"""Numbers in stories: `10`, `"<= 1"`, `">= 3"`, `"2..10"`.

Placement is partly random, so a story may give a range, both ends included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from trimtab.api.errors import InvalidError

HOW_TO_WRITE = 'write a number (10), a limit ("<= 1", ">= 3") or a range ("2..10")'

_LIMIT = re.compile(r"(<=|>=|==|<|>)\s*(\d+)")
_BETWEEN = re.compile(r"(\d+)\s*\.\.\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` to `high`, or without an upper end."""

    low: int = 0
    high: int | None = None

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.low <= number and (self.high is None or number <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f">= {self.low}"
        if self.low == self.high:
            return str(self.low)
        return f"<= {self.high}" if self.low == 0 else f"{self.low}..{self.high}"


def read(value: Any, path: str) -> Range:
    """Read a range; `path` is for errors."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Range(value, value)
    text = value.strip() if isinstance(value, str) else ""
    found = _limit(text) or _between(text)
    if found is None:
        raise InvalidError(path, f"{value!r} is not a number of pods: {HOW_TO_WRITE}")
    if found.high is not None and found.high < found.low:
        raise InvalidError(path, f"{value!r} holds no number: write the smaller end first")
    return found


def _limit(text: str) -> Range | None:
    if text.isascii() and text.isdigit():
        return Range(int(text), int(text))
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    number = int(match[2])
    ranges = {
        "<=": Range(0, number),
        ">=": Range(number),
        "==": Range(number, number),
        "<": Range(0, number - 1),
        ">": Range(number + 1),
    }
    return ranges[match[1]]


def _between(text: str) -> Range | None:
    match = _BETWEEN.fullmatch(text)
    return Range(int(match[1]), int(match[2])) if match else None
