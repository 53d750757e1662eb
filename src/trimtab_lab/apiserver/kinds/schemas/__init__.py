"""Schemas of custom kinds: OpenAPI v3 schemas of CustomResourceDefinitions, compiled.

`Schema` does to an object of a custom kind what Kubernetes does, in this order: `prune` (drop unknown fields),
`default` (set missing ones), `validate`. Whether a schema is allowed is checked when its definition is created
(`structure`).

    validator, value_causes   whether a value is valid (fast), and why not
    nodes                     pruning and defaulting
    structure, dialect        what Kubernetes allows in a schema
    formats, patterns, uniqueness

Belongs here: everything about OpenAPI v3 schemas. Does not belong here: the definition that contains a schema
(`validation`). CEL rules (`x-kubernetes-validations`) are not evaluated, so a schema that has some is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab_lab.apiserver.kinds.schemas.nodes import Node, drop_nulls, fill, prune
from trimtab_lab.apiserver.kinds.schemas.uniqueness import repeated
from trimtab_lab.apiserver.kinds.schemas.validator import Validator
from trimtab_lab.apiserver.kinds.schemas.value_causes import MISSING, faults
from trimtab_lab.apiserver.kinds.validation.causes import Cause, invalid
from trimtab_lab.apiserver.storage.store import Tree

_MOST = 2**31 - 1


class Schema:
    """The schema of one version of a custom kind; `scale` is its scale subresource, if it has one."""

    def __init__(self, schema: Tree | None, scale: Mapping[str, str] | None = None) -> None:
        self._schema = schema if schema is not None else {"x-kubernetes-preserve-unknown-fields": True}
        self._root = Node(self._schema, root=True)
        self._validator = Validator(self._schema)
        self._scale = scale or {}

    def prune(self, tree: Tree) -> list[str]:
        """Drop unknown fields, in place; returns their paths."""
        unknown: list[str] = []
        prune(tree, self._root, None, unknown)
        return sorted(unknown)

    def default(self, tree: Tree) -> None:
        """Set missing fields, in place."""
        drop_nulls(tree, self._root)
        fill(tree, self._root)

    def validate(self, tree: Tree, old: Tree | None = None) -> list[Cause]:
        """The causes for which an object is invalid; for an update from `old`, only changed values are checked."""
        causes: list[Cause] = []
        if not self._validator.accepts(tree):
            causes += faults(tree, self._schema, "", MISSING if old is None else old)
        causes += self._scale_faults(tree)
        causes += repeated(tree, self._root, "")
        return causes

    def _scale_faults(self, tree: Tree) -> list[Cause]:
        """Check that the fields of the scale subresource are numbers of replicas."""
        causes: list[Cause] = []
        for field in ("specReplicasPath", "statusReplicasPath"):
            path = self._scale.get(field)
            if path:
                causes += _count_faults(path, tree)
        return causes


def _count_faults(path: str, tree: Tree) -> list[Cause]:
    value: Any = tree
    steps = path.removeprefix(".").split(".")
    for index, step in enumerate(steps):
        if not isinstance(value, dict):
            return [_wrong_place(path, steps[: index + 1], value, "map[string]interface{}")]
        if step not in value:
            return []
        value = value[step]
    if isinstance(value, bool) or not isinstance(value, int):
        return [_wrong_place(path, steps, value, "int64")]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    return [invalid(path, value, f"should be less than or equal to {_MOST}")] if value > _MOST else []


_GO_TYPES = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
    type(None): "<nil>",
}


def _wrong_place(path: str, steps: list[str], value: Any, wanted: str) -> Cause:
    """The cause for a field of another type on the path of the scale subresource, with Go's message."""
    problem = f".{'.'.join(steps)} accessor error: {_in_go(value)} is of the type {_GO_TYPES[type(value)]}"
    return invalid(path, 0, f"{problem}, expected {wanted}")


def _in_go(value: Any) -> str:
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case list():
            return f"[{' '.join(map(_in_go, value))}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_in_go(item)}' for key, item in sorted(value.items()))}]"
        case _:
            return str(value)
