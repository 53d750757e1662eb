"""A structural schema as a tree of nodes: pruning and defaulting.

**Pruning** drops every field that the schema does not specify, except under `x-kubernetes-preserve-unknown-fields`; in
specified fields below such a place, unknown fields are dropped again. In an object that is a resource (the root, and
every `x-kubernetes-embedded-resource`) `apiVersion`, `kind` and `metadata` are always kept.

**Defaulting** sets missing fields from the outside in: a default may itself have fields with defaults. A null where the
schema does not allow one counts as missing.
"""

from __future__ import annotations

import copy
from typing import Any

from trimtab_lab.apiserver.kinds.serialization.wiretypes import struct_named, text_of
from trimtab_lab.apiserver.kinds.serialization.wirevalues import Path
from trimtab_lab.apiserver.storage.store import Tree

_RESOURCE_FIELDS = frozenset(["apiVersion", "kind", "metadata"])
_MISSING: Any = object()


class Node:
    """One schema, with the schemas inside it compiled."""

    __slots__ = (
        "additional",
        "default",
        "embedded",
        "free",
        "has_defaults",
        "items",
        "keys",
        "list_type",
        "nullable",
        "open",
        "properties",
        "schema",
    )

    def __init__(self, schema: Tree, *, root: bool = False) -> None:
        self.schema = schema
        self.embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
        self.free = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.nullable = bool(schema.get("nullable"))
        self.default = schema.get("default", _MISSING)
        self.properties = {name: Node(inner) for name, inner in (schema.get("properties") or {}).items()}
        additional = schema.get("additionalProperties")
        self.additional = Node(additional) if isinstance(additional, dict) else None
        self.open = additional is not None and additional is not False
        items = schema.get("items")
        self.items = Node(items) if isinstance(items, dict) else None
        self.list_type = schema.get("x-kubernetes-list-type", "")
        self.keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
        self.has_defaults: bool = self.default is not _MISSING or any(node.has_defaults for node in self.inner())

    def inside(self, step: str | int) -> Node | None:
        """The node of a property or an element."""
        return self.items if isinstance(step, int) else self.properties.get(step, self.additional)

    def inner(self) -> list[Node]:
        """The child nodes."""
        return [*self.properties.values(), *filter(None, (self.additional, self.items))]


def prune(value: Any, node: Node | None, path: Path, unknown: list[str], *, free: bool = False) -> None:
    """Drop unknown fields, in place, and add their paths to `unknown`. With `free` they are kept."""
    free = free or (node is not None and node.free)
    if isinstance(value, dict):
        if node is not None and node.embedded and path is not None:
            _read_metadata(value, path, unknown)
        _prune_object(value, node, path, unknown, free=free)
    elif isinstance(value, list):
        inner = node.items if node is not None else None
        if inner is not None or not free:
            for index, item in enumerate(value):
                prune(item, inner, (path, index), unknown, free=free)


def _prune_object(value: Tree, node: Node | None, path: Path, unknown: list[str], *, free: bool) -> None:
    for key in list(value):
        if node is not None and node.embedded and key in _RESOURCE_FIELDS:
            continue
        inner = node.properties.get(key) if node is not None else None
        if inner is not None:
            prune(value[key], inner, (path, key), unknown)
        elif node is not None and node.open:
            if node.additional is not None or not free:
                prune(value[key], node.additional, (path, key), unknown)
        elif not free:
            unknown.append(text_of((path, key)))
            del value[key]


def _read_metadata(value: Tree, path: Path, unknown: list[str]) -> None:
    """Read the metadata of an embedded resource as ObjectMeta."""
    if isinstance(value.get("metadata"), dict):
        struct_named("meta.v1.ObjectMeta").read(value["metadata"], (path, "metadata"), unknown)


def fill(value: Any, node: Node | None) -> None:
    """Set defaults, in place."""
    if node is None or not node.has_defaults:
        return
    if isinstance(value, dict):
        _fill_object(value, node)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if item is None and not node.items.nullable and node.items.default is not _MISSING:
                value[index] = copy.deepcopy(node.items.default)
            fill(value[index], node.items)


def _fill_object(value: Tree, node: Node) -> None:
    for name, inner in node.properties.items():
        if inner.default is _MISSING:
            continue
        if name not in value or (value[name] is None and not inner.nullable):
            value[name] = copy.deepcopy(inner.default)
    for name in value:
        known = node.properties.get(name) or node.additional
        if known is not None:
            if value[name] is None and name not in node.properties and not known.nullable:
                value[name] = None if known.default is _MISSING else copy.deepcopy(known.default)
            fill(value[name], known)


def drop_nulls(value: Any, node: Node | None) -> None:
    """Drop null fields that are not nullable and have no default, in place: they count as missing."""
    if node is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            inner = node.properties.get(name) or node.additional
            if inner is not None and value[name] is None and not inner.nullable and inner.default is _MISSING:
                del value[name]
            else:
                drop_nulls(value[name], inner)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node.items)
