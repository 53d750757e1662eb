"""The cluster as scale-downs see it: pods and nodes as one snapshot, their workloads, namespaces and policies.

The caches and the snapshot are those of the process: pods take most of the memory, and are kept once.

CloneSets, policies, PodGroupCosts and the workloads that the configuration names are kinds that a cluster may not have
installed. Where the API server says so, there are none, and everything else works. Until it has answered there may be
some, and nothing is done as if there were none.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from trimtab.api.annotations import ALPHA_COST, PlanAnnotation, plan_annotation
from trimtab.api.apps import Deployment, ReplicaSet, StatefulSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicy
from trimtab.api.workloads import DEPLOYMENTS, CustomWorkload, ReplicaSetOwner, ReplicaSetOwners
from trimtab.kube.caches import Cache, Caches
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key, object_key
from trimtab.kube.stores import IndexFunction, Object, by_controller, by_namespace, orphans
from trimtab.ranking.explicit import owner_key
from trimtab.scaledown.pod_costs import by_plan, by_policy_annotation
from trimtab.snapshot import MIRRORED, Snapshot

BY_CONTROLLER = "controller"
BY_NAMESPACE = "namespace"
BY_PLAN = "plan"
BY_POLICY = "policy"
BY_OWNER = "owner"
ORPHANS = "orphans"
RANKED = "ranked"
GROUPED = "grouped"
"""Indexes: by the controller's UID, by namespace, by the workload that a plan's annotation names; PodGroupCosts by the
owner that they name; pods that a policy wrote to, and pods without a controller, by namespace; pods with an annotated
rank, and pods of a scheduling group, by the controller's UID. None of all pods by namespace: it would cost memory for
each of them."""

Workload = Deployment | ReplicaSet | ReplicationController | CloneSet | CustomWorkload

OWNER_KINDS = ("ReplicaSet", "ReplicationController", "CloneSet")
"""The kinds that own pods; all other workloads own ReplicaSets."""
KINDS: Mapping[str, type[Workload]] = {
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSet,
    "ReplicationController": ReplicationController,
    "CloneSet": CloneSet,
}
"""The workloads that can be scaled down, by kind; the configuration adds others (`View.kinds`)."""

T = TypeVar("T", bound=Object)


class View(CacheGroup):
    """The cluster as scale-downs see it, while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        owners: ReplicaSetOwners = DEPLOYMENTS,
        rng: random.Random | None = None,
        caches: Caches[Snapshot] | None = None,
    ) -> None:
        """`caches` are those of the process; without them, it has its own."""
        self._caches = caches or Caches(client, Snapshot(), MIRRORED, rng=rng)
        self.snapshot = self._caches.snapshot
        self.owners = owners
        self.kinds: Mapping[str, type[Workload]] = {**KINDS, **owners.by_kind}
        """The workloads that can be scaled down, by kind."""
        owned: Mapping[str, IndexFunction[Any]] = {BY_CONTROLLER: by_controller, BY_NAMESPACE: by_namespace}
        of_pods = {BY_CONTROLLER: by_controller, BY_PLAN: by_plan, BY_POLICY: by_policy_annotation, ORPHANS: orphans}
        of_pods |= {RANKED: ranked, GROUPED: grouped}
        self.pods = self._cache(Pod, of_pods)
        self.nodes = self._cache(Node, {})
        self.namespaces = self._cache(Namespace, {})
        self.deployments = self._cache(Deployment, owned)
        self.sets = self._cache(ReplicaSet, owned)
        self.replicators = self._cache(ReplicationController, owned)
        self.services = self._cache(Service, {})
        self.stateful_sets = self._cache(StatefulSet, {})
        self.clonesets = self._cache(CloneSet, owned)
        self.policies = self._cache(ScaleDownPolicy, {BY_NAMESPACE: by_namespace})
        self.group_costs = self._cache(PodGroupCost, {BY_OWNER: ByNamedOwner(owners)})
        self.custom = {kind: self._cache(model, owned) for kind, model in owners.by_kind.items()}
        """The caches of workloads that the configuration names, by kind."""
        pods_and_nodes = (self.pods, self.nodes, self.namespaces, self.services)
        workloads = (self.deployments, self.sets, self.replicators, self.stateful_sets)
        self.required: tuple[Cache[Any], ...] = (*pods_and_nodes, *workloads)
        """The caches of kinds that every cluster has."""
        super().__init__(self.required, (self.clonesets, self.policies, self.group_costs, *self.custom.values()))

    async def wait_synced(self) -> None:
        """Wait until the caches of kinds that every cluster has have synced."""
        for cache in self.required:
            await cache.wait_synced()

    def cache(self, kind: str) -> Cache[Any]:
        """The cache of a kind of workload."""
        caches: Mapping[str, Cache[Any]] = {
            "Deployment": self.deployments,
            "ReplicaSet": self.sets,
            "ReplicationController": self.replicators,
            "CloneSet": self.clonesets,
            **self.custom,
        }
        return caches[kind]

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """A workload from the cache."""
        if kind not in self.kinds:
            return None
        found: Workload | None = self.cache(kind).get(object_key(namespace, name))
        return found

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none where it is not in the cache."""
        found = self.namespaces.get(Key(name))
        return {} if found is None else found.metadata.labels

    def policies_in(self, namespace: str) -> list[ScaleDownPolicy]:
        """The policies of a namespace."""
        return self.policies.store.by(BY_NAMESPACE, namespace)

    def sets_of(self, owner: ReplicaSetOwner) -> list[ReplicaSet]:
        """The ReplicaSets of a Deployment, or of another workload that owns some."""
        return self.sets_owned_by(owner.metadata.uid)

    def sets_owned_by(self, uid: str) -> list[ReplicaSet]:
        """The ReplicaSets of a workload, by its UID."""
        return self.sets.store.by(BY_CONTROLLER, uid)

    def is_managed(self, workload: Workload) -> bool:
        """Whether a workload is a ReplicaSet that a Deployment, or another workload that owns it, resizes."""
        return self.owners.resizes(workload.metadata)

    def siblings_of(self, workload: Workload) -> list[str]:
        """The UIDs of the ReplicaSets with the same owner as a ReplicaSet, its own included; none without an owner."""
        owner = workload.metadata.controller
        if owner is None or not isinstance(workload, ReplicaSet):
            return []
        return [each.metadata.uid for each in self.sets.store.by(BY_CONTROLLER, owner.uid)]

    def orphans_in(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that have no controller."""
        return self.pods.store.by(ORPHANS, namespace)

    def pods_of_policies(self, namespace: str) -> list[Pod]:
        """The pods of a namespace that a policy wrote to."""
        return self.pods.store.by(BY_POLICY, namespace)

    def pods_of(self, uid: str) -> list[Pod]:
        """The pods that a controller owns."""
        return self.pods.store.by(BY_CONTROLLER, uid)

    def ranked_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that have an annotated rank."""
        return self.pods.store.by(RANKED, uid)

    def grouped_pods(self, uid: str) -> list[Pod]:
        """The pods of a controller that belong to a scheduling group."""
        return self.pods.store.by(GROUPED, uid)

    def costs_naming(self, kind: str, namespace: str, name: str) -> list[PodGroupCost]:
        """The PodGroupCosts that name this owner."""
        return self.group_costs.store.by(BY_OWNER, f"{namespace}/{kind}/{name}")

    @property
    def plans(self) -> list[str]:
        """The workloads (`namespace/Kind/name`) that plans' annotations name."""
        return self.pods.store.values(BY_PLAN)

    def planned_pods(self, namespace: str, workload: str) -> list[Pod]:
        """The pods of a workload (`Deployment/web`) that plans for it have annotated."""
        return [pod for pod in self.naming_pods(namespace, workload) if self.plan_of(pod) is not None]

    def naming_pods(self, namespace: str, workload: str) -> list[Pod]:
        """All pods with a plan's annotation that names a workload, whether it owns them or not."""
        return self.pods.store.by(BY_PLAN, f"{namespace}/{workload}")

    def plan_of(self, pod: Pod) -> PlanAnnotation | None:
        """The annotation of a plan for the workload that owns the pod. Anyone who may write a pod may annotate it: one
        that names another workload counts for nothing."""
        plan, owner = plan_annotation(pod.metadata.annotations), pod.metadata.controller
        if plan is None or owner is None:
            return None
        kind, _, name = plan.workload.partition("/")
        workload = self.workload(kind, pod.metadata.namespace, name)
        if workload is None:
            return None
        owners = [workload, *(self.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ())]
        return plan if any(each.metadata.uid == owner.uid for each in owners) else None

    def _cache(self, kind: type[T], indexes: Mapping[str, IndexFunction[T]]) -> Cache[T]:
        return self._caches.open(kind, indexes)


def grouped(pod: Pod) -> Iterable[str]:
    """An index: pods of a scheduling group, by their controller."""
    return by_controller(pod) if pod.spec.scheduling_group is not None else ()


def ranked(pod: Pod) -> Iterable[str]:
    """An index: pods with an annotated rank, by the UID of their controller."""
    return by_controller(pod) if ALPHA_COST in pod.metadata.annotations else ()


@dataclass(frozen=True, slots=True)
class ByNamedOwner:
    """An index: PodGroupCosts by the owner that they name. Those of equal `owners` are equal, and so shared."""

    owners: ReplicaSetOwners

    def __call__(self, costs: PodGroupCost) -> Iterable[str]:
        """The values of an object."""
        owner = owner_key(costs, self.owners)
        return () if owner is None else (owner,)


async def read_workload(client: Client, kind: type[Workload] | None, namespace: str, name: str) -> Workload | None:
    """An uncached read of a workload; None where there is none, or none of a kind that is known."""
    if kind is None:
        return None
    try:
        found: Workload = await client.get(kind, name, namespace=namespace)
    except NotFound:
        return None
    return found
