"""A cluster as plain lists, for the slow reference implementations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.api import codec
from trimtab.api.apps import ReplicaSet, StatefulSet
from trimtab.api.core import Namespace, ReplicationController, Service
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.snapshot import Snapshot


@dataclass
class SampleCluster:
    """A cluster as plain lists."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of the namespaces that are known."""
    services: list[Service] = field(default_factory=list)
    controllers: list[ReplicationController] = field(default_factory=list)
    replica_sets: list[ReplicaSet] = field(default_factory=list)
    stateful_sets: list[StatefulSet] = field(default_factory=list)

    def on(self, node: Node) -> list[Pod]:
        """The pods that take up room on a node."""
        return [p for p in self.pods if p.spec.node_name == node.metadata.name and not p.finished]

    def domain(self, key: str, value: str) -> list[Pod]:
        """The pods on all nodes with this label."""
        return [p for n in self.nodes if n.metadata.labels.get(key) == value for p in self.on(n)]

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """A namespace's labels; none where it is not known."""
        return self.namespaces.get(namespace, {})

    def snapshot(self, churn: Iterable[Pod] = ()) -> Snapshot:
        """The view of it. Pods of the churn are added first and deleted again: they must leave no trace."""
        view, passing = Snapshot(), list(churn)
        known = [{"metadata": {"name": name, "labels": dict(labels)}} for name, labels in self.namespaces.items()]
        spaces = [codec.convert(tree, Namespace) for tree in known]
        others: list[Any] = [*self.services, *self.controllers, *self.replica_sets, *self.stateful_sets]
        for each in (*passing, *spaces, *self.nodes, *self.pods, *others):
            view.put(each)
        for each in passing:
            if each not in self.pods:
                view.drop(Pod, each.metadata.namespace, each.metadata.name)
        return view
