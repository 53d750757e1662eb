"""Explicit ranks: those that a component other than Trimtab gives to pods. Pure.

There are two carriers of them, and in both the higher rank is deleted first: the annotation of the cost proposal on
each pod, and a PodGroupCost for all pods of an owner. Which of them count:

1. Where a ScaleDownPolicy applies, only what its controller wrote. Its PodGroupCost is recognized by its name, its
   annotation, its owner reference and its field manager (`is_own`). All other objects that name the owner are *rivals*.
2. Otherwise the PodGroupCost of an external component, if exactly one names the owner; of several none counts, because
   no property of the objects says which of them is right.
3. Otherwise the annotations of the pods, but for those that a policy wrote.

A name, an annotation and a field manager can be forged by anyone who may write PodGroupCosts. So that permission is
what protects costs; the checks find mistakes, and leave a forged object for as long as its controller takes to
overwrite it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from trimtab.api.annotations import (
    ALPHA_COST,
    CARRIER_KEYS,
    FIELD_MANAGER,
    POLICY_COST,
    Annotations,
    fingerprint,
    policy_cost_annotation,
)
from trimtab.api.pods import Pod
from trimtab.api.scaledown import TARGETS, PodGroupCost, StrategySpec
from trimtab.api.workloads import DEPLOYMENTS, ReplicaSetOwners
from trimtab.ranking.combination import Combination
from trimtab.ranking.strategies import View
from trimtab.ranking.strategies.stated import number
from trimtab.ranking.strategies.view import Ranks
from trimtab.ranking.workloads import Policy
from trimtab.snapshot.columns import IntColumn

_LONGEST_NAME = 253
_API_VERSIONS: Mapping[str, str] = {kind: version for version, kinds in TARGETS.items() for kind in kinds}


def group_cost_name(kind: str, name: str) -> str:
    """The name of the PodGroupCost that a policy's controller writes: workloads of two kinds may have the same name."""
    long = f"{kind.lower()}-{name}"
    return long if len(long) <= _LONGEST_NAME else f"{long[: _LONGEST_NAME - 17]}-{fingerprint([long])}"


def owner_key(costs: PodGroupCost, owners: ReplicaSetOwners = DEPLOYMENTS) -> str | None:
    """The owner of the pods that a PodGroupCost ranks, as `namespace/Kind/name`; None for a kind without costs."""
    owner = costs.spec.owner
    custom = owners.by_kind.get(owner.kind)
    expected = _API_VERSIONS.get(owner.kind) if custom is None else custom.named_as.api_version
    if expected is None or owner.api_version not in ("", expected) or not owner.name:
        return None
    return f"{costs.metadata.namespace}/{owner.kind}/{owner.name}"


def is_named_as_own(costs: PodGroupCost, kind: str, name: str) -> bool:
    """Whether a PodGroupCost has the name and the annotation of the one that a policy's controller writes."""
    return costs.metadata.name == group_cost_name(kind, name) and POLICY_COST in costs.metadata.annotations


def is_own(costs: PodGroupCost, kind: str, name: str, uid: str) -> bool:
    """Whether a policy's controller wrote a PodGroupCost for this owner, and nobody has changed its spec since.

    An API server that records no managers, such as the lab's, leaves the last part unknown.
    """
    is_owned = any(reference.uid == uid for reference in costs.metadata.owner_references)
    return is_named_as_own(costs, kind, name) and is_owned and costs.spec_managers <= {FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class GroupCosts:
    """The PodGroupCosts that name one owner of pods."""

    own: PodGroupCost | None = None
    """The one that a policy's controller wrote."""
    others: tuple[PodGroupCost, ...] = ()
    """Those of external components."""

    @property
    def external(self) -> PodGroupCost | None:
        """The one that counts where no policy does; None unless there is exactly one."""
        return self.others[0] if len(self.others) == 1 else None

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """The names of several, of which none counts."""
        return self.names if len(self.others) > 1 else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those of external components."""
        return tuple(sorted(each.metadata.name for each in self.others))


NO_COSTS = GroupCosts()


def sort_group_costs(found: Iterable[PodGroupCost], kind: str, name: str, uid: str) -> GroupCosts:
    """These PodGroupCosts, which all name one owner, by who wrote them.

    One that a controller wrote for a predecessor of the owner, or that was changed since, is left out: its controller
    deletes it, or writes it again.
    """
    known = list(found)
    own = next((each for each in known if is_own(each, kind, name, uid)), None)
    return GroupCosts(own, tuple(each for each in known if not is_named_as_own(each, kind, name)))


def annotated_rank(annotations: Annotations) -> float | None:
    """The rank that an external component wrote to a pod; None where there is none, or it is not a number."""
    text = annotations.get(ALPHA_COST)
    if text is None or math.isnan(rank := number(text)):
        return None
    policy = policy_cost_annotation(annotations)
    is_policys = policy is not None and CARRIER_KEYS.get(policy.carrier) == ALPHA_COST and str(policy.cost) == text
    return None if is_policys else rank


def explicit_ranks(pods: Iterable[Pod], costs: PodGroupCost | None) -> dict[str, float]:
    """The ranks of these pods by `namespace/name`: from a PodGroupCost, or from their annotations without one."""
    if costs is not None:
        named = costs.spec.costs
        return {pod.key: float(named[pod.metadata.name]) for pod in pods if pod.metadata.name in named}
    found = ((pod.key, annotated_rank(pod.metadata.annotations)) for pod in pods)
    return {key: rank for key, rank in found if rank is not None}


@dataclass(frozen=True, slots=True)
class Explicit:
    """The strategy that ranks pods as an external component does. No policy can name it."""

    name: ClassVar[str] = "Explicit"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    ranks: Mapping[str, float]

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The ranks that were given."""
        return view.values(rows, self.ranks)


def explicit_policy(ranks: Mapping[str, float]) -> Policy:
    """A policy that deletes pods by these ranks."""
    return Policy(Combination((StrategySpec(name=Explicit.name),), (Explicit(ranks),)))
