"""Where Trimtab lives: a namespace of its own, or one that others use too.

Applying a Namespace adds to the labels of one that is there already. Ours hold its pods to the strictest standard, and
say that it may be removed with all that is in it. Neither is for us to say of a namespace that somebody else made or
uses: such a one is left as it is on the way in, and left alone on the way out.
"""

from __future__ import annotations

from trimtab.api.documents import JSON
from trimtab.install.options import MANAGED_BY, NAME
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import untyped

_NAMESPACES = untyped("v1", "Namespace", "namespaces", namespaced=False)

THE_CLUSTERS = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every cluster has, and that are nobody's own."""

_HELD = (
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
"""What people would miss."""
_BROUGHT_BY_KUBERNETES = frozenset({"kube-root-ca.crt"})
"""What every namespace gets by itself."""
_TOKENS = "kubernetes.io/service-account-token"


def told_of_none(name: str) -> str:
    """Whose a namespace is where no cluster can be asked: nobody's, but for those that every cluster has."""
    return "every cluster has it" if name in THE_CLUSTERS else ""


async def maker(client: Client, name: str) -> str:
    """Why a namespace is not ours to change; empty where it is, or is not there yet."""
    if name in THE_CLUSTERS:
        return told_of_none(name)
    try:
        found = await client.get(_NAMESPACES, name)
    except NotFound:
        return ""
    return "" if is_ours(found) else f"it is there already, and does not carry the label {MANAGED_BY}: {NAME}"


async def tenant(client: Client, name: str) -> str:
    """Why a namespace must not be removed; empty where nothing of anybody else's would go with it."""
    reason = await maker(client, name)
    for api_version, kind, plural in () if reason else _HELD:
        try:
            listed = await client.list(untyped(api_version, kind, plural), namespace=name)
        except NotFound:
            continue  # a cluster may not serve the kind
        theirs = next((each["metadata"]["name"] for each in listed.items if not _goes_along(each)), "")
        if theirs:
            return f"{kind} {theirs} in it is not Trimtab's"
    return reason


def is_ours(found: JSON) -> bool:
    """Whether an object carries our label."""
    labels = found["metadata"].get("labels") or {}
    return bool(labels.get(MANAGED_BY) == NAME)


def _goes_along(found: JSON) -> bool:
    return is_ours(found) or found["metadata"]["name"] in _BROUGHT_BY_KUBERNETES or found.get("type") == _TOKENS
