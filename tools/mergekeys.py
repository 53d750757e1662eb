"""Writes `src/trimtab/api/patches/mergekeys.json`: the merge keys of the built-in types.

Kubernetes publishes what a strategic merge patch needs in its OpenAPI schemas: `x-kubernetes-patch-strategy` and
`x-kubernetes-patch-merge-key` on fields, `x-kubernetes-group-version-kind` on types. The schemas come from the package
`kubernetes-validate`; what ships is only the graph of the types that can be reached from a kind with object metadata
(nothing else can be patched), each as

    {"fields": {NAME: {"type": TYPE, "list": true, "strategy": "merge", "key": "name"}}, "plain": [NAME, ...]}

`type` is the type of the value or of the list's elements, and is absent if that has no fields; a field that is neither
a list nor of a type with fields is only listed in `plain`. Run `python -m tools.mergekeys` to regenerate it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

VERSION = "v1.36.0"
TARGET = Path(__file__).parent.parent / "src" / "trimtab" / "api" / "patches" / "mergekeys.json"

OBJECT_META = "meta.v1.ObjectMeta"
# Not a kind, but patched on its own: a subset's patch is laid over a pod template.
WITHOUT_KIND = {("v1", "PodTemplateSpec"): "core.v1.PodTemplateSpec"}

Definition = dict[str, Any]


def generate() -> str:
    """The table as text: sorted, one type per line, so that changes between versions are readable diffs."""
    definitions = {_short(name): definition for name, definition in _published().items()}
    kinds = _kinds(definitions)
    types = {name: _type(definitions, name) for name in _reachable(definitions, kinds.values())}
    grouped: dict[str, dict[str, str]] = {}
    for (api_version, kind), name in sorted(kinds.items()):
        grouped.setdefault(api_version, {})[kind] = name
    return f'{{"kinds": {_lines(grouped)},\n"types": {_lines(types)}}}\n'


def _published() -> dict[str, Definition]:
    schemas = resources.files("kubernetes_validate") / "kubernetes-json-schema"
    text = (schemas / f"{VERSION}-local" / "_definitions.json").read_text(encoding="utf-8")
    definitions: dict[str, Definition] = json.loads(text)["$defs"]
    if len({_short(name) for name in definitions}) != len(definitions):
        raise ValueError("two published types have the same short name: lengthen _short")
    return definitions


def _short(name: str) -> str:
    """`core.v1.Pod` for `io.k8s.api.core.v1.Pod`, or for a reference to it."""
    return ".".join(name.split(".")[-3:])


def _kinds(definitions: dict[str, Definition]) -> dict[tuple[str, str], str]:
    kinds = dict(WITHOUT_KIND)
    for name, definition in definitions.items():
        metadata = definition.get("properties", {}).get("metadata", {})
        if _short(metadata.get("$ref", "")) != OBJECT_META:
            continue
        for gvk in definition.get("x-kubernetes-group-version-kind", ()):
            api_version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            kinds[api_version, gvk["kind"]] = name
    return kinds


def _reachable(definitions: dict[str, Definition], roots: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_references(definitions, name))
    return sorted(seen)


def _references(definitions: dict[str, Definition], name: str) -> Iterator[str]:
    for field in _type(definitions, name)["fields"].values():
        if "type" in field:
            yield field["type"]


def _type(definitions: dict[str, Definition], name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    plain: list[str] = []
    for field, published in sorted(definitions[name]["properties"].items()):
        described = _field(definitions, published)
        if described:
            fields[field] = described
        else:
            plain.append(field)
    return {"fields": fields, "plain": plain}


def _field(definitions: dict[str, Definition], published: Definition) -> dict[str, Any]:
    described: dict[str, Any] = {}
    is_list = "array" in published.get("type", ())
    target = _short((published["items"] if is_list else published).get("$ref", ""))
    if definitions.get(target, {}).get("properties"):
        described["type"] = target
    if is_list:
        described["list"] = True
    for ours, theirs in (("strategy", "x-kubernetes-patch-strategy"), ("key", "x-kubernetes-patch-merge-key")):
        if theirs in published:
            described[ours] = published[theirs]
    return described


def _lines(table: dict[str, Any]) -> str:
    entries = (f"{json.dumps(key)}: {json.dumps(table[key], separators=(',', ':'))}" for key in sorted(table))
    return "{\n" + ",\n".join(entries) + "\n}"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
