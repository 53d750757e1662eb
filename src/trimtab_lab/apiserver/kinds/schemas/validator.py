"""The compiled validator: whether a value is valid by a schema, which is decided fast, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from trimtab_lab.apiserver.kinds.schemas import formats, patterns
from trimtab_lab.apiserver.storage.store import Tree

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


class Validator:
    """A compiled schema."""

    def __init__(self, schema: Tree) -> None:
        self._compiled = jsonschema_rs.Draft7Validator(
            _plain(schema),
            formats=dict(formats.CHECKS),
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )

    def accepts(self, value: Any) -> bool:
        """Whether a value is valid."""
        return self._compiled.is_valid(value)

    def errors(self, value: Any) -> Iterator[jsonschema_rs.ValidationError]:
        """The errors of a value."""
        return self._compiled.iter_errors(value)


_COPIED = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "required")
_COMBINATIONS = ("allOf", "anyOf", "oneOf", "not")


def _plain(schema: Tree) -> Tree:
    """The schema as a JSON Schema of draft 7."""
    plain = {name: schema[name] for name in (*_COPIED, "multipleOf") if name in schema}
    if types(schema):
        plain["type"] = types(schema)
    plain |= _bounds(schema)
    if schema.get("pattern"):
        plain["pattern"] = patterns.rewritten(schema["pattern"])
    if name := formats.checked(schema.get("format", ""), schema.get("type", "")):
        plain["format"] = name
    return _with_null(schema, {**plain, **_inside(schema, plain)})


def _inside(schema: Tree, plain: Tree) -> Tree:
    """The schemas inside a schema."""
    found: Tree = {}
    if "properties" in schema:
        found["properties"] = {key: _plain(inner) for key, inner in schema["properties"].items()}
    for key in ("additionalProperties", "items", "not"):
        if schema.get(key) is not None:
            found[key] = _plain(schema[key]) if isinstance(schema[key], dict) else schema[key]
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            found[key] = [*plain.get(key, ()), *(_plain(inner) for inner in schema[key])]
    return found


def _with_null(schema: Tree, plain: Tree) -> Tree:
    """Allow a null: only its type and the enumeration are checked."""
    enum = {"enum": schema["enum"]} if "enum" in schema else {}
    if not (schema.get("nullable") or not types(schema)):
        return plain | enum
    if any(key in schema for key in _COMBINATIONS):
        return {"anyOf": [{"type": "null"}, plain], **enum}
    return plain | ({"type": [*plain["type"], "null"]} if "type" in plain else {}) | enum


def _bounds(schema: Tree) -> Tree:
    bounds: Tree = {}
    for name, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if name in schema:
            bounds[exclusive if schema.get(exclusive) else name] = schema[name]
    integers = _whole_range(schema)
    if integers is not None:
        bounds["allOf"] = [{"minimum": integers.start, "maximum": integers.stop - 1}]
    return bounds


def _whole_range(schema: Tree) -> range | None:
    if schema.get("type") != "integer":
        return None
    return _INT32 if schema.get("format") == "int32" else _INT64


def types(schema: Tree) -> list[str]:
    """The types that a schema states."""
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []
