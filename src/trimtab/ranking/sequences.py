"""The order in which a plan removes pods, and what decided for each of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from trimtab.ranking.combination import Combined, Part
from trimtab.ranking.contenders import Criterion
from trimtab.ranking.keys import descending, packed
from trimtab.ranking.levels import Removal, removal
from trimtab.ranking.satisfaction import satisfy
from trimtab.ranking.spreads import Spread, resolve
from trimtab.ranking.victims import Order, order_replicas
from trimtab.ranking.workloads import Policy, Workload, pod_keys
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn

LAST_BEFORE_PLAN: Mapping[str, int] = {"Obey": 4, "TieBreak": 3}
"""The last criterion of Kubernetes that comes before the plan: the cost of other writers, or readiness."""
_NAMED = 3
"""How many pods an explanation names before it counts the rest."""
_BY_STANDING = -1
_BY_STRATEGIES = -2
_BY_STOCK_ORDER = -3
_BY_TIER = -4


class Victim(msgspec.Struct, frozen=True):
    """A pod that goes, what decided that, and what each strategy contributed."""

    key: str
    criterion: Criterion | None
    """The criterion of Kubernetes' that decided, if one did."""
    topology_key: str | None
    """The topology key that decided, if one did."""
    because: str
    parts: tuple[Part, ...] = ()
    by_subset: bool = False
    """Whether its subset decided."""


@dataclass(frozen=True, slots=True, eq=False)
class RemovalSequence:
    """Pods in the order in which they go; the first `count` are the victims.

    `reasons` are for the victims: the index of a constraint, or one of the codes above.
    """

    rows: IntColumn
    count: int
    reasons: IntColumn
    spreads: tuple[Spread, ...]
    hierarchical: bool
    parts: Mapping[int, tuple[Part, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def victims(self, snapshot: Snapshot, stock: Order) -> tuple[Victim, ...]:
        """The victims with what decided for each, in words."""
        rows = self.rows[: self.count]
        keys = pod_keys(snapshot, rows)
        if self.count == len(self.rows):
            return tuple(Victim(key, None, None, "all pods go") for key in keys)
        criteria = stock.deciding_all(rows, int(self.rows[self.count]))
        decided = zip(keys, rows.tolist(), self.reasons.tolist(), criteria, strict=True)
        return tuple(self._victim(key, row, reason, criterion) for key, row, reason, criterion in decided)

    def _victim(self, key: str, row: int, reason: int, criterion: Criterion) -> Victim:
        parts = self.parts.get(row, ())
        if reason >= 0:
            topology_key = self.spreads[reason].constraint.topology_key
            return Victim(key, None, topology_key, _from_fullest(topology_key), parts)
        if reason == _BY_TIER:
            return Victim(key, None, None, "its subset is emptied before others", parts, by_subset=True)
        if reason == _BY_STRATEGIES:
            return Victim(key, None, None, "it ranks higher by the policy's strategies", parts)
        return Victim(key, criterion, None, criterion.sentence, parts)


@functools.lru_cache(maxsize=64)
def _from_fullest(topology_key: str) -> str:
    return f"its domain of {topology_key} is the fullest"


def removal_sequence(
    workload: Workload,
    snapshot: Snapshot,
    policy: Policy | None,
    stock: Order,
    preference: IntColumn,
    count: int,
    now: int | None,
    standing: IntColumn | None = None,
) -> RemovalSequence:
    """The sequence of a workload's pods; between equals, those with the lower preference go first.

    `standing` replaces the criteria of Kubernetes that come before the plan; not for ranks that hold for one step.
    """
    if policy is None or not policy.combination.strategies:
        return _ranked_sequence(workload, snapshot, stock, preference, count, None, standing=standing)
    combined = policy.rank(snapshot, workload.rows, now)
    if combined.unranked.any():
        sequence = _ranked_sequence(workload, snapshot, stock, preference, count, None, standing=standing)
        return replace(sequence, notes=(_unranked(combined),))
    if combined.recompute and count > 1:
        return _recomputed_sequence(workload, snapshot, policy, stock, count, now)
    return _ranked_sequence(workload, snapshot, stock, preference, count, combined, standing=standing)


def stock_order(workload: Workload, snapshot: Snapshot, now: int | None) -> Order:
    """The order in which the controller would delete the pods at this moment, without Trimtab's costs."""
    contenders = workload.contenders(snapshot)
    if workload.kind == "ReplicaSet":
        return order_replicas(contenders, workload.related, now, workload.options)
    return workload.cloneset_order(contenders, snapshot, now)


def places_in(stock: Order) -> IntColumn:
    """The place of each contender in an order."""
    places = np.empty(len(stock), dtype=np.int64)
    places[stock.order] = np.arange(len(stock))
    return places


def _ranked_sequence(
    workload: Workload,
    snapshot: Snapshot,
    stock: Order,
    preference: IntColumn,
    count: int,
    combined: Combined | None,
    spreads: tuple[Spread, ...] | None = None,
    standing: IntColumn | None = None,
) -> RemovalSequence:
    """All pods in sequence, by ranks that hold for all victims; `spreads` are those of its constraints, if known."""
    rows = workload.rows
    if standing is None:
        standing = _standing(stock, LAST_BEFORE_PLAN[workload.foreign_costs])
    subsets = workload.tier_column(snapshot)
    ranks = np.zeros(len(rows), dtype=np.int64) if combined is None else descending(combined.total)
    tiers = packed((standing, subsets, ranks)).keys
    if spreads is None:
        spreads = resolve(workload.constraints, snapshot, rows)
    order = removal(tiers, [each.domains for each in spreads], preference, count, [each.others for each in spreads])
    order = replace(order, order=satisfy(order.order, count, tiers, spreads))
    reasons = _reasons(order, standing, subsets, ranks, count)
    parts = {}
    if combined is not None:
        parts = {int(rows[at]): tuple(o.part(at) for o in combined.opinions) for at in order.order[:count].tolist()}
    return RemovalSequence(rows[order.order], count, reasons, spreads, order.hierarchical, parts)


def _recomputed_sequence(
    workload: Workload, snapshot: Snapshot, policy: Policy, stock: Order, count: int, now: int | None
) -> RemovalSequence:
    """One pod at a time: each is ranked with the ones before it gone."""
    rows: list[int] = []
    reasons: list[int] = []
    parts: dict[int, tuple[Part, ...]] = {}
    spreads = resolve(workload.constraints, snapshot, workload.rows)
    left, counted = workload, spreads
    with ExitStack() as assumed:
        for _ in range(count):
            combined = policy.rank(snapshot, left.rows, now)
            order = stock_order(left, snapshot, now)
            step = _ranked_sequence(left, snapshot, order, places_in(order), 1, combined, counted)
            chosen = int(step.rows[0])
            rows.append(chosen)
            reasons.append(int(step.reasons[0]))
            parts |= step.parts
            counted = tuple(each.without(left.rows == chosen) for each in counted)
            left = left.without(chosen)
            assumed.enter_context(snapshot.with_assumed(gone=pod_keys(snapshot, np.array([chosen]))))
    rest = stock.rows[~np.isin(stock.rows, rows)]
    sequence = np.concatenate([np.array(rows, dtype=np.int64), rest])
    return RemovalSequence(sequence, count, np.array(reasons, dtype=np.int64), spreads, False, parts)


def _reasons(found: Removal, standing: IntColumn, subsets: IntColumn, ranks: IntColumn, count: int) -> IntColumn:
    """What distinguishes each victim from the first pod that stays: the first part of the key in which they differ."""
    if count == len(found.order):
        return np.full(count, _BY_STOCK_ORDER, dtype=np.int64)
    victims, next_one = found.order[:count], found.order[count]
    reasons = np.full(count, _BY_STOCK_ORDER, dtype=np.int64)
    for key in reversed(range(len(found.heights))):
        reasons[found.heights[key][victims] != found.heights[key][next_one]] = key
    reasons[ranks[victims] != ranks[next_one]] = _BY_STRATEGIES
    reasons[subsets[victims] != subsets[next_one]] = _BY_TIER
    reasons[standing[victims] != standing[next_one]] = _BY_STANDING
    return reasons


def _standing(stock: Order, last: int) -> IntColumn:
    """The criteria that come before the plan, as one key."""
    keys = [level.keys(slice(None)) for level in stock.levels if level.criterion.number <= last]
    return packed(keys).keys


def _unranked(combined: Combined) -> str:
    missing = combined.unranked_by()
    names = [f"{key} (by {', '.join(strategies)})" for key, strategies in list(missing.items())[:_NAMED]]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"ranks are ignored: {', '.join(names)}{more} had none"
