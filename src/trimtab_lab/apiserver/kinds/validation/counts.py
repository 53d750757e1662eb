"""Validation of counts and percentages."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api import selectors
from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    invalid,
)
from trimtab_lab.apiserver.storage.store import Tree

NOT_NEGATIVE = "must be greater than or equal to 0"


def not_negative(holder: Tree, fields: Sequence[str], causes: Causes, path: str) -> None:
    for field in fields:
        number = holder.get(field)
        if number is not None and number < 0:
            causes.append(invalid(f"{path}.{field}", number, NOT_NEGATIVE))


def count_or_percent(value: int | str, causes: Causes, path: str) -> None:
    if isinstance(value, str):
        causes += each(path, value, names.percent(value))
    elif value < 0:
        causes.append(invalid(path, value, NOT_NEGATIVE))


def at_most_all(value: int | str, causes: Causes, path: str) -> None:
    if _is_percent(value) and number_of(value) > 100:
        causes.append(invalid(path, value, "must not be greater than 100%"))


def _is_percent(value: int | str) -> bool:
    return isinstance(value, str) and not names.percent(value)


def number_of(value: int | str) -> int:
    """The number in a count or a percentage; text that is neither is read as Go's Atoi reads it: digits, or 0."""
    if isinstance(value, int):
        return value
    return int(value.removesuffix("%")) if _is_percent(value) else selectors.int64(value) or 0
