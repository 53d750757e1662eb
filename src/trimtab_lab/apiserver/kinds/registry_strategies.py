"""What each kind does with an object that is created or updated, beyond defaults and validation: rules as data.

1. Whoever creates an object does not set its status (a node's is an exception); whoever updates it does not either.
   The status has a path of its own, and there nothing but the status counts.
2. `metadata.generation` counts the changes of what an object asks for. Which parts those are is in `GENERATIONS`.
3. Some objects may be created by an update, some may be updated without saying which version was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab_lab.apiserver.kinds import validation
from trimtab_lab.apiserver.kinds.conversions import TO_STORED
from trimtab_lab.apiserver.kinds.errors import invalid
from trimtab_lab.apiserver.kinds.pod_strategy import keep_observed, new_pod
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import wiretypes
from trimtab_lab.apiserver.kinds.validation import Cause, metadata, names
from trimtab_lab.apiserver.storage.store import Tree

CREATE_ON_UPDATE = frozenset(
    {
        "/endpoints",
        "/events",
        "/limitranges",
        "/services",
        "coordination.k8s.io/leases",
        "rbac.authorization.k8s.io/clusterrolebindings",
        "rbac.authorization.k8s.io/clusterroles",
        "rbac.authorization.k8s.io/rolebindings",
        "rbac.authorization.k8s.io/roles",
    }
)
"""Shelves whose objects a PUT creates where there is none."""

VERSION_NEEDED = frozenset(
    {
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        "apiextensions.k8s.io/customresourcedefinitions",
        "coordination.k8s.io/leases",
        "policy/poddisruptionbudgets",
    }
)
"""Shelves whose objects are updated only by who says which version he saw; custom kinds are all like that."""

RETURNED_WHEN_DELETED = frozenset(
    {
        "/namespaces",
        "/persistentvolumeclaims",
        "/persistentvolumes",
        "/pods",
        "/podtemplates",
        "/resourcequotas",
        "/serviceaccounts",
        "/services",
    }
)
"""Shelves whose objects are answered when they are deleted; of others a Status is."""

GENERATIONS: Mapping[str, tuple[str, ...]] = {
    "/pods": ("spec",),
    "/podtemplates": ("template",),
    "/replicationcontrollers": ("spec",),
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": ("webhooks",),
    "admissionregistration.k8s.io/validatingwebhookconfigurations": ("webhooks",),
    "apiextensions.k8s.io/customresourcedefinitions": ("spec",),
    "apps/daemonsets": ("spec",),
    "apps/deployments": ("spec", "metadata.annotations"),
    "apps/replicasets": ("spec",),
    "apps/statefulsets": ("spec",),
    "policy/poddisruptionbudgets": ("spec",),
    "scheduling.k8s.io/priorityclasses": (),
}
"""By collection, which parts count; a custom kind counts everything but metadata and, if that has a path, status."""

_STATUS_KEEPS: Mapping[str, tuple[str, ...]] = {
    "/pods": ("ownerReferences",),
    "apps/deployments": ("labels",),
    "apiextensions.k8s.io/customresourcedefinitions": ("labels", "annotations", "finalizers", "ownerReferences"),
}
"""By collection, which metadata an update of the status does not change."""


def has_generation(kind: Kind) -> bool:
    """Whether objects of the kind count their changes."""
    return kind.custom is not None or kind.collection in GENERATIONS


def needs_version(kind: Kind) -> bool:
    """Whether an update has to say which version it saw."""
    return kind.custom is not None or kind.collection in VERSION_NEEDED


def drop_status(kind: Kind, tree: Tree) -> None:
    """Forget what a client says about the status of something that it creates."""
    if "status" in kind.subresources and kind.collection != "/nodes":
        tree.pop("status", None)


def prepare_create(kind: Kind, tree: Tree, now: str) -> None:
    """Make an object ready that was just defaulted and admitted."""
    drop_status(kind, tree)
    if has_generation(kind):
        tree["metadata"]["generation"] = 1
    prepare = _NEW.get(kind.collection)
    if prepare is not None:
        prepare(tree, now)
    elif "status" in kind.subresources and kind.custom is None and "status" not in tree:
        _restore_zeros(kind, tree)


def prepare_update(kind: Kind, tree: Tree, old: Tree) -> None:
    """Keep what an update may not touch, and count the change."""
    metadata = tree["metadata"]
    if "status" in kind.subresources:
        _keep(tree, old, "status")
    prepare = _UPDATED.get(kind.collection)
    if prepare is not None:
        prepare(tree, old)
    if "generation" in old["metadata"]:
        metadata["generation"] = old["metadata"]["generation"] + _counts(kind, tree, old)
    else:
        metadata.pop("generation", None)


def prepare_status(kind: Kind, tree: Tree, old: Tree) -> None:
    """Keep everything but the status."""
    if kind.custom is not None:
        status = tree.get("status")
        tree.clear()
        tree |= old | {"metadata": {**old["metadata"]}, "status": status}
        if status is None:
            del tree["status"]
        return
    _keep(tree, old, "spec")
    for field in ("generation", *_STATUS_KEEPS.get(kind.collection, ())):
        _keep(tree["metadata"], old["metadata"], field)
    if kind.collection == "/pods":
        keep_observed(tree["status"], old.get("status") or {})


def validate(kind: Kind, tree: Tree, old: Tree | None = None, subresource: str = "", *, warnings: list[str]) -> None:
    """Validate an object; what is allowed but unwise is added to the warnings. Raises a Status of 422."""
    found = validation_causes(kind, tree, old, subresource)
    if found:
        group = "" if kind.name in TO_STORED else kind.group  # what is stored as another kind is named as that one
        raise invalid(group, kind.kind, tree["metadata"].get("name", ""), found)
    if not subresource:
        warnings += validation.warnings(kind.name, tree, old, custom=kind.custom is not None)


def validation_causes(kind: Kind, tree: Tree, old: Tree | None = None, subresource: str = "") -> list[Cause]:
    """What is wrong with an object, or with a change of it."""
    if kind.custom is None:
        return validation.validate(kind.name, tree, old, subresource)
    found: list[Cause] = []
    form = names.subdomain if old is None else names.path_segment
    metadata.created(tree["metadata"], found, namespaced=kind.namespaced, name=form, finalizers=False)
    if old is not None:
        for _ in range(2):  # Kubernetes looks twice at what an update must not change, and tells it twice
            metadata.updated(tree["metadata"], old["metadata"], found, finalizers=False)
    return found + kind.custom.schema.validate(tree, old)


def _keep(tree: Tree, old: Tree, field: str) -> None:
    if field in old:
        tree[field] = old[field]
    else:
        tree.pop(field, None)


def _counts(kind: Kind, tree: Tree, old: Tree) -> bool:
    if kind.custom is not None:
        apart = {"metadata", "apiVersion", "kind"} | ({"status"} if "status" in kind.subresources else set())
        parts: set[str] = (tree.keys() | old.keys()) - apart
        return any(tree.get(part) != old.get(part) for part in parts)
    return any(_part(tree, part) != _part(old, part) for part in GENERATIONS.get(kind.collection, ()))


def _part(tree: Tree, path: str) -> Any:
    value: Any = tree
    for step in path.split("."):
        value = value.get(step) or {}
    return value


def _restore_zeros(kind: Kind, tree: Tree) -> None:
    """Give a new object the status that it has before anybody looked at it, such as `replicas: 0`."""
    empty: Tree = {}
    wiretypes.read(kind.name, empty)
    if "status" in empty:
        tree["status"] = empty["status"]


def _new_namespace(tree: Tree, _now: str) -> None:
    tree["status"] = {"phase": "Active"}
    finalizers = tree["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _updated_namespace(tree: Tree, old: Tree) -> None:
    _keep(tree["spec"], old["spec"], "finalizers")


def _new_claim(tree: Tree, _now: str) -> None:
    tree["status"] = {"phase": "Pending"}


def _new_volume(tree: Tree, now: str) -> None:
    tree["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}


def _new_daemon_set(tree: Tree, _now: str) -> None:
    annotations = tree["metadata"].setdefault("annotations", {})
    annotations["deprecated.daemonset.template.generation"] = "1"
    empty: Tree = {}
    wiretypes.read("apps/v1 DaemonSet", empty)
    tree["status"] = empty["status"]


def _updated_daemon_set(tree: Tree, old: Tree) -> None:
    """The generation of the template lives in an annotation, since the field for it was taken out of the API."""
    name = "deprecated.daemonset.template.generation"
    count = int((old["metadata"].get("annotations") or {}).get(name, "0"))
    changed = tree["spec"].get("template") != old["spec"].get("template")
    tree["metadata"].setdefault("annotations", {})[name] = str(count + changed)


def _new_definition(tree: Tree, _now: str) -> None:
    stored = [version["name"] for version in tree["spec"].get("versions") or () if version.get("storage")]
    names: Tree = {"plural": "", "kind": ""}
    tree["status"] = {"conditions": None, "acceptedNames": names, "storedVersions": stored[:1] or None}


_NEW: Mapping[str, Callable[[Tree, str], None]] = {
    "/namespaces": _new_namespace,
    "/persistentvolumeclaims": _new_claim,
    "/persistentvolumes": _new_volume,
    "/pods": new_pod,
    "apiextensions.k8s.io/customresourcedefinitions": _new_definition,
    "apps/daemonsets": _new_daemon_set,
}

_UPDATED: Mapping[str, Callable[[Tree, Tree], None]] = {
    "/namespaces": _updated_namespace,
    "apps/daemonsets": _updated_daemon_set,
}
