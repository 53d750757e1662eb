"""Resources: the group, version, plural and paths of each kind.

`RESOURCES` has every type of `trimtab.api`; `Resource.of` looks it up. The types of kinds that the configuration names
know their own (`CustomWorkload`). Kinds without a type, and objects that must keep
every field, are read as plain JSON: `Resource.of(Pod).raw`, or `untyped(…)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NewType, TypeVar
from urllib.parse import quote

from trimtab.api.apps import ControllerRevision, Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Event, Namespace, ReplicationController, Service
from trimtab.api.documents import JSON
from trimtab.api.extensions import CustomResourceDefinition
from trimtab.api.leases import Lease
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.policy import PodDisruptionBudget
from trimtab.api.priorities import PriorityClass
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import CustomWorkload
from trimtab.kube.errors import InvalidName

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Key = NewType("Key", str)
"""The key of an object of one kind: `namespace/name`, or `name` if the kind is cluster-scoped."""


def object_key(namespace: str, name: str) -> Key:
    """The key of an object."""
    return Key(f"{namespace}/{name}" if namespace else name)


def split(key: Key) -> tuple[str, str]:
    """The namespace (or empty) and the name of a key."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """A kind as an API server serves it, with the type of its objects."""

    group: str
    version: str
    kind: str
    plural: str
    model: type[T_co]
    namespaced: bool = True

    @staticmethod
    def of(model: type[T]) -> Resource[T]:
        """The resource of a type."""
        if issubclass(model, CustomWorkload):
            named = model.named_as
            return Resource(named.group, named.version, named.kind, named.plural, model)
        try:
            return RESOURCES[model]
        except KeyError:
            raise LookupError(f"{model.__name__} is not in RESOURCES") from None

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def raw(self) -> Resource[JSON]:
        """The same resource with its objects as plain JSON, with every field."""
        return Resource(self.group, self.version, self.kind, self.plural, dict[str, Any], self.namespaced)

    def collection(self, namespace: str = "") -> str:
        """The path of the collection, in a namespace if one is given."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if not namespace:
            return f"{root}/{self.plural}"
        if not self.namespaced:
            raise ValueError(f"{self.kind} is cluster-scoped, but a namespace was given: {namespace!r}")
        return f"{root}/namespaces/{_segment(namespace)}/{self.plural}"

    def object(self, name: str, namespace: str = "", subresource: str = "") -> str:
        """The path of an object, or of one of its subresources."""
        if self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        path = f"{self.collection(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def untyped(api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> Resource[JSON]:
    """The resource of a kind without a type in `trimtab.api`."""
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, kind, plural, dict[str, Any], namespaced)


_SHOWN = 100
"""How many characters of a name are shown."""


def _segment(name: str) -> str:
    """A name as a path segment. For names that would change the path there is no object, as API servers say."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidName(f"{name[:_SHOWN]!r} is not a valid object name")
    return quote(name, safe="")


RESOURCES: dict[type[Any], Resource[Any]] = {
    CloneSet: Resource("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets", CloneSet),
    ControllerRevision: Resource("apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision),
    CustomResourceDefinition: Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        CustomResourceDefinition,
        namespaced=False,
    ),
    Deployment: Resource("apps", "v1", "Deployment", "deployments", Deployment),
    Event: Resource("", "v1", "Event", "events", Event),
    Lease: Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease),
    Namespace: Resource("", "v1", "Namespace", "namespaces", Namespace, namespaced=False),
    Node: Resource("", "v1", "Node", "nodes", Node, namespaced=False),
    Pod: Resource("", "v1", "Pod", "pods", Pod),
    PodDisruptionBudget: Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", PodDisruptionBudget),
    PodGroupCost: Resource("trimtab.dev", "v1alpha1", "PodGroupCost", "podgroupcosts", PodGroupCost),
    PriorityClass: Resource(
        "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", PriorityClass, namespaced=False
    ),
    ReplicaSet: Resource("apps", "v1", "ReplicaSet", "replicasets", ReplicaSet),
    ReplicationController: Resource("", "v1", "ReplicationController", "replicationcontrollers", ReplicationController),
    ScaleDownPolicy: Resource("trimtab.dev", "v1alpha1", "ScaleDownPolicy", "scaledownpolicies", ScaleDownPolicy),
    Service: Resource("", "v1", "Service", "services", Service),
    StatefulSet: Resource("apps", "v1", "StatefulSet", "statefulsets", StatefulSet),
    UnitedTopology: Resource("apps.kruise.io", "v1alpha1", "UnitedTopology", "unitedtopologies", UnitedTopology),
}
