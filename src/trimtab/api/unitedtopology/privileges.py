"""Fields of a pod that give it privileges: a subset's patch changes them only with an administrator's consent.

Whoever writes a UnitedTopology changes pods that another identity creates, the workload's controller. So a short list
of fields needs a setting besides (`unitedTopology.allowedPatchFields`). What counts is the difference between the pod
before and after the patch: a patch can also remove a field, or replace the container that has it. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, get_args

from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError

PatchField = Literal[
    "automountServiceAccountToken",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPath",
    "hostPort",
    "hostUsers",
    "nodeName",
    "priorityClassName",
    "runtimeClassName",
    "securityContext",
    "serviceAccountName",
]
FIELDS: tuple[str, ...] = get_args(PatchField)
"""The names of the fields that need consent, as the configuration lists them."""
SETTING = "unitedTopology.allowedPatchFields"

_OF_SPEC: Mapping[str, str] = {
    "automountServiceAccountToken": "automountServiceAccountToken",
    "hostUsers": "hostUsers",
    "nodeName": "nodeName",
    "priority": "priorityClassName",
    "priorityClassName": "priorityClassName",
    "runtimeClassName": "runtimeClassName",
    "securityContext": "securityContext",
    "serviceAccount": "serviceAccountName",
    "serviceAccountName": "serviceAccountName",
}
"""Fields of the spec that must stay as they are, and the name to consent to each."""
_OF_HOST = ("hostIPC", "hostNetwork", "hostPID")
"""Fields of the spec that must not become true."""
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def problems(before: JSON, after: JSON, allowed: Collection[str]) -> Iterator[InvalidError]:
    """The errors of a patch that made one pod of the other: privileged fields that it changed without consent."""
    for path, name in _changed(_object(before.get("spec")), _object(after.get("spec"))):
        if name not in allowed:
            reason = f'needs consent: an administrator can add "{name}" to {SETTING} in Trimtab\'s configuration'
            yield InvalidError(f"spec.{path}", f"{reason}; or remove it from the patch")


def sample(pod: JSON, patch: JSON) -> JSON:
    """A pod in which every privileged field can be seen to change, with all containers that a patch names."""
    spec, changes = _object(pod.get("spec")), _object(patch.get("spec"))
    fields: JSON = dict.fromkeys(("priorityClassName", "runtimeClassName", "serviceAccountName"), "template")
    fields |= {"automountServiceAccountToken": False, "hostUsers": False, "securityContext": {"runAsNonRoot": True}}
    for kind in _CONTAINERS[:2]:
        names = filter(None, dict.fromkeys([*_by_name(spec.get(kind)), *_by_name(changes.get(kind))]))
        restricted = {"image": "template", "securityContext": {"runAsNonRoot": True}}
        fields[kind] = [{"name": name, **restricted} for name in names]
    return {**pod, "spec": {**spec, **fields}}


def _changed(before: JSON, after: JSON) -> Iterator[tuple[str, str]]:
    """The privileged fields of a spec that differ: the path of each, and the name to consent to it."""
    for field, name in _OF_SPEC.items():
        if _plain(before.get(field)) != _plain(after.get(field)):
            yield field, name
    for field in _OF_HOST:
        if after.get(field) and not before.get(field):
            yield field, field
    for kind in _CONTAINERS:
        yield from _changed_containers(kind, _by_name(before.get(kind)), _by_name(after.get(kind)))
    old = _by_name(before.get("volumes"))
    for name, volume in _by_name(after.get("volumes")).items():
        if _plain(volume.get("hostPath")) not in (None, _plain(_object(old.get(name)).get("hostPath"))):
            yield f"volumes[{name}].hostPath", "hostPath"


def _changed_containers(kind: str, before: Mapping[str, JSON], after: Mapping[str, JSON]) -> Iterator[tuple[str, str]]:
    for name, container in after.items():
        old = _object(before.get(name))
        if _plain(container.get("securityContext")) != _plain(old.get("securityContext")):
            yield f"{kind}[{name}].securityContext", "securityContext"
        if _host_ports(container) - _host_ports(old):
            yield f"{kind}[{name}].ports", "hostPort"


def _host_ports(container: JSON) -> set[str]:
    ports = container.get("ports")
    found = [each for each in ports if isinstance(each, dict)] if isinstance(ports, list) else []
    return {f"{each['hostPort']}/{each.get('protocol') or 'TCP'}" for each in found if each.get("hostPort")}


def _by_name(items: Any) -> dict[str, JSON]:
    """The objects of a list by name."""
    objects = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return {str(each.get("name", "")): each for each in objects}


def _object(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> Any:
    """A value; an empty object or text is the same as none, and false is not."""
    return None if value in ({}, "", []) else value
