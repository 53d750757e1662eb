"""Columns, and the values that cells are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.api import selectors, times
from trimtab.api.codec import convert
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab_lab.apiserver.storage.store import Tree

Cells = Callable[[Tree, int], list[Any]]

_SECOND = 10**9
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a kind's table, and the function that returns the cells of an object."""

    columns: list[Tree]
    cells: Cells


def translate_age(created: str | None, now: int) -> str:
    """The time since a timestamp, in Kubernetes' short form: `90s`, `5m30s`, `26h`, `3d4h`."""
    if not created:
        return "<unknown>"
    try:
        return human_duration(now - times.parse_ns(created))
    except InvalidError:
        return "<invalid>"


def human_duration(nanoseconds: int) -> str:
    """A duration in one or two units; the longer, the coarser."""
    seconds = int(nanoseconds / _SECOND)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def column(name: str, type_: str = "string", priority: int = 0, description: str = "", form: str = "") -> Tree:
    return {"name": name, "type": type_, "format": form, "description": description or name, "priority": priority}


NAME_COLUMN = column("Name", description="The name of the object, unique for its kind in a namespace.", form="name")
AGE_COLUMN = column("Age", description="How long ago the object was created.")
CONTAINER_COLUMNS = (column("Containers", priority=1), column("Images", priority=1))
SELECTOR_COLUMN = column("Selector", priority=1)


def name_of(tree: Tree) -> str:
    name: str = tree["metadata"].get("name", "")
    return name


def age_of(tree: Tree, now: int) -> str:
    return translate_age(tree["metadata"].get("creationTimestamp"), now)


def name_values_age(*values: Callable[[Tree], Any]) -> Cells:
    """Cells with the name, these values, and the age."""
    return lambda tree, now: [name_of(tree), *(value(tree) for value in values), age_of(tree, now)]


def status_count(field: str) -> Callable[[Tree], int]:
    return lambda tree: (tree.get("status") or {}).get(field, 0)


def container_cells(template: Tree | None) -> list[str]:
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [",".join(container.get(field, "") for container in containers) for field in ("name", "image")]


def format_labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def format_selector(given: Tree | None, *, empty: str = NONE, bad: str = "<error>") -> str:
    if given is None:
        return empty
    try:
        return str(selectors.compile(convert(given, LabelSelector))) or empty
    except InvalidError:
        return bad


def text_columns(*names: str) -> tuple[Tree, ...]:
    return tuple(column(name) for name in names)


def integer_columns(*names: str) -> tuple[Tree, ...]:
    return tuple(column(name, "integer") for name in names)


def wide_columns(*names: str) -> tuple[Tree, ...]:
    return tuple(column(name, priority=1) for name in names)
