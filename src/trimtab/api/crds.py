"""The CustomResourceDefinitions of our kinds, made from their types so that the two cannot drift apart.

An API server takes *structural* schemas only. Every node has one type, or says that it is an integer or a string, or
that it keeps unknown fields; there are no references, so a type that is used twice is written twice; an optional field
is one that is not `required`, not a union with null. Fields that a schema does not name are pruned, which is why raw
documents (templates, patches) are open objects: pods are made from them, and they must lose nothing.

A default stands in a schema only where absence means something. An empty list and no list are the same to us, so
nothing is gained by having a server write one into every object. A server fills in defaults from the outside to the
inside and does not enter what is absent; an object that may be absent therefore states the defaults of its fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from trimtab.api.cloneset import CloneSet
from trimtab.api.documents import JSON, Document
from trimtab.api.extensions import CustomResourceColumn, ScaleSubresource
from trimtab.api.meta import Condition, LabelSelector
from trimtab.api.model import Model
from trimtab.api.pods import NodeSelectorTerm
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import RevisionStatus, Shortage, Subset, SubsetStatus, UnitedTopology

MANAGED_BY_LABELS = {"app.kubernetes.io/managed-by": "trimtab"}
"""The label of our definitions: another program may serve a kind of the same name, which then is not ours to keep."""


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind of ours: its type, what it is called, and how kubectl shows it. All are namespaced."""

    model: type[Model]
    group: str
    version: str
    kind: str
    plural: str
    short_name: str
    columns: tuple[CustomResourceColumn, ...]
    scale: ScaleSubresource | None = None

    @property
    def api_version(self) -> str:
        """As objects of the kind state it."""
        return f"{self.group}/{self.version}"

    @property
    def name(self) -> str:
        """The name of its definition."""
        return f"{self.plural}.{self.group}"

    @property
    def has_status(self) -> bool:
        """Whether it has a status, which then is a subresource: who writes the spec cannot touch it by accident."""
        return any(field.encode_name == "status" for field in msgspec.structs.fields(self.model))


def _column(name: str, path: str, type: str = "string", *, wide: bool = False) -> CustomResourceColumn:  # noqa: A002 - the field's name
    return CustomResourceColumn(name=name, type=type, json_path=path, priority=1 if wide else 0)


_AGE = _column("Age", ".metadata.creationTimestamp", "date")

# A column shows the first thing that its path finds and no more, so lists (the subsets, the images) have none.
KINDS: tuple[CustomKind, ...] = (
    CustomKind(
        model=UnitedTopology,
        group="apps.kruise.io",
        version="v1alpha1",
        kind="UnitedTopology",
        plural="unitedtopologies",
        short_name="ut",
        columns=(
            _column("Target-Kind", ".spec.targetRef.kind"),
            _column("Target", ".spec.targetRef.name"),
            _column("Strategy", ".spec.scheduleStrategy.type"),
            _column("Replicas", ".status.replicas", "integer"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _AGE,
            _column("Reason", '.status.conditions[?(@.type=="Ready")].reason', wide=True),
        ),
    ),
    CustomKind(
        model=CloneSet,
        group="apps.kruise.io",
        version="v1alpha1",
        kind="CloneSet",
        plural="clonesets",
        short_name="clone",
        columns=(
            _column("Desired", ".spec.replicas", "integer"),
            _column("Updated", ".status.updatedReplicas", "integer"),
            _column("Updated_Ready", ".status.updatedReadyReplicas", "integer"),
            _column("Updated_Available", ".status.updatedAvailableReplicas", "integer"),
            _column("Ready", ".status.readyReplicas", "integer"),
            _column("Total", ".status.replicas", "integer"),
            _AGE,
            _column("Selector", ".status.labelSelector", wide=True),
        ),
        scale=ScaleSubresource(
            spec_replicas_path=".spec.replicas",
            status_replicas_path=".status.replicas",
            label_selector_path=".status.labelSelector",
        ),
    ),
    CustomKind(
        model=ScaleDownPolicy,
        group="trimtab.dev",
        version="v1alpha1",
        kind="ScaleDownPolicy",
        plural="scaledownpolicies",
        short_name="sdp",
        columns=(
            _column("Target-Kind", ".spec.targetRef.kind"),
            _column("Target", ".spec.targetRef.name"),
            _column("Delivery", ".spec.delivery"),
            _column("Carrier", ".spec.carrier"),
            _column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            _column("Last-From", ".status.lastPlan.from", "integer"),
            _column("Last-To", ".status.lastPlan.to", "integer"),
            _AGE,
            _column("Error", ".status.lastError", wide=True),
        ),
    ),
    CustomKind(
        model=PodGroupCost,
        group="trimtab.dev",
        version="v1alpha1",
        kind="PodGroupCost",
        plural="podgroupcosts",
        short_name="pgc",
        columns=(
            _column("Owner-Kind", ".spec.owner.kind"),
            _column("Owner", ".spec.owner.name"),
            _AGE,
        ),
    ),
)
"""Every kind that Trimtab brings to a cluster."""

_KEYS: dict[type[msgspec.Struct], str] = {
    Subset: "name",
    Condition: "type",
}
"""What tells the items of a list apart. A server then refuses two of one key, and merges the lists of two authors."""

_WHOLE: frozenset[type[msgspec.Struct]] = frozenset({SubsetStatus, RevisionStatus, Shortage})
"""Items of lists that are written whole and conditionally, by Trimtab alone. Were they merged, an API server would keep
the author of every reservation, and a write with some hundred of them took it several times as long."""

_ATOMIC: frozenset[type[msgspec.Struct]] = frozenset({LabelSelector, NodeSelectorTerm})
"""Whole or not at all, as in Kubernetes: half of one author's selector and half of another's select something else."""

_WIDE = frozenset({"observedGeneration", "tolerationSeconds"})
"""What Kubernetes counts in 64 bits; all else that we count is a number of pods, seconds or a cost, which take 32."""

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
"""The keywords that our schemas use, as a reader wants them: what it is first, what is in it last."""


def manifests() -> list[JSON]:
    """The definitions of all our kinds, ready to be applied."""
    return [manifest(kind) for kind in KINDS]


def manifest(kind: CustomKind) -> JSON:
    """The definition of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name, "labels": dict(MANAGED_BY_LABELS)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": _names(kind),
            "versions": [_version(kind)],
        },
    }


def schema(kind: CustomKind) -> JSON:
    """What an object of the kind looks like. The server itself checks metadata; a schema may not say more of it."""
    root = _object(_struct_info(kind.model))
    root["properties"] = {
        "apiVersion": {"description": f"Always {kind.api_version}.", "type": "string"},
        "kind": {"description": f"Always {kind.kind}.", "type": "string"},
        **root["properties"],
        "metadata": {"type": "object"},
    }
    return root


def _names(kind: CustomKind) -> JSON:
    return {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [kind.short_name],
        "categories": ["trimtab"],
    }


def _version(kind: CustomKind) -> JSON:
    version: JSON = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [msgspec.to_builtins(column) for column in kind.columns],
    }
    subresources = _subresources(kind)
    if subresources:
        version["subresources"] = subresources
    return version | {"schema": {"openAPIV3Schema": schema(kind)}}


def _subresources(kind: CustomKind) -> JSON:
    subresources: JSON = {"status": {}} if kind.has_status else {}
    if kind.scale is not None:
        subresources["scale"] = msgspec.to_builtins(kind.scale)
    return subresources


def _struct_info(model: type[Model]) -> inspect.StructType:
    info = inspect.type_info(model)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{model.__name__} is not a structure")
    return info


def _node(info: inspect.Type) -> JSON:
    """The schema of one type, whatever it is."""
    match info:
        case inspect.Metadata():
            return _node(info.type) | (info.extra_json_schema or {})
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
        "properties": {field.encode_name: _property(field) for field in info.fields},
    }
    required = [field.encode_name for field in info.fields if field.required]
    if required:
        node["required"] = required
    if info.cls in _ATOMIC:
        node["x-kubernetes-map-type"] = "atomic"
    return _ordered(node)


def _property(field: inspect.Field) -> JSON:
    node = _node(field.type)
    if field.encode_name in _WIDE:
        node["format"] = "int64"
    default = _meant(field.default)
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
    elif model in _WHOLE:
        node["x-kubernetes-list-type"] = "atomic"
    return node


def _mapping(info: inspect.DictType) -> JSON:
    if isinstance(info.value_type, inspect.AnyType):
        return dict(_OPEN)
    return {"type": "object", "additionalProperties": _node(info.value_type)}


def _union(info: inspect.UnionType) -> JSON:
    """An optional type is just the type; a number or a percentage has a keyword; no other union has a form."""
    members = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    if len(members) == 1:
        return _node(members[0])
    if {type(member) for member in members} == {inspect.IntType, inspect.StrType}:
        return {"x-kubernetes-int-or-string": True}
    raise TypeError(f"no structural schema says {info}")


def _scalar(info: inspect.Type) -> JSON:
    """A bound that has no keyword here is an error, for a schema that leaves it out would promise too much."""
    form = _SCALARS.get(type(info))
    if form is None:
        raise TypeError(f"no structural schema says {info}")
    bounds = {name: bound for name, bound in msgspec.structs.asdict(info).items() if bound is not None}
    return form | {_BOUNDS[name]: bound for name, bound in bounds.items()}


def _meant(default: Any) -> Any:
    """What an absent field means, as plain values; None where it means nothing, and for what is required."""
    if default is msgspec.NODEFAULT:
        return None
    if isinstance(default, msgspec.Struct):
        values = {field.encode_name: _meant(getattr(default, field.name)) for field in msgspec.structs.fields(default)}
        return {name: value for name, value in values.items() if value} or None
    return default or None


def _ordered(node: JSON) -> JSON:
    return {word: node[word] for word in sorted(node, key=_ORDER.index)}


def _summary(model: type[Any]) -> str:
    """The first sentence of a docstring: the rest is for those who read the code."""
    paragraph = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]
