"""Lists whose elements must differ: sets, and maps that are written as lists.

    x-kubernetes-list-type: set                                   no value twice
    x-kubernetes-list-type: map, x-kubernetes-list-map-keys: …    no two elements with the same keys

Of several equal elements, the second is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.schemas.nodes import Node
from trimtab_lab.apiserver.kinds.validation.causes import Cause, duplicate, invalid


def repeated(value: Any, node: Node | None, path: str) -> Iterator[Cause]:
    """The causes for elements that repeat an earlier element of their list."""
    if node is None:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if key in node.properties:
                yield from repeated(item, node.properties[key], f"{path}.{key}" if path else key)
            elif node.additional is not None:
                yield from repeated(item, node.additional, f"{path}[{key}]")
    elif isinstance(value, list):
        yield from _in_list(value, node, path)
        for index, item in enumerate(value):
            yield from repeated(item, node.items, f"{path}[{index}]")


def _in_list(value: Sequence[Any], node: Node, path: str) -> Iterator[Cause]:
    if node.list_type == "set":
        for index in _seconds(value):
            yield duplicate(f"{path}[{index}]", value[index])
    elif node.list_type == "map":
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
                return
        keys = [{key: item[key] for key in node.keys if key in item} for item in (item or {} for item in value)]
        for index in _seconds(keys):
            yield duplicate(f"{path}[{index}]", keys[index])


def _seconds(values: Sequence[Any]) -> list[int]:
    """The indices at which values stand for the second time."""
    counts: dict[str, int] = {}
    causes: list[int] = []
    for index, value in enumerate(values):
        text = json.dumps(value, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            causes.append(index)
    return causes
