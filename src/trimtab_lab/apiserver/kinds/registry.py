"""The registry of kinds: the built-in ones as a table, and those that CustomResourceDefinitions add.

A kind is served under one path (`/apis/apps/v1/deployments`) and stored in one collection. Two kinds may share a
collection: the versions of a custom kind do, and so do the Events of the core group and of `events.k8s.io`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab_lab.apiserver.kinds.printers.cells import Layout
from trimtab_lab.apiserver.kinds.schemas import Schema

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")

NOT_SERVED = "is not served by the lab, which runs no containers"
POLICIES = (
    "admission policies are written in CEL, which the lab does not evaluate; "
    "use a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration instead"
)

NETWORK_POLICIES = (
    "the lab does not enforce network policies, since its pods are simulated and have no network; leave it out"
)


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with its own path; `kind` is the type of its body, if that is not the object."""

    name: str
    api_version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = _SUBRESOURCE_VERBS


SUBRESOURCES: Mapping[str, Subresource] = {
    "status": Subresource("status"),
    "scale": Subresource("scale", "autoscaling/v1", "Scale"),
    "binding": Subresource("binding", "v1", "Binding", ("create",)),
    "eviction": Subresource("eviction", "policy/v1", "Eviction", ("create",)),
    "token": Subresource("token", "authentication.k8s.io/v1", "TokenRequest", ("create",)),
    "finalize": Subresource("finalize", verbs=("update",)),
}

REFUSED_SUBRESOURCES: Mapping[str, str] = {
    name: f"pods/{name} {NOT_SERVED}"
    for name in ("attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize")
}


@dataclass(frozen=True, slots=True)
class CustomKind:
    """What a version of a CustomResourceDefinition states besides names."""

    definition: str
    schema: Schema
    layout: Layout
    schema_tree: Mapping[str, Any]
    scale: Mapping[str, str] | None = None
    selectable: tuple[str, ...] = ()
    deprecation: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind in one version. There is one instance of each, and instances are compared by identity."""

    api_version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    collection: str = ""
    custom: CustomKind | None = None
    unsupported: str = ""
    name: str = field(init=False)
    group: str = field(init=False)
    version: str = field(init=False)
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        group, _, version = self.api_version.rpartition("/")
        head = f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()
        derived = {"name": f"{self.api_version} {self.kind}", "group": group, "version": version, "head": head}
        if not self.collection:
            derived["collection"] = f"{group}/{self.plural}"
        for attribute, value in derived.items():
            object.__setattr__(self, attribute, value)

    @property
    def path(self) -> str:
        """The path of the group version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def group_resource(self) -> str:
        """The resource as messages name it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def wrap(self, data: bytes) -> bytes:
        """Add kind and version to a stored object."""
        return self.head + data[1:]


def _kind(
    api_version: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    subresources: str = "",
    categories: str = "",
    **more: Any,
) -> Kind:
    return Kind(
        api_version=api_version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        short_names=tuple(short.split()),
        subresources=tuple(subresources.split()),
        categories=tuple(categories.split()),
        **more,
    )


_CLUSTER: Mapping[str, Any] = {"namespaced": False}
_EXTENSION: Mapping[str, Any] = {"namespaced": False, "categories": "api-extensions"}
_POLICY: Mapping[str, Any] = {**_EXTENSION, "unsupported": POLICIES}
_ADMISSION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"

BUILT_IN: tuple[Kind, ...] = (
    _kind("v1", "ConfigMap", "configmaps", "cm"),
    _kind("v1", "Endpoints", "endpoints", "ep"),
    _kind("v1", "Event", "events", "ev"),
    _kind("v1", "LimitRange", "limitranges", "limits"),
    _kind(
        "v1",
        "Namespace",
        "namespaces",
        "ns",
        subresources="finalize status",
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        **_CLUSTER,
    ),
    _kind("v1", "Node", "nodes", "no", subresources="status", **_CLUSTER),
    _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources="status"),
    _kind("v1", "PersistentVolume", "persistentvolumes", "pv", subresources="status", **_CLUSTER),
    _kind("v1", "Pod", "pods", "po", subresources="binding eviction status", categories="all"),
    _kind("v1", "PodTemplate", "podtemplates"),
    _kind("v1", "ReplicationController", "replicationcontrollers", "rc", subresources="scale status", categories="all"),
    _kind("v1", "ResourceQuota", "resourcequotas", "quota", subresources="status"),
    _kind("v1", "Secret", "secrets"),
    _kind("v1", "ServiceAccount", "serviceaccounts", "sa", subresources="token"),
    _kind("v1", "Service", "services", "svc", subresources="status", categories="all"),
    _kind("apps/v1", "ControllerRevision", "controllerrevisions"),
    _kind("apps/v1", "DaemonSet", "daemonsets", "ds", subresources="status", categories="all"),
    _kind("apps/v1", "Deployment", "deployments", "deploy", subresources="scale status", categories="all"),
    _kind("apps/v1", "ReplicaSet", "replicasets", "rs", subresources="scale status", categories="all"),
    _kind("apps/v1", "StatefulSet", "statefulsets", "sts", subresources="scale status", categories="all"),
    _kind("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", subresources="status"),
    _kind("coordination.k8s.io/v1", "Lease", "leases"),
    _kind("events.k8s.io/v1", "Event", "events", "ev", collection="/events"),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol", unsupported=NETWORK_POLICIES),
    _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", subresources="status"),
    _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", **_CLUSTER),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", **_CLUSTER),
    _kind(_RBAC, "ClusterRole", "clusterroles", **_CLUSTER),
    _kind(_RBAC, "RoleBinding", "rolebindings"),
    _kind(_RBAC, "Role", "roles"),
    _kind(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", **_EXTENSION),
    _kind(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", **_EXTENSION),
    _kind(_ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", **_POLICY),
    _kind(_ADMISSION, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", **_POLICY),
    _kind(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", **_POLICY),
    _kind(_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", **_POLICY),
    _kind(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        subresources="status",
        **_EXTENSION,
    ),
)


class Registry:
    """The served kinds. `changes` increases with every change, for caches."""

    def __init__(self, kinds: Iterable[Kind] = BUILT_IN) -> None:
        self._by_path: dict[tuple[str, str], Kind] = {}
        self._by_collection: dict[str, list[Kind]] = {}
        self.changes = 0
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._by_path.values()))

    def add(self, kind: Kind) -> None:
        """Serve a kind. Raises ValueError if the path is served already."""
        key = kind.api_version, kind.plural
        if key in self._by_path:
            raise ValueError(f"{kind.path}/{kind.plural} is served already")
        self._by_path[key] = kind
        self._by_collection.setdefault(kind.collection, []).append(kind)
        self.changes += 1

    def remove(self, kind: Kind) -> None:
        """Stop serving a kind."""
        del self._by_path[kind.api_version, kind.plural]
        self._by_collection[kind.collection].remove(kind)
        self.changes += 1

    def find(self, api_version: str, plural: str) -> Kind | None:
        """The kind under a path."""
        return self._by_path.get((api_version, plural))

    def named(self, api_version: str, kind: str) -> Kind | None:
        """The kind of an owner reference or a manifest."""
        return next((one for one in self if one.kind == kind and one.api_version == api_version), None)

    def stored_kind(self, collection: str) -> Kind | None:
        """The kind in which a collection stores its objects."""
        return next(iter(self._by_collection.get(collection, ())), None)

    def versions(self, collection: str) -> list[Kind]:
        """All kinds of a collection."""
        return list(self._by_collection.get(collection, ()))

    def serves(self, api_version: str) -> bool:
        """Whether any kind has this version."""
        return any(kind.api_version == api_version for kind in self)
