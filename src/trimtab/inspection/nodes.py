"""Nodes as explanations need them: which a scale-down empties, and the domains of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Set

from trimtab.api.pods import Pod
from trimtab.inspection.cluster import Cluster

_STAYING = ("DaemonSet", "Node")
"""Controllers whose pods do not keep a node from counting as empty: DaemonSets, and kubelets (static pods)."""


def emptied(cluster: Cluster, victims: Set[str]) -> list[str]:
    """The nodes all of whose pods are among these victims (`namespace/name`).

    None where pods of other namespaces could not be read: any node may have some.
    """
    if any(gap.resource == "pods" for gap in cluster.gaps):
        return []
    used = {pod.spec.node_name for key in victims if (pod := cluster.snapshot.pod(key)) is not None}
    used.discard("")
    staying = {pod.spec.node_name for pod in cluster.all(Pod) if _keeps_node(pod) and pod.key not in victims}
    return sorted(used - staying)


def _keeps_node(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return pod.active and (owner is None or owner.kind not in _STAYING)


def domain(cluster: Cluster, pod: Pod, topology_key: str) -> str:
    """The domain that a pod is in; empty where it has no node, or its node has no such label."""
    node = cluster.snapshot.node(pod.spec.node_name) if pod.spec.node_name else None
    return "" if node is None else node.metadata.labels.get(topology_key, "")


def domains(cluster: Cluster, pod: Pod, topology_keys: Iterable[str]) -> dict[str, str]:
    """The domains that a pod is in, by topology key."""
    return {key: domain(cluster, pod, key) for key in topology_keys}
