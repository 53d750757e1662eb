"""Uncached reads of the pod webhooks: the few facts that a cache must not decide.

A reservation is decided from the status of a UnitedTopology alone (see `trimtab.subsets`). Besides that, only the API
server can tell whether a pod still exists and is not terminating, what the workload's size is, and, for a
UnitedTopology that has not been counted yet, which pods exist. All reads are consistent: they name no resource version,
so that no API server responds from its own cache.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime

from trimtab.api import selectors
from trimtab.api.annotations import subset_annotations
from trimtab.api.apps import ReplicaSet
from trimtab.api.meta import LabelSelector
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwner, ReplicaSetOwners
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key, object_key
from trimtab.subsets.demand import ListedPods, Owner
from trimtab.subsets.members import Member, is_annotated, member_of, slices
from trimtab.subsets.recount import Observation
from trimtab.unitedtopology.targets import KINDS, Workload, is_leaving, most_pods

_Entry = tuple[Key, datetime]
"""An announced deletion: the pod's key, and the time of the announcement."""

_REMEMBERED = 4096
"""How many terminating pods are remembered: that never becomes untrue."""


class Lookups:
    """Uncached reads, for batches."""

    def __init__(self, client: Client, owners: ReplicaSetOwners = DEPLOYMENTS) -> None:
        self._client = client
        self._kinds: Mapping[str, type[Workload]] = {**KINDS, **owners.by_kind}
        self._terminating: OrderedDict[_Entry, None] = OrderedDict()

    async def pod(self, name: str, *, namespace: str) -> Pod | None:
        """Read a pod; None if it does not exist."""
        try:
            return await self._client.get(Pod, name, namespace=namespace)
        except NotFound:
            return None

    async def pods(self, names: Iterable[str], *, namespace: str) -> dict[str, Pod]:
        """Read pods, by name; those that do not exist are left out."""
        wanted = list(dict.fromkeys(names))
        found = await asyncio.gather(*(self.pod(name, namespace=namespace) for name in wanted))
        return {name: pod for name, pod in zip(wanted, found, strict=True) if pod is not None}

    def known_terminating(self, entries: Mapping[str, datetime], *, namespace: str) -> frozenset[str]:
        """Which of these pods an earlier read found terminating or gone."""
        return frozenset(
            name for name, since in entries.items() if (object_key(namespace, name), since) in self._terminating
        )

    async def confirm_terminating(self, entries: Mapping[str, datetime], *, namespace: str) -> frozenset[str]:
        """Which of these pods are terminating, finished or gone. `entries` are those of `deleting`: the time tells the
        deletion from one of a later pod of the same name."""
        known = self.known_terminating(entries, namespace=namespace)
        unknown = [name for name in entries if name not in known]
        alive = {name for name, pod in (await self.pods(unknown, namespace=namespace)).items() if pod.active}
        found = frozenset(unknown) - alive
        for name in found:
            self._remember((object_key(namespace, name), entries[name]))
        return known | found

    async def size(self, topology: UnitedTopology) -> int | None:
        """The target's size; None if it does not exist, and the size of the last recount is to be used."""
        try:
            return (await self.workload(topology)).desired_replicas
        except NotFound:
            return None

    async def workload(self, topology: UnitedTopology) -> Workload:
        """Read the target. Raises NotFound."""
        target = topology.spec.target_ref
        return await self._client.get(self._kinds[target.kind], target.name, namespace=topology.metadata.namespace)

    async def owner(self, kind: str, name: str, *, namespace: str) -> Workload | None:
        """Read the controller of pods; None if it does not exist."""
        try:
            return await self._client.get(self._kinds[kind], name, namespace=namespace)
        except NotFound:
            return None

    async def most_pods(self, owner: Owner, *, namespace: str) -> int:
        """The most pods that an owner may have; none if it does not exist any more."""
        found = await self.owner(owner.kind, owner.name, namespace=namespace)
        return most_pods(found) if found is not None and found.metadata.uid == owner.uid else 0

    async def owned_pods(self, owner: Owner, *, namespace: str) -> ListedPods:
        """List the pods of an owner."""
        workload = await self.owner(owner.kind, owner.name, namespace=namespace)
        if workload is None:
            return ListedPods()
        listed = await self._client.list(Pod, namespace=namespace, label_selector=_selector(workload))
        pods = [pod for pod in listed.items if pod.metadata.controller and pod.metadata.controller.uid == owner.uid]
        annotations = (subset_annotations(pod.metadata.annotations) for pod in pods)
        return ListedPods(
            active=sum(pod.active and not is_leaving(pod, workload) for pod in pods),
            reservations=frozenset(each.reservation for each in annotations if each is not None),
        )

    async def observe(self, topology: UnitedTopology, revision: str) -> Observation:
        """Read what a recount needs. The UnitedTopology must have been read before. Raises NotFound."""
        workload = await self.workload(topology)
        owners = await self._owners(workload)
        namespace = topology.metadata.namespace
        selector = _selector(workload)
        listed = await self._client.list(Pod, namespace=namespace, label_selector=selector)
        pods = [pod for pod in listed.items if pod.metadata.controller and pod.metadata.controller.uid in owners]
        subsets = frozenset(subset.name for subset in topology.spec.subsets)
        unannotated = (pod for pod in pods if not is_annotated(pod, topology.metadata.name, subsets))
        nodes = await self._nodes(pod.spec.node_name for pod in unannotated)
        members: list[Member] = []
        for part in slices(pods, topology):
            members += [member_of(pod, topology, nodes.get(pod.spec.node_name)) for pod in part]
            await asyncio.sleep(0)
        return Observation(members, workload.desired_replicas, revision, listed.resource_version)

    def _remember(self, entry: _Entry) -> None:
        self._terminating[entry] = None
        if len(self._terminating) > _REMEMBERED:
            self._terminating.popitem(last=False)

    async def _owners(self, workload: Workload) -> set[str]:
        """The UIDs of the controllers of the workload's pods."""
        uid = workload.metadata.uid
        if not isinstance(workload, ReplicaSetOwner):
            return {uid}
        sets = await self._client.list(
            ReplicaSet, namespace=workload.metadata.namespace, label_selector=_selector(workload)
        )
        owned = (each for each in sets.items if each.metadata.controller and each.metadata.controller.uid == uid)
        return {each.metadata.uid for each in owned}

    async def _nodes(self, names: Iterable[str]) -> dict[str, Node | None]:
        """Read nodes, by name; None for those that do not exist. The empty name of an unassigned pod is not sent."""
        wanted = list(dict.fromkeys(names))
        return dict(zip(wanted, await asyncio.gather(*map(self._node, wanted)), strict=True))

    async def _node(self, name: str) -> Node | None:
        try:
            return await self._client.get(Node, name)
        except NotFound:
            return None


def _selector(workload: Workload) -> str:
    selector: LabelSelector | None = workload.spec.selector
    return str(selectors.compile(selector)) if selector is not None else ""
