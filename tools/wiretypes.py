"""Write `wiretypes.json` (`trimtab_lab/apiserver/kinds/serialization`): the built-in types as Go reads and writes them.

An API server responds with the encoding of its Go structs: an unknown field is dropped, a false `hostNetwork` is
dropped because its tag says `omitempty`, a false `enableServiceLinks` is kept because it is a pointer, and
`resources: {}` is added because a struct that is not a pointer is always written. Published schemas do not distinguish
pointers from values, so the table is read from the Go source:

    python -m tools.wiretypes PATH-TO-A-CHECKOUT-OF-KUBERNETES

A test compares its names with the published schemas. The table has `kinds` (`apps/v1 Deployment` -> type) and `types`:
a struct is an object of its fields, any other type is the name of its definition. The type of a field is written as in
Go, with two suffixes: `?` at its end is `omitempty`, `!` is `omitzero`; the prefix `VolumeSource|` names the embedded
struct of the field, which Go's error messages mention.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SERIALIZATION = Path(__file__).parents[1] / "src" / "trimtab_lab" / "apiserver" / "kinds" / "serialization"
TARGET = _SERIALIZATION / "wiretypes.json"

_API = "staging/src/k8s.io/api"
_META = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1"
PACKAGES = {
    "core.v1": f"{_API}/core/v1",
    "apps.v1": f"{_API}/apps/v1",
    "policy.v1": f"{_API}/policy/v1",
    "coordination.v1": f"{_API}/coordination/v1",
    "scheduling.v1": f"{_API}/scheduling/v1",
    "events.v1": f"{_API}/events/v1",
    "rbac.v1": f"{_API}/rbac/v1",
    "autoscaling.v1": f"{_API}/autoscaling/v1",
    "admissionregistration.v1": f"{_API}/admissionregistration/v1",
    "authentication.v1": f"{_API}/authentication/v1",
    "apiextensions.v1": "staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "meta.v1": _META,
}
"""Our name of each Go package, and the path of its types in a checkout."""

GROUPS = {
    "core.v1": "v1",
    "events.v1": "events.k8s.io/v1",
    "rbac.v1": "rbac.authorization.k8s.io/v1",
    "coordination.v1": "coordination.k8s.io/v1",
    "scheduling.v1": "scheduling.k8s.io/v1",
    "admissionregistration.v1": "admissionregistration.k8s.io/v1",
    "authentication.v1": "authentication.k8s.io/v1",
    "apiextensions.v1": "apiextensions.k8s.io/v1",
    "apps.v1": "apps/v1",
    "policy.v1": "policy/v1",
    "autoscaling.v1": "autoscaling/v1",
    "meta.v1": "v1",
}
"""The apiVersion of a package's kinds."""

ROOTS = {
    "meta.v1": ("DeleteOptions", "Status"),
    "core.v1": [
        "Binding",
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ],
    "apps.v1": ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
    "policy.v1": ["Eviction", "PodDisruptionBudget"],
    "coordination.v1": ["Lease"],
    "scheduling.v1": ["PriorityClass"],
    "events.v1": ["Event"],
    "rbac.v1": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    "autoscaling.v1": ["HorizontalPodAutoscaler", "Scale"],
    "admissionregistration.v1": ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    "authentication.v1": ["TokenRequest"],
    "apiextensions.v1": ["CustomResourceDefinition"],
}
"""The kinds of the table; all types that they refer to are included."""

# Types with their own encoding, which their fields do not describe.
SELF_MADE = {
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
    "types.UID": "types.UID",
    "meta.v1.Time": "Time",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.FieldsV1": "FieldsV1",
    "apiextensions.v1.JSON": "JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray": "JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool": "JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray",
}
BASIC = {"string", "bool", "int32", "int64", "float64", "[]byte", "byte", "int", "types.UID", *SELF_MADE.values()}
# The import names of the packages above.
_ALIASES = {"v1": "core.v1", "apiv1": "core.v1", "corev1": "core.v1", "metav1": "meta.v1"}

_STRUCT = re.compile(r"^type (\w+) struct\s*\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) ((?:map\[|\[\]|\*)?[\w.\]\[*]+)\s*(?://.*)?$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_TAG = re.compile(r'json:"([^"]*)"')
_WORD = re.compile(r"[A-Za-z_][\w.]*")

Types = dict[str, Any]


def generate(checkout: Path) -> str:
    """The table as text: sorted, one type a line, for readable diffs."""
    declared: Types = {}
    for package, folder in PACKAGES.items():
        for path in sorted((checkout / folder).glob("*.go")):
            if not path.name.endswith("_test.go") and not path.name.startswith("zz_") and ".pb." not in path.name:
                declared |= _declarations(package, path.read_text(encoding="utf-8"))
    kinds = {f"{GROUPS[package]} {kind}": f"{package}.{kind}" for package, names in ROOTS.items() for kind in names}
    types = {name: declared[name] for name in _reachable(declared, list(kinds.values()))}
    return f'{{"kinds": {_lines(kinds)},\n"types": {_lines(types)}}}\n'


def _declarations(package: str, source: str) -> Types:
    found: Types = {}
    for name, aliased in _NAMED.findall(source):
        if not aliased.startswith(("struct", "interface")):
            found[f"{package}.{name}"] = _qualified(aliased, package)
    for name, body in _STRUCT.findall(source):
        found[f"{package}.{name}"] = dict(_fields(body, package))
    return found


def _fields(body: str, package: str) -> Iterator[tuple[str, str]]:
    """Fields by their JSON name; an embedded struct is under its Go type, with a leading `+`."""
    for _, type_, tags in _FIELD.findall(body):
        match = _TAG.search(tags)
        if match is None or match[1] == "-":
            continue
        name, *options = match[1].split(",")
        qualified = _qualified(type_, package)
        if "inline" in options or not name:
            yield f"+{qualified}", qualified
        else:
            # Go writes an empty struct even with omitempty; only omitzero drops it.
            mark = "!" if "omitzero" in options else "?" if "omitempty" in options else ""
            yield name, qualified + mark


def _qualified(type_: str, package: str) -> str:
    def qualify(match: re.Match[str]) -> str:
        word = match[0]
        if word in BASIC or word in ("map", "string"):
            return word
        prefix, dot, name = word.rpartition(".")
        full = f"{_ALIASES.get(prefix, prefix)}.{name}" if dot else f"{package}.{word}"
        return SELF_MADE.get(full, full)

    return "[]byte" if type_ == "[]byte" else _WORD.sub(qualify, type_)


def _reachable(declared: Types, waiting: list[str]) -> list[str]:
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        what = declared[name]
        if isinstance(what, dict):
            declared[name] = what = dict(_flattened(declared, what))
        texts = what.values() if isinstance(what, dict) else [what]
        words = (word for text in texts for word in _WORD.findall(text.rpartition("|")[2]))
        waiting.extend(word for word in words if word not in BASIC and word != "map")
    return sorted(seen)


def _flattened(declared: Types, fields: dict[str, str], embedded: str = "") -> Iterator[tuple[str, str]]:
    for name, type_ in fields.items():
        if name.startswith("+"):
            yield from _flattened(declared, declared[type_], f"{embedded}{type_.rpartition('.')[2]}|")
        else:
            yield name, type_ if "|" in type_ else embedded + type_


def _lines(table: dict[str, Any]) -> str:
    entries = (f"{json.dumps(key)}: {json.dumps(table[key], separators=(',', ':'))}" for key in sorted(table))
    return "{\n" + ",\n".join(entries) + "\n}"


if __name__ == "__main__":
    TARGET.write_text(generate(Path(sys.argv[1])), encoding="utf-8")
