"""Explicit ranks of a workload: where they are, and which of them count.

Ranks of an external component win over a default policy, because a default is made to be overridden; they do not win
over a ScaleDownPolicy. The rules of which carrier counts are in `ranking.explicit`.

The pods of a Deployment, or of another workload that owns ReplicaSets, can be ranked by a PodGroupCost that names it,
or by one for each of its ReplicaSets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from trimtab.api.annotations import ALPHA_COST
from trimtab.api.apps import ReplicaSet
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.ranking import explicit
from trimtab.ranking.explicit import GroupCosts
from trimtab.scaledown.policy.workloads import WorkloadRef
from trimtab.scaledown.view import OWNER_KINDS

_NAMED = 3


class Lookups(Protocol):
    """A cluster in which explicit ranks are looked up."""

    def pods_of(self, uid: str) -> Sequence[Pod]:
        """The pods that a controller owns."""
        ...

    def ranked_pods(self, uid: str) -> Sequence[Pod]:
        """The pods of a controller that have an annotated rank."""
        ...

    def sets_owned_by(self, uid: str) -> Sequence[ReplicaSet]:
        """The ReplicaSets of a Deployment."""
        ...

    def costs_naming(self, kind: str, namespace: str, name: str) -> Sequence[PodGroupCost]:
        """The PodGroupCosts that name this owner."""
        ...


@dataclass(frozen=True, slots=True)
class ExplicitRanks:
    """The explicit ranks of a workload."""

    ranks: Mapping[str, float] = field(default_factory=dict)
    """By pod (`namespace/name`)."""
    sources: tuple[str, ...] = ()
    """Where they are: `PodGroupCost web-ranks`, or the annotation. Empty where no component ranks the workload."""
    ambiguous: tuple[str, ...] = ()
    """The names of PodGroupCosts of which none counts, because several name one owner."""
    unranked: tuple[str, ...] = ()
    """The names of the pods without a rank, where others have one."""

    @property
    def source(self) -> str:
        """Where the ranks are, in words."""
        return " and ".join(self.sources)

    @property
    def note(self) -> str:
        """What to do about several PodGroupCosts; empty without any."""
        return several(self.ambiguous) if self.ambiguous else ""

    @property
    def gap(self) -> str:
        """Which pods have no rank; empty where all have one."""
        if not self.unranked or not self.sources:
            return ""
        more = f" and {len(self.unranked) - _NAMED} more" if len(self.unranked) > _NAMED else ""
        total = len(self.unranked) + len(self.ranks)
        names = ", ".join(self.unranked[:_NAMED])
        return f"{len(self.unranked)} of {total} pods have no rank by {self.source}: {names}{more}"


NO_RANKS = ExplicitRanks()


def several(names: Sequence[str]) -> str:
    """The report of several PodGroupCosts for one owner."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"PodGroupCosts {', '.join(names[:_NAMED])}{more} rank the same pods, so none of them counts; keep one"


def explicit_ranks(view: Lookups, workload: WorkloadRef) -> ExplicitRanks:
    """The explicit ranks of a workload that users scale."""
    found = {owner[2]: group_costs(view, owner, workload) for owner in _controllers(view, workload)}
    if not any(each.others for each in found.values()) and not any(map(view.ranked_pods, found)):
        return NO_RANKS
    ranks: dict[str, float] = {}
    sources: dict[str, None] = {}
    pods: list[Pod] = []
    for uid, costs in found.items():
        active = [pod for pod in view.pods_of(uid) if pod.active]
        known = explicit.explicit_ranks(active, costs.external)
        pods += active
        ranks |= known
        sources |= dict.fromkeys(_source(costs) if known or (active and costs.external) else ())
    ambiguous = dict.fromkeys(name for costs in found.values() for name in costs.ambiguous)
    unranked = tuple(pod.metadata.name for pod in pods if pod.key not in ranks)
    return ExplicitRanks(ranks, tuple(sources), tuple(ambiguous), unranked)


def _source(costs: GroupCosts) -> tuple[str]:
    external = costs.external
    return (f"the annotation {ALPHA_COST}" if external is None else f"PodGroupCost {external.metadata.name}",)


def group_costs(view: Lookups, owner: tuple[str, str, str], top: WorkloadRef) -> GroupCosts:
    """The PodGroupCosts that name a controller of pods (kind, name and UID), or the workload that owns it."""
    kind, name, uid = owner
    namespace = top.namespace
    found = view.costs_naming(kind, namespace, name)
    if (top.kind, top.name) != (kind, name):
        found = [*found, *view.costs_naming(top.kind, namespace, top.name)]
    return explicit.sort_group_costs(found, kind, name, uid)


def _controllers(view: Lookups, workload: WorkloadRef) -> Iterable[tuple[str, str, str]]:
    """The controllers of a workload's pods: kind, name and UID."""
    if workload.kind in OWNER_KINDS:
        yield workload.kind, workload.name, workload.uid
        return
    for each in view.sets_owned_by(workload.uid):
        yield "ReplicaSet", each.metadata.name, each.metadata.uid


def delivered_as_costs(spec: ScaleDownPolicySpec) -> ScaleDownPolicySpec:
    """A default policy that delivers explicit ranks instead of its own: as deletion costs, which every kind reads."""
    return msgspec.structs.replace(spec, strategies=(), carrier="Annotation")
