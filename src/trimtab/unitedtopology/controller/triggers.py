"""Which events of the cluster enqueue which UnitedTopologies.

Events of pods are collected for half a second or so before they are counted. Until then reservations hold the same
capacity, and there are far fewer writes that could conflict with those of the webhooks.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api.apps import ReplicaSet
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.kube.queues import WorkQueue
from trimtab.kube.resources import Key
from trimtab.kube.stores import key_of
from trimtab.subsets.members import Member
from trimtab.unitedtopology.targets import Workload
from trimtab.unitedtopology.view import View

_COLLECT_SECONDS = 0.6


class Triggers:
    """Enqueues UnitedTopologies on events of the objects in a view."""

    def __init__(self, view: View, queue: WorkQueue[Key]) -> None:
        self._view = view
        self._queue = queue
        self.nodes_seen = 0
        """How many nodes were added so far."""
        self._awaited: dict[Key, frozenset[str]] = {}
        """The nodes that UnitedTopologies wait for, by name."""
        view.topologies.subscribe(
            added=self._topology, updated=lambda _, new: self._topology(new), deleted=self._topology
        )
        for cache in view.workloads:
            cache.subscribe(added=self._workload, updated=lambda _, new: self._workload(new), deleted=self._workload)
        view.sets.subscribe(
            added=self._replicaset, updated=lambda _, new: self._replicaset(new), deleted=self._replicaset
        )
        view.pods.subscribe(added=self._pod, updated=self._pod_changed, deleted=self._pod)
        view.nodes.subscribe(added=self._node)

    def wait_for_nodes(self, key: Key, members: Sequence[Member], pods: Sequence[Pod], *, since: int) -> None:
        """Enqueue a UnitedTopology when the nodes of unmatched pods are seen: without the labels of its node, a pod
        cannot be matched. `since` is `nodes_seen` before they were matched: a node may have been added meanwhile."""
        unmatched = {pod.spec.node_name for pod, member in zip(pods, members, strict=True) if not member.subset}
        awaited = frozenset(name for name in unmatched if name and Key(name) not in self._view.nodes.store)
        if since != self.nodes_seen and unmatched - awaited - {""}:
            self._queue.add(key)
        if awaited:
            self._awaited[key] = awaited
        else:
            self.forget(key)

    def forget(self, key: Key) -> None:
        """Wait for no nodes: the UnitedTopology is gone, or needs none."""
        self._awaited.pop(key, None)

    def _topology(self, topology: UnitedTopology) -> None:
        """Enqueue all UnitedTopologies of the same target: another one may apply now."""
        for each in (topology, *self._view.same_target(topology)):
            self._queue.add(key_of(each))

    def _workload(self, workload: Workload) -> None:
        for topology in self._view.topologies_of(
            type(workload).__name__, workload.metadata.namespace, workload.metadata.name
        ):
            self._queue.add(key_of(topology))

    def _replicaset(self, replicaset: ReplicaSet) -> None:
        for key in self._view.affected_by_replicaset(replicaset):
            self._queue.add(key)

    def _pod(self, pod: Pod) -> None:
        for key in self._view.affected_by_pod(pod):
            self._queue.add_after(key, _COLLECT_SECONDS)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        self._pod(new)
        before, after = old.metadata, new.metadata
        if before.annotations != after.annotations or before.owner_references != after.owner_references:
            self._pod(old)

    def _node(self, node: Node) -> None:
        self.nodes_seen += 1
        for key, names in self._awaited.items():
            if node.metadata.name in names:
                self._awaited[key] = names - {node.metadata.name}
                self._queue.add(key)
