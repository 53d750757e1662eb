"""Registry strategies: what happens to an object of each kind on create and update, besides defaults; rules as data.

1. Create and update do not set the status (that of a node is an exception). The `status` subresource sets nothing else.
2. `metadata.generation` counts the changes of an object's desired state, whose parts are in `GENERATIONS`.
3. Some objects can be created by an update; some can be updated without stating a resource version.
4. Built-in kinds are validated by `validation`, custom ones by their schema.
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
"""Collections whose objects a PUT creates if they do not exist."""

VERSION_NEEDED = frozenset(
    {
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        "apiextensions.k8s.io/customresourcedefinitions",
        "coordination.k8s.io/leases",
        "policy/poddisruptionbudgets",
    }
)
"""Collections whose objects can be updated only with a resource version, as those of all custom kinds."""

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
"""Collections for which the response to a delete is the object; for others it is a Status."""

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
"""By collection, the parts whose changes increase the generation. For custom kinds these are all parts except metadata
and, if it is a subresource, status."""

_STATUS_KEEPS: Mapping[str, tuple[str, ...]] = {
    "/pods": ("ownerReferences",),
    "apps/deployments": ("labels",),
    "apiextensions.k8s.io/customresourcedefinitions": ("labels", "annotations", "finalizers", "ownerReferences"),
}
"""By collection, the metadata that an update of the status does not change."""


def has_generation(kind: Kind) -> bool:
    """Whether objects of the kind have a generation."""
    return kind.custom is not None or kind.collection in GENERATIONS


def needs_version(kind: Kind) -> bool:
    """Whether an update must state a resource version."""
    return kind.custom is not None or kind.collection in VERSION_NEEDED


def drop_status(kind: Kind, tree: Tree) -> None:
    """Remove the status of an object that is created."""
    if "status" in kind.subresources and kind.collection != "/nodes":
        tree.pop("status", None)


def prepare_create(kind: Kind, tree: Tree, now: str) -> None:
    """Prepare an object for its creation, after defaults and admission."""
    drop_status(kind, tree)
    if has_generation(kind):
        tree["metadata"]["generation"] = 1
    prepare = _NEW.get(kind.collection)
    if prepare is not None:
        prepare(tree, now)
    elif "status" in kind.subresources and kind.custom is None and "status" not in tree:
        _restore_zeros(kind, tree)


def prepare_update(kind: Kind, tree: Tree, old: Tree) -> None:
    """Keep the fields that an update cannot change, and increase the generation."""
    metadata = tree["metadata"]
    if "status" in kind.subresources:
        _keep(tree, old, "status")
    prepare = _UPDATED.get(kind.collection)
    if prepare is not None:
        prepare(tree, old)
    if "generation" in old["metadata"]:
        metadata["generation"] = old["metadata"]["generation"] + _changes_generation(kind, tree, old)
    else:
        metadata.pop("generation", None)


def prepare_status(kind: Kind, tree: Tree, old: Tree) -> None:
    """Keep everything except the status."""
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
    """Validate an object, and add warnings. Raises a StatusError of 422."""
    found = validation_causes(kind, tree, old, subresource)
    if found:
        group = "" if kind.name in TO_STORED else kind.group  # errors name the stored kind
        raise invalid(group, kind.kind, tree["metadata"].get("name", ""), found)
    if not subresource:
        warnings += validation.warnings(kind.name, tree, old, custom=kind.custom is not None)


def validation_causes(kind: Kind, tree: Tree, old: Tree | None = None, subresource: str = "") -> list[Cause]:
    """The causes for which an object, or an update of it, is invalid."""
    if kind.custom is None:
        return validation.validate(kind.name, tree, old, subresource)
    found: list[Cause] = []
    form = names.subdomain if old is None else names.path_segment
    metadata.validate_create(tree["metadata"], found, namespaced=kind.namespaced, name=form, finalizers=False)
    if old is not None:
        for _ in range(2):  # Kubernetes checks immutable fields twice, and reports them twice
            metadata.validate_update(tree["metadata"], old["metadata"], found, finalizers=False)
    return found + kind.custom.schema.validate(tree, old)


def _keep(tree: Tree, old: Tree, field: str) -> None:
    if field in old:
        tree[field] = old[field]
    else:
        tree.pop(field, None)


def _changes_generation(kind: Kind, tree: Tree, old: Tree) -> bool:
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
    """Give a new object the empty status of its kind, such as `replicas: 0`."""
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
    """Count the template's generation in an annotation, since the API has no field for it any more."""
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
