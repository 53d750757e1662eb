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
from trimtab_lab.apiserver.kinds.schemas.value_causes import causes
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
        errors = () if self._validator.accepts(tree) else self._validator.errors(tree)
        found = list(causes(errors, self._root, tree, old))
        found += self._scale_faults(tree)
        found += repeated(tree, self._root, "")
        return found

    def _scale_faults(self, tree: Tree) -> list[Cause]:
        """Check that the fields of the scale subresource are numbers of replicas."""
        paths = [self._scale.get(field) for field in ("specReplicasPath", "statusReplicasPath")]
        return [cause for path in paths if path for cause in _count_faults(path, tree)]


def _count_faults(path: str, tree: Tree) -> list[Cause]:
    value: Any = tree
    for step in path.removeprefix(".").split("."):
        if not isinstance(value, dict):
            return [invalid(path, value, "accessor error: expected an object")]
        if step not in value:
            return []
        value = value[step]
    if isinstance(value, bool) or not isinstance(value, int):
        return [invalid(path, value, "accessor error: expected an integer")]
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    return [invalid(path, value, f"should be less than or equal to {_MOST}")] if value > _MOST else []
