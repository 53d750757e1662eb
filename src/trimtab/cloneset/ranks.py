"""Costs honoured as ranks: those of the other carriers behind the feature gate `CloneSetPodCost`. Pure.

Ranks are read from the policy's carrier: the proposal's annotation, or the PodGroupCost that the policy's controller
wrote; no other object counts. Without a policy they are those of an external component (`ranking.explicit` has the
rules): the PodGroupCost that names the CloneSet, if there is one and no more, else the annotations. In all of them the
higher rank goes first.

A policy that keeps `pod-deletion-cost` current is honoured in the same way, and needs no gate: a pod's rank is that
cost with its sign turned. A cost of another writer, which the policy obeys, is a rank too. Costs that are written for
one scale-down (`OnScaleIntent`) are not handled here: only some pods need them, and they are criterion 4 of the
CloneSet's own order, where a missing cost counts as 0.

| ranks | what happens |
|---|---|
| there are none, and no policy requires them | the original order |
| two PodGroupCosts name the CloneSet, and no policy applies | the annotations, or the original order, with an event |
| every pod has one | the order of ranks, in place of deletion costs in the original order |
| a pod has none | wait, up to the policy's timeout; then the original order, with an event |
| a removal changes the others' ranks | one pod goes; the next when the ranks are of exactly the pods that are left |

**Ranks of exactly these pods.** Whether ranks were recomputed is read from the ranks themselves, so that it survives a
crash: a PodGroupCost names the pods that were ranked together, and with annotations each pod has a fingerprint of them
(`RANKED_AMONG`). Ranks that were computed among other pods than the present ones are not used.

**The wait** begins when the scale-down is first delayed, and is kept in the status. If every removal begins a new wait,
it is kept with the fingerprint of the pods that it is about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.api import times
from trimtab.api.annotations import (
    ALPHA_COST,
    DELETION_COST,
    RANKED_AMONG,
    CostOwner,
    cost_owner,
    fingerprint,
    parse_cost,
    policy_cost_annotation,
    previous_cost,
)
from trimtab.api.cloneset import RankWait
from trimtab.api.pods import Pod
from trimtab.api.scaledown import PodGroupCost, ScaleDownPolicySpec
from trimtab.kube.clocks import SECOND
from trimtab.ranking import explicit
from trimtab.ranking.combination import Combination
from trimtab.ranking.costs import Carrier
from trimtab.ranking.explicit import GroupCosts
from trimtab.ranking.strategies import STRATEGIES, Factory
from trimtab.ranking.strategies.stated import number

_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class Terms:
    """How ranks are honoured: as the policy says, or the defaults without one."""

    carrier: Carrier | None = None
    """Where ranks are read from; None for any carrier that has some."""
    timeout: float = 0.0
    """Seconds to wait for missing ranks."""
    recompute: bool = False
    """Whether a removal changes the ranks of the others."""
    recompute_timeout: float = 0.0
    """Seconds to wait for ranks to be recomputed, also where missing ranks are not waited for."""

    @property
    def is_required(self) -> bool:
        """Whether a policy requires ranks."""
        return self.carrier is not None


WITHOUT_POLICY = Terms()


@dataclass(frozen=True, slots=True)
class KnownRanks:
    """The existing ranks by pod name, and the fingerprint of the pods they were computed among (None if unknown)."""

    ranks: Mapping[str, float]
    among: str | None = None
    problem: str = ""
    """Why other ranks do not count."""


@dataclass(frozen=True, slots=True)
class ByRank:
    """Scale down by these ranks, in the order of the group; `allowance` pods at most."""

    ranks: tuple[float, ...]
    allowance: int


@dataclass(frozen=True, slots=True)
class OriginalOrder:
    """Scale down in the original order; `reason` says why ranks were ignored, if there should have been some."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Delete no pod yet."""

    wait: RankWait
    seconds: float
    reason: str


RankDecision = ByRank | OriginalOrder | Wait


def terms(policy: ScaleDownPolicySpec | None, registry: Mapping[str, Factory] = STRATEGIES) -> Terms | None:
    """What a policy requires; None if it writes deletion costs for each scale-down, which the victim order uses.

    Raises InvalidError.
    """
    if policy is None:
        return WITHOUT_POLICY
    carrier = Carrier(policy.carrier)
    if carrier is Carrier.ANNOTATION and policy.delivery == "OnScaleIntent":
        return None
    combination = Combination.of(policy.strategies, registry)
    unranked = policy.when_unranked
    recompute = combination.recompute or combination.one_at_a_time
    timeout = float(unranked.timeout_seconds)
    return Terms(
        carrier=carrier,
        timeout=timeout if unranked.action == "Wait" else 0.0,
        recompute=recompute,
        recompute_timeout=timeout if recompute else 0.0,
    )


def known_ranks(required: Terms, pods: Sequence[Pod], costs: GroupCosts) -> KnownRanks | None:
    """The existing ranks; None if there are none and no policy requires them."""
    if required.carrier is Carrier.POD_GROUP_COST:
        return _from_group(costs.own)
    if required.carrier is Carrier.ANNOTATION:
        return _from_deletion_costs(pods)
    if not required.is_required:
        return _external_ranks(pods, costs)
    return _from_annotations(pods)


def _external_ranks(pods: Sequence[Pod], costs: GroupCosts) -> KnownRanks | None:
    """The ranks of a component that is not Trimtab's."""
    if costs.external is not None:
        return _from_group(costs.external)
    keys = {pod.key: pod.metadata.name for pod in pods}
    found = {keys[key]: rank for key, rank in explicit.explicit_ranks(pods, None).items()}
    problem = f"none of PodGroupCosts {', '.join(costs.ambiguous)} counts" if costs.ambiguous else ""
    return KnownRanks(found, problem=problem) if found or problem else None


def _from_group(costs: PodGroupCost | None) -> KnownRanks:
    if costs is None:
        return KnownRanks({})
    return KnownRanks({name: float(cost) for name, cost in costs.spec.costs.items()}, fingerprint(costs.spec.costs))


def _from_annotations(pods: Sequence[Pod]) -> KnownRanks:
    values = {pod.metadata.name: number(pod.metadata.annotations.get(ALPHA_COST, "")) for pod in pods}
    among = {pod.metadata.annotations.get(RANKED_AMONG) for pod in pods}
    ranks = {name: rank for name, rank in values.items() if not math.isnan(rank)}
    return KnownRanks(ranks, among.pop() if len(among) == 1 else None)


def _from_deletion_costs(pods: Sequence[Pod]) -> KnownRanks:
    """Ranks that a policy keeps current as deletion costs; pods with a cost of another writer keep that one."""
    owners = {pod.metadata.name: cost_owner(pod.metadata.annotations) for pod in pods}
    costs = {pod.metadata.name: parse_cost(pod.metadata.annotations.get(DELETION_COST)) for pod in pods}
    ranks = {
        name: -float(cost)
        for name, cost in costs.items()
        if cost is not None and owners[name] in (CostOwner.POLICY, CostOwner.OTHER)
    }
    written = (pod for pod in pods if owners[pod.metadata.name] is CostOwner.POLICY)
    among = {pod.metadata.annotations.get(RANKED_AMONG) for pod in written}
    return KnownRanks(ranks, among.pop() if len(among) == 1 else None)


def costs_without_policy(pods: Sequence[Pod]) -> tuple[int, ...]:
    """The deletion costs that pods have without those that a policy keeps current."""
    return tuple(_cost_without_policy(pod) for pod in pods)


def _cost_without_policy(pod: Pod) -> int:
    annotations = pod.metadata.annotations
    written = policy_cost_annotation(annotations)
    is_ours = written is not None and cost_owner(annotations) is CostOwner.POLICY
    text = previous_cost(written) if written is not None and is_ours else annotations.get(DELETION_COST)
    return parse_cost(text) or 0


def evaluate(
    required: Terms, known: KnownRanks | None, names: Sequence[str], previous: RankWait | None, now: int
) -> RankDecision:
    """How a scale-down of these pods continues; `previous` is the wait in the status."""
    if known is None:
        return OriginalOrder()
    missing = [name for name in names if name not in known.ranks]
    among = fingerprint(names) if required.recompute else ""
    if not missing and (not required.recompute or known.among == among):
        allowance = 1 if required.recompute else len(names)
        return ByRank(tuple(known.ranks[name] for name in names), allowance)
    reason = _unranked(missing, len(names)) if missing else "the ranks have not been recomputed since the last removal"
    reason = known.problem or reason
    timeout = required.timeout if missing else required.recompute_timeout
    if not timeout:
        return OriginalOrder(reason)
    since = _since(previous, among, now)
    left = timeout - (now - since) / SECOND
    if left <= 0:
        return OriginalOrder(f"{reason} after {timeout:g} s")
    return Wait(RankWait(since=times.from_ns(since), among=among), left, reason)


def _since(previous: RankWait | None, among: str, now: int) -> int:
    """When the wait began. Times are stored in whole seconds, so a new wait begins at the next one. A wait that begins
    in
    the future was written by a faster clock, and begins now."""
    begins = -(-now // SECOND) * SECOND
    if previous is not None and previous.among == among:
        return min(times.to_ns(previous.since), begins)
    return begins


def _unranked(missing: Sequence[str], total: int) -> str:
    more = f" and {len(missing) - _MAX_NAMES} more" if len(missing) > _MAX_NAMES else ""
    return f"{len(missing)} of {total} pods have no rank: {', '.join(missing[:_MAX_NAMES])}{more}"
