"""Why a pod is where it is, why it goes before or after its siblings, and what applies to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trimtab.api.apps import Deployment, ReplicaSet
from trimtab.api.cloneset import CloneSet
from trimtab.api.core import ReplicationController
from trimtab.api.errors import InvalidError
from trimtab.api.model import Model
from trimtab.api.pods import Pod
from trimtab.inspection import nodes
from trimtab.inspection.cluster import Cluster, Gap, Workload
from trimtab.inspection.placements import PlacedPod, why_here
from trimtab.inspection.plans import controller_plans
from trimtab.inspection.policies import AppliedPolicy, policy_of
from trimtab.inspection.ranks import RankedPod, rank_workload
from trimtab.inspection.settings import Settings
from trimtab.inspection.subsets import AppliedSubset, subset_of
from trimtab.inspection.targets import display
from trimtab.ranking.spreads import resolve
from trimtab.ranking.workloads import active_rows
from trimtab.scaledown.constraints import constraints_for, scheduler_name, template_constraints

_OWNERS: Mapping[str, type[Any]] = {
    "ReplicaSet": ReplicaSet,
    "Deployment": Deployment,
    "ReplicationController": ReplicationController,
    "CloneSet": CloneSet,
}


class AppliedConstraint(Model, omit_defaults=False):
    """A constraint that a pod's workload is kept level by, and how the pod stands in it."""

    topology_key: str
    hard: bool
    max_skew: int
    source: str
    domain: str
    """The pod's domain; empty where it is in none that the constraint counts."""
    count: int | None
    """The pods that it counts in that domain."""
    fewest: int
    most: int


class DeletionPlace(Model, omit_defaults=False):
    """Where a pod stands in the order in which its controller's pods are deleted."""

    position: int
    of: int
    stock_position: int
    goes_after: str = ""
    """The pod that goes just before it; empty for the first."""
    goes_after_because: str = ""
    goes_before: str = ""
    """The pod that goes next; empty for the last."""
    goes_before_because: str = ""
    details: RankedPod | None = None


class PodExplanation(Model, omit_defaults=False):
    """A pod, explained."""

    namespace: str
    pod: str
    node: str
    domains: dict[str, str]
    owners: tuple[str, ...]
    placement: PlacedPod | None
    """What a scheduler would decide for it now, about its present node; none for a pod that ended."""
    pending_reason: str = ""
    constraints: tuple[AppliedConstraint, ...] = ()
    policy: AppliedPolicy | None = None
    subset: AppliedSubset | None = None
    order: DeletionPlace | None = None
    """None for a pod that no supported workload manages, and for one that is being deleted."""
    notes: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def placement_sentence(self) -> str:
        """Why its node, as a scheduler would decide now; empty where that is not known."""
        placed = self.placement
        if placed is None:
            return ""
        if not self.node:
            return placed.message
        if placed.total is None:
            only = "the only node it may go to" if placed.node == self.node else "no longer feasible"
            return f"{self.node} is {only}"
        rival = "" if placed.node == self.node else f"; {placed.node} would be chosen now"
        return f"{self.node} scores {placed.total} now{rival}"

    def sentence(self) -> str:
        """Where it is and when it goes, in one sentence."""
        domain = next((f" ({domain})" for domain in self.domains.values() if domain), "")
        where = f"{self.pod} on {self.node}{domain}" if self.node else f"{self.pod}, which has no node,"
        if self.order is None:
            return f"{where}: {self.notes[0]}" if self.notes else where
        order = self.order
        because = order.goes_before_because or "it is the only pod"
        return (
            f"{where} goes {order.position} of {order.of}: {because}; by the controller alone, {order.stock_position}"
        )


def explain_pod(cluster: Cluster, pod: Pod, settings: Settings) -> PodExplanation:
    """Everything that decides about a pod."""
    owners = list(_owners(cluster, pod))
    controller = owners[0] if owners else None
    workload = owners[-1] if owners else None
    notes = list(_notes(pod, controller))
    constraints = () if controller is None else tuple(_constraints(cluster, pod, controller, settings))
    keys = [each.topology_key for each in constraints]
    return PodExplanation(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        node=pod.spec.node_name,
        domains=nodes.domains(cluster, pod, keys),
        owners=tuple(map(display, owners)),
        placement=_placement(cluster, pod, settings, notes),
        pending_reason=_pending(pod),
        constraints=constraints,
        policy=None if workload is None else policy_of(cluster, workload, settings)[0],
        subset=None if workload is None else subset_of(cluster, pod, workload, _family(cluster, workload)),
        order=_order(cluster, pod, controller, settings) if controller is not None and pod.active else None,
        notes=tuple(notes),
        gaps=cluster.gaps,
    )


def _owners(cluster: Cluster, pod: Pod) -> Iterator[Workload]:
    """The controllers of a pod, its own first."""
    owner = pod.metadata.controller
    while owner is not None:
        kind = _OWNERS.get(owner.kind) or cluster.owners.find(owner)
        found = None if kind is None else cluster.find(kind, pod.metadata.namespace, owner.name)
        if found is None or found.metadata.uid != owner.uid:
            return
        yield found
        owner = found.metadata.controller


def _family(cluster: Cluster, workload: Workload) -> list[Pod]:
    return [pod for each in cluster.controllers_of(workload) for pod in cluster.pods_of(each.metadata.uid)]


def _placement(cluster: Cluster, pod: Pod, settings: Settings, notes: list[str]) -> PlacedPod | None:
    if pod.finished:
        return None
    try:
        return why_here(cluster, pod, settings)
    except InvalidError as error:
        notes.append(f"its placement cannot be explained: {error}")
        return None


def _pending(pod: Pod) -> str:
    condition = pod.status.condition("PodScheduled")
    return condition.message if condition is not None and condition.status != "True" else ""


def _notes(pod: Pod, controller: Workload | None) -> Iterator[str]:
    if pod.terminating:
        yield "it is being deleted"
    if pod.finished:
        yield f"it has ended ({pod.status.phase}), and no longer counts"
    owner = pod.metadata.controller
    if owner is None:
        yield "no controller manages it: no scale-down deletes it"
    elif controller is None:
        yield f"{owner.kind} {owner.name} manages it, whose order of deletion Trimtab does not know"


def _constraints(cluster: Cluster, pod: Pod, controller: Workload, settings: Settings) -> Iterator[AppliedConstraint]:
    template = controller.spec.template
    labels = pod.metadata.labels
    snapshot = cluster.snapshot
    found = constraints_for(template, snapshot, settings.constraints(scheduler_name(template)), labels)
    rows = active_rows(snapshot, controller.metadata.uid)
    source = f"the template of {display(controller)}" if template_constraints(template) else "the default constraints"
    row = snapshot.pods.rows.index.get(pod.key)
    at = np.flatnonzero(rows == row)
    for constraint, spread in zip(found, resolve(found, snapshot, rows), strict=True):
        number = int(spread.domains[at[0]]) if len(at) else -1
        counts = spread.counts.tolist() or [0]
        yield AppliedConstraint(
            topology_key=constraint.topology_key,
            hard=constraint.hard,
            max_skew=constraint.max_skew,
            source=source,
            domain=spread.names[number] if number >= 0 else "",
            count=counts[number] if number >= 0 else None,
            fewest=min(counts),
            most=max(counts),
        )


def _order(cluster: Cluster, pod: Pod, controller: Workload, settings: Settings) -> DeletionPlace | None:
    ranked = rank_workload(cluster, controller, settings).controllers[0].pods
    at = next((at for at, each in enumerate(ranked) if each.pod == pod.metadata.name), None)
    if at is None:
        return None
    return DeletionPlace(
        position=at + 1,
        of=len(ranked),
        stock_position=ranked[at].stock_position,
        goes_after=ranked[at - 1].pod if at else "",
        goes_after_because=_because(cluster, controller, settings, len(ranked) - at) if at else "",
        goes_before=ranked[at + 1].pod if at + 1 < len(ranked) else "",
        goes_before_because=_because(cluster, controller, settings, len(ranked) - at - 1),
        details=ranked[at],
    )


def _because(cluster: Cluster, controller: Workload, settings: Settings, replicas: int) -> str:
    """Why the last victim of a plan goes before the first pod that stays."""
    if replicas == 0:
        return "all pods go"
    plans = controller_plans(cluster, controller, replicas, settings).plans
    return plans[0].plan.victims[-1].because if plans else ""
