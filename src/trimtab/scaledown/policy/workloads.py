"""Workloads as policies refer to them: what decides which policy applies to a workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.api import codec, selectors
from trimtab.api.annotations import OPT_OUT, OPTED_OUT
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.compiled_selectors import compiled_or_nothing
from trimtab.api.core import ReplicationController
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, ObjectMeta, OwnerReference
from trimtab.api.model import Model
from trimtab.api.selectors import NOTHING, Selector
from trimtab.api.templates import has_scheduling_group
from trimtab.api.workloads import DEPLOYMENTS, CustomWorkload, ReplicaSetOwners

Workload = Deployment | ReplicaSet | ReplicationController | CloneSet | StatefulSet | CustomWorkload


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """A workload, and what decides which policy applies to it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The labels that its template gives to pods."""
    selector: Selector = NOTHING
    """The pods that it selects."""
    opted_out: bool = False
    in_scheduling_group: bool = False
    """Whether its pods belong to a scheduling group, as its template or some of them say."""
    is_managed: bool = False
    """Whether it is a ReplicaSet of a Deployment, or of another workload that owns it, and users scale that."""
    is_configured: bool = False
    """Whether its kind is one that the configuration names."""
    owner: tuple[str, str, str] | None = None
    """API version, kind and name of what manages the workload itself."""
    owner_uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """As a `targetRef` names it."""
        return (self.api_version, self.kind, self.name)


_KINDS: Mapping[type[Any], tuple[str, str]] = {
    Deployment: ("apps/v1", "Deployment"),
    ReplicaSet: ("apps/v1", "ReplicaSet"),
    StatefulSet: ("apps/v1", "StatefulSet"),
    ReplicationController: ("v1", "ReplicationController"),
    CloneSet: ("apps.kruise.io/v1alpha1", "CloneSet"),
}


class _Template(Model):
    metadata: ObjectMeta = ObjectMeta()


def workload_ref(workload: Workload, owners: ReplicaSetOwners = DEPLOYMENTS) -> WorkloadRef:
    """A reference to a workload. A selector or template that cannot be read selects nothing."""
    api_version, kind = _identity(type(workload))
    metadata = workload.metadata
    owner = metadata.controller
    return WorkloadRef(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        pod_labels=_template_labels(workload.spec.template),
        selector=compile_selector(workload.spec.selector),
        opted_out=opts_out(metadata.annotations) or opts_out(metadata.labels),
        in_scheduling_group=has_scheduling_group(workload.spec.template),
        is_managed=owners.resizes(metadata),
        is_configured=isinstance(workload, CustomWorkload),
        owner=None if owner is None else (_served_version(owner, owners), owner.kind, owner.name),
        owner_uid="" if owner is None else owner.uid,
    )


def _identity(model: type[Any]) -> tuple[str, str]:
    """The API version and kind of a type."""
    if issubclass(model, CustomWorkload):
        return model.named_as.api_version, model.named_as.kind
    return _KINDS[model]


def _served_version(owner: OwnerReference, owners: ReplicaSetOwners) -> str:
    """The API version of an owner; of a kind that the configuration names, the version that it names."""
    found = owners.find(owner)
    return owner.api_version if found is None else found.named_as.api_version


def opts_out(labels_or_annotations: Mapping[str, str]) -> bool:
    """Whether these labels or annotations exempt an object from every policy."""
    return labels_or_annotations.get(OPT_OUT, "").lower() == OPTED_OUT


def _template_labels(template: Document | None) -> Mapping[str, str]:
    try:
        return {} if template is None else codec.view(template, _Template).metadata.labels
    except InvalidError:
        return {}


def compile_selector(written: LabelSelector | Mapping[str, str] | None) -> Selector:
    """A label selector; one that cannot be read selects nothing."""
    if isinstance(written, Mapping):
        return selectors.from_labels(written) if written else NOTHING
    return compiled_or_nothing(written)
