"""Structural schemas: what Kubernetes requires of a schema when its definition is created.

A structural schema specifies all fields and their types outside of `allOf`, `anyOf`, `oneOf` and `not`; these may only
narrow what is specified outside. Pruning and defaulting are then unambiguous. The limits of Kubernetes' dialect come on
top (`dialect`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from trimtab_lab.apiserver.kinds.schemas import patterns
from trimtab_lab.apiserver.kinds.schemas.dialect import RESOURCE_FIELDS, dialect_causes
from trimtab_lab.apiserver.kinds.schemas.nodes import Node, prune
from trimtab_lab.apiserver.kinds.schemas.validator import Validator
from trimtab_lab.apiserver.kinds.schemas.value_causes import causes
from trimtab_lab.apiserver.kinds.validation.causes import Cause, forbidden, invalid, required
from trimtab_lab.apiserver.storage.store import Tree

_ROOT, _FIELD, _ITEM = "at the root", "for specified object fields", "for specified array items"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def faults(schema: Tree, path: str) -> list[Cause]:
    """All causes for which the schema is rejected; `path` is its path in the definition."""
    causes = sorted([*_invariants(schema, _ROOT, path), *_completeness(schema, schema, path, path)], key=str)
    dialect = list(dialect_causes(schema, path, root=True))
    if not causes and not dialect:
        causes += _default_faults(schema, path, root=True)
    if schema.get("nullable"):
        causes.insert(0, forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return causes + dialect


def root_faults(schema: Tree, path: str) -> Iterator[Cause]:
    """The causes at the root of a schema with a status subresource."""
    for field in schema:
        if field == "type" and schema["type"] != "object":
            rule = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(f"{path}.type", schema["type"], rule)
            return
        if field not in _ALLOWED_AT_ROOT:
            allowed = " ".join(_ALLOWED_AT_ROOT.values())
            rule = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, schema, rule)
            return


_ALLOWED_AT_ROOT = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def _invariants(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    if schema.get("type") == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _invariants(schema["items"], _ITEM, f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _invariants(inner, _FIELD, f"{path}.properties[{name}]")
    if "additionalProperties" in schema:
        if level == _ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(schema["additionalProperties"], dict):
            yield from _invariants(schema["additionalProperties"], _FIELD, f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _narrowing(schema, path, *_is_int_or_string(schema))
    yield from _type(schema, level, path)
    yield from _resource(schema, level, path)


def _is_int_or_string(schema: Tree) -> tuple[bool, bool]:
    """Whether the schema says `integer or string` in one of the two allowed ways."""
    first = (schema.get("allOf") or [{}])[0]
    return schema.get("anyOf") == _INT_OR_STRING, first.get("anyOf") == _INT_OR_STRING


def _extensions(schema: Tree, path: str) -> Iterator[Cause]:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for field in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(field):
            yield invalid(f"{path}.{field}", True, "must be false if x-kubernetes-int-or-string is true")


def _type(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    type_, at = schema.get("type", ""), f"{path}.type"
    embedded = schema.get("x-kubernetes-embedded-resource")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        rule = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(at, type_, rule) if type_ else required(at, rule)
    elif not type_ and not free:
        yield required(at, f"must not be empty {level}")
    if embedded and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level == _ROOT and type_ not in ("", "object"):
        yield invalid(at, type_, "must be object at the root")


def _resource(schema: Tree, level: str, path: str) -> Iterator[Cause]:
    """Check that the fields of every resource have their usual types."""
    properties, embedded = schema.get("properties") or {}, schema.get("x-kubernetes-embedded-resource")
    is_resource = level == _ROOT or embedded
    for name in ("kind", "apiVersion"):
        if is_resource and name in properties and properties[name].get("type", "") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata, at = properties.get("metadata"), f"{path}.properties[metadata]"
    if metadata is not None and is_resource and metadata.get("type", "") != "object":
        yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
    if metadata is not None and level == _ROOT and not _says_names_only(metadata):
        rule = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(at, rule)
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        rule = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", rule)


def _says_names_only(metadata: Tree) -> bool:
    return set(metadata) <= {"type", "default", "properties"} and (
        set(metadata.get("properties") or ()) <= {"name", "generateName"}
    )


def _narrowing(schema: Tree, path: str, skip_any: bool = False, skip_first: bool = False) -> Iterator[Cause]:
    """Check the parts of combinations, and the pattern."""
    for index, inner in enumerate(schema.get("anyOf") or () if not skip_any else ()):
        yield from _nested(inner, f"{path}.anyOf[{index}]")
    for index, inner in enumerate(schema.get("allOf") or ()):
        yield from _nested(inner, f"{path}.allOf[{index}]", skip_any=skip_first and index == 0)
    for index, inner in enumerate(schema.get("oneOf") or ()):
        yield from _nested(inner, f"{path}.oneOf[{index}]")
    if "not" in schema:
        yield from _nested(schema["not"], f"{path}.not")
    problem = _pattern_problem(schema.get("pattern", ""))
    if problem:
        rule = f"must be a valid regular expression, but isn't: {problem}"
        yield invalid(f"{path}.pattern", schema["pattern"], rule)


_FORBIDDEN_NESTED = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def _nested(schema: Tree, path: str, *, skip_any: bool = False) -> Iterator[Cause]:
    """Check that a schema inside a combination only narrows what is specified outside."""
    yield from _narrowing(schema, path, skip_any)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested(inner, f"{path}.properties[{name}]")
    if schema.get("type"):
        yield forbidden(f"{path}.type", "must be empty to be structural")
    if "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for field, rule in _FORBIDDEN_NESTED:
        if field in schema:
            yield forbidden(f"{path}.{field}", rule)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern_problem(pattern: str) -> str:
    try:
        patterns.rewritten(pattern)
    except ValueError:
        return "this API server cannot read it"
    return ""


def _completeness(narrowed: Tree, schema: Tree | None, path: str, at: str) -> Iterator[Cause]:
    """Check that each field inside a combination is also specified outside of it."""
    parts = [(narrowed["not"], f"{at}.not")] if "not" in narrowed else []
    for kind in ("allOf", "anyOf", "oneOf"):
        parts += [(inner, f"{at}.{kind}[{index}]") for index, inner in enumerate(narrowed.get(kind) or ())]
    for inner, place in parts:
        yield from _nested_completeness(inner, schema, path, place)


def _nested_completeness(nested: Tree, schema: Tree | None, path: str, at: str) -> Iterator[Cause]:
    if schema is None:
        yield required(path, f"because it is defined in {at}")
        return
    yield from _completeness(nested, schema, path, at)
    if isinstance(nested.get("items"), dict):
        items = schema.get("items")
        outside = items if isinstance(items, dict) else None
        yield from _nested_completeness(nested["items"], outside, f"{path}.items", f"{at}.items")
    properties = schema.get("properties") or {}
    for name, inner in (nested.get("properties") or {}).items():
        places = f"{path}.properties[{name}]", f"{at}.properties[{name}]"
        yield from _nested_completeness(inner, properties.get(name), *places)


def _default_faults(schema: Tree, path: str, *, root: bool = False) -> Iterator[Cause]:
    """Check that a default is valid by its own schema, and has no fields that would be pruned."""
    if "default" in schema:
        default, at = schema["default"], f"{path}.default"
        pruned = copy.deepcopy(default)
        prune(pruned, Node(schema), None, [])
        if pruned != default:
            yield invalid(at, default, "must not have unknown fields")
        else:
            found = causes(Validator(schema).errors(default), Node(schema), default)
            yield from (_moved(cause, at) for cause in found)
    if isinstance(schema.get("items"), dict):
        yield from _default_faults(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        if not (root and name in RESOURCE_FIELDS):
            yield from _default_faults(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _default_faults(schema["additionalProperties"], f"{path}.additionalProperties")


def _moved(cause: Cause, path: str) -> Cause:
    field = path if cause.field == "<nil>" else f"{path}.{cause.field}"
    return Cause(cause.reason, cause.message, field)
