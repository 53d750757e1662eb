"""What is checked: workloads with their templates, policies and subsets, and the nodes as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from trimtab.api import codec
from trimtab.api.apps import Deployment, DeploymentStrategy, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod, PodTemplateSpec
from trimtab.api.scaledown import ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.inspection import manifests
from trimtab.inspection.cluster import Cluster
from trimtab.inspection.manifests import Manifest, UnreadableFile
from trimtab.scaledown.policy.defaults import NO_DEFAULTS, Defaults

_TYPED: Mapping[tuple[str, str], type[Any]] = {
    ("v1", "Node"): Node,
    ("v1", "Pod"): Pod,
    ("v1", "Namespace"): Namespace,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps.kruise.io/v1alpha1", "CloneSet"): CloneSet,
    ("apps.kruise.io/v1alpha1", "UnitedTopology"): UnitedTopology,
    ("trimtab.dev/v1alpha1", "ScaleDownPolicy"): ScaleDownPolicy,
}
"""The kinds of manifests that rules look at as typed objects; templates of other kinds are looked at too."""
_CLUSTER_SCOPED = (Node, Namespace)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that a finding is about, and where it was written."""

    kind: str
    namespace: str
    name: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class TemplatedWorkload:
    """Something that creates pods, and its template."""

    ref: ObjectRef
    template: PodTemplateSpec
    replicas: int
    strategy: DeploymentStrategy | None = None
    """Of a Deployment: how its pods are replaced."""

    def pod(self, name: str = "", **labels: str) -> Pod:
        """A pod of the template, unassigned."""
        metadata = msgspec.structs.replace(
            self.template.metadata,
            name=name or f"{self.ref.name}-new",
            namespace=self.ref.namespace,
            labels={**self.template.metadata.labels, **labels},
        )
        return Pod(metadata=metadata, spec=self.template.spec)


@dataclass(frozen=True)
class World:
    """Everything that is checked, and the cluster that it is checked against."""

    cluster: Cluster
    manifests: tuple[Manifest, ...] = ()
    checked: frozenset[str] = frozenset()
    """The namespaces of the cluster whose objects are checked; all, if empty and there are no manifests."""
    default_namespace: str = "default"
    defaults: Defaults = NO_DEFAULTS
    unreadable: tuple[tuple[ObjectRef, str], ...] = ()
    """What cannot be read, and why."""
    places: Mapping[tuple[str, str, str], tuple[str, int]] = field(default_factory=dict)
    """Where manifests are written, by kind, namespace and name."""

    @property
    def has_nodes(self) -> bool:
        """Whether any node is known."""
        return bool(self.cluster.all(Node))

    def ref(self, kind: str, namespace: str, name: str) -> ObjectRef:
        """A reference to an object, with its place where it was written."""
        file, line = self.places.get((kind, namespace, name), ("", 0))
        return ObjectRef(kind, namespace, name, file, line)

    def is_checked(self, kind: str, namespace: str, name: str) -> bool:
        """Whether findings about an object are reported: those of manifests, or of the cluster where there are none."""
        if self.manifests:
            return (kind, namespace, name) in self.places
        return not self.checked or namespace in self.checked

    @cached_property
    def workloads(self) -> Sequence[TemplatedWorkload]:
        """Everything that creates pods and is checked: each manifest by itself, even if several have one name."""
        return list(self._of_manifests() if self.manifests else self._of_cluster())

    def _of_cluster(self) -> Iterator[TemplatedWorkload]:
        kinds: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, ReplicationController, CloneSet)
        for kind in (*kinds, *self.cluster.owners.custom):
            for each in self.cluster.all(kind):
                metadata = each.metadata
                is_owned = kind is ReplicaSet and metadata.controller is not None
                if not is_owned and self.is_checked(kind.__name__, metadata.namespace, metadata.name):
                    yield _templated(self.ref(kind.__name__, metadata.namespace, metadata.name), each)

    def _of_manifests(self) -> Iterator[TemplatedWorkload]:
        for each in self.manifests:
            ref = ObjectRef(each.kind, each.namespace(self.default_namespace), each.name, each.file, each.line)
            kind = _type_of(each, self.cluster.owners)
            try:
                template = manifests.template_of(each, self.cluster.owners)
                if template is None:
                    continue
                if kind is None or kind is Pod:
                    yield TemplatedWorkload(ref, template, 1)
                else:
                    yield _templated(ref, codec.convert(each.tree, kind))
            except InvalidError:
                continue  # which another rule reports


def _type_of(manifest: Manifest, owners: ReplicaSetOwners) -> type[Any] | None:
    """The type of a manifest's object; None for a kind that rules look at no more than at its template."""
    custom = {(each.named_as.api_version, each.named_as.kind): each for each in owners.custom}
    identity = (manifest.api_version, manifest.kind)
    return _TYPED.get(identity) or custom.get(identity)


def _templated(ref: ObjectRef, workload: Any) -> TemplatedWorkload:
    template = workload.spec.template
    try:
        read = PodTemplateSpec() if template is None else codec.view(template, PodTemplateSpec)
    except InvalidError:
        read = PodTemplateSpec()
    replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
    strategy = workload.spec.strategy if isinstance(workload, Deployment) else None
    return TemplatedWorkload(ref, read, replicas, strategy)


def world_of(
    read: Iterable[Manifest],
    cluster: Cluster,
    *,
    namespace: str = "default",
    checked: Iterable[str] = (),
    defaults: Defaults = NO_DEFAULTS,
    owners: ReplicaSetOwners = DEPLOYMENTS,
    unreadable_files: Iterable[UnreadableFile] = (),
) -> World:
    """What is checked: these manifests, laid over a cluster; without manifests, the cluster itself.

    `owners` are the kinds that own ReplicaSets.
    """
    written = tuple(read)
    objects: dict[type[Any], list[Any]] = {kind: [] for kind in owners.custom}
    objects |= {kind: list(found) for kind, found in cluster.objects.items()}
    places: dict[tuple[str, str, str], tuple[str, int]] = {}
    unreadable = [(ObjectRef("File", "", each.file, each.file, each.line), each.reason) for each in unreadable_files]
    for each in written:
        kind = _type_of(each, owners)
        is_global = kind in _CLUSTER_SCOPED
        where = "" if is_global else each.namespace(namespace)
        places[each.kind, where, each.name] = (each.file, each.line)
        if kind is None:
            continue
        try:
            _lay_over(objects.setdefault(kind, []), codec.convert(_named(each, where), kind))
        except InvalidError as error:
            ref = ObjectRef(each.kind, where, each.name, each.file, each.line)
            unreadable.append((ref, f"cannot be read: {error}"))
    merged = replace(cluster, objects=objects)
    return World(merged, written, frozenset(checked), namespace, defaults, tuple(unreadable), places)


def _named(manifest: Manifest, namespace: str) -> dict[str, Any]:
    """The tree with its namespace, and a UID so that objects can be told apart."""
    metadata = dict(manifest.tree.get("metadata") or {})
    metadata.setdefault("uid", f"{manifest.kind}/{namespace}/{manifest.name}")
    if namespace:
        metadata["namespace"] = namespace
    return {**manifest.tree, "metadata": metadata}


def _lay_over(objects: list[Any], new: Any) -> None:
    """Put an object in place of the one with its name."""
    key = (new.metadata.namespace, new.metadata.name)
    objects[:] = [each for each in objects if (each.metadata.namespace, each.metadata.name) != key]
    objects.append(new)
