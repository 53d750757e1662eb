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
