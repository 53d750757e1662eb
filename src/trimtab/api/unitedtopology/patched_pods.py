"""Pods after a subset's patch: what an API server would refuse. Pure.

A pod that is refused has taken capacity of its subset, until its reservation expires. So the mistakes that are easily
made in a patch are found before: when the UnitedTopology is written, against the template of its target, and at the
latest when the pod is created, which then is admitted without a subset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trimtab.api.annotations import DELETION_COST, parse_cost
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.quantities import parse

_CONTAINERS = ("containers", "initContainers")
_RESOLVED = ("priority", "preemptionPolicy")
"""Fields that API servers resolve from `priorityClassName` before webhooks are called, and refuse if they differ."""


def problems(pod: JSON, *, has_template: bool = True) -> Iterator[InvalidError]:
    """What an API server would refuse about a patched pod.

    Without the template of its workload, volumes that the patch does not have may be in there.
    """
    yield from cost_problems(_object(pod.get("metadata")).get("annotations"))
    spec = _object(pod.get("spec"))
    volumes = {str(each.get("name")) for each in _objects(spec.get("volumes"))} if has_template else None
    for kind in _CONTAINERS:
        for container in _objects(spec.get(kind)):
            path = f"spec.{kind}[{container.get('name', '')}]"
            for problem in (*_mount_problems(container, volumes), *_resource_problems(container)):
                yield problem.under(path)


def cost_problems(annotations: Any) -> Iterator[InvalidError]:
    """A deletion cost that is no integer: an API server refuses the pod."""
    cost = _object(annotations).get(DELETION_COST)
    if cost is not None and (not isinstance(cost, str) or parse_cost(cost) is None):
        reason = f'"{cost}" is not a whole number of 32 bits; write for example "-5", or remove it'
        yield InvalidError(f"metadata.annotations[{DELETION_COST}]", reason)


def resolve_priority(before: JSON, after: JSON, patch: JSON) -> None:
    """Remove the priority of the old class from a pod whose patch names another one: the API server resolves it anew.

    Fields that the patch itself sets stay as they are.
    """
    old, new, stated = (_object(each.get("spec")) for each in (before, after, patch))
    if (old.get("priorityClassName") or "") != (new.get("priorityClassName") or ""):
        for name in _RESOLVED:
            if name not in stated:
                new.pop(name, None)


def _mount_problems(container: JSON, volumes: set[str] | None) -> Iterator[InvalidError]:
    seen: set[str] = set()
    for mount in _objects(container.get("volumeMounts")):
        name, at = str(mount.get("name")), str(mount.get("mountPath"))
        if volumes is not None and name not in volumes:
            reason = f'the pod has no volume "{name}"; add it to spec.volumes, or remove the mount'
            yield InvalidError(f"volumeMounts[{at}].name", reason)
        if at in seen:
            yield InvalidError(f"volumeMounts[{at}].mountPath", "is used twice; write one mount for each path")
        seen.add(at)
    for device in _objects(container.get("volumeDevices")):
        if volumes is not None and str(device.get("name")) not in volumes:
            reason = f'the pod has no volume "{device.get("name")}"; add it to spec.volumes, or remove the device'
            yield InvalidError(f"volumeDevices[{device.get('devicePath')}].name", reason)


def _resource_problems(container: JSON) -> Iterator[InvalidError]:
    """Requests above their limits. Quantities that cannot be read are reported elsewhere."""
    resources = _object(container.get("resources"))
    limits = _object(resources.get("limits"))
    for name, wanted in _object(resources.get("requests")).items():
        limit = limits.get(name)
        if limit is None:
            continue
        try:
            is_above = parse(limit) < parse(wanted)
        except InvalidError:
            continue
        if is_above:
            reason = f"{wanted} is more than the limit of {limit}; lower it, or raise resources.limits.{name}"
            yield InvalidError(f"resources.requests.{name}", reason)


def _objects(items: Any) -> list[JSON]:
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _object(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}
