"""Checks of pods: new ones, changed ones, their status, and the templates they are made from."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from trimtab.api import selectors
from trimtab_lab.apiserver.kinds.validation import (
    addresses,
    containers,
    metadata,
    names,
    placement,
    resources,
    security,
    volumes,
)
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    Tree,
    duplicate,
    each,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
    unsupported,
)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR = "kubernetes.io/config.mirror"
_INT32 = range(-(2**31), 2**31)
_MOST_SECONDS = 2**31 - 1
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def created(pod: Tree, found: Causes) -> None:
    _pod(pod, found)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        fault = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden("spec.nodeName", fault))


def _pod(pod: Tree, found: Causes) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    metadata.created(meta, found, namespaced=True, name=names.subdomain)
    if meta.get("annotations"):
        _annotations(meta["annotations"], spec, found, "metadata.annotations")
    pod_spec(spec, found, "spec", of_pod=True)
    if not spec.get("serviceAccountName"):
        _no_tokens(spec, found)
    for group in ("containers", "initContainers"):
        _trimmed_images(spec.get(group) or (), found, f"spec.{group}")


def _no_tokens(spec: Tree, found: Causes) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                path = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                found.append(forbidden(path, "must not be specified when serviceAccountName is not set"))


def _trimmed_images(given: Sequence[Tree], found: Causes, path: str) -> None:
    for index, container in enumerate(given):
        image = container.get("image", "")
        if image != image.strip():
            found.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))


def _annotations(annotations: Tree, spec: Tree, found: Causes, path: str) -> None:
    if _MIRROR in annotations and not spec.get("nodeName"):
        fault = "must set spec.nodeName if mirror pod annotation is set"
        found.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], fault))
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_cost(cost):
        found.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))


def _is_cost(text: str) -> bool:
    """A whole number of 32 bits, without a plus and without leading zeros; after a minus, zeros may lead."""
    number = selectors.int64(text)
    if number is None or number not in _INT32:
        return False
    return text == "0" or text[0] in "-123456789"


# --- the spec of a pod or of a template ------------------------------------------------------------------------------


def pod_spec(spec: Tree, found: Causes, path: str, *, of_pod: bool) -> None:
    if "terminationGracePeriodSeconds" not in spec:
        found.append(required(f"{path}.terminationGracePeriodSeconds"))
    good_volumes = volumes.volumes(spec["volumes"], found, f"{path}.volumes") if "volumes" in spec else {}
    _containers(spec, good_volumes, found, path)
    if "resources" in spec:
        resources.pod(spec["resources"], found, f"{path}.resources")
    if spec.get("hostNetwork"):
        _host_network(spec, found, path, of_pod=of_pod)
    _policies(spec, found, path)
    if "nodeSelector" in spec:
        metadata.labels(spec["nodeSelector"], found, f"{path}.nodeSelector")
    if spec.get("securityContext"):
        security.pod(spec["securityContext"], spec, found, f"{path}.securityContext")
    if "affinity" in spec:
        placement.affinity(spec["affinity"], found, f"{path}.affinity")
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        _dns(spec, found, f"{path}.dnsConfig")
    _gates(spec, found, path)
    if "topologySpreadConstraints" in spec:
        placement.spread(spec["topologySpreadConstraints"], found, f"{path}.topologySpreadConstraints")
    _rest(spec, found, path)


def _containers(spec: Tree, good_volumes: dict[str, Tree], found: Causes, path: str) -> None:
    claims = spec.get("resourceClaims")
    around = containers.Surroundings(
        volumes=good_volumes,
        claims=frozenset(claim.get("name", "") for claim in claims) if claims else frozenset(),
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers", True),
        os=(spec.get("os") or {}).get("name", ""),
    )
    ordinary = spec.get("containers") or []
    containers.ordinary(ordinary, around, found, f"{path}.containers")
    if "initContainers" in spec:
        containers.before(spec["initContainers"], ordinary, around, found, f"{path}.initContainers")
    if "ephemeralContainers" in spec:
        others = [*ordinary, *(spec.get("initContainers") or ())]
        containers.debugging(spec["ephemeralContainers"], others, around, found, f"{path}.ephemeralContainers")


def _host_network(spec: Tree, found: Causes, path: str, *, of_pod: bool) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            host, inside = port.get("hostPort", 0), port.get("containerPort", 0)
            if (of_pod or host) and host != inside:
                at = f"{path}.containers[{index}].ports[{place}].hostPort"
                found.append(invalid(at, host, "must match `containerPort` when `hostNetwork` is true"))


def _policies(spec: Tree, found: Causes, path: str) -> None:
    for field, supported in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        value = spec.get(field, "")
        if value not in supported:
            at = f"{path}.{field}"
            found.append(unsupported(at, value, supported) if value else required(at))


def _gates(spec: Tree, found: Causes, path: str) -> None:
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType", "")
        found += each(f"{path}.readinessGates[{index}].conditionType", name, names.qualified(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        found += each(f"{path}.schedulingGates[{index}]", name, names.qualified(name))
        if name in seen:
            found.append(duplicate(f"{path}.schedulingGates[{index}]", name))
        seen.add(name)


_NAMES = (
    ("serviceAccountName", names.subdomain),
    ("nodeName", names.subdomain),
    ("hostname", names.label),
    ("subdomain", names.label),
    ("priorityClassName", names.subdomain),
    ("runtimeClassName", names.subdomain),
)


def _rest(spec: Tree, found: Causes, path: str) -> None:
    for field, form in _NAMES:
        if field in spec:
            faults = form(spec[field])
            if faults:
                found += each(f"{path}.{field}", spec[field], faults)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _MOST_SECONDS:
        found += each(f"{path}.activeDeadlineSeconds", seconds, [names.between(1, _MOST_SECONDS)])
    if "tolerations" in spec:
        placement.tolerations(spec["tolerations"], found, f"{path}.tolerations")
    if "hostAliases" in spec:
        _host_aliases(spec["hostAliases"], found, f"{path}.hostAliases")
    if "preemptionPolicy" in spec:
        preemption_policy(spec["preemptionPolicy"], found, f"{path}.preemptionPolicy")
    if "overhead" in spec:
        resources.container({"limits": spec["overhead"]}, frozenset(), found, f"{path}.overhead")
    if "os" in spec:
        _os(spec["os"], found, f"{path}.os")
    if "hostnameOverride" in spec:
        _hostname_override(spec, found, path)


def preemption_policy(policy: str, found: Causes, path: str) -> None:
    supported = ("PreemptLowerPriority", "Never")
    if policy not in supported:
        found.append(unsupported(path, policy, supported) if policy else required(path))


def _host_aliases(aliases: Sequence[Tree], found: Causes, path: str) -> None:
    for index, alias in enumerate(aliases):
        addresses.address(alias.get("ip", ""), found, f"{path}[{index}].ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            found += each(f"{path}[{index}].hostnames[{place}]", name, names.subdomain(name))


def _os(system: Tree, found: Causes, path: str) -> None:
    name = system.get("name", "")
    if not name:
        found.append(required(f"{path}.name"))
    elif name not in ("linux", "windows"):
        found.append(unsupported(path, name, ("linux", "windows")))


def _hostname_override(spec: Tree, found: Causes, path: str) -> None:
    at, name = f"{path}.hostnameOverride", spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        found.append(forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        found.append(forbidden(at, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        found.append(too_long(at, 64))
    found += each(at, name, names.subdomain(name))


def _dns(spec: Tree, found: Causes, path: str) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            found.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            fault = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(required(f"{path}.nameservers", fault))
            return
    config = config or {}
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > 3:
        found.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        addresses.address(server, found, f"{path}.nameservers[{index}]")
    if len(searches) > 32:
        found.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    for index, search in enumerate(searches):
        name = search.removesuffix(".")
        if search != ".":
            found += each(f"{path}.searches[{index}]", name, names.subdomain_with_underscore(name))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(required(f"{path}.options[{index}]", "must not be empty"))


# --- templates -------------------------------------------------------------------------------------------------------


def template(given: Tree, found: Causes, path: str) -> None:
    """A pod template. Kubernetes leaves `metadata` out of the paths of its labels and annotations."""
    meta, spec = given.get("metadata") or {}, given["spec"]
    if "labels" in meta:
        metadata.labels(meta["labels"], found, f"{path}.labels")
    if "annotations" in meta:
        metadata.annotation_texts(meta["annotations"], found, f"{path}.annotations")
        _annotations(meta["annotations"], spec, found, f"{path}.annotations")
    pod_spec(spec, found, f"{path}.spec", of_pod=False)
    if spec.get("ephemeralContainers"):
        fault = "ephemeral containers not allowed in pod template"
        found.append(forbidden(f"{path}.spec.ephemeralContainers", fault))


# --- updates ---------------------------------------------------------------------------------------------------------


def updated(pod: Tree, old: Tree, found: Causes) -> None:
    """An update of the pod itself: little of its spec may change."""
    metadata.updated(pod["metadata"], old["metadata"], found)
    _pod(pod, found)
    _annotation_updates(pod, old, found)
    spec, before = pod["spec"], old["spec"]
    for group in ("containers", "initContainers"):
        if not _container_updates(spec.get(group) or (), before.get(group) or (), found, f"spec.{group}"):
            return
    if not _deadline_update(spec, before, found):
        return
    for check, field in (
        (placement.only_added_tolerations, "tolerations"),
        (placement.only_deleted_gates, "schedulingGates"),
    ):
        check(spec.get(field) or [], before.get(field) or [], found, f"spec.{field}")
    if spec != before:
        _spec_update(spec, before, found)


def _container_updates(new: Sequence[Tree], old: Sequence[Tree], found: Causes, path: str) -> bool:
    if len(new) != len(old):
        found.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.get("image"):
            found.append(required(f"{path}[{index}].image"))
    _trimmed_images(new, found, path)
    return True


def _deadline_update(spec: Tree, before: Tree, found: Causes) -> bool:
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            found.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= new <= _MOST_SECONDS:
        found += each(path, new, [names.between(0, _MOST_SECONDS)])
        return False
    if old is not None and old < new:
        found.append(invalid(path, new, "must be less than or equal to previous value"))
        return False
    return True


def _spec_update(spec: Tree, before: Tree, found: Causes) -> None:
    """Take back what may change, and see whether anything else did."""
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
        _gated_update(same, before, found)
    if same != before:
        fault = f"pod updates may not change fields other than {_UPDATABLE}\n{difference(before, same)}"
        found.append(forbidden("spec", fault))


_FREE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")


def _gated_update(same: Tree, before: Tree, found: Causes) -> None:
    """While a gate holds the pod, its demands on the node may get stricter."""
    if same.get("nodeSelector") != before.get("nodeSelector"):
        new, old = same.get("nodeSelector") or {}, before.get("nodeSelector") or {}
        placement.only_narrowed_selector(new, old, found, "spec.nodeSelector")
        _put(same, "nodeSelector", before.get("nodeSelector"))
    new_affinity = (same.get("affinity") or {}).get("nodeAffinity")
    old_affinity = (before.get("affinity") or {}).get("nodeAffinity")
    if new_affinity != old_affinity:
        placement.only_narrowed_affinity(new_affinity, old_affinity, found, "spec.affinity.nodeAffinity")
        affinity = dict(same.get("affinity") or {})
        _put(affinity, "nodeAffinity", old_affinity)
        _put(same, "affinity", affinity if affinity or "affinity" in before else None)


def _put(tree: Tree, name: str, value: Any) -> None:
    if value is None:
        tree.pop(name, None)
    else:
        tree[name] = value


def difference(old: Tree, new: Tree) -> str:
    """The lines that differ, for people to read."""
    left, right = (json.dumps(tree, indent=2, sort_keys=True).splitlines() for tree in (old, new))
    return "\n".join(difflib.unified_diff(left, right, lineterm="", n=2))


def _annotation_updates(pod: Tree, old: Tree, found: Causes) -> None:
    new, before = pod["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    if new.get(_MIRROR) != before.get(_MIRROR):
        verb = "remove or update" if _MIRROR in before else "add"
        found.append(forbidden(f"metadata.annotations[{_MIRROR}]", f"may not {verb} mirror pod annotation"))
    if new:
        _annotations(new, pod["spec"], found, "metadata.annotations")


# --- status ----------------------------------------------------------------------------------------------------------

_OWN_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def status_updated(pod: Tree, old: Tree, found: Causes) -> None:
    metadata.updated(pod["metadata"], old["metadata"], found)
    _annotation_updates(pod, old, found)
    status, before = pod["status"], old["status"]
    _conditions(status.get("conditions") or (), found)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        found += each("status.nominatedNodeName", nominated, names.subdomain(nominated))
        if old["spec"].get("nodeName"):
            fault = "may not be set on pods that are already bound to a node"
            found.append(forbidden("status.nominatedNodeName", fault))
    if status.get("observedGeneration", 0) < 0:
        number = status["observedGeneration"]
        found.append(invalid("status.observedGeneration", number, "must be a non-negative integer"))
    found += immutable("status.qosClass", status.get("qosClass", ""), before.get("qosClass", ""))
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        _transitions(group, pod, before, found)
    addresses.one_a_family(status.get("podIPs") or (), found, "status.podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip") != status.get("hostIP"):
        found.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    addresses.one_a_family(hosts, found, "status.hostIPs")


def _conditions(conditions: Sequence[Tree], found: Causes) -> None:
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        if condition.get("observedGeneration", 0) < 0:
            number = condition["observedGeneration"]
            found.append(invalid(f"{path}.observedGeneration", number, "must be a non-negative integer"))
        if condition.get("type", "") not in _OWN_CONDITIONS:
            found += each(f"{path}.Type", condition.get("type", ""), names.qualified(condition.get("type", "")))


def _transitions(group: str, pod: Tree, before: Tree, found: Causes) -> None:
    """A container that has ended for good does not start again."""
    now = {status.get("name"): status.get("state") or {} for status in pod["status"].get(group) or ()}
    for index, status in enumerate(before.get(group) or ()):
        ended = (status.get("state") or {}).get("terminated")
        name = status.get("name")
        if ended is None or name not in now or "terminated" in now[name]:
            continue
        if not _may_restart(group, name, pod["spec"], ended.get("exitCode", 0)):
            fault = "may not be transitioned to non-terminated state"
            found.append(forbidden(f"status.{group}[{index}].state", fault))


def _may_restart(group: str, name: str | None, spec: Tree, code: int) -> bool:
    if group == "ephemeralContainerStatuses":
        return False
    field = "containers" if group == "containerStatuses" else "initContainers"
    named = [container for container in spec.get(field) or () if container.get("name") == name]
    if not named:
        return False
    policy = named[0].get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def binding(given: Tree, found: Causes) -> None:
    target = given.get("target") or {}
    if target.get("kind", "Node") not in ("", "Node"):
        found.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        found.append(required("target.name"))
