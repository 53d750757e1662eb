"""Validation of paths, and of references to fields and resources of a pod."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.validation import names, resources
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree


def no_steps_back(given: str, causes: Causes, path: str) -> None:
    if ".." in given.split("/"):
        causes.append(invalid(path, given, "must not contain '..'"))


def descending(given: str, causes: Causes, path: str) -> None:
    """A relative path that stays below its start."""
    if given.startswith("/"):
        causes.append(invalid(path, given, "must be a relative path"))
    no_steps_back(given, causes, path)


def not_reserved(given: str, causes: Causes, path: str) -> None:
    descending(given, causes, path)
    if given.startswith("..") and not given.startswith("../"):
        causes.append(invalid(path, given, "must not start with '..'"))


_FIELD_LABELS = frozenset(
    [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.phase",
        "status.podIP",
        "status.podIPs",
    ]
)


def field_reference(reference: Tree, supported: Sequence[str], causes: Causes, path: str) -> None:
    """A reference to a field of the pod, in a variable or a file."""
    field = reference.get("fieldPath", "")
    for name in ("apiVersion", "fieldPath"):
        if not reference.get(name):
            causes.append(required(f"{path}.{name}"))
            return
    base, bracket, subscript = field.partition("['")
    if bracket and field.endswith("']"):
        _subscript(base, subscript[:-2], causes, path)
        return
    if field not in _FIELD_LABELS:
        fault = f"error converting fieldPath: field label not supported: {field}"
        causes.append(invalid(f"{path}.fieldPath", field, fault))
    elif field not in supported:
        causes.append(unsupported(f"{path}.fieldPath", field, supported))


def _subscript(base: str, key: str, causes: Causes, path: str) -> None:
    if base == "metadata.annotations":
        causes += each(path, key.lower(), names.qualified(key.lower()))
    elif base == "metadata.labels":
        causes += each(path, key, names.qualified(key))
    else:
        fault = f"error converting fieldPath: field label does not support subscript: {base}['{key}']"
        causes.append(invalid(f"{path}.fieldPath", f"{base}['{key}']", fault))


_RESOURCE_FIELDS = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGE_FIELDS = ("limits.hugepages-", "requests.hugepages-")


def resource_reference(reference: Tree, causes: Causes, path: str, *, of_file: bool) -> None:
    """A reference to a resource amount of a container."""
    resource = reference.get("resource", "")
    if of_file and not reference.get("containerName"):
        causes.append(required(f"{path}.containerName"))
    elif not resource:
        causes.append(required(f"{path}.resource"))
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGE_FIELDS):
        causes.append(unsupported(f"{path}.resource", resource, _RESOURCE_FIELDS))
    fault = resources.divisor_fault(resource, reference.get("divisor", "0"))
    if fault:
        causes.append(invalid(f"{path}.divisor", resource, fault))
