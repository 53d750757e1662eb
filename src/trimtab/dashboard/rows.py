"""What a page shows, as rows by key: values of the cluster and of `inspection`, nothing decided here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trimtab.api.model import Model
from trimtab.api.nodes import DEPRECATED_ZONE, HOSTNAME, ZONE, Node
from trimtab.api.pods import Pod
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.overviews import WorkloadOverview
from trimtab.inspection.ranks import WorkloadRanks
from trimtab.inspection.targets import kind_of
from trimtab.snapshot.pods import NOWHERE

LISTED = 2000
"""Up to so many pods are listed one by one; of more, only those of the chosen workload are."""


_TOPOLOGY = "topology.kubernetes.io/"
_SAMPLED = 100
"""How many nodes are asked which labels of topology there are."""


class StatusRow(Model, omit_defaults=False):
    """The cluster as a whole, and what is missing of it."""

    origin: str
    live: bool
    nodes: int
    pods: int
    workloads: int
    aggregated: bool
    """Whether only the pods of the chosen workload are listed."""
    topology_key: str
    topology_keys: tuple[str, ...]
    """The keys that nodes can be grouped by."""
    gaps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    lab: bool = False
    zones: tuple[str, ...] = ()
    """In the lab, for its buttons: its zones, whatever key nodes are grouped by."""


class NodeRow(Model):
    """A node: its domain, whether it takes pods, and how many it has."""

    domain: str = ""
    ready: bool = True
    schedulable: bool = True
    pods: int = 0
    chosen: int = 0
    """Of these, the pods of the chosen workload."""


class PodRow(Model):
    """A pod: where it is, how it is, and its place in the order in which its controller's pods are deleted."""

    node: str = ""
    state: str = "ready"
    """`ready`, `running`, `pending`, `terminating` or `ended`."""
    workload: str = ""
    """`namespace/Kind/name`; empty for a pod that no supported workload manages."""
    position: int = 0
    """1 goes first; 0 where it is not known."""
    of: int = 0


class WorkloadRow(Model, omit_defaults=False):
    """A workload of the table."""

    overview: WorkloadOverview
    last_scale_down: str = ""


Places = Mapping[str, tuple[int, int]]
"""The place in the order of deletion, and out of how many, by the name of the pod."""


def workload_key(workload: Workload) -> str:
    """`namespace/Kind/name`."""
    metadata = workload.metadata
    return f"{metadata.namespace}/{kind_of(workload)}/{metadata.name}"


def places(ranks: WorkloadRanks) -> Places:
    """The places of a workload's pods."""
    return {
        pod.pod: (pod.position, len(controller.pods)) for controller in ranks.controllers for pod in controller.pods
    }


def node_rows(cluster: Cluster, topology_key: str, chosen: list[Pod]) -> dict[str, NodeRow]:
    """All nodes by name, with the number of pods on each."""
    snapshot = cluster.snapshot
    pods = snapshot.pods
    on = pods.node[pods.active & (pods.node != NOWHERE)]
    counts = np.bincount(on, minlength=len(snapshot.nodes)).tolist()
    own: dict[str, int] = {}
    for pod in chosen:
        if pod.active:
            own[pod.spec.node_name] = own.get(pod.spec.node_name, 0) + 1
    index = snapshot.nodes.rows.index
    return {
        node.metadata.name: NodeRow(
            domain=domain_of(node, topology_key),
            ready=node.ready,
            schedulable=not node.spec.unschedulable,
            pods=counts[index[node.metadata.name]],
            chosen=own.get(node.metadata.name, 0),
        )
        for node in cluster.all(Node)
    }


def domain_of(node: Node, topology_key: str) -> str:
    """The domain of a node; the deprecated label of zones is an alias."""
    labels = node.metadata.labels
    return labels.get(topology_key) or (labels.get(DEPRECATED_ZONE, "") if topology_key == ZONE else "")


def zones(cluster: Cluster) -> tuple[str, ...]:
    """The zones that have nodes."""
    return tuple(sorted({zone for node in cluster.all(Node) if (zone := domain_of(node, ZONE))}))


def topology_keys(cluster: Cluster, overviews: Mapping[str, WorkloadOverview]) -> tuple[str, ...]:
    """The keys that nodes can be grouped by: zones, other labels of topology, keys of constraints; no single nodes."""
    used = {each.topology_key for overview in overviews.values() for each in overview.constraints}
    labels = {key for node in cluster.all(Node)[:_SAMPLED] for key in node.metadata.labels}
    found = used | {key for key in labels if key.startswith(_TOPOLOGY) or key.endswith("/rack")}
    return (ZONE, *sorted(found - {ZONE, HOSTNAME}))


def pod_rows(pods: Iterator[tuple[Pod, str]], known: Mapping[str, Places]) -> dict[str, PodRow]:
    """Pods by `namespace/name`, each with its workload."""
    return {pod.key: _pod_row(pod, workload, known.get(workload, {})) for pod, workload in pods}


def _pod_row(pod: Pod, workload: str, order: Places) -> PodRow:
    position, of = order.get(pod.metadata.name, (0, 0))
    return PodRow(node=pod.spec.node_name, state=state_of(pod), workload=workload, position=position, of=of)


def state_of(pod: Pod) -> str:
    """How a pod is, in one word."""
    if pod.finished:
        return "ended"
    if pod.terminating:
        return "terminating"
    if pod.ready:
        return "ready"
    return "running" if pod.status.phase == "Running" else "pending"
