"""The compiled validator: whether a value is valid by a schema. It is fast and gives no reasons."""

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
            formats=dict(_checks(schema)),
            validate_formats=True,
        )

    def accepts(self, value: Any) -> bool:
        """Whether a value is valid."""
        return self._compiled.is_valid(value)


_COPIED = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "required")


def _plain(schema: Tree) -> Tree:
    """The schema as a JSON Schema of draft 7."""
    plain = {name: schema[name] for name in (*_COPIED, "multipleOf") if name in schema}
    if types(schema):
        plain["type"] = _accepted_types(schema)
    plain |= _bounds(schema)
    if schema.get("pattern"):
        bounds = plain.setdefault("allOf", [])
        bounds.append({"format": f"matches {schema['pattern']}"})
    name = formats.supported(schema.get("format", ""), schema.get("type", ""))
    if name and formats.checker(name, schema.get("type", "")):
        plain["format"] = f"k8s-{name}"
    if "properties" in schema:
        plain["properties"] = {key: _plain(inner) for key, inner in schema["properties"].items()}
    for key in ("additionalProperties", "items", "not"):
        if schema.get(key) is not None:
            plain[key] = _plain(schema[key]) if isinstance(schema[key], dict) else schema[key]
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            plain[key] = [*plain.get(key, ()), *(_plain(inner) for inner in schema[key])]
    return _with_null(schema, plain)


def _accepted_types(schema: Tree) -> list[str]:
    """The accepted types. For a format that is not numeric, Kubernetes accepts strings and arrays, whatever the
    type."""
    wanted = list(types(schema))
    if not formats.supported(schema.get("format", ""), schema.get("type", "")) or {"number", "integer"} & set(wanted):
        return wanted
    return list(dict.fromkeys([*wanted, "string", "array"]))


def _with_null(schema: Tree, plain: Tree) -> Tree:
    """Allow a null: only its type and the enumeration are checked."""
    may_be_null = schema.get("nullable") or not types(schema)
    either: Tree = {"anyOf": [{"type": "null"}, plain]} if may_be_null and plain else plain
    return {"allOf": [either], "enum": schema["enum"]} if "enum" in schema else either


def _bounds(schema: Tree) -> Tree:
    bounds: Tree = {}
    for name, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if name in schema:
            bounds[exclusive if schema.get(exclusive) else name] = schema[name]
    integers = whole_range(schema)
    if integers is not None:
        bounds["allOf"] = [{"minimum": integers.start, "maximum": integers.stop - 1}]
    return bounds


def whole_range(schema: Tree) -> range | None:
    if schema.get("type") != "integer":
        return None
    return _INT32 if schema.get("format") == "int32" else _INT64


def _checks(schema: Any) -> Iterator[tuple[str, formats.Check]]:
    """The string checks of a schema, by their name in the compiled schema: formats, and Go patterns."""
    if isinstance(schema, dict):
        name, type_, pattern = schema.get("format"), schema.get("type", ""), schema.get("pattern")
        if isinstance(name, str) and isinstance(type_, str):
            check = formats.checker(name, type_)
            if check is not None:
                yield f"k8s-{name}", check
        if isinstance(pattern, str):
            yield f"matches {pattern}", patterns.matcher(pattern)
        for inner in schema.values():
            yield from _checks(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _checks(inner)


def types(schema: Tree) -> list[str]:
    """The types that a schema states."""
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []
