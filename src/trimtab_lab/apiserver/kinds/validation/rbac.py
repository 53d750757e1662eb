"""Validation of roles and role bindings."""

from __future__ import annotations

from trimtab_lab.apiserver.kinds.validation import metadata, names
from trimtab_lab.apiserver.kinds.validation.causes import (
    Causes,
    each,
    invalid,
    required,
    unsupported,
)
from trimtab_lab.apiserver.storage.store import Tree

_RBAC = "rbac.authorization.k8s.io"


def role(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _role(tree, causes, old, namespaced=True)


def cluster_role(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _role(tree, causes, old, namespaced=False)


def _role(tree: Tree, causes: Causes, old: Tree | None, *, namespaced: bool) -> None:
    metadata.validate_create(tree["metadata"], causes, namespaced=namespaced, name=names.path_segment)
    for index, rule in enumerate(tree.get("rules") or ()):
        _rule(rule, causes, f"rules[{index}]", namespaced=namespaced)
    aggregation = tree.get("aggregationRule")
    if aggregation is not None:
        path, given = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors")
        if not given:
            fault = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            causes.append(required(path, fault))
        for index, selector in enumerate(given or ()):
            metadata.selector(selector, causes, f"{path}[{index}]")
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)


def _rule(rule: Tree, causes: Causes, path: str, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            fault = "namespaced rules cannot apply to non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", urls, fault))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            fault = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(f"{path}.nonResourceURLs", urls, fault))
        return
    if not rule.get("apiGroups"):
        causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))


def role_binding(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _binding(tree, causes, old, namespaced=True)


def cluster_role_binding(tree: Tree, causes: Causes, old: Tree | None = None) -> None:
    _binding(tree, causes, old, namespaced=False)


def _binding(tree: Tree, causes: Causes, old: Tree | None, *, namespaced: bool) -> None:
    metadata.validate_create(tree["metadata"], causes, namespaced=namespaced, name=names.path_segment)
    reference = tree["roleRef"]
    if reference.get("apiGroup", "") != _RBAC:
        causes.append(unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), (_RBAC,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind", "") not in kinds:
        causes.append(unsupported("roleRef.kind", reference.get("kind", ""), kinds))
    name = reference.get("name", "")
    causes += each("roleRef.name", name, names.path_segment(name)) if name else [required("roleRef.name")]
    for index, subject in enumerate(tree.get("subjects") or ()):
        _subject(subject, causes, f"subjects[{index}]", namespaced=namespaced)
    if old is not None:
        metadata.validate_update(tree["metadata"], old["metadata"], causes)
        if reference != old["roleRef"]:
            shown = {field: reference.get(key, "") for field, key in _REFERENCE_FIELDS}
            causes.append(invalid("roleRef", shown, "cannot change roleRef"))


_REFERENCE_FIELDS = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


def _subject(subject: Tree, causes: Causes, path: str, *, namespaced: bool) -> None:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        causes.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            causes += each(f"{path}.name", name, names.subdomain(name))
        if group:
            causes.append(unsupported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            causes.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        if group != _RBAC:
            causes.append(unsupported(f"{path}.apiGroup", group, (_RBAC,)))
    else:
        causes.append(unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
