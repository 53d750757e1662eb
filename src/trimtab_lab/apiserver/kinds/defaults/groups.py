"""Defaults of kinds of other groups: webhooks, definitions, priority classes, role bindings, autoscalers."""

from __future__ import annotations

from trimtab_lab.apiserver.storage.store import Tree


def default_webhooks(tree: Tree) -> None:
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = webhook["clientConfig"].get("service")
        if service is not None:
            service.setdefault("port", 443)


def default_mutating_webhooks(tree: Tree) -> None:
    default_webhooks(tree)
    for webhook in tree.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")


def default_custom_definition(tree: Tree) -> None:
    spec = tree["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names["kind"].lower()
    if names["kind"] and not names.get("listKind"):
        names["listKind"] = f"{names['kind']}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    if not tree["status"].get("storedVersions"):
        stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
        tree["status"]["storedVersions"] = stored[:1] or None


def default_priority_class(tree: Tree) -> None:
    tree.setdefault("preemptionPolicy", "PreemptLowerPriority")


_RBAC = "rbac.authorization.k8s.io"


def default_role_binding(tree: Tree) -> None:
    if not tree["roleRef"].get("apiGroup"):
        tree["roleRef"]["apiGroup"] = _RBAC
    for subject in tree.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", _RBAC)


def default_autoscaler(tree: Tree) -> None:
    spec = tree["spec"]
    spec.setdefault("minReplicas", 1)
    spec.setdefault("targetCPUUtilizationPercentage", 80)
