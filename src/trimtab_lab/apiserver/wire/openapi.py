"""OpenAPI documents, as far as `kubectl explain` and `kubectl apply` need them.

kubectl reads three things from them: whether the PATCH of a kind takes `fieldValidation` (then it leaves validation to
the server), how lists are merged (`x-kubernetes-patch-merge-key`), and what `explain` prints. The schemas of built-in
kinds are generated from the table of Go types, with the published descriptions; those of custom kinds are the ones in
their definition.

Version 3 has a document for each group version, version 2 one for all. Empty values are left out, as Go does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.patches.mergekeys import Schema
from trimtab_lab.apiserver.kinds.registry import SUBRESOURCES, Kind, Registry
from trimtab_lab.apiserver.kinds.serialization.typetable import descriptions, resolved, types
from trimtab_lab.apiserver.storage.store import Tree, encode
from trimtab_lab.apiserver.verbs.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
EMPTY = b"\x0a\x032.0\x12\x0e\x0a\x0aKubernetes\x12\x00"
"""A version 2 document without kinds, as protobuf. kubectl asks for it if a kind is in no document of version 3, and
then reports that there is no such kind; with an error instead, it reports that error."""

_V3 = "#/components/schemas/"
_V2 = "#/definitions/"
_PACKAGES = {
    "meta.v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "apiextensions.v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}
_OBJECT_META = "meta.v1.ObjectMeta"
_ANY_KIND = "core.v1.ConfigMap"
"""Custom kinds share the descriptions of the fields that every object has."""
_LIST_META: Tree = {
    "type": "object",
    "properties": {
        "continue": {"type": "string"},
        "remainingItemCount": {"type": "integer", "format": "int64"},
        "resourceVersion": {"type": "string"},
        "selfLink": {"type": "string"},
    },
}
_LIST_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

_LEAVES: Mapping[str, Tree] = {
    "string": {"type": "string"},
    "types.UID": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int64"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "[]byte": {"type": "string", "format": "byte"},
    "Quantity": {"type": "string"},
    "IntOrString": {"type": "string", "format": "int-or-string"},
    "Time": {"type": "string", "format": "date-time"},
    "MicroTime": {"type": "string", "format": "date-time"},
}
"""Types other than structs; a type that is missing here accepts any value."""

_UNIONS: Mapping[str, tuple[str, Tree]] = {
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
}
"""Types of version 3 that are one of two types, with their names and schemas; `explain` prints the name."""

_QUERY = {
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    "get": (),
}
_WORD = re.compile(r"[A-Za-z_][\w.]*")


class OpenAPIDocuments:
    """All documents, generated on demand and again when the kinds have changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._cache: dict[str, bytes] = {}
        self._changes = registry.changes

    def index(self) -> bytes:
        """`/openapi/v3`: the paths of the documents, with hashes for client caches."""
        paths = {}
        for api_version in dict.fromkeys(kind.api_version for kind in self._registry):
            path = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
            digest = hashlib.sha256(self._document(api_version)).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return encode({"paths": paths})

    def v3(self, api_version: str) -> bytes | None:
        """`/openapi/v3/apis/GROUP/VERSION`."""
        return self._document(api_version) if self._registry.serves(api_version) else None

    def v2(self) -> bytes:
        """`/openapi/v2`."""
        return self._cached("", lambda: _v2(list(self._registry)))

    def _document(self, api_version: str) -> bytes:
        kinds = [kind for kind in self._registry if kind.api_version == api_version]
        return self._cached(api_version, lambda: _v3(kinds))

    def _cached(self, key: str, make: Any) -> bytes:
        if self._changes != self._registry.changes:
            self._cache.clear()
            self._changes = self._registry.changes
        if key not in self._cache:
            self._cache[key] = encode(make())
        return self._cache[key]


def _v3(kinds: list[Kind]) -> Tree:
    schemas = dict(_schemas(kinds, _V3))
    paths: Tree = {path: item for kind in kinds for path, item in _paths(kind, _operation_v3)}
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _v2(kinds: list[Kind]) -> Tree:
    definitions = dict(_schemas(kinds, _V2))
    paths: Tree = {path: item for kind in kinds for path, item in _paths(kind, _operation_v2)}
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


# --- paths -----------------------------------------------------------------------------------------------------------


def _paths(kind: Kind, operation: Any) -> Iterator[tuple[str, Tree]]:
    base = f"{kind.path}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{kind.path}/{kind.plural}"
    yield base, {method: operation(kind, method, listed=method == "get") for method in ("get", "post", "delete")}
    yield f"{base}/{{name}}", {method: operation(kind, method) for method in ("get", "put", "patch", "delete")}
    if kind.namespaced:
        yield f"{kind.path}/{kind.plural}", {"get": operation(kind, "get", listed=True)}
    for name in kind.subresources:
        if not SUBRESOURCES[name].kind:
            yield f"{base}/{{name}}/{name}", {m: operation(kind, m) for m in ("get", "put", "patch")}


def _operation_v3(kind: Kind, method: str, *, listed: bool = False) -> Tree:
    shown = {"$ref": _V3 + (_list_name(kind) if listed else _name(kind))}
    operation: Tree = {
        "tags": [f"{kind.group or 'core'}_{kind.version}"],
        "operationId": _identifier(kind, method, listed=listed),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": shown}}}},
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if _QUERY[method]:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY[method]
        ]
    if method in ("post", "put", "patch"):
        content = _patch_types(kind) if method == "patch" else ["application/json", "application/yaml"]
        operation["requestBody"] = {"content": {name: {"schema": shown} for name in content}, "required": True}
    return operation


def _operation_v2(kind: Kind, method: str, *, listed: bool = False) -> Tree:
    shown = {"$ref": _V2 + (_list_name(kind) if listed else _name(kind))}
    parameters: list[Tree] = [{"name": name, "in": "query", "type": "string"} for name in _QUERY[method]]
    if method in ("post", "put", "patch"):
        parameters.append({"name": "body", "in": "body", "required": True, "schema": shown})
    return {
        "operationId": _identifier(kind, method, listed=listed),
        "consumes": _patch_types(kind) if method == "patch" else ["*/*"],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "schema": shown}},
        "x-kubernetes-group-version-kind": _gvk(kind),
    }


def _patch_types(kind: Kind) -> list[str]:
    return [JSON_PATCH, MERGE_PATCH, *(() if kind.custom else (STRATEGIC_PATCH,))]


def _identifier(kind: Kind, method: str, *, listed: bool) -> str:
    words = [*(kind.group or "core").replace("-", ".").split("."), kind.version, kind.plural]
    return ("list" if listed else method) + "".join(word.capitalize() for word in words)


def _gvk(kind: Kind) -> Tree:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


# --- schemas ---------------------------------------------------------------------------------------------------------


def _schemas(kinds: Iterable[Kind], prefix: str) -> Iterator[tuple[str, Tree]]:
    """The schemas of kinds and lists, and all schemas that they refer to."""
    built_in = [kind for kind in kinds if kind.name in types()["kinds"]]
    roots = {types()["kinds"][kind.name]: kind for kind in built_in}
    yield _LIST_META_NAME, _LIST_META
    if prefix == _V3:
        yield from _UNIONS.values()
    for name in _reachable([*roots, _OBJECT_META]):
        schema = _struct(name, prefix)
        if name in roots:
            schema["x-kubernetes-group-version-kind"] = [_gvk(roots[name])]
        yield _full(name), schema
    for kind in kinds:
        if kind.custom is not None:
            yield _name(kind), _custom(kind, prefix)
        if kind.custom is not None or kind in built_in:
            yield _list_name(kind), _list(kind, prefix)


def _reachable(waiting: list[str]) -> list[str]:
    known = types()["types"]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not isinstance(known.get(name), (dict, str)):
            continue
        seen.add(name)
        texts = known[name].values() if isinstance(known[name], dict) else [known[name]]
        waiting += [word for text in texts for word in _WORD.findall(text.rpartition("|")[2])]
    return sorted(name for name in seen if isinstance(known[name], dict))


def _struct(name: str, prefix: str) -> Tree:
    fields = {field: text.rpartition("|")[2] for field, text in types()["types"][name].items()}
    properties = {field: _property(name, field, text, prefix) for field, text in fields.items()}
    schema: Tree = {"type": "object"} | ({"properties": properties} if properties else {})
    required = [field for field, text in fields.items() if not text.endswith(("?", "!"))]
    return _described(name, "") | schema | ({"required": required} if required else {})


def _property(owner: str, field: str, text: str, prefix: str) -> Tree:
    """The schema of a field, with the extensions that kubectl needs to merge it."""
    schema = dict(_type(text.rstrip("?!"), prefix))
    schema |= _described(owner, field)
    try:
        known = Schema(owner)
        merging = known.list_field(field) if schema.get("type") == "array" else known.object_field(field)
    except (InvalidError, KeyError):
        return schema
    if merging.strategy:
        schema["x-kubernetes-patch-strategy"] = merging.strategy
    if merging.key:
        schema["x-kubernetes-patch-merge-key"] = merging.key
    return schema


def _described(owner: str, field: str) -> Tree:
    """The description of a field, and the values of an enumeration."""
    known = descriptions().get(owner, {})
    found = (("description", known.get(field)), ("enum", known.get(f"{field}=")))
    return {name: value for name, value in found if value}


def _type(text: str, prefix: str) -> Tree:
    bare, target = text.lstrip("*"), resolved(text)
    if isinstance(target, dict):
        return {"$ref": prefix + _full(bare)} if prefix == _V2 else {"allOf": [{"$ref": prefix + _full(bare)}]}
    if prefix == _V3 and target in _UNIONS:
        return {"allOf": [{"$ref": prefix + _UNIONS[target][0]}]}
    if target in _LEAVES:
        return _LEAVES[target]
    if target.startswith("[]"):
        return {"type": "array", "items": _type(target[2:], prefix)}
    if target.startswith("map["):
        return {"type": "object", "additionalProperties": _type(target.partition("]")[2], prefix)}
    return {"type": "object"}


def _custom(kind: Kind, prefix: str) -> Tree:
    """The schema of a definition, with the fields that every object has."""
    assert kind.custom is not None  # noqa: S101 – called for custom kinds only
    given = dict(kind.custom.schema_tree)
    if prefix == _V2 and given.get("x-kubernetes-preserve-unknown-fields"):
        # kubectl would reject fields that are not listed, so Kubernetes lists none.
        return {"type": "object", "x-kubernetes-group-version-kind": [_gvk(kind)]}
    meta = {"$ref": prefix + _full(_OBJECT_META)}
    common = {
        "apiVersion": {"type": "string", **_described(_ANY_KIND, "apiVersion")},
        "kind": {"type": "string", **_described(_ANY_KIND, "kind")},
        "metadata": (meta if prefix == _V2 else {"allOf": [meta]}) | _described(_ANY_KIND, "metadata"),
    }
    properties = {**common, **{k: v for k, v in (given.get("properties") or {}).items() if k not in common}}
    return {**given, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _list(kind: Kind, prefix: str) -> Tree:
    items = {"$ref": prefix + _name(kind)}
    meta = {"$ref": prefix + _LIST_META_NAME}
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": meta if prefix == _V2 else {"allOf": [meta]},
            "items": {"type": "array", "items": items if prefix == _V2 else {"allOf": [items]}},
        },
        "x-kubernetes-group-version-kind": [{**_gvk(kind), "kind": kind.list_kind}],
    }


def _full(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` for `core.v1.Pod`."""
    package, _, type_ = name.rpartition(".")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{type_}"


def _name(kind: Kind) -> str:
    """The name of a kind's schema; for a custom kind, its group reversed."""
    known = types()["kinds"].get(kind.name)
    if known is not None:
        return _full(known)
    backwards = ".".join(reversed(kind.group.split(".")))
    return f"{backwards}.{kind.version}.{kind.kind}"


def _list_name(kind: Kind) -> str:
    return _name(kind).rpartition(".")[0] + f".{kind.list_kind}"
