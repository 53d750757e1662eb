"""Reads a mapping that a person wrote, field by field, with errors that say where and what to write instead.

A reader asks for the fields one by one and then calls `done`: a field that was not asked for is an error, most often a
misspelt name, and the message suggests a known one.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab_lab.scenarios import ranges
from trimtab_lab.scenarios.ranges import Range

T = TypeVar("T")

_ABSENT = object()


class Fields:
    """A mapping that is being read into a type."""

    def __init__(self, tree: Any, path: str, form: str) -> None:
        """`form` is an example of what to write here, for error messages."""
        if not isinstance(tree, dict):
            raise InvalidError(path, f"{short_repr(tree)} is not a mapping: write {form}")
        self.path = path
        self._tree: dict[Any, Any] = tree
        self._form = form
        self._asked: list[str] = []

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def present(self) -> list[str]:
        """The names of the fields in the mapping."""
        return [str(name) for name in self._tree]

    def has(self, name: str) -> bool:
        """Whether the field is set."""
        self._mark_asked(name)
        return self._tree.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """A text; required without a default."""
        value = self._get(name, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise InvalidError(self.at(name), f"{short_repr(value)} is not a text: write {self._form}")
        return value

    def choice(self, name: str, choices: Mapping[str, T], default: str) -> T:
        """One of several words."""
        word = self.text(name, default)
        if word not in choices:
            raise InvalidError(self.at(name), f"{short_repr(word)} is not a valid value: write {or_list(choices)}")
        return choices[word]

    def count(self, name: str, *, least: int = 0) -> int:
        """A required whole number."""
        value = self._get(name, None)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidError(
                self.at(name), f"{short_repr(value)} is not a whole number from {least}: write {self._form}"
            )
        return value

    def seconds(self, name: str, default: float) -> float:
        """A time, in seconds."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InvalidError(
                self.at(name), f"{short_repr(value)} is not a number of seconds above 0: write {self._form}"
            )
        return float(value)

    def flag(self, name: str) -> bool:
        """A boolean; false by default."""
        value = self._get(name, False)
        if not isinstance(value, bool):
            raise InvalidError(self.at(name), f"{short_repr(value)} is neither true nor false")
        return value

    def range(self, name: str) -> Range | None:
        """A number, limit or range, if set."""
        value = self._get(name, _ABSENT)
        return None if value is _ABSENT else ranges.read(value, self.at(name))

    def document(self, name: str) -> Document:
        """A mapping that is kept as it is."""
        value = self._get(name, None)
        if not isinstance(value, dict):
            raise InvalidError(self.at(name), f"{short_repr(value)} is not a mapping: write {self._form}")
        return Document(value)

    def items(self, name: str, read: Callable[[Any, str], T], *, needed: bool = False) -> tuple[T, ...]:
        """A list, each element read on its own."""
        value = self._get(name, None if needed else [])
        if not isinstance(value, list) or (needed and not value):
            form = "a list with at least one element" if needed else "a list"
            raise InvalidError(self.at(name), f"{short_repr(value)} is not {form}: write {self._form}")
        return tuple(read(element, f"{self.at(name)}[{index}]") for index, element in enumerate(value))

    def table(self, name: str, read: Callable[[Any, str], T]) -> dict[str, T]:
        """A mapping of names to values of one kind; empty by default."""
        value = self._get(name, {})
        if not isinstance(value, dict):
            raise InvalidError(self.at(name), f"{short_repr(value)} is not a mapping: write {self._form}")
        return {str(key): read(each, f"{self.at(name)}[{key}]") for key, each in value.items()}

    def raw(self, name: str) -> Any:
        """The value as it is, for another reader."""
        return self._get(name, None)

    def done(self) -> None:
        """Raise if there is a field that was not asked for."""
        for name in self.present():
            if name not in self._asked:
                raise InvalidError(self.at(name), f"there is no such field: {suggest(name, self._asked)}")

    def _mark_asked(self, name: str) -> None:
        if name not in self._asked:
            self._asked.append(name)

    def _get(self, name: str, default: Any) -> Any:
        self._mark_asked(name)
        value = self._tree.get(name)
        if value is not None:
            return value
        if default is None:
            raise InvalidError(self.at(name), f"is missing: write {self._form}")
        return default


def text_at(value: Any, path: str) -> str:
    """An element that must be text, for `items` and `table`. A number (a zone called 1) is accepted."""
    if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value):
        return str(value)
    raise InvalidError(path, f"{short_repr(value)} is not a text")


def suggest(name: str, known: list[str]) -> str:
    """Suggest the known name that is nearest to `name`, or all known names."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"write {or_list(known)}"


def or_list(words: Any) -> str:
    """Words joined with commas and "or"."""
    *rest, last = [repr(word) for word in words]
    return f"{', '.join(rest)} or {last}" if rest else last


def short_repr(value: Any) -> str:
    """A value for error messages, shortened."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
