"""Which pods of a CloneSet are deleted first, in the order of `trimtab.ranking.victims`. Pure.

Pods of older revisions go before those of the newest. Within each, the CloneSet's criteria decide; the number of pods
on a node or in a domain is counted among the candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.api import codec
from trimtab.api.documents import Document
from trimtab.api.pods import Pod, PodTemplateSpec
from trimtab.cloneset.observation import Group
from trimtab.ranking.ages import age_ratios_by_row
from trimtab.ranking.contenders import Contenders
from trimtab.ranking.defaulted import admitted_constraints
from trimtab.ranking.rankers import Constraint, DefaultsFor, Scale, constraints_of, ranker_for
from trimtab.ranking.victims import Order, order_contenders
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask


def constraints(template: Document, defaults: DefaultsFor, pods: Iterable[Pod] = ()) -> tuple[Constraint, ...]:
    """The constraints of the template, or else those that admission added to the pods, or else the defaults.

    There are defaults only where pods are ranked by them.
    """
    spec = codec.view(template, PodTemplateSpec).spec
    stated = spec.topology_spread_constraints or admitted_constraints(pods)
    return constraints_of(stated) or defaults(spec.scheduler_name)


@dataclass(frozen=True, slots=True, eq=False)
class RevisionOrder:
    """Pods of a group in victim order, by their positions; and the criteria, where there are several pods."""

    positions: list[int]
    order: Order | None = None


def in_order(
    snapshot: Snapshot,
    group: Group,
    among: Mask,
    rules: tuple[Constraint, ...],
    *,
    scale: Scale = "balanced",
    costs: IntColumn | None = None,
) -> RevisionOrder:
    """The positions that a mask selects, in victim order. `costs` replace those of the pods."""
    positions = group.positions(among)
    if len(positions) < 2:
        return RevisionOrder(positions.tolist())
    contenders = Contenders(snapshot.pods, group.rows[positions], None if costs is None else costs[positions])
    ranks = ranker_for(rules, scale).ranks(contenders, snapshot.nodes)
    order = order_contenders(contenders, ranks, group.available[positions])
    return RevisionOrder(positions[order.order].tolist(), order)


def old_first(
    snapshot: Snapshot,
    group: Group,
    rules: tuple[Constraint, ...],
    *,
    scale: Scale = "balanced",
    costs: IntColumn | None = None,
) -> tuple[RevisionOrder, RevisionOrder]:
    """All pods that are not specified: those of older revisions, then those of the newest, each in victim order."""
    old, new = ~group.updated & ~group.specified, group.updated & ~group.specified
    return (
        in_order(snapshot, group, old, rules, scale=scale, costs=costs),
        in_order(snapshot, group, new, rules, scale=scale, costs=costs),
    )


def age_ratios(group: Group, orders: Iterable[RevisionOrder], chosen: Collection[int], now: int) -> dict[str, float]:
    """The age ratios of the chosen pods that go because of their age, by UID: see `ranking.ages`.

    Pods that go before others of their revision count; where all of a revision go, it was the revision that decided.
    """
    found: dict[str, float] = {}
    for each in orders:
        count = next((at for at, position in enumerate(each.positions) if position not in chosen), None)
        if each.order is not None and count is not None:
            ratios = age_ratios_by_row(each.order, count, now)
            uids = {int(group.rows[at]): group.pods[at].metadata.uid for at in each.positions[:count]}
            found |= {uids[row]: ratio for row, ratio in ratios.items()}
    return found


def deletable(group: Group, positions: Sequence[int], spare: int, new: int | None = None) -> list[int]:
    """Those that may be deleted: any that is not available, and `spare` of the others; of the newest revision no more
    than `new`, if given."""
    chosen = []
    for position in positions:
        available, updated = bool(group.available[position]), bool(group.updated[position])
        if (available and spare <= 0) or (updated and new is not None and new <= 0):
            continue
        spare -= available
        new = new - updated if new is not None else None
        chosen.append(position)
    return chosen


def as_costs(ranks: Sequence[float]) -> IntColumn:
    """Ranks (the higher goes first) as costs (the lower goes first); equal ranks stay equal."""
    steps = np.unique(np.asarray(ranks, dtype=np.float64), return_inverse=True)[1]
    return -steps.reshape(-1).astype(np.int64)
