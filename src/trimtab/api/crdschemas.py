"""Structural schemas, generated from our types so that the two cannot drift apart.

An API server accepts *structural* schemas only. Every node has one type, or is marked as an integer or a string, or
preserves unknown fields. There are no references, so a type that is used twice is written out twice. An optional field
is one that is not `required`, not a union with null. Fields that a schema does not name are pruned, so raw documents
(templates, patches) are open objects: pods are created from them, and no field may be lost.

Every list and map has a maximum, from its type or from `limits`, except for the content of raw documents.

A schema states a default only where an absent field has a meaning. An empty list means the same as no list, so the
server need not write one into every object. A server applies defaults from the outside to the inside and does not
enter an absent object; an optional object therefore states the defaults of its fields.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from trimtab.api import limits
from trimtab.api.documents import JSON, Document
from trimtab.api.meta import Condition, LabelSelector, ObjectMeta
from trimtab.api.model import Model
from trimtab.api.pods import NodeSelectorTerm
from trimtab.api.unitedtopology import RevisionStatus, Shortage, Subset, SubsetStatus

_KEYS: dict[type[msgspec.Struct], str] = {
    Subset: "name",
    Condition: "type",
}
"""The key field of list items. A server then rejects duplicate keys, and merges the lists of two field managers."""

_ATOMIC_ITEMS: frozenset[type[msgspec.Struct]] = frozenset({SubsetStatus, RevisionStatus, Shortage})
"""Items of lists that only Trimtab writes, always whole and conditionally. If they were merged, an API server would
record the field manager of every reservation, and a write with hundreds of them would take several times as long."""

_ATOMIC: frozenset[type[msgspec.Struct]] = frozenset({LabelSelector, NodeSelectorTerm})
"""Types that are atomic, as in Kubernetes: merging the selectors of two field managers would select something else."""

_INT64_FIELDS = frozenset({"observedGeneration", "tolerationSeconds"})
"""The fields that are 64-bit integers in Kubernetes; all other numbers (pods, seconds, costs) are 32-bit."""

_SCALARS: dict[type[inspect.Type], JSON] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer", "format": "int32"},
    inspect.StrType: {"type": "string"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
}
_BOUNDS = {"ge": "minimum", "le": "maximum", "min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}
_OPEN: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_ORDER = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-map-type",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "required",
    "properties",
    "additionalProperties",
    "items",
)
"""The order of the keywords that our schemas use: description and type first, children last."""


def object_schema(model: type[Model]) -> JSON:
    """The schema of an object of this type."""
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model.__name__} is not a structure")
    return _object(info)


def _node(info: inspect.Type) -> JSON:
    """The schema of any supported type."""
    match info:
        case inspect.Metadata():
            return _node(info.type) | (info.extra_json_schema or {})
        case inspect.StructType() if issubclass(info.cls, ObjectMeta):
            return {"type": "object"}  # a schema may not describe it
        case inspect.StructType():
            return _object(info)
        case inspect.VarTupleType():
            return _list(info)
        case inspect.DictType():
            return _mapping(info)
        case inspect.UnionType():
            return _union(info)
        case inspect.LiteralType():
            return {"type": "string", "enum": list(info.values)}
        case inspect.CustomType() if info.cls is Document:
            return dict(_OPEN)
        case _:
            return _scalar(info)


def _object(info: inspect.StructType) -> JSON:
    node: JSON = {
        "description": _summary(info.cls),
        "type": "object",
        "properties": {
            field.encode_name: _property(field, limits.SHARED.get(info.cls, {}).get(field.encode_name))
            for field in info.fields
        },
    }
    required = [field.encode_name for field in info.fields if field.required]
    if required:
        node["required"] = required
    if info.cls in _ATOMIC:
        node["x-kubernetes-map-type"] = "atomic"
    return _ordered(node)


def _property(field: inspect.Field, most: int | None) -> JSON:
    node = _node(field.type)
    if most is not None:
        node["maxItems" if node["type"] == "array" else "maxProperties"] = most
    if field.encode_name in _INT64_FIELDS:
        node["format"] = "int64"
    default = _default(field.default)
    if default:
        node["default"] = default
    return _ordered(node)


def _list(info: inspect.VarTupleType) -> JSON:
    node: JSON = {"type": "array", "items": _node(info.item_type)}
    bounds = {"minItems": info.min_length, "maxItems": info.max_length}
    node |= {word: bound for word, bound in bounds.items() if bound is not None}
    model = info.item_type.cls if isinstance(info.item_type, inspect.StructType) else None
    if model in _KEYS:
        node |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [_KEYS[model]]}
    elif model in _ATOMIC_ITEMS:
        node["x-kubernetes-list-type"] = "atomic"
    return node


def _mapping(info: inspect.DictType) -> JSON:
    most = {} if info.max_length is None else {"maxProperties": info.max_length}
    if isinstance(info.value_type, inspect.AnyType):
        return _OPEN | most
    return {"type": "object", "additionalProperties": _node(info.value_type)} | most


def _union(info: inspect.UnionType) -> JSON:
    """The schema of an optional type or of an int-or-string; no other union has a structural schema."""
    members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    if len(members) == 1:
        return _node(members[0])
    if {type(member) for member in members} == {inspect.IntType, inspect.StrType}:
        return {"x-kubernetes-int-or-string": True}
    raise TypeError(f"{info} has no structural schema")


def _scalar(info: inspect.Type) -> JSON:
    """The schema of a scalar. A bound without a keyword raises KeyError: a schema must not omit it."""
    form = _SCALARS.get(type(info))
    if form is None:
        raise TypeError(f"{info} has no structural schema")
    bounds = {name: bound for name, bound in msgspec.structs.asdict(info).items() if bound is not None}
    return form | {_BOUNDS[name]: bound for name, bound in bounds.items()}


def _default(default: Any) -> Any:
    """The default of a field as plain values; None for empty defaults and required fields."""
    if default is msgspec.NODEFAULT:
        return None
    if isinstance(default, msgspec.Struct):
        values = {
            field.encode_name: _default(getattr(default, field.name)) for field in msgspec.structs.fields(default)
        }
        return {name: value for name, value in values.items() if value} or None
    return default or None


def _ordered(node: JSON) -> JSON:
    return {word: node[word] for word in sorted(node, key=_ORDER.index)}


def _summary(model: type[Any]) -> str:
    """The first sentence of a docstring; the rest is for readers of the code."""
    paragraph = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]
