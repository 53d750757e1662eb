"""Replaces the names in a cluster file.

Everything that is text is replaced unless the tables below say that it has a meaning of its own (phases, operators,
quantities, times, UIDs): a field that is added later is replaced until someone decides otherwise. Equal texts are
replaced by equal names wherever they stand, so that selectors still match labels and pods still name their nodes; UIDs
stay, because their order breaks ties between pods.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from trimtab.api.annotations import ALPHA_COST, DELETION_COST, SCALE_PLAN, SUBSET_KEYS
from trimtab.api.pods import PodTemplateSpec
from trimtab.inspection.files import ClusterFile

JSON = dict[str, Any]

_KEPT_FIELDS = frozenset(
    {
        *("apiVersion", "kind", "time", "uid", "resourceVersion", "generation", "creationTimestamp"),
        *("deletionTimestamp", "lastTransitionTime", "lastUpdateTime", "startTime", "phase", "type", "status"),
        *("operator", "effect", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy", "protocol"),
        *("restartPolicy", "preemptionPolicy", "maxSurge", "maxUnavailable", "maxReplicas", "mode", "delivery"),
        *("carrier", "otherCosts", "action", "scope", "resource", "schedulerName", "reason"),
        *("outcome", "result", "cause", "left", "planned", "stock"),
    }
)
"""Fields whose text has a meaning to Kubernetes or to Trimtab."""
_DROPPED = frozenset({"message", "podIP", "hostIP", "nominatedNodeName", "description"})
_QUANTITIES = frozenset({"requests", "limits", "capacity", "allocatable", "allocatedResources", "overhead"})
_NUMBER = re.compile(r"-?[0-9]+")
_WORDS = frozenset({"", "true", "false", "default", "kube-system", "disabled", "enforce", "observe", "enabled"})
"""Values with a meaning of their own, which are kept."""
_NODE_NAME = "metadata.name"
"""The field that node selectors may name in place of a label."""
_DOMAINS = ("kubernetes.io/", "k8s.io/", "trimtab.dev/", "kruise.io/")
_RESOURCES = re.compile(r"cpu|memory|pods|ephemeral-storage|storage|hugepages-.*")
_LISTS: Mapping[str, str] = {
    "nodes": "node",
    "pods": "pod",
    "namespaces": "namespace",
    "deployments": "deployment",
    "replicasets": "replicaset",
    "replicationcontrollers": "replicationcontroller",
    "statefulsets": "statefulset",
    "services": "service",
    "clonesets": "cloneset",
    "scaledownpolicies": "policy",
    "podgroupcosts": "costs",
    "unitedtopologies": "topology",
}
"""What the objects of each list are called; namespaces and nodes first, as others name them."""


class _Names:
    """Replacements, one for each text."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def of(self, text: str, what: str) -> str:
        """The replacement of a text; `what` names it where it is new."""
        if text in _WORDS or _NUMBER.fullmatch(text):
            return text
        known = self._known.get(text)
        if known is None:
            self._counts[what] = self._counts.get(what, 0) + 1
            known = self._known[text] = f"{what}-{self._counts[what]}"
        return known

    def key(self, key: str) -> str:
        """The replacement of a label's key: keys of Kubernetes and of Trimtab stay."""
        if key == _NODE_NAME:
            return key
        domain, slash, _ = key.partition("/")
        is_known = slash and any(f"{domain}/".endswith(each) for each in _DOMAINS)
        return key if is_known else self.of(key, "key")


def anonymize(tree: JSON) -> JSON:
    """The tree of a cluster file with all names replaced."""
    names = _Names()
    objects = tree.get("objects", {})
    for plural in ("namespaces", "nodes", *_LISTS):
        for each in objects.get(plural, ()):
            names.of(each.get("metadata", {}).get("name", ""), _LISTS[plural])
    lists = {plural: found for plural, found in objects.items() if plural in _LISTS}
    changed = {plural: [_object(each, names, _LISTS[plural]) for each in found] for plural, found in lists.items()}
    custom = [_custom(each, names) for each in objects.get("workloads", ())]
    changed |= {"workloads": custom} if custom else {}
    gaps = [{**each, "reason": "may not be listed"} for each in tree.get("gaps", ())]
    namespace = names.of(tree.get("namespace", "default"), "namespace")
    return {**tree, "namespace": namespace, "anonymized": True, "gaps": gaps, "objects": changed}


def _custom(value: JSON, names: _Names) -> JSON:
    """The workloads of a kind that a configuration named; the kind itself is kept."""
    return {**value, "items": [_object(each, names, "workload") for each in value.get("items", ())]}


def _object(value: JSON, names: _Names, what: str) -> JSON:
    changed: JSON = _value(value, names, what)
    return changed


def _value(value: Any, names: _Names, what: str) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in _DROPPED}
        return {_field_name(key, names): _field(key, each, names, what) for key, each in kept.items()}
    if isinstance(value, list):
        return [_value(each, names, what) for each in value]
    return names.of(value, what) if isinstance(value, str) else value


def _field_name(key: str, names: _Names) -> str:
    """A field of our types; any other key, as in a mapping by pod, is a name."""
    return key if key in field_names() else names.of(key, "key")


@functools.cache
def field_names() -> frozenset[str]:
    """The names of all fields of a cluster file."""
    found: set[str] = set()
    seen: set[Any] = set()
    todo: list[Any] = [inspect.type_info(kind) for kind in (ClusterFile, PodTemplateSpec)]
    while todo:
        info = todo.pop()
        if isinstance(info, inspect.StructType):
            if info.cls not in seen:
                seen.add(info.cls)
                found |= {field.encode_name for field in info.fields}
                todo += [field.type for field in info.fields]
        else:
            todo += _inner_types(info)
    return frozenset(found)


def _inner_types(info: Any) -> list[Any]:
    inner = [getattr(info, name, None) for name in ("type", "item_type", "value_type")]
    return [each for each in (*inner, *getattr(info, "types", ())) if isinstance(each, inspect.Type)]


def _field(key: str, value: Any, names: _Names, what: str) -> Any:
    if key in _KEPT_FIELDS and not isinstance(value, dict | list):
        return value
    if key in _QUANTITIES and isinstance(value, dict):
        return {name if _RESOURCES.fullmatch(name) else names.key(name): each for name, each in value.items()}
    if key == "annotations" and isinstance(value, dict):
        return {name: _annotation(name, text, names) for name, text in value.items()}
    if key in ("labels", "matchLabels", "nodeSelector", "selector") and _is_labels(value):
        return {names.key(name): names.of(text, "value") for name, text in value.items()}
    if key in ("topologyKey", "key") and isinstance(value, str):
        return names.key(value)
    if key == "workload" and isinstance(value, str):
        return _workload(value, names)
    if key == "strategies":
        return [_strategy(each, names) for each in value]
    if key in ("matchLabelKeys", "mismatchLabelKeys"):
        return [names.key(each) for each in value]
    return _value(value, names, _NAMED.get(key, what))


_NAMED: Mapping[str, str] = {
    "nodeName": "node",
    "namespace": "namespace",
    "image": "image",
    "names": "image",
    "containers": "container",
    "initContainers": "container",
    "containerStatuses": "container",
    "initContainerStatuses": "container",
    "ownerReferences": "owner",
    "values": "value",
    "taints": "value",
    "tolerations": "value",
    "subsets": "subset",
    "finalizers": "finalizer",
}
"""What the texts of a field are called."""


def _is_labels(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _workload(text: str, names: _Names) -> str:
    kind, slash, name = text.partition("/")
    return f"{kind}/{names.of(name, 'workload')}" if slash else names.of(text, "workload")


def _strategy(value: JSON, names: _Names) -> JSON:
    """A strategy with its label keys replaced; paths that probes ask for are private to the application."""
    args = value.get("args", {})
    changed = {key: names.key(each) if key == "topologyKey" else each for key, each in args.items()}
    changed |= {"path": "/path"} if "path" in args else {}
    return {**value, "args": changed} if args else value


def _annotation(name: str, text: str, names: _Names) -> str:
    if name in (DELETION_COST, ALPHA_COST) or _NUMBER.fullmatch(text):
        return text
    if name in SUBSET_KEYS:
        return names.of(text, "subset")
    if name == SCALE_PLAN:
        return _plan(text, names)
    return "" if text.startswith(("{", "[")) else names.of(text, "value")


def _plan(text: str, names: _Names) -> str:
    """A plan's annotation with its workload renamed; empty where it cannot be read."""
    try:
        plan = json.loads(text)
        return json.dumps({**plan, "workload": _workload(str(plan["workload"]), names)})
    except (ValueError, KeyError, TypeError):
        return ""
