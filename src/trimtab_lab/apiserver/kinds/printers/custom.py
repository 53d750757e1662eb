"""Tables of custom kinds, by their `additionalPrinterColumns`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from trimtab_lab.apiserver.kinds.printers.cells import NAME_COLUMN, Layout, column, name_of, translate_age
from trimtab_lab.apiserver.kinds.printers.jsonpaths import JSONPath
from trimtab_lab.apiserver.storage.store import Tree


def custom_layout(definitions: Sequence[Tree]) -> Layout:
    """The layout of a custom kind, given its `additionalPrinterColumns`; the default is the age."""
    if not definitions:
        definitions = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    cells = [_custom_cell(definition) for definition in definitions]

    def fill(tree: Tree, now: int) -> list[Any]:
        return [name_of(tree), *(cell(tree, now) for cell in cells)]

    return Layout([NAME_COLUMN, *map(_custom_column, definitions)], fill)


def _custom_column(definition: Tree) -> Tree:
    path = definition["jsonPath"]
    description = definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    priority, form = definition.get("priority", 0), definition.get("format", "")
    return column(definition["name"], definition["type"], priority, description, form)


def _custom_cell(definition: Tree) -> Callable[[Tree, int], Any]:
    path, type_ = JSONPath(definition["jsonPath"]), definition["type"]

    def cell(tree: Tree, now: int) -> Any:
        found = path.find(tree)
        return _cell_value(type_, found[0], now) if found else None

    return cell


def _cell_value(type_: str, value: Any, now: int) -> Any:
    """A value in a column of this type; None if it is of another type."""
    match type_, value:
        case "string", _:
            return _as_text(value)
        case "integer" | "number", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value)
        case "boolean", bool():
            return value
        case "date", str():
            return translate_age(value, now)
        case _:
            return None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    return msgspec.json.encode(value, order="sorted").decode()
