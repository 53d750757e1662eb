"""The part of Kubernetes' JSONPath that printer columns are written in.

    .spec.replicas    .metadata.labels['a.b/c']    .metadata.labels.a\\.b/c    .status.addresses[0].ip
    .status.items[-1]    .status.items[*].name    .status.items[1:3]    ..name
    .status.conditions[?(@.type=="Ready")].status

A path is compiled to a list of steps; each step maps a list of values to the list of values that it finds in them.
A missing field is not an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Values = list[Any]
Step = Callable[[Values], Values]
Compare = Callable[[Any, Any], bool]

_TOKEN = re.compile(
    r"""\.\.(?P<below>[\w$-]+)
      | \.(?P<field>(?:\\.|[^.\[\]\\\s])+)
      | \[(?P<quote>['"])(?P<key>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[(?P<slice>-?\d*:-?\d*(?::-?\d*)?)\]
      | \[\?\((?P<filter>.+?)\)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<left>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+?))?\s*")
_COMPARISONS: Mapping[str, Compare] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JSONPath:
    """A compiled path. Raises ValueError if the path is invalid."""

    def __init__(self, text: str) -> None:
        self._steps = list(_steps(text))

    def find(self, tree: Any) -> Values:
        """All values at the path, in order."""
        values = [tree]
        for step in self._steps:
            values = step(values)
        return values


def _steps(text: str) -> Iterator[Step]:
    path = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    at = 0
    while at < len(path):
        match = _TOKEN.match(path, at)
        if match is None:
            raise ValueError(f"unrecognized path {text!r} at {path[at:]!r}")
        yield _step(match)
        at = match.end()


def _step(match: re.Match[str]) -> Step:
    kind = match.lastgroup or ""
    if kind == "field" and match["field"] == "*":
        return _each(_children)
    if kind in ("field", "key"):
        name = re.sub(r"\\(.)", r"\1", match[kind])
        return _each(lambda value: [value[name]] if isinstance(value, dict) and name in value else [])
    if kind == "below":
        return _each(lambda value: list(_below(value, match["below"])))
    if kind == "index":
        index = int(match["index"])
        return _each(lambda value: [value[index]] if _has(value, index) else [])
    if kind == "all":
        return _each(_children)
    if kind == "slice":
        bounds = slice(*(int(part) if part else None for part in match["slice"].split(":")))
        return _each(lambda value: value[bounds] if isinstance(value, list) else [])
    return _filter(match["filter"])


def _each(find: Callable[[Any], Values]) -> Step:
    return lambda values: [found for value in values for found in find(value)]


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _below(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for child in _children(value):
        yield from _below(child, name)


def _has(value: Any, index: int) -> bool:
    return isinstance(value, list) and -len(value) <= index < len(value)


def _filter(text: str) -> Step:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f"unrecognized filter {text!r}")
    left = JSONPath(match["left"])
    if match["operator"] is None:
        return _each(lambda value: [child for child in _children(value) if left.find(child)])
    compare, right = _COMPARISONS[match["operator"]], _operand(match["right"])
    return _each(lambda value: [child for child in _children(value) if _holds(compare, left.find(child), right)])


def _operand(text: str) -> Any:
    if text[0] in "'\"" and text[-1] == text[0] and len(text) > 1:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    return float(text) if re.search(r"[.eE]", text) else int(text)


def _holds(compare: Compare, found: Values, wanted: Any) -> bool:
    """Whether a comparison is true; values that cannot be compared (text with a number) are not."""
    try:
        return len(found) == 1 and type(found[0] == wanted) is bool and compare(found[0], wanted)
    except TypeError:
        return False
