"""Validation of updates of pods and of their status."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from trimtab_lab.apiserver.kinds.validation import (
    addresses,
    metadata,
    names,
    placement,
)
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    forbidden,
    immutable,
    invalid,
    required,
)
from trimtab_lab.apiserver.kinds.validation.pods import MIRROR, MOST_SECONDS, pod_annotations, trimmed_images, whole_pod
from trimtab_lab.apiserver.storage.store import Tree

_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_update(pod: Tree, old: Tree, causes: Causes) -> None:
    """An update of the pod itself: few fields of its spec are mutable."""
    metadata.validate_update(pod["metadata"], old["metadata"], causes)
    whole_pod(pod, causes)
    _annotation_updates(pod, old, causes)
    spec, before = pod["spec"], old["spec"]
    for group in ("containers", "initContainers"):
        if not _container_updates(spec.get(group) or (), before.get(group) or (), causes, f"spec.{group}"):
            return
    if not _deadline_update(spec, before, causes):
        return
    for check, field in (
        (placement.only_added_tolerations, "tolerations"),
        (placement.only_deleted_gates, "schedulingGates"),
    ):
        check(spec.get(field) or [], before.get(field) or [], causes, f"spec.{field}")
    if spec != before:
        _spec_update(spec, before, causes)


def _container_updates(new: Sequence[Tree], old: Sequence[Tree], causes: Causes, path: str) -> bool:
    if len(new) != len(old):
        causes.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.get("image"):
            causes.append(required(f"{path}[{index}].image"))
    trimmed_images(new, causes, path)
    return True


def _deadline_update(spec: Tree, before: Tree, causes: Causes) -> bool:
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            causes.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= new <= MOST_SECONDS:
        causes += each(path, new, [names.between(0, MOST_SECONDS)])
        return False
    if old is not None and old < new:
        causes.append(invalid(path, new, "must be less than or equal to previous value"))
        return False
    return True


def _spec_update(spec: Tree, before: Tree, causes: Causes) -> None:
    """Revert the mutable fields, and check that nothing else has changed."""
    same = {name: value for name, value in spec.items() if name not in _FREE}
    same |= {name: before[name] for name in _FREE if name in before}
    for group in ("containers", "initContainers"):
        if group in same:
            same[group] = [
                {**container, "image": past.get("image")}
                for container, past in zip(same[group], before[group], strict=True)
            ]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and same.get("terminationGracePeriodSeconds") == 1:
        same["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        _gated_update(same, before, causes)
    if same != before:
        fault = f"pod updates may not change fields other than {_UPDATABLE}\n{difference(before, same)}"
        causes.append(forbidden("spec", fault))


_FREE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")


def _gated_update(same: Tree, before: Tree, causes: Causes) -> None:
    """While a pod has a scheduling gate, its node affinity may be narrowed."""
    if same.get("nodeSelector") != before.get("nodeSelector"):
        new, old = same.get("nodeSelector") or {}, before.get("nodeSelector") or {}
        placement.only_narrowed_selector(new, old, causes, "spec.nodeSelector")
        _put(same, "nodeSelector", before.get("nodeSelector"))
    new_affinity = (same.get("affinity") or {}).get("nodeAffinity")
    old_affinity = (before.get("affinity") or {}).get("nodeAffinity")
    if new_affinity != old_affinity:
        placement.only_narrowed_affinity(new_affinity, old_affinity, causes, "spec.affinity.nodeAffinity")
        affinity = dict(same.get("affinity") or {})
        _put(affinity, "nodeAffinity", old_affinity)
        _put(same, "affinity", affinity if affinity or "affinity" in before else None)


def _put(tree: Tree, name: str, value: Any) -> None:
    if value is None:
        tree.pop(name, None)
    else:
        tree[name] = value


def difference(old: Tree, new: Tree) -> str:
    """The differing lines, for the message."""
    left, right = (json.dumps(tree, indent=2, sort_keys=True).splitlines() for tree in (old, new))
    return "\n".join(difflib.unified_diff(left, right, lineterm="", n=2))


def _annotation_updates(pod: Tree, old: Tree, causes: Causes) -> None:
    new, before = pod["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    if new.get(MIRROR) != before.get(MIRROR):
        verb = "remove or update" if MIRROR in before else "add"
        causes.append(forbidden(f"metadata.annotations[{MIRROR}]", f"may not {verb} mirror pod annotation"))
    if new:
        pod_annotations(new, pod["spec"], causes, "metadata.annotations")


_OWN_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def validate_status_update(pod: Tree, old: Tree, causes: Causes) -> None:
    metadata.validate_update(pod["metadata"], old["metadata"], causes)
    _annotation_updates(pod, old, causes)
    status, before = pod["status"], old["status"]
    _conditions(status.get("conditions") or (), causes)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        causes += each("status.nominatedNodeName", nominated, names.subdomain(nominated))
        if old["spec"].get("nodeName"):
            fault = "may not be set on pods that are already bound to a node"
            causes.append(forbidden("status.nominatedNodeName", fault))
    if status.get("observedGeneration", 0) < 0:
        number = status["observedGeneration"]
        causes.append(invalid("status.observedGeneration", number, "must be a non-negative integer"))
    causes += immutable("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _transitions(group, pod, before, causes)
    addresses.one_a_family(status.get("podIPs") or (), causes, "status.podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        causes.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    addresses.one_a_family(hosts, causes, "status.hostIPs")


def _conditions(conditions: Sequence[Tree], causes: Causes) -> None:
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        if condition.get("observedGeneration", 0) < 0:
            number = condition["observedGeneration"]
            causes.append(invalid(f"{path}.observedGeneration", number, "must be a non-negative integer"))
        if condition.get("type", "") not in _OWN_CONDITIONS:
            causes += each(f"{path}.Type", condition.get("type", ""), names.qualified(condition.get("type", "")))


def _transitions(group: str, pod: Tree, before: Tree, causes: Causes) -> None:
    """A container that has ended for good cannot start again."""
    now = {status.get("name"): status.get("state") or {} for status in pod["status"].get(group) or ()}
    for index, status in enumerate(before.get(group) or ()):
        ended = (status.get("state") or {}).get("terminated")
        name = status.get("name")
        if ended is None or name not in now or "terminated" in now[name]:
            continue
        if not _may_restart(group, name, pod["spec"], ended.get("exitCode", 0)):
            fault = "may not be transitioned to non-terminated state"
            causes.append(forbidden(f"status.{group}[{index}].state", fault))


def _may_restart(group: str, name: str | None, spec: Tree, code: int) -> bool:
    if group == "ephemeralContainerStatuses":
        return False
    field = "containers" if group == "containerStatuses" else "initContainers"
    named = [container for container in spec.get(field) or () if container.get("name") == name]
    if not named:
        return False
    policy = named[0].get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)
