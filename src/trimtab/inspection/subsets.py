"""The subset that a pod is in and where that comes from, and the order in which subsets are emptied."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.api.core import ReplicationController
from trimtab.api.model import Model
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import UnitedTopology
from trimtab.api.workloads import ReplicaSetOwner
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.targets import kind_of
from trimtab.subsets.apportionment import limits
from trimtab.subsets.levels import pod_levels
from trimtab.subsets.members import member_of
from trimtab.unitedtopology.levels import all_bands
from trimtab.unitedtopology.targets import target_of


class AppliedSubset(Model, omit_defaults=False):
    """The subset that a pod is counted in."""

    topology: str
    subset: str
    """Empty where the pod is in none."""
    source: str
    level: str = ""
    """Redundant, BestEffort or Guaranteed: the first goes first."""
    limit: int | None = None
    """The subset's maximum for the workload's size; none for no maximum."""


def topology_for(cluster: Cluster, workload: Workload) -> UnitedTopology | None:
    """The UnitedTopology that targets a workload."""
    metadata = workload.metadata
    for each in cluster.all(UnitedTopology):
        target = each.spec.target_ref
        if each.metadata.namespace == metadata.namespace and (target.kind, target.name) == (
            kind_of(workload),
            metadata.name,
        ):
            return each
    return None


def subset_of(cluster: Cluster, pod: Pod, workload: Workload, siblings: list[Pod]) -> AppliedSubset | None:
    """The subset of a pod; None where no UnitedTopology targets its workload."""
    topology = topology_for(cluster, workload)
    if topology is None:
        return None
    members = {each.metadata.name: member_of(each, topology, _node(cluster, each)) for each in siblings}
    own = members.get(pod.metadata.name) or member_of(pod, topology, _node(cluster, pod))
    subsets, size = topology.spec.subsets, workload.desired_replicas
    level = pod_levels(subsets, members.values(), size).get(pod.metadata.name)
    source = "no subset's rules fit the pod"
    if own.subset:
        source = "its node and spec meet the subset's rules" if own.is_matched else "the annotation trimtab.dev/subset"
    return AppliedSubset(
        topology=topology.metadata.name,
        subset=own.subset,
        source=source,
        level="" if level is None else level.level.value,
        limit=None if level is None else limits(subsets, size)[level.subset],
    )


def tiers(cluster: Cluster, workload: Workload, replicas: int) -> Mapping[str, int] | None:
    """In which order subsets are emptied: the tiers of the active pods at a size, by `namespace/name`.

    None where no UnitedTopology targets the workload.
    """
    topology = topology_for(cluster, workload)
    if topology is None or isinstance(workload, ReplicationController):
        return None
    target = target_of(workload, cluster.sets_of(workload) if isinstance(workload, ReplicaSetOwner) else ())
    pods = [pod for uid in sorted(target.owners) for pod in cluster.pods_of(uid) if pod.active]
    members = [member_of(pod, topology, _node(cluster, pod)) for pod in pods]
    found = all_bands(topology, members, replicas=replicas, revision=target.revision)
    return {pod.key: band.tier for pod, band in zip(pods, found, strict=True)}


def _node(cluster: Cluster, pod: Pod) -> Node | None:
    return cluster.snapshot.node(pod.spec.node_name) if pod.spec.node_name else None
