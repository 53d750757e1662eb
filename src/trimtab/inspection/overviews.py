"""Workloads and UnitedTopologies at a glance: how level they are, what applies to them, how full their subsets are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from trimtab.api import times
from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.model import Model
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.api.unitedtopology import SubsetStatus, UnitedTopology
from trimtab.inspection.cluster import Cluster, Workload
from trimtab.inspection.policies import AppliedPolicy, policy_of
from trimtab.inspection.settings import Settings
from trimtab.inspection.targets import kind_of
from trimtab.ranking.spreads import resolve
from trimtab.ranking.workloads import active_rows
from trimtab.scaledown.constraints import constraints_for, scheduler_name
from trimtab.scaledown.stability import is_rolling_out
from trimtab.subsets.apportionment import floors, limits
from trimtab.subsets.levels import pod_levels
from trimtab.subsets.members import Member, member_of, slices

_TARGETS: Mapping[str, type[Any]] = {"Deployment": Deployment, "ReplicaSet": ReplicaSet, "CloneSet": CloneSet}
MOST_DOMAINS = 12
"""How many domains are listed with their pods; of more, only the skew is given."""


class ConstraintLevel(Model, omit_defaults=False):
    """How level a workload is on one of its constraints."""

    topology_key: str
    hard: bool
    max_skew: int
    skew: int
    domains: tuple[str, ...] = ()
    """Empty where there are very many."""
    pods: tuple[int, ...] = ()
    """The pods that the constraint counts in each domain."""


class WorkloadOverview(Model, omit_defaults=False):
    """A workload at a glance."""

    kind: str
    namespace: str
    name: str
    replicas: int
    pods: int
    """Its active pods."""
    ready: int
    policy: AppliedPolicy
    rolling_out: bool
    constraints: tuple[ConstraintLevel, ...] = ()


class SubsetOverview(Model, omit_defaults=False):
    """One subset of a UnitedTopology, and how full it is."""

    name: str
    pods: int
    """Active pods that are counted in it."""
    reserved: int
    """Admitted pods that are not counted yet."""
    minimum: int
    limit: int | None
    """None for no maximum."""
    levels: dict[str, int]
    """Pods by level: Guaranteed, BestEffort, Redundant."""
    skipped_until: str = ""
    """Until when it is skipped for want of capacity; empty where it is not."""


class TopologyOverview(Model, omit_defaults=False):
    """A UnitedTopology at a glance."""

    namespace: str
    name: str
    target: str
    """`Kind/name` of the workload."""
    replicas: int | None
    """The workload's size; None where there is no such workload."""
    strategy: str
    subsets: tuple[SubsetOverview, ...] = ()
    outside: int = 0
    """Active pods of the workload that are in no subset."""
    ready: str = ""
    """What its condition Ready says; empty where it has none."""


def pods_under(cluster: Cluster, workload: Workload) -> list[Pod]:
    """All pods of a workload."""
    return [pod for each in cluster.controllers_of(workload) for pod in cluster.pods_of(each.metadata.uid)]


def workload_overview(cluster: Cluster, workload: Workload, settings: Settings) -> WorkloadOverview:
    """A workload at a glance."""
    pods = [pod for pod in pods_under(cluster, workload) if pod.active]
    metadata = workload.metadata
    return WorkloadOverview(
        kind=kind_of(workload),
        namespace=metadata.namespace,
        name=metadata.name,
        replicas=workload.desired_replicas,
        pods=len(pods),
        ready=sum(pod.ready for pod in pods),
        policy=policy_of(cluster, workload, settings)[0],
        rolling_out=is_rolling_out(cluster, workload),
        constraints=tuple(_levels(cluster, workload, pods, settings)),
    )


def _levels(cluster: Cluster, workload: Workload, pods: Sequence[Pod], settings: Settings) -> Iterator[ConstraintLevel]:
    """How level the workload is, by the constraints that plans are made with."""
    template, snapshot = workload.spec.template, cluster.snapshot
    labels = pods[0].metadata.labels if pods else {}
    defaults = settings.constraints(scheduler_name(template))
    found = constraints_for(template, snapshot, defaults, labels, pods)
    rows = [active_rows(snapshot, each.metadata.uid) for each in cluster.controllers_of(workload)]
    together = np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)
    for constraint, spread in zip(found, resolve(found, snapshot, together), strict=True):
        is_listed = len(spread.names) <= MOST_DOMAINS
        yield ConstraintLevel(
            topology_key=constraint.topology_key,
            hard=constraint.hard,
            max_skew=constraint.max_skew,
            skew=spread.skew(spread.counts),
            domains=spread.names if is_listed else (),
            pods=tuple(spread.counts.tolist()) if is_listed else (),
        )


def topology_members(now: Callable[[], Cluster], topology: UnitedTopology) -> Iterator[list[Member]]:
    """The active pods of a UnitedTopology's target, in parts of a few milliseconds; the cluster may change between."""
    workload = _target(now(), topology)
    pods = [] if workload is None else [pod for pod in pods_under(now(), workload) if pod.active]
    for part in slices(pods, topology):
        cluster = now()
        yield [member_of(pod, topology, _node(cluster, pod)) for pod in part]


def topology_overview(cluster: Cluster, topology: UnitedTopology, members: Sequence[Member]) -> TopologyOverview:
    """A UnitedTopology at a glance. `members` are those of `topology_members`."""
    target = topology.spec.target_ref
    workload = _target(cluster, topology)
    condition = next((each for each in topology.status.conditions if each.type == "Ready"), None)
    size = None if workload is None else workload.desired_replicas
    return TopologyOverview(
        namespace=topology.metadata.namespace,
        name=topology.metadata.name,
        target=f"{target.kind}/{target.name}",
        replicas=size,
        strategy=topology.spec.schedule_strategy.type,
        subsets=tuple(_subsets(topology, members, size or 0)),
        outside=sum(not member.subset for member in members),
        ready="" if condition is None else f"{condition.status}: {condition.reason or condition.message}",
    )


def _target(cluster: Cluster, topology: UnitedTopology) -> Workload | None:
    target = topology.spec.target_ref
    kind = _TARGETS.get(target.kind) or cluster.owners.by_kind.get(target.kind)
    found: Workload | None = None if kind is None else cluster.find(kind, topology.metadata.namespace, target.name)
    return found


def _subsets(topology: UnitedTopology, members: Sequence[Member], size: int) -> Iterator[SubsetOverview]:
    subsets = topology.spec.subsets
    levels = pod_levels(subsets, members, size)
    statuses = {each.name: each for each in topology.status.subset_statuses}
    skipped = {each.name: each.until for each in topology.status.shortages}
    bounds = zip(subsets, limits(subsets, size), floors(subsets, size), strict=True)
    for index, (subset, limit, floor) in enumerate(bounds):
        counted = Counter(level.level.value for level in levels.values() if level.subset == index)
        yield SubsetOverview(
            name=subset.name,
            pods=sum(counted.values()),
            reserved=len(statuses.get(subset.name, SubsetStatus(name="")).creating),
            minimum=floor,
            limit=limit,
            levels=dict(sorted(counted.items())),
            skipped_until=_time(skipped.get(subset.name)),
        )


def _time(moment: datetime | None) -> str:
    return "" if moment is None else times.format_time(times.to_ns(moment))


def _node(cluster: Cluster, pod: Pod) -> Node | None:
    return cluster.snapshot.node(pod.spec.node_name) if pod.spec.node_name else None
