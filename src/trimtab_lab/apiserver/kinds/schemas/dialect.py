"""The limits of Kubernetes' dialect of OpenAPI v3: unsupported keywords, and the rules for its list and map types."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab_lab.apiserver.kinds.validation.causes import Cause, forbidden, invalid, required, unsupported
from trimtab_lab.apiserver.storage.store import Tree

RESOURCE_FIELDS = ("apiVersion", "kind", "metadata")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


def dialect_causes(schema: Tree, path: str, *, root: bool = False, no_default: str = "") -> Iterator[Cause]:
    """The causes for which a schema is rejected; `no_default` says where no default may be set."""
    yield from _keywords(schema, path, no_default)
    if schema.get("uniqueItems"):
        rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", rule)
    additional = schema.get("additionalProperties")
    if additional is not None and additional is not True and schema.get("properties"):
        rule = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", rule)
    for inner, place in _children(schema, path):
        name = place.removeprefix(f"{path}.properties[").removesuffix("]")
        fixed = root and name in RESOURCE_FIELDS and place.startswith(f"{path}.properties[")
        yield from dialect_causes(inner, place, no_default=f"in top-level {name}" if fixed else no_default)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    if schema.get("x-kubernetes-validations"):
        rule = "this API server evaluates no CEL: say it with the keywords of OpenAPI, or in a validating webhook"
        yield forbidden(f"{path}.x-kubernetes-validations", rule)


def _children(schema: Tree, path: str) -> Iterator[tuple[Tree, str]]:
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], f"{path}.additionalProperties"
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, f"{path}.properties[{name}]"
    if "not" in schema:
        yield schema["not"], f"{path}.not"
    for kind in ("allOf", "oneOf", "anyOf"):
        for index, inner in enumerate(schema.get(kind) or ()):
            yield inner, f"{path}.{kind}[{index}]"
    if isinstance(schema.get("items"), dict):
        yield schema["items"], f"{path}.items"


def _keywords(schema: Tree, path: str, no_default: str) -> Iterator[Cause]:
    type_ = schema.get("type", "")
    if type_ and type_ not in _TYPES:
        yield unsupported(f"{path}.type", type_, _TYPES)
    if "default" in schema and no_default:
        yield forbidden(f"{path}.default", f"must not be set {no_default}")
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")


def _map_type(schema: Tree, path: str) -> Iterator[Cause]:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return
    type_ = schema.get("type", "")
    if type_ != "object":
        rule = "must be object if x-kubernetes-map-type is specified"
        yield invalid(f"{path}.type", type_, rule) if type_ else required(f"{path}.type", rule)
    if kind not in ("atomic", "granular"):
        yield unsupported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular"))


def _list_type(schema: Tree, path: str) -> Iterator[Cause]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    type_, at = schema.get("type", ""), f"{path}.x-kubernetes-list-type"
    items = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if kind is not None and type_ != "array":
        rule = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", type_, rule) if type_ else required(f"{path}.type", rule)
    elif kind == "set" and items is not None:
        yield from _set_items(items, f"{path}.items")
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield unsupported(at, kind, ("atomic", "set", "map"))
    if keys and kind != "map":
        rule = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(at, rule) if kind is None else invalid(at, kind, rule)
    if kind == "map":
        yield from _map_items(schema, items, keys, path)
    if kind in ("set", "map") and items is not None:
        yield from _key_properties(items, kind, keys, f"{path}.items")


def _set_items(items: Tree, path: str) -> Iterator[Cause]:
    rule = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
        yield invalid(f"{path}.x-kubernetes-list-type", items["x-kubernetes-list-type"], rule)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.x-kubernetes-map-type", items.get("x-kubernetes-list-type"), rule)


def _map_items(schema: Tree, items: Tree | None, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        rule = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", rule)
    if "items" not in schema:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if items is None:
        return
    if items.get("type", "") != "object":
        rule = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), rule)
        return
    for index, key in enumerate(keys):
        known = (items.get("properties") or {}).get(key)
        if known is None:
            rule = "entries must all be names of item properties"
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, rule)
        elif known.get("type") in ("array", "object"):
            rule = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type", ""), rule)
        if key in keys[:index]:
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


def _key_properties(items: Tree, kind: str, keys: list[str], path: str) -> Iterator[Cause]:
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")
    if kind != "map":
        return
    for key in keys:
        known, at = (items.get("properties") or {}).get(key), f"{path}.properties[{key}]"
        if known is None:
            continue
        reason = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and "default" not in known:
            yield required(f"{at}.default", f"{reason} must have a default or be a required property")
        if known.get("nullable"):
            yield forbidden(f"{at}.nullable", f"{reason} cannot be nullable")
