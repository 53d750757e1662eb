"""A cluster at one moment: its objects as values, and what could not be read of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.model import Model
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import CustomWorkload, ReplicaSetOwner, ReplicaSetOwners
from trimtab.ranking.explicit import annotated_rank, owner_key
from trimtab.snapshot import MIRRORED, Snapshot

T = TypeVar("T")
Workload = Deployment | ReplicaSet | ReplicationController | CloneSet | CustomWorkload


@dataclass(frozen=True, slots=True)
class KindInfo:
    """A kind that decisions look at, and what is shown without it."""

    model: type[Any]
    plural: str
    without: str
    is_optional: bool = False
    """Whether a cluster may not have it installed."""


KINDS: tuple[KindInfo, ...] = (
    KindInfo(Node, "nodes", "domains are not known: nothing is level or not, and no node can be chosen"),
    KindInfo(Pod, "pods", "there are no pods to order, count or explain"),
    KindInfo(Namespace, "namespaces", "namespace labels count as absent: selectors and opt-outs by them do not apply"),
    KindInfo(Deployment, "deployments", "Deployments are not found; their ReplicaSets are shown on their own"),
    KindInfo(ReplicaSet, "replicasets", "Deployments have no pods, and ReplicaSets are not found"),
    KindInfo(ReplicationController, "replicationcontrollers", "ReplicationControllers are not found"),
    KindInfo(StatefulSet, "statefulsets", "default constraints of their pods are not deduced from them"),
    KindInfo(Service, "services", "default constraints of pods are not deduced from Services"),
    KindInfo(CloneSet, "clonesets", "CloneSets are not found", is_optional=True),
    KindInfo(ScaleDownPolicy, "scaledownpolicies", "only default policies are considered", is_optional=True),
    KindInfo(PodGroupCost, "podgroupcosts", "ranks of other components are not considered but for annotations", True),
    KindInfo(UnitedTopology, "unitedtopologies", "subsets are not considered", is_optional=True),
)
"""Everything that decisions look at; in the order in which a file lists it. A configuration may name more workloads."""

INFO: Mapping[type[Any], KindInfo] = {each.model: each for each in KINDS}


def info_of(kind: type[Any]) -> KindInfo:
    """What is known about a kind."""
    if issubclass(kind, CustomWorkload):
        name = kind.named_as.kind
        without = f"{name}s are not found; their ReplicaSets are shown on their own"
        return KindInfo(kind, kind.named_as.plural, without, is_optional=True)
    return INFO[kind]


class Gap(Model):
    """Objects that could not be read, why, and what is shown without them."""

    resource: str
    scope: str
    """The namespace they were asked for in, or `cluster`."""
    reason: str
    effect: str

    def sentence(self) -> str:
        """The gap for people."""
        return f"{self.resource} ({self.scope}): {self.reason}; without them, {self.effect}"


@dataclass(frozen=True, eq=False)
class Cluster:
    """The objects of a cluster as they were at one moment."""

    time: int
    """In nanoseconds, by the API server's clock."""
    objects: Mapping[type[Any], Sequence[Any]] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    origin: str = ""
    """Where it was read from, for people."""
    namespace: str = "default"
    """The namespace that the kubeconfig's context names."""

    def all(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind."""
        return self.objects.get(kind, ())

    @cached_property
    def snapshot(self) -> Snapshot:
        """The view that decisions scan."""
        snapshot = Snapshot()
        for kind in MIRRORED:
            for each in self.all(kind):
                snapshot.put(each)
        return snapshot

    def find(self, kind: type[T], namespace: str, name: str) -> T | None:
        """An object by its name."""
        found: T | None = self._by_name.get((kind, namespace, name))
        return found

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""
        return self._pods_by_owner.get(uid, [])

    @cached_property
    def owners(self) -> ReplicaSetOwners:
        """The kinds that own ReplicaSets: Deployment, and those that a configuration named when it was read."""
        return ReplicaSetOwners(tuple(kind for kind in self.objects if issubclass(kind, CustomWorkload)))

    def sets_of(self, owner: ReplicaSetOwner) -> list[ReplicaSet]:
        """The ReplicaSets of a Deployment, or of another workload that owns some."""
        return self.sets_owned_by(owner.metadata.uid)

    def sets_owned_by(self, uid: str) -> list[ReplicaSet]:
        """The ReplicaSets of a workload, by its UID."""
        return self._sets_by_owner.get(uid, [])

    def controllers_of(self, workload: Workload) -> Sequence[Workload]:
        """The controllers of a workload's pods: its ReplicaSets, or itself."""
        return self.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else [workload]

    def ranked_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that have an annotated rank."""
        return [pod for pod in self.pods_of(uid) if annotated_rank(pod.metadata.annotations) is not None]

    def grouped_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that belong to a scheduling group."""
        return self._grouped_by_owner.get(uid, [])

    def costs_naming(self, kind: str, namespace: str, name: str) -> list[PodGroupCost]:
        """The PodGroupCosts that name this owner."""
        return self._costs_by_owner.get(f"{namespace}/{kind}/{name}", [])

    def siblings_of(self, workload: Workload) -> list[str]:
        """The UIDs of the ReplicaSets with the same owner as a ReplicaSet, its own included; none without an owner."""
        owner = workload.metadata.controller
        if owner is None or not isinstance(workload, ReplicaSet):
            return []
        return [each.metadata.uid for each in self.sets_owned_by(owner.uid)]

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""
        pods = self._pods_by_owner.get("", [])
        return [pod for pod in pods if pod.metadata.namespace == namespace]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none where it is not known."""
        found = self.find(Namespace, "", name)
        return {} if found is None else found.metadata.labels

    def policies_in(self, namespace: str) -> list[ScaleDownPolicy]:
        """The policies of a namespace."""
        return [each for each in self.all(ScaleDownPolicy) if each.metadata.namespace == namespace]

    def workloads(self) -> Iterator[Workload]:
        """Everything that can be scaled down; ReplicaSets that their owners resize are left to these."""
        kinds: tuple[type[Any], ...] = (Deployment, ReplicaSet, ReplicationController, CloneSet, *self.owners.custom)
        for kind in kinds:
            for each in self.all(kind):
                if kind is not ReplicaSet or not self.owners.resizes(each.metadata):
                    yield each

    @cached_property
    def _by_name(self) -> dict[tuple[type[Any], str, str], Any]:
        return {
            (kind, each.metadata.namespace, each.metadata.name): each
            for kind, found in self.objects.items()
            for each in found
        }

    @cached_property
    def _costs_by_owner(self) -> dict[str | None, list[PodGroupCost]]:
        found: dict[str | None, list[PodGroupCost]] = {}
        for each in self.all(PodGroupCost):
            found.setdefault(owner_key(each), []).append(each)
        return found

    @cached_property
    def _pods_by_owner(self) -> dict[str, list[Pod]]:
        return _by_owner(self.all(Pod))

    @cached_property
    def _grouped_by_owner(self) -> dict[str, list[Pod]]:
        return _by_owner(pod for pod in self.all(Pod) if pod.spec.scheduling_group is not None)

    @cached_property
    def _sets_by_owner(self) -> dict[str, list[ReplicaSet]]:
        return _by_owner(self.all(ReplicaSet))


def _by_owner(objects: Iterable[T]) -> dict[str, list[T]]:
    """Objects by the UID of their controller; those without one by the empty string."""
    found: dict[str, list[T]] = {}
    for each in objects:
        owner = each.metadata.controller  # type: ignore[attr-defined]
        found.setdefault("" if owner is None else owner.uid, []).append(each)
    return found
