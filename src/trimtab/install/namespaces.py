"""Trimtab's namespace: its own, or a shared one.

Applying a Namespace adds to the labels of an existing one. Ours enforce the strictest pod security standard, and say
that the namespace may be removed with everything in it. Neither may be set on a namespace that others created or use:
such a namespace is not changed by the installation, and not removed with it.
"""

from __future__ import annotations

from trimtab.api.documents import JSON
from trimtab.install.options import MANAGED_BY, NAME
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped

_NAMESPACES = untyped("v1", "Namespace", "namespaces", namespaced=False)

BUILT_IN = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""The namespaces that every cluster has."""

_VALUABLE = (
    ("v1", "Pod", "pods"),
    ("v1", "Service", "services"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("v1", "Secret", "secrets"),
    ("v1", "ConfigMap", "configmaps"),
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("batch/v1", "CronJob", "cronjobs"),
    ("batch/v1", "Job", "jobs"),
)
"""Kinds whose objects would be lost with the namespace."""
_CREATED_BY_KUBERNETES = frozenset({"kube-root-ca.crt"})
"""Objects that Kubernetes creates in every namespace."""
_TOKENS = "kubernetes.io/service-account-token"


def why_foreign_by_name(name: str) -> str:
    """Why a namespace is not ours, without reading it: it is one of those that every cluster has."""
    return "every cluster has it" if name in BUILT_IN else ""


async def why_foreign(client: Client, name: str) -> str:
    """Why a namespace must not be changed; empty if it is ours, or does not exist yet."""
    if name in BUILT_IN:
        return why_foreign_by_name(name)
    try:
        existing = await client.get(_NAMESPACES, name)
    except NotFound:
        return ""
    return "" if is_ours(existing) else f"it exists and does not carry the label {MANAGED_BY}: {NAME}"


async def why_in_use(client: Client, name: str) -> str:
    """Why a namespace must not be removed; empty if everything in it is ours."""
    reason = await why_foreign(client, name)
    for api_version, kind, plural in () if reason else _VALUABLE:
        try:
            listed = await client.list(untyped(api_version, kind, plural), namespace=name)
        except NotFound:
            continue  # the cluster does not serve the kind
        foreign = next((each["metadata"]["name"] for each in listed.items if not _may_be_removed(each)), "")
        if foreign:
            return f"{kind} {foreign} in it is not Trimtab's"
        if listed.rejected:
            return f"{kind} {listed.rejected[0].name} in it cannot be read"
    return reason


def is_ours(existing: JSON) -> bool:
    """Whether an object carries our label."""
    labels = existing["metadata"].get("labels") or {}
    return bool(labels.get(MANAGED_BY) == NAME)


def _may_be_removed(existing: JSON) -> bool:
    return (
        is_ours(existing) or existing["metadata"]["name"] in _CREATED_BY_KUBERNETES or existing.get("type") == _TOKENS
    )
