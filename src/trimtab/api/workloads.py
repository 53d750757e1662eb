"""Workloads that own ReplicaSets: Deployments, and kinds of other projects that the configuration names.

Argo's Rollout is the common case. What such a kind has in common with a Deployment is all that is read of it:
`spec.replicas`, `spec.selector` and `spec.template`; `status.replicas`, `status.availableReplicas` and
`status.observedGeneration`. Its ReplicaSets delete the pods, by the same order as those of a Deployment.

A kind is named by its group, version, kind and plural, and becomes a type of its own (`workload_type`), so that its
objects are told apart as those of built-in kinds are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar, cast

import msgspec
from msgspec import Meta

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.documents import Document
from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector, ObjectMeta, OwnerReference
from trimtab.api.model import Model

T = TypeVar("T")

MAX_WORKLOADS = 16
"""How many kinds a configuration may name: each is watched."""

_PART = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_GROUP = re.compile(rf"{_PART}(\.{_PART})+")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_PLURAL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

_TAKEN = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "CloneSet", "Pod", "UnitedTopology"})
"""Kinds that have a meaning of their own wherever a workload is named by its kind."""


class WorkloadKind(Model):
    """A kind of workload that owns ReplicaSets and has a scale subresource."""

    group: Annotated[str, Meta(description="the API group, such as argoproj.io")]
    version: Annotated[str, Meta(description="the version that is read, such as v1alpha1")]
    kind: Annotated[str, Meta(description="the kind, such as Rollout")]
    plural: Annotated[str, Meta(description="the resource, such as rollouts")]

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}"


class CustomSpec(Model):
    """The part of a spec that such kinds share with Deployments."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: Document | None = None
    """None where the workload refers to a template elsewhere."""


class CustomStatus(Model):
    """The part of a status that such kinds share with Deployments."""

    replicas: int = 0
    available_replicas: int = 0
    reported_generation: int | str = msgspec.field(name="observedGeneration", default=0)
    """A number; Argo's Rollouts write it as text."""

    @property
    def observed_generation(self) -> int:
        """The generation that the controller has observed; 0 where it does not report one."""
        given = self.reported_generation
        if isinstance(given, int):
            return given
        return int(given) if given.isascii() and given.isdigit() else 0


class CustomWorkload(Model):
    """A workload of a kind that the configuration names. `workload_type` makes the type of each kind."""

    named_as: ClassVar[WorkloadKind]
    metadata: ObjectMeta = ObjectMeta()
    spec: CustomSpec = CustomSpec()
    status: CustomStatus = CustomStatus()

    @property
    def desired_replicas(self) -> int:
        """The number of pods requested; 1 if the spec has none."""
        return 1 if self.spec.replicas is None else self.spec.replicas


ReplicaSetOwner = Deployment | CustomWorkload
"""A workload whose pods are owned by its ReplicaSets."""


def with_template(workload: T, sets: Iterable[ReplicaSet]) -> T:
    """A workload with a template: one that refers to it elsewhere has that of its ReplicaSet, or of the largest."""
    if not isinstance(workload, CustomWorkload) or workload.spec.template is not None:
        return workload
    largest = max(sets, key=lambda each: (each.desired_replicas, each.metadata.name), default=None)
    template = None if largest is None else largest.spec.template
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, template=template))


@functools.cache
def workload_type(kind: WorkloadKind) -> type[CustomWorkload]:
    """The type of a kind's objects; the same for the same kind."""
    made = msgspec.defstruct(kind.kind, (), bases=(CustomWorkload,), namespace={"named_as": kind}, module=__name__)
    return cast("type[CustomWorkload]", made)


@dataclass(frozen=True, slots=True)
class ReplicaSetOwners:
    """The kinds whose objects own ReplicaSets and resize them: Deployment, and those that the configuration names."""

    custom: tuple[type[CustomWorkload], ...] = ()

    @staticmethod
    def of(kinds: Sequence[WorkloadKind]) -> ReplicaSetOwners:
        """Deployments and these kinds."""
        return ReplicaSetOwners(tuple(map(workload_type, kinds)))

    @property
    def by_kind(self) -> Mapping[str, type[CustomWorkload]]:
        """The types of the kinds beside Deployment."""
        return {each.named_as.kind: each for each in self.custom}

    def resizes(self, metadata: ObjectMeta) -> bool:
        """Whether a workload is a ReplicaSet of one of these. Other owners, such as operators, do not resize it."""
        owner = metadata.controller
        return owner is not None and (owner.kind == "Deployment" or self.find(owner) is not None)

    def find(self, owner: OwnerReference) -> type[CustomWorkload] | None:
        """The type of an owner of one of the kinds beside Deployment, whichever version its reference names."""
        found = self.by_kind.get(owner.kind)
        return found if found is not None and owner.api_version.rpartition("/")[0] == found.named_as.group else None

    def added_to(self, targets: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        """The kinds that can be targets, by API version: those of a table, and the kinds beside Deployment."""
        found = dict(targets)
        for each in self.custom:
            version = each.named_as.api_version
            found[version] = (*found.get(version, ()), each.named_as.kind)
        return found


DEPLOYMENTS = ReplicaSetOwners()
"""Deployments alone."""


def advice(api_version: str, targets: Mapping[str, tuple[str, ...]]) -> str:
    """What to do about a target of another project's group; empty for Kubernetes' own groups, and for known ones."""
    group = api_version.rpartition("/")[0]
    if "." not in group or group in {each.rpartition("/")[0] for each in targets}:
        return ""
    return "; list a kind that owns ReplicaSets, such as Argo's Rollout, in workloads of Trimtab's configuration"


def problems(kinds: Sequence[WorkloadKind], refused: Mapping[str, str]) -> Iterator[InvalidError]:
    """What is wrong with the kinds of a configuration; `refused` are those that cannot be targets, and why."""
    for index, each in enumerate(kinds):
        yield from (error.under(f"workloads[{index}]") for error in _name_problems(each, refused))
        for earlier, other in enumerate(kinds[:index]):
            if other.kind == each.kind:
                reason = f'"{each.kind}" is the kind of workloads[{earlier}] already; list a kind once, in one version'
                yield InvalidError(f"workloads[{index}].kind", reason)


def _name_problems(kind: WorkloadKind, refused: Mapping[str, str]) -> Iterator[InvalidError]:
    if not _GROUP.fullmatch(kind.group):
        yield InvalidError(
            "group", f'"{kind.group}" is not the API group of a custom resource; write it as argoproj.io'
        )
    if not _VERSION.fullmatch(kind.version):
        yield InvalidError("version", f'"{kind.version}" is not a version; write it as v1 or v1alpha1')
    if kind.kind in refused:
        yield InvalidError("kind", f"{kind.kind} is not supported: {refused[kind.kind]}")
    elif kind.kind in _TAKEN:
        yield InvalidError("kind", f"{kind.kind} is a kind that Trimtab knows by itself; omit it")
    elif not _KIND.fullmatch(kind.kind):
        yield InvalidError("kind", f'"{kind.kind}" is not a kind; write it as Rollout')
    if not _PLURAL.fullmatch(kind.plural):
        yield InvalidError("plural", f'"{kind.plural}" is not the plural of a resource; write it as rollouts')
