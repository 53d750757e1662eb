"""What the webhooks of pods read live: the few things that a cache must not be believed about.

A reservation is decided from the status of a UnitedTopology alone (see `trimtab.subsets`). Beside that, these questions
have no answer but the server's: is this pod still there and not going; how large is the workload now; and, for a
UnitedTopology that nobody has counted yet, which pods are there. All reads are consistent ones: no resource version is
given, so that no server answers from a cache of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from trimtab.api import selectors
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.meta import LabelSelector
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.client import Client
from trimtab.kube.errors import NotFound
from trimtab.kube.resources import Key, key
from trimtab.subsets.members import member_of
from trimtab.subsets.recount import Observed

Workload = Deployment | ReplicaSet | CloneSet

KINDS: Mapping[str, type[Workload]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
"""What can have subsets, by kind."""

_REMEMBERED = 4096
"""How many pods that are going are kept in mind: they will never be anything else."""


class Lookups:
    """Reads from the server, for rounds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._going: OrderedDict[Key, None] = OrderedDict()

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

    async def going(self, names: Iterable[str], *, namespace: str) -> frozenset[str]:
        """Which of these pods are terminating, finished or gone."""
        wanted = list(names)
        unknown = [name for name in wanted if key(namespace, name) not in self._going]
        alive = {name for name, pod in (await self.pods(unknown, namespace=namespace)).items() if pod.active}
        for name in unknown:
            if name not in alive:
                self._remember(key(namespace, name))
        return frozenset(name for name in wanted if name not in alive)

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
        nodes = await self._nodes(pod.spec.node_name for pod in pods)
        members = [member_of(pod, topology, nodes.get(pod.spec.node_name)) for pod in pods]
        return Observed(members, size(workload), revision, listed.resource_version)

    def _remember(self, a_key: Key) -> None:
        self._going[a_key] = None
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


def size(workload: Workload) -> int:
    """How many pods a workload wants; an API server says 1 where nobody says."""
    return 1 if workload.spec.replicas is None else workload.spec.replicas


def _selector(workload: Workload) -> str:
    selector: LabelSelector | None = workload.spec.selector
    return str(selectors.compile(selector)) if selector is not None else ""
