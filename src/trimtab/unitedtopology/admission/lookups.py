"""What the webhooks of pods read live: the few things that a cache must not be believed about.

A reservation is decided from the status of a UnitedTopology alone (see `trimtab.subsets`). Beside that, these questions
have no answer but the server's: is this pod still there and not going; how large is the workload now; and, for a
UnitedTopology that nobody has counted yet, which pods are there. All reads are consistent ones: no resource version is
given, so that no server answers from a cache of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from trimtab.api import selectors
from trimtab.api.annotations import subset_annotations
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.meta import LabelSelector
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key, object_key
from trimtab.subsets.members import member_of
from trimtab.subsets.recount import Observed

Workload = Deployment | ReplicaSet | CloneSet

KINDS: Mapping[str, type[Workload]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
"""What can have subsets, by kind."""

_Entry = tuple[Key, datetime]
"""A deletion that was announced: of which pod, and when."""

_REMEMBERED = 4096
"""How many pods that are going are kept in mind: they will never be anything else."""


class Lookups:
    """Reads from the server, for rounds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._going: OrderedDict[_Entry, None] = OrderedDict()

    async def pod(self, name: str, *, namespace: str) -> Pod | None:
        """A pod as it is."""
        try:
            return await self._client.get(Pod, name, namespace=namespace)
        except NotFound:
            return None

    async def pods(self, names: Iterable[str], *, namespace: str) -> dict[str, Pod]:
        """These pods as they are, as far as they are there."""
        wanted = list(dict.fromkeys(names))
        found = await asyncio.gather(*(self.pod(name, namespace=namespace) for name in wanted))
        return {name: pod for name, pod in zip(wanted, found, strict=True) if pod is not None}

    def known_going(self, entries: Mapping[str, datetime], *, namespace: str) -> frozenset[str]:
        """Which of these pods were found to be going before."""
        return frozenset(name for name, since in entries.items() if (object_key(namespace, name), since) in self._going)

    async def going(self, entries: Mapping[str, datetime], *, namespace: str) -> frozenset[str]:
        """Which of these pods are terminating, finished or gone. They are given as `deleting` has them: with the time
        by which a deletion is told from one of a later pod of the same name."""
        known = self.known_going(entries, namespace=namespace)
        unknown = [name for name in entries if name not in known]
        alive = {name for name, pod in (await self.pods(unknown, namespace=namespace)).items() if pod.active}
        found = frozenset(unknown) - alive
        for name in found:
            self._remember((object_key(namespace, name), entries[name]))
        return known | found

    async def size(self, topology: UnitedTopology) -> int | None:
        """How many pods the target wants; None where it is gone, and its last pods are told by what was counted."""
        try:
            return (await self.workload(topology)).desired_replicas
        except NotFound:
            return None

    async def workload(self, topology: UnitedTopology) -> Workload:
        """The target as it is. Raises NotFound."""
        target = topology.spec.target_ref
        return await self._client.get(KINDS[target.kind], target.name, namespace=topology.metadata.namespace)

    async def observed(self, topology: UnitedTopology, revision: str) -> Observed:
        """All that a first count needs. The UnitedTopology must have been read before. Raises NotFound."""
        workload = await self.workload(topology)
        owners = await self._owners(workload)
        namespace = topology.metadata.namespace
        selector = _selector(workload)
        listed = await self._client.list(Pod, namespace=namespace, label_selector=selector)
        pods = [pod for pod in listed.items if pod.metadata.controller and pod.metadata.controller.uid in owners]
        subsets = frozenset(subset.name for subset in topology.spec.subsets)
        unmarked = (pod for pod in pods if not _is_marked(pod, topology.metadata.name, subsets))
        nodes = await self._nodes(pod.spec.node_name for pod in unmarked)
        members = [member_of(pod, topology, nodes.get(pod.spec.node_name)) for pod in pods]
        return Observed(members, workload.desired_replicas, revision, listed.resource_version)

    def _remember(self, entry: _Entry) -> None:
        self._going[entry] = None
        if len(self._going) > _REMEMBERED:
            self._going.popitem(last=False)

    async def _owners(self, workload: Workload) -> set[str]:
        """The UIDs that the workload's pods have as their controller's."""
        uid = workload.metadata.uid
        if not isinstance(workload, Deployment):
            return {uid}
        sets = await self._client.list(
            ReplicaSet, namespace=workload.metadata.namespace, label_selector=_selector(workload)
        )
        owned = (each for each in sets.items if each.metadata.controller and each.metadata.controller.uid == uid)
        return {each.metadata.uid for each in owned}

    async def _nodes(self, names: Iterable[str]) -> dict[str, Node]:
        wanted = [name for name in dict.fromkeys(names) if name]
        found = await asyncio.gather(*(self._node(name) for name in wanted))
        return {name: node for name, node in zip(wanted, found, strict=True) if node is not None}

    async def _node(self, name: str) -> Node | None:
        try:
            return await self._client.get(Node, name)
        except NotFound:
            return None


def _is_marked(pod: Pod, topology: str, subsets: Collection[str]) -> bool:
    """Whether a pod says itself where it is counted, so that nobody has to look at its node."""
    mark = subset_annotations(pod.metadata.annotations)
    return mark is not None and mark.topology == topology and mark.subset in subsets


def _selector(workload: Workload) -> str:
    selector: LabelSelector | None = workload.spec.selector
    return str(selectors.compile(selector)) if selector is not None else ""
