"""What a policy says of a group right now: who has a rank, who has none, and what each pod is to cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from trimtab.api.annotations import fingerprint
from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.scaledown import StrategySpec, WhenUnranked
from trimtab.kube.clocks import SECOND
from trimtab.ranking.combination import Combined
from trimtab.ranking.costs import Band, Carrier
from trimtab.ranking.plan import Policy
from trimtab.ranking.strategies import STRATEGIES, Factory, StrategyError
from trimtab.scaledown.continuous import numbering
from trimtab.scaledown.continuous.carriers import ANNOTATIONS, Author, Cost, author, cost_of, number_of, own_cost
from trimtab.snapshot import Snapshot

SAMPLED = frozenset({"Idle", "Probe", "Scheduled"})
"""Strategies that look at what was measured: no two samples are the same, so that their ranks are rounded to wholes."""

_MIDDLE = Band()


class Values(Protocol):
    """What was found out about pods elsewhere."""

    def given_to(self, policy: Policy) -> Policy:
        """A policy that knows it."""
        ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """The ranks of a group by pod (`namespace/name`); `fault` says why there are none."""

    ranks: Mapping[str, float] = field(default_factory=dict)
    unranked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pods without a rank, and the strategies that say nothing of them."""
    recompute: bool = False
    fault: str = ""

    @property
    def whole(self) -> bool:
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
    """The ranks of these pods. A strategy that fails is the fault of who wrote it, and is told like any other."""
    index = snapshot.pods.rows.index
    rows = np.array([index[pod.key] for pod in pods if pod.key in index], dtype=np.int64)
    try:
        combined = values.given_to(Policy.of(strategies, registry)).rank(snapshot, rows, now)
    except (InvalidError, StrategyError) as error:
        return Assessment(fault=str(error))
    return _assessment(combined, rounded=any(each.name in SAMPLED for each in strategies))


def _assessment(combined: Combined, *, rounded: bool) -> Assessment:
    totals = np.round(combined.total) if rounded else combined.total
    known = zip(combined.members, totals.tolist(), strict=True)
    ranks = {key: rank for key, rank in known if not math.isnan(rank)}
    return Assessment(ranks, combined.unranked_by(), combined.recompute or combined.one_at_a_time)


def costs(
    pods: Iterable[Pod],
    found: Assessment,
    carrier: Carrier,
    bands: Mapping[str, Band] | None,
    held: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """What each ranked pod is to cost, with as few changed as can be.

    `bands` are those of a group that has subsets. `held` is what pods cost at present, where that does not stand on
    the pods themselves.
    """
    ranked = [pod for pod in pods if pod.key in found.ranks]
    where = [_MIDDLE if bands is None else bands.get(pod.key, _MIDDLE) for pod in ranked]
    present = [_held(pod, carrier, held) for pod in ranked]
    numbers = numbering.number(
        [found.ranks[pod.key] for pod in ranked],
        [None if cost is None else number_of(cost, carrier, band) for cost, band in zip(present, where, strict=True)],
    )
    return {pod.key: cost_of(number, carrier, band) for pod, number, band in zip(ranked, numbers, where, strict=True)}


def _held(pod: Pod, carrier: Carrier, held: Mapping[str, int] | None) -> int | None:
    if carrier not in ANNOTATIONS:
        return (held or {}).get(pod.metadata.name)
    return own_cost(pod) if author(pod, carrier) is Author.POLICY else None


def written(
    pods: Iterable[Pod], wanted: Mapping[str, int], policy: str, carrier: Carrier, *, recompute: bool
) -> list[Cost]:
    """The costs of a group as they are written to its pods."""
    chosen = [pod for pod in pods if pod.key in wanted]
    among = fingerprint(pod.metadata.name for pod in chosen) if recompute and carrier.sign > 0 else None
    return [Cost(pod, policy, carrier, wanted[pod.key], among) for pod in chosen]


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether to wait for missing ranks, and for how many seconds more."""

    waits: bool
    seconds: float = 0.0


def patience(rule: WhenUnranked, since: int, now: int) -> Patience:
    """What a policy wants while pods have had no rank since some moment."""
    if rule.action == "Fallback":
        return Patience(waits=False)
    left = rule.timeout_seconds - (now - since) / SECOND
    return Patience(waits=left > 0, seconds=max(left, 0.0))
