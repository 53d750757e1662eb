"""The UnitedTopology that applies to a pod, by its owner, from the caches of the webhook process.

A pod of a Deployment is owned by a ReplicaSet, and that by the Deployment, which then is the target; likewise for other
workloads that own ReplicaSets, if the configuration names their kind. An owner that is not cached yet is read uncached,
because its first pods are created within milliseconds. A review may be forged: only an owner that exists with the UID
of the pod's reference has a UnitedTopology. Of two UnitedTopologies with the same target the older one applies; while
that is invalid, or is being deleted, pods are admitted without a subset.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from trimtab.api import unitedtopology
from trimtab.api.apps import ReplicaSet
from trimtab.api.meta import ObjectMeta, OwnerReference
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.kube.caches import Caches
from trimtab.kube.client import Client
from trimtab.kube.components import CacheGroup
from trimtab.kube.resources import Key, object_key
from trimtab.kube.retries import NO_RETRIES
from trimtab.kube.stores import by_namespace
from trimtab.subsets.demand import Owner
from trimtab.unitedtopology.admission.lookups import Lookups
from trimtab.unitedtopology.targets import Workload, by_target, creation_order, most_pods, target_key
from trimtab.unitedtopology.validation import validate_large

_BY_NAMESPACE = "namespace"
_BY_TARGET = "target"


_OWNERS = {("apps/v1", "ReplicaSet"), ("apps.kruise.io/v1alpha1", "CloneSet")}
"""The controllers of pods whose workloads can have subsets."""

CachedWorkload = Callable[[str, str, str], Workload | None]
"""A workload as last seen, by kind, namespace and name."""


def no_workload(_kind: str, _namespace: str, _name: str) -> None:
    """Without a cache of workloads: owners other than ReplicaSets are read."""


@dataclass(frozen=True, slots=True)
class AppliedTopology:
    """The UnitedTopology that applies to a pod, and the pod's owner."""

    topology: UnitedTopology
    owner: Owner


class OwnerNotFoundError(Exception):
    """The owner of a pod does not exist with that UID."""


class Topologies(CacheGroup):
    """Cached UnitedTopologies and ReplicaSets, kept current while `run` runs."""

    def __init__(
        self,
        client: Client,
        *,
        workload: CachedWorkload = no_workload,
        allowed_fields: Collection[str] = (),
        owners: ReplicaSetOwners = DEPLOYMENTS,
        rng: random.Random | None = None,
        caches: Caches[Any] | None = None,
    ) -> None:
        """`caches` are those of the process; without them, it has its own.
        `allowed_fields` are the privileged fields that patches may change; `owners` own ReplicaSets."""
        self._lookups = Lookups(client.using(retry=NO_RETRIES, urgent=True), owners)
        self._owners = owners
        self._workload = workload
        self._allowed_fields = allowed_fields
        caches = caches or Caches(client, None, rng=rng)
        self._topologies = caches.open(UnitedTopology, {_BY_NAMESPACE: by_namespace, _BY_TARGET: by_target})
        self._sets = caches.open(ReplicaSet)
        super().__init__((self._sets,), (self._topologies,))
        self._usable: dict[tuple[str, int], bool] = {}
        self._topologies.subscribe(deleted=self._forget)

    def on_deleted(self, callback: Callable[[UnitedTopology], None]) -> None:
        """Call back for every UnitedTopology that is deleted."""
        self._topologies.subscribe(deleted=callback)

    def get(self, key: Key) -> UnitedTopology | None:
        """A UnitedTopology as last seen."""
        return self._topologies.get(key)

    def has_any_in(self, namespace: str) -> bool:
        """Whether a namespace has a UnitedTopology: pods of all others are admitted at once."""
        return bool(self._topologies.store.by(_BY_NAMESPACE, namespace))

    async def find(self, metadata: ObjectMeta, namespace: str) -> AppliedTopology | None:
        """The UnitedTopology that applies to a pod; reads the pod's owner if it is not cached.

        Raises OwnerNotFoundError if the owner does not exist with that UID.
        """
        reference = metadata.controller
        if reference is None or not _can_own(reference) or not self.has_any_in(namespace):
            return None
        owner = self._cached_owner(reference, namespace)
        if owner is None:
            owner = await self._lookups.owner(reference.kind, reference.name, namespace=namespace)
        if owner is None or owner.metadata.uid != reference.uid:
            raise OwnerNotFoundError(f"{reference.kind} {reference.name} with UID {reference.uid} does not exist")
        topology = self._first(_target(owner, reference), namespace)
        if topology is None or not await self.validate(topology):
            return None
        return AppliedTopology(topology, Owner(reference.kind, reference.name, reference.uid, most_pods(owner)))

    def find_cached(self, metadata: ObjectMeta, namespace: str) -> UnitedTopology | None:
        """The UnitedTopology that applies to a pod, from the caches alone."""
        reference = metadata.controller
        owner = self._cached_owner(reference, namespace) if reference is not None and _can_own(reference) else None
        return self._of(_target(owner, reference), namespace) if owner is not None and reference is not None else None

    async def validate(self, topology: UnitedTopology) -> bool:
        """Whether it is usable; a large one is validated in another thread."""
        if _version(topology) not in self._usable:
            await validate_large(topology, allowed_fields=self._allowed_fields, owners=self._owners)
        return self.is_usable(topology)

    def is_usable(self, topology: UnitedTopology) -> bool:
        """Whether it is valid and not being deleted; validated once for each generation."""
        if topology.metadata.deletion_timestamp is not None:
            return False
        version = _version(topology)
        if version not in self._usable:
            problems = unitedtopology.problems(topology, allowed_fields=self._allowed_fields, owners=self._owners)
            self._usable[version] = next(problems, None) is None
        return self._usable[version]

    def _cached_owner(self, reference: OwnerReference, namespace: str) -> Workload | None:
        """The owner as last seen, if it has that UID."""
        key = object_key(namespace, reference.name)
        found: Workload | None = self._sets.get(key) if reference.kind == "ReplicaSet" else None
        found = found or self._workload(reference.kind, namespace, reference.name)
        return found if found is not None and found.metadata.uid == reference.uid else None

    def _of(self, workload: OwnerReference, namespace: str) -> UnitedTopology | None:
        first = self._first(workload, namespace)
        return first if first is not None and self.is_usable(first) else None

    def _first(self, workload: OwnerReference, namespace: str) -> UnitedTopology | None:
        """The oldest UnitedTopology of a workload, usable or not."""
        is_built_in = workload.kind in unitedtopology.TARGETS.get(workload.api_version, ())
        if not is_built_in and self._owners.find(workload) is None:
            return None
        topologies = self._topologies.store.by(_BY_TARGET, target_key(workload.kind, namespace, workload.name))
        return min(topologies, key=creation_order, default=None)

    def _forget(self, topology: UnitedTopology) -> None:
        uid = topology.metadata.uid
        self._usable = {version: usable for version, usable in self._usable.items() if version[0] != uid}


def _version(topology: UnitedTopology) -> tuple[str, int]:
    return topology.metadata.uid, topology.metadata.generation


def _target(owner: Workload, reference: OwnerReference) -> OwnerReference:
    """The workload that a UnitedTopology names: the owner of a ReplicaSet, where it has one."""
    return (owner.metadata.controller if isinstance(owner, ReplicaSet) else None) or reference


def _can_own(reference: OwnerReference) -> bool:
    return (reference.api_version, reference.kind) in _OWNERS
