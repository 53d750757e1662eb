"""What each kind does with an object that is created or updated, beyond defaults and validation: rules as data.

1. Whoever creates an object does not set its status (a node's is an exception); whoever updates it does not either.
   The status has a path of its own, and there nothing but the status counts.
2. `metadata.generation` counts the changes of what an object asks for. Which parts those are is in `GENERATIONS`.
3. Some objects may be created by an update, some may be updated without saying which version was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from trimtab.api import quantities
from trimtab_lab.apiserver.kinds.registry import Kind
from trimtab_lab.apiserver.kinds.serialization import wiretypes
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
        _keep_observed(tree["status"], old.get("status") or {})


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


# --- pods ------------------------------------------------------------------------------------------------------------

_COMPUTE = ("cpu", "memory")


def _new_pod(tree: Tree, now: str) -> None:
    spec = tree["spec"]
    status: Tree = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    tree["status"] = status
    labels = tree["metadata"].get("labels") or {}
    _merge_affinity_keys(spec.get("affinity") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)


def qos_class(spec: Tree) -> str:
    """How well a pod is treated when a node runs out of memory, by what its containers request."""
    containers = [spec["resources"]] if spec.get("resources") else _container_resources(spec)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for resources in containers:
        _add(requests, resources.get("requests") or {})
        guaranteed &= len(_add(limits, resources.get("limits") or {})) == len(_COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _container_resources(spec: Tree) -> list[Tree]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return [container.get("resources") or {} for container in containers]


def _add(total: dict[str, int], amounts: Mapping[str, str]) -> list[str]:
    """Add compute resources to a total; the names of those that are not zero."""
    found = []
    for name in _COMPUTE:
        if name in amounts:
            value = _nano(amounts[name])
            if value > 0:
                total[name] = total.get(name, 0) + value
                found.append(name)
    return found


@lru_cache(maxsize=4096)
def _nano(text: str) -> int:
    """A quantity in billionths, which is as fine as quantities are."""
    quantity = quantities.parse(text)
    exponent = quantity.exponent + 9
    return quantity.unscaled * int(10**exponent) if exponent >= 0 else -(-quantity.unscaled // int(10**-exponent))


def _merge_affinity_keys(affinity: Tree, labels: Mapping[str, str]) -> None:
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(weighted["podAffinityTerm"], labels)
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(term, labels)


def _merge_keys(term: Tree, labels: Mapping[str, str]) -> None:
    """Write `matchLabelKeys` into the selector that stands beside them, as they are meant for this pod."""
    if not term.get("matchLabelKeys") and not term.get("mismatchLabelKeys"):
        return
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(expression)


def _keep_observed(status: Tree, old: Tree) -> None:
    """A client that does not know observed generations, or the class of service, must not clear them."""
    for field in ("qosClass", "observedGeneration"):
        if not status.get(field) and field in old:
            status[field] = old[field]
    before = {c.get("type"): c.get("observedGeneration") for c in reversed(old.get("conditions") or ())}
    for condition in status.get("conditions") or ():
        if not condition.get("observedGeneration") and before.get(condition.get("type")):
            condition["observedGeneration"] = before[condition["type"]]


# --- other kinds -----------------------------------------------------------------------------------------------------


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
    "/pods": _new_pod,
    "apiextensions.k8s.io/customresourcedefinitions": _new_definition,
    "apps/daemonsets": _new_daemon_set,
}

_UPDATED: Mapping[str, Callable[[Tree, Tree], None]] = {
    "/namespaces": _updated_namespace,
    "apps/daemonsets": _updated_daemon_set,
}
