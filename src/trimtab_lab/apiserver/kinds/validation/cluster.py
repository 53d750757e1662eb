"""Checks of the smaller kinds: nodes, namespaces, configuration, budgets, leases, priorities, roles, events."""

from __future__ import annotations

import base64
import json
from typing import Any

from trimtab_lab.apiserver.kinds.validation import addresses, metadata, names, placement, pods, resources, workloads
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

_LARGEST_DATA = 1024 * 1024


def head(tree: Tree, old: Tree | None, found: Causes, *, namespaced: bool, finalizers: bool = True) -> None:
    """Metadata alone, of an object that is named by a DNS name."""
    meta = tree["metadata"]
    if old is None:
        metadata.created(meta, found, namespaced=namespaced, name=names.subdomain, finalizers=finalizers)
    else:
        metadata.updated(meta, old["metadata"], found, finalizers=finalizers)


def only_metadata(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """A namespaced kind of which the lab checks nothing else."""
    head(tree, old, found, namespaced=True)


def only_cluster_metadata(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """A kind of the cluster of which the lab checks nothing else."""
    head(tree, old, found, namespaced=False)


# --- nodes and namespaces --------------------------------------------------------------------------------------------


def node(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """Kubernetes names a taint's place as if it stood in the metadata."""
    spec = tree["spec"]
    metadata.created(tree["metadata"], found, namespaced=False, name=names.subdomain)
    placement.taints(spec.get("taints") or (), found, "metadata.taints")
    _amounts(tree["status"], found)
    for index, text in enumerate(spec.get("podCIDRs") or ()):
        addresses.network(text, found, f"spec.podCIDRs[{index}]")
    if old is not None:
        node_update(tree, old, found)


def _amounts(status: Tree, found: Causes) -> None:
    for field in ("capacity", "allocatable"):
        for name, text in (status.get(field) or {}).items():
            resources.amount(name, text, found, f"status.{field}.{name}")


def node_update(tree: Tree, old: Tree, found: Causes) -> None:
    """What may not change in a node, or in its status."""
    spec, before = tree["spec"], old["spec"]
    metadata.updated(tree["metadata"], old["metadata"], found)
    _amounts(tree["status"], found)
    seen: list[Tree] = []
    for index, address in enumerate(tree["status"].get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            found.append(duplicate(f"status.addresses[{index}]", shown))
        seen.append(address)
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        fault = 'node updates may not change podCIDR except from "" to valid'
        found.append(forbidden("spec.podCIDRs", fault))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        fault = 'node updates may not change providerID except from "" to valid'
        found.append(forbidden("spec.providerID", fault))
    placement.taints(spec.get("taints") or (), found, "metadata.taints")


def namespace(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    metadata.created(tree["metadata"], found, namespaced=False, name=names.label)
    for finalizer in tree["spec"].get("finalizers") or ():
        _finalizer(finalizer, found, "spec.finalizers")
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)


def _finalizer(finalizer: str, found: Causes, path: str) -> None:
    found += each(path, finalizer, names.qualified(finalizer))
    metadata.short_finalizer(finalizer, found, path)


def namespace_status(tree: Tree, old: Tree, found: Causes) -> None:
    metadata.updated(tree["metadata"], old["metadata"], found)
    phase, deleting = tree["status"].get("phase", ""), bool(tree["metadata"].get("deletionTimestamp"))
    wanted = "Terminating" if deleting else "Active"
    if phase != wanted:
        fault = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if deleting else ''}empty"
        found.append(invalid("status.Phase", phase, fault))


def namespace_finalize(tree: Tree, old: Tree, found: Causes) -> None:
    metadata.updated(tree["metadata"], old["metadata"], found)
    for index, finalizer in enumerate(tree["spec"].get("finalizers") or ()):
        _finalizer(finalizer, found, f"spec.finalizers[{index}]")


# --- configuration ---------------------------------------------------------------------------------------------------


def service_account(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)


def config_map(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
        _frozen(tree, old, ("data", "binaryData"), found)
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    for key in data:
        found += each(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            found.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        found += each(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(len(text.encode()) for text in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > _LARGEST_DATA:
        found.append(too_long("", _LARGEST_DATA))


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _frozen(tree: Tree, old: Tree, fields: tuple[str, ...], found: Causes) -> None:
    if not old.get("immutable"):
        return
    fault = "field is immutable when `immutable` is set"
    if not tree.get("immutable"):
        found.append(forbidden("immutable", fault))
    for field in fields:
        if (tree.get(field) or {}) != (old.get(field) or {}):
            found.append(forbidden(field, fault))


_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_SECRETS = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"  # noqa: S105 – the name of an annotation


def secret(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
        found += immutable("type", tree.get("type", ""), old.get("type", ""))
        _frozen(tree, old, ("data",), found)
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)
    data = tree.get("data") or {}
    for key in data:
        found += each(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_size, data.values())) > _LARGEST_DATA:
        found.append(too_long("data", _LARGEST_DATA))
    _secret_type(tree, data, found)


def _secret_type(tree: Tree, data: Tree, found: Causes) -> None:
    kind = tree.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        if not (tree["metadata"].get("annotations") or {}).get(_TOKEN_ACCOUNT):
            found.append(required(f"metadata.annotations[{_TOKEN_ACCOUNT}]"))
    elif kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        found += [required("data[username]"), required("data[password]")]
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            found.append(required(f"data[{key}]"))
        elif kind in _JSON_SECRETS and not _is_json_object(data[key]):
            found.append(invalid(f"data[{key}]", "<secret contents redacted>", "unexpected end of JSON input"))


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(encoded)), dict)
    except ValueError:
        return False


# --- budgets, leases, priorities -------------------------------------------------------------------------------------


def disruption_budget(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """Its metadata is checked by the rules for all objects alone; see `common`."""
    del old
    spec = tree["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {"MinAvailable": least, "Selector": spec.get("selector"), "MaxUnavailable": most}
        shown |= {"UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy")}
        found.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            workloads.count_or_percent(value, found, f"spec.{field}")
            workloads.at_most_all(value, found, f"spec.{field}")
    metadata.selector(spec.get("selector"), found, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")))


def disruption_budget_status(tree: Tree, old: Tree, found: Causes) -> None:
    del old
    status = tree["status"]
    metadata.conditions(status.get("conditions") or (), found, "status.conditions")
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    workloads.not_negative(status, fields, found, "status")


def lease(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    spec = tree["spec"]
    head(tree, old, found, namespaced=True, finalizers=False)
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        found.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        found.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = spec.get("strategy")
    if strategy is not None and "/" not in strategy and strategy != "OldestEmulationVersion":
        found.append(unsupported("spec.strategy", strategy, ("OldestEmulationVersion",)))
    if spec.get("preferredHolder") and not strategy:
        fault = "may only be specified if `strategy` is defined"
        found.append(forbidden("spec.preferredHolder", fault))


_SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST_PRIORITY = 1000000000


def priority_class(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    head(tree, old, found, namespaced=False)
    value = tree.get("value", 0)
    if old is not None:
        if value != old.get("value", 0):
            found.append(forbidden("value", "may not be changed in an update."))
        found += immutable("preemptionPolicy", tree.get("preemptionPolicy"), old.get("preemptionPolicy"))
        return
    name = tree["metadata"].get("name", "")
    if name.startswith("system-"):
        _system_priority(name, tree, found)
    elif value > _HIGHEST_PRIORITY:
        fault = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        found.append(forbidden("value", fault))
    if "preemptionPolicy" in tree:
        pods.preemption_policy(tree["preemptionPolicy"], found, "preemptionPolicy")


def _system_priority(name: str, tree: Tree, found: Causes) -> None:
    known = _SYSTEM_PRIORITIES.get(name)
    if known is None:
        error = f"{name} is not a known system priority class"
    elif tree.get("value", 0) != known:
        error = f"value of {name} PriorityClass must be {known}"
    elif tree.get("globalDefault"):
        error = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    fault = f"priority class names with 'system-' prefix are reserved for system use only. error: {error}"
    found.append(forbidden("metadata.name", fault))


# --- roles -----------------------------------------------------------------------------------------------------------

_RBAC = "rbac.authorization.k8s.io"


def role(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    _role(tree, found, old, namespaced=True)


def cluster_role(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    _role(tree, found, old, namespaced=False)


def _role(tree: Tree, found: Causes, old: Tree | None, *, namespaced: bool) -> None:
    metadata.created(tree["metadata"], found, namespaced=namespaced, name=names.path_segment)
    for index, rule in enumerate(tree.get("rules") or ()):
        _rule(rule, found, f"rules[{index}]", namespaced=namespaced)
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        path, given = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
        if not given:
            fault = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            found.append(required(path, fault))
        for index, selector in enumerate(given or ()):
            metadata.selector(selector, found, f"{path}[{index}]")
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)


def _rule(rule: Tree, found: Causes, path: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        found.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            fault = "namespaced rules cannot apply to non-resource URLs"
            found.append(invalid(f"{path}.nonResourceURLs", urls, fault))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            fault = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(invalid(f"{path}.nonResourceURLs", urls, fault))
        return
    if not rule.get("apiGroups"):
        found.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def role_binding(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    _binding(tree, found, old, namespaced=True)


def cluster_role_binding(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    _binding(tree, found, old, namespaced=False)


def _binding(tree: Tree, found: Causes, old: Tree | None, *, namespaced: bool) -> None:
    metadata.created(tree["metadata"], found, namespaced=namespaced, name=names.path_segment)
    reference = tree["roleRef"]
    if reference.get("apiGroup", "") != _RBAC:
        found.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), (_RBAC,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind", "") not in kinds:
        found.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    name = reference.get("name", "")
    found += each("roleRef.name", name, names.path_segment(name)) if name else [required("roleRef.name")]
    for index, subject in enumerate(tree.get("subjects") or ()):
        _subject(subject, found, f"subjects[{index}]", namespaced=namespaced)
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
        if reference != old["roleRef"]:
            shown = {field: reference.get(key, "") for field, key in _REFERENCE_FIELDS}
            found.append(invalid("roleRef", shown, "cannot change roleRef"))


_REFERENCE_FIELDS = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def _subject(subject: Tree, found: Causes, path: str, *, namespaced: bool) -> None:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        found.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            found += each(f"{path}.name", name, names.subdomain(name))
        if group:
            found.append(unsupported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _RBAC:
            found.append(unsupported(f"{path}.apiGroup", group, (_RBAC,)))
    else:
        found.append(unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))


# --- events ----------------------------------------------------------------------------------------------------------


def event(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """An Event of the core group: the old rules alone."""
    del old
    _legacy_event(tree, tree.get("involvedObject") or {}, "reportingComponent", "message", found)


def new_event(tree: Tree, found: Causes, old: Tree | None = None) -> None:
    """An Event of `events.k8s.io/v1`, whose messages name fields as the core group does."""
    _legacy_event(tree, tree.get("regarding") or {}, "reportingController", "note", found)
    if old is not None:
        metadata.updated(tree["metadata"], old["metadata"], found)
        for field, key in _EVENT_FIXED:
            found += immutable(field, tree.get(key), old.get(key))
        return
    metadata.created(tree["metadata"], found, namespaced=True, name=names.subdomain)
    _series(tree.get("series"), found)
    if not tree.get("eventTime"):
        found.append(required("eventTime"))
    if tree.get("type", "") not in ("Normal", "Warning"):
        found.append(invalid("type", "", f"has invalid value: {tree.get('type', '')}"))
    for field, key in _EVENT_UNSET:
        if any(tree[key].values()) if isinstance(tree.get(key), dict) else tree.get(key):
            found.append(invalid(field, "", "needs to be unset"))


_EVENT_UNSET = (
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
)
_EVENT_FIXED = (
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)


def _series(series: Tree | None, found: Causes) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        found.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(required("series.lastObservedTime"))


def _legacy_event(tree: Tree, about: Tree, reporter: str, message: str, found: Causes) -> None:
    namespace, involved = tree["metadata"].get("namespace", ""), about.get("namespace", "")
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if not tree.get("eventTime"):
        if namespace not in (("", "default") if not involved else (involved,)):
            found.append(mismatch)
    else:
        if not involved and namespace not in ("default", "kube-system"):
            found.append(mismatch)
        _reported(tree, reporter, message, found)
    found += each("namespace", namespace, names.subdomain(namespace))


def _reported(tree: Tree, reporter: str, message: str, found: Causes) -> None:
    if not tree.get(reporter):
        found.append(required(reporter))
    found += each(reporter, tree.get(reporter, ""), names.qualified(tree.get(reporter, "")))
    for field in ("reportingInstance", "action", "reason"):
        text: Any = tree.get(field, "")
        if not text:
            found.append(required(field))
        elif len(text) > 128:
            found.append(invalid(field, "", "can have at most 128 characters"))
    if len(tree.get(message, "")) > 1024:
        found.append(invalid("message", "", "can have at most 1024 characters"))
