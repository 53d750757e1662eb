"""The ranks of a group by its policy, and the cost that each pod is to have. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.api.annotations import CARRIER_KEYS, CostOwner, fingerprint, policy_cost_annotation
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec, WhenUnranked
from trimtab.kube.clocks import SECOND
from trimtab.ranking.combination import Combined
from trimtab.ranking.costs import Band, Carrier, Level
from trimtab.ranking.explicit import Explicit
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies import STRATEGIES, Factory, StrategyError
from trimtab.scaledown.continuous import numbering
from trimtab.scaledown.continuous.annotation_costs import carrier_cost_owner
from trimtab.scaledown.continuous.carriers import cost_of, number_of
from trimtab.scaledown.pod_costs import PolicyCost, apply_policy_patch, has_policy_annotation, policy_cost
from trimtab.scaledown.sources import Values
from trimtab.scaledown.sources.signals import signals_of
from trimtab.snapshot import Snapshot

SAMPLED = frozenset({"Idle", "Probe"})
"""Strategies that rank by measured values: no two samples are the same, so their ranks are rounded to whole numbers.
Those that rank by a signal do too, by whatever name: see `is_sampled`."""
DRIFTING = frozenset({"Scheduled"})
"""Further strategies whose ranks change although nothing happens to the group's own pods."""

_MIDDLE = Band()


@dataclass(frozen=True, slots=True)
class Assessment:
    """The ranks of a group by pod (`namespace/name`); `fault` says why there are none."""

    ranks: Mapping[str, float] = field(default_factory=dict)
    unranked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pods without a rank, and the strategies that do not rank them."""
    recompute: bool = False
    fault: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether every pod has a rank."""
        return not self.unranked and not self.fault


def assess(
    pods: Sequence[Pod],
    strategies: tuple[StrategySpec, ...],
    values: Values,
    snapshot: Snapshot,
    now: int,
    registry: Mapping[str, Factory] = STRATEGIES,
) -> Assessment:
    """The ranks of these pods. A strategy that fails is reported like any other fault."""
    index = snapshot.pods.rows.index
    rows = np.array([index[pod.key] for pod in pods if pod.key in index], dtype=np.int64)
    try:
        combined = values.apply_to(Policy.of(strategies, registry)).rank(snapshot, rows, now)
    except (InvalidError, StrategyError) as error:
        return Assessment(fault=str(error))
    return _assessment(combined, rounded=is_sampled(strategies, registry))


def is_sampled(strategies: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> bool:
    """Whether some of these strategies rank by values that are sampled outside the cache."""
    return any(each.name in SAMPLED for each in strategies) or bool(signals_of(strategies, registry))


def drifts(strategies: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> bool:
    """Whether ranks by some of these strategies change although nothing happens to the group's own pods."""
    return is_sampled(strategies, registry) or any(each.name in DRIFTING for each in strategies)


def assess_explicit(pods: Iterable[Pod], ranks: Mapping[str, float]) -> Assessment:
    """Explicit ranks of these pods as an assessment."""
    keys = [pod.key for pod in pods]
    unranked = {key: (Explicit.name,) for key in keys if key not in ranks}
    return Assessment({key: ranks[key] for key in keys if key in ranks}, unranked)


def _assessment(combined: Combined, *, rounded: bool) -> Assessment:
    totals = np.round(combined.total) if rounded else combined.total
    known = zip(combined.members, totals.tolist(), strict=True)
    ranks = {key: rank for key, rank in known if not math.isnan(rank)}
    return Assessment(ranks, combined.unranked_by(), combined.recompute or combined.one_at_a_time)


def costs(
    pods: Iterable[Pod],
    assessment: Assessment,
    carrier: Carrier,
    bands: Mapping[str, Band] | None,
    present: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The cost of each ranked pod, with as few changes as possible.

    `bands` are those of a group that has subsets. `present` are the present costs, where they are not on the pods
    themselves.
    """
    ranked = [pod for pod in pods if pod.key in assessment.ranks]
    where = [_MIDDLE if bands is None else bands.get(pod.key, _MIDDLE) for pod in ranked]
    ranks = _within_tiers([assessment.ranks[pod.key] for pod in ranked], where)
    costs_now = [_present_cost(pod, carrier, present) for pod in ranked]
    numbers = numbering.number(
        ranks,
        [None if cost is None else number_of(cost, carrier, band) for cost, band in zip(costs_now, where, strict=True)],
    )
    return {pod.key: cost_of(number, carrier, band) for pod, number, band in zip(ranked, numbers, where, strict=True)}


def _within_tiers(ranks: Sequence[float], bands: Sequence[Band]) -> Sequence[float]:
    """Ranks that put a later BestEffort subset before an earlier one: they share a band, and may not be mixed."""
    tiers = [band.tier if band.level is Level.BEST_EFFORT else 0 for band in bands]
    if len(set(tiers)) < 2 or any(map(math.isnan, ranks)):
        return ranks
    pairs = [(-tier, rank) for tier, rank in zip(tiers, ranks, strict=True)]
    places = {pair: float(at) for at, pair in enumerate(sorted(set(pairs)))}
    return [places[pair] for pair in pairs]


def _present_cost(pod: Pod, carrier: Carrier, present: Mapping[str, int] | None) -> int | None:
    if carrier not in CARRIER_KEYS:
        return (present or {}).get(pod.metadata.name)
    return policy_cost(pod) if carrier_cost_owner(pod, carrier) is CostOwner.POLICY else None


def pod_costs(
    pods: Iterable[Pod], wanted: Mapping[str, int], policy: str, carrier: Carrier, *, recompute: bool
) -> list[PolicyCost]:
    """The costs of a group as they are written to its pods."""
    chosen = [pod for pod in pods if pod.key in wanted]
    among = fingerprint(pod.metadata.name for pod in chosen) if recompute else None
    return [PolicyCost(pod, policy, carrier, wanted[pod.key], among) for pod in chosen]


@dataclass(frozen=True, slots=True)
class WantedCosts:
    """The ranks of a group, and what is to be written; nothing, while ranks are missing that are waited for."""

    ranks: Assessment
    outdated: Sequence[Pod] = ()
    """The pods whose costs are to be reverted: they have no rank, or a cost in another carrier."""
    costs: Mapping[str, int] = field(default_factory=dict)
    on_pods: Sequence[PolicyCost] = ()
    """Those that pods do not have yet, as they are written to them, where the carrier is an annotation."""


def wanted_costs(
    pods: Sequence[Pod],
    ranks: Assessment,
    policy: str,
    carrier: Carrier,
    bands: Mapping[str, Band] | None,
    present: Mapping[str, int] | None,
) -> WantedCosts:
    """What is to be written to a group with these ranks; the other arguments are those of `costs`."""
    if not ranks.is_complete and carrier is Carrier.ANNOTATION:
        return WantedCosts(ranks)
    written = [pod for pod in pods if has_policy_annotation(pod)]
    outdated = [pod for pod in written if pod.key not in ranks.ranks]
    outdated += [pod for pod in written if pod.key in ranks.ranks and is_misplaced(pod, carrier)]
    wanted = costs(pods, ranks, carrier, bands, present)
    if carrier not in CARRIER_KEYS:
        return WantedCosts(ranks, outdated, wanted)
    on_pods = pod_costs(pods, wanted, policy, carrier, recompute=ranks.recompute)
    return WantedCosts(ranks, outdated, wanted, [each for each in on_pods if _is_unwritten(each)])


def _is_unwritten(cost: PolicyCost) -> bool:
    """Whether a pod does not have its cost yet; one that another program has given a cost is reported."""
    return apply_policy_patch(cost) is not None or carrier_cost_owner(cost.pod, cost.carrier) is CostOwner.OTHER


def is_misplaced(pod: Pod, carrier: Carrier) -> bool:
    """Whether a policy's annotation of a pod is to be reverted: that of another carrier, or beside a cost that another
    program set. A pod without one has nothing to revert.

    Where its subset has moved the cost to another band, the annotation is about to be replaced.
    """
    written = policy_cost_annotation(pod.metadata.annotations)
    if written is None or written.carrier != carrier:
        return True
    return carrier in CARRIER_KEYS and carrier_cost_owner(pod, carrier) in (CostOwner.OTHER, CostOwner.NONE)


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether to wait for missing ranks, and for how many seconds more."""

    waits: bool
    seconds: float = 0.0


def patience(rule: WhenUnranked, since: int, now: int) -> Patience:
    """Whether a policy waits for pods that have had no rank since some moment."""
    if rule.action == "Fallback":
        return Patience(waits=False)
    left = rule.timeout_seconds - (now - since) / SECOND
    return Patience(waits=left > 0, seconds=max(left, 0.0))
