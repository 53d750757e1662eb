"""Validation of environment variables."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab_lab.apiserver.kinds.validation import names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    invalid,
    required,
)
from trimtab_lab.apiserver.kinds.validation.field_references import (
    field_reference,
    no_steps_back,
    resource_reference,
)
from trimtab_lab.apiserver.storage.store import Tree

_VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)


def variables(variables: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        else:
            faults = names.variable(name)
            if faults:
                causes += each(f"{path}[{index}].name", name, faults)
        if "valueFrom" in variable:
            _variable_source(variable, causes, f"{path}[{index}].valueFrom")


_VARIABLE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _variable_source(variable: Tree, causes: Causes, path: str) -> None:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        field_reference(source["fieldRef"], _VARIABLE_FIELDS, causes, f"{path}.fieldRef")
    if "resourceFieldRef" in source:
        resource_reference(source["resourceFieldRef"], causes, f"{path}.resourceFieldRef", of_file=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            _key_reference(source[kind], causes, f"{path}.{kind}")
    if "fileKeyRef" in source:
        _file_reference(source["fileKeyRef"], causes, f"{path}.fileKeyRef")
    count = sum(kind in source for kind in _VARIABLE_SOURCES)
    if not count:
        *most, last = (f"`{kind}`" for kind in _VARIABLE_SOURCES)
        causes.append(invalid(path, "", f"must specify one of: {', '.join(most)} or {last}"))
    elif variable.get("value"):
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        causes.append(invalid(path, "", "may not have more than one field specified at a time"))


def _key_reference(reference: Tree, causes: Causes, path: str) -> None:
    causes += each(f"{path}.name", reference.get("name", ""), names.subdomain(reference.get("name", "")))
    key = reference.get("key", "")
    if not key:
        causes.append(required(f"{path}.key"))
    else:
        causes += each(f"{path}.key", key, names.config_key(key))


def _file_reference(reference: Tree, causes: Causes, path: str) -> None:
    key, volume, file = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    causes += each(f"{path}.key", key, names.variable(key)) if key else [required(f"{path}.key")]
    causes += each(f"{path}.volumeName", volume, names.label(volume)) if volume else [required(f"{path}.volumeName")]
    if file:
        no_steps_back(file, causes, f"{path}.path")
    else:
        causes.append(required(f"{path}.path"))


def variable_groups(groups: Sequence[Tree], causes: Causes, path: str) -> None:
    for index, group in enumerate(groups):
        prefix = group.get("prefix", "")
        if prefix:
            causes += each(f"{path}[{index}].prefix", prefix, names.variable(prefix))
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in group]
        for kind in kinds:
            name = group[kind].get("name", "")
            at = f"{path}[{index}].{kind}.name"
            causes += each(at, name, names.prefix(names.subdomain, name)) if name else [required(at)]
        if not kinds:
            causes.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            causes.append(invalid(path, "", "may not have more than one field specified at a time"))
