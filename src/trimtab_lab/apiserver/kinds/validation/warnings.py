"""Warnings: what Kubernetes accepts with a Warning header.

They are sent when an object is created, and when an update changes its desired state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from trimtab.api import quantities
from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.storage.store import Tree

_OLD_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_IN_BYTES = ("memory", "ephemeral-storage")
_NAMED_AFTER = frozenset(["apps/v1 Deployment", "apps/v1 ReplicaSet", "v1 ReplicationController"])
_TEMPLATES = _NAMED_AFTER | {"apps/v1 StatefulSet", "apps/v1 DaemonSet"}


def warnings(kind: str, tree: Tree, old: Tree | None = None, *, custom: bool = False) -> list[str]:
    """The warnings about a new object, or about an update from `old`; `custom` says that its kind is a custom one."""
    if custom:
        return list(_finalizers(tree["metadata"].get("finalizers") or ()))
    if kind == "v1 Pod":
        return [] if old is not None else [*_pod_name(tree), *_pod(tree["spec"], "")]
    if kind in _TEMPLATES:
        return list(_workload(kind, tree, old))
    if kind == "v1 Service" and tree["spec"].get("externalIPs"):
        return ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]
    return []


def _finalizers(finalizers: Sequence[str]) -> Iterator[str]:
    for finalizer in finalizers:
        shown = f'metadata.finalizers: "{finalizer}"'
        yield from (f"{shown}: {fault}" for fault in names.qualified(finalizer))
        if "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion", "kubernetes"):
            path = " including a path (/)" if "." in finalizer else ""
            why = "to avoid accidental conflicts with other finalizer writers"
            yield f"{shown}: prefer a domain-qualified finalizer name{path} {why}"


def _workload(kind: str, tree: Tree, old: Tree | None) -> Iterator[str]:
    if old is not None and old["spec"] == tree["spec"]:
        return
    name = tree["metadata"].get("name", "")
    faults = names.label(name) if old is None and kind in _NAMED_AFTER else ()
    if faults:
        what = "this is used in Pod names and hostnames, which can result in surprising behavior"
        yield f"metadata.name: {what}; a DNS label is recommended: [{' '.join(faults)}]"
    template = tree["spec"].get("template")
    if template is not None:
        yield from _pod(template["spec"], "spec.template.")


def _pod_name(tree: Tree) -> Iterator[str]:
    faults = names.label(tree["metadata"].get("name", ""))
    if faults:
        what = "this is used in the Pod's hostname, which can result in surprising behavior"
        yield f"metadata.name: {what}; a DNS label is recommended: [{' '.join(faults)}]"


def _pod(spec: Tree, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"{path}spec.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{path}spec.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _OLD_LABELS:
            yield f"{at}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{at}.labelSelector: {_NO_SELECTOR}"
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"{path}spec.{group}[{index}]")
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        what = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}spec.terminationGracePeriodSeconds: {what}"
    if "affinity" in spec:
        yield from _affinity(spec["affinity"], f"{path}spec.affinity")


def _container(container: Tree, path: str) -> Iterator[str]:
    for kind in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(kind) or {}
        for name in _IN_BYTES:
            if name in amounts and _is_fractional(amounts[name]):
                what = f'fractional byte value "{amounts[name]}" is invalid, must be an integer'
                yield f"{path}.resources.{kind}[{name}]: {what}"
    yield from _repeated_variables(container.get("env") or (), path)


@lru_cache(maxsize=4096)
def _is_fractional(amount: str) -> bool:
    return quantities.parse(amount).milli_value() % 1000 != 0


def _repeated_variables(variables: Sequence[Tree], path: str) -> Iterator[str]:
    """A variable may be repeated only to extend itself."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        own = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == own or own not in value):
            yield f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _affinity(affinity: Tree, path: str) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            if "labelSelector" not in term:
                yield f"{path}.{kind}.{_REQUIRED}[{index}].labelSelector: {_NO_SELECTOR}"
        for index, weighted in enumerate(terms.get(_PREFERRED) or ()):
            if "labelSelector" not in (weighted.get("podAffinityTerm") or {}):
                yield f"{path}.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"
