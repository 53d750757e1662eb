"""Which pods of a CloneSet go, in the order of `trimtab.ranking.victims`. Pure.

Pods of older revisions go before those of the newest. Within each, the CloneSet's criteria decide; how crowded a node
or a domain is, is counted among the pods that are being chosen from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.api import codec
from trimtab.api.documents import Document
from trimtab.api.pods import PodTemplateSpec, TopologySpreadConstraint
from trimtab.cloneset.observation import Group
from trimtab.ranking.rankers import Constraint, Scale, constraints_of, ranker_for
from trimtab.ranking.victims import Contenders, order_contenders
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask


def constraints(template: Document, defaults: Sequence[TopologySpreadConstraint]) -> tuple[Constraint, ...]:
    """What the template states, or else the cluster's default constraints."""
    return constraints_of(codec.view(template, PodTemplateSpec).spec.topology_spread_constraints, defaults)


def in_order(
    snapshot: Snapshot,
    group: Group,
    among: Mask,
    rules: tuple[Constraint, ...],
    *,
    scale: Scale = "balanced",
    costs: IntColumn | None = None,
) -> list[int]:
    """The places of the pods that a mask picks, in the order in which they go. `costs` replace those of the pods."""
    places = group.picked(among)
    if len(places) < 2:
        return [int(place) for place in places]
    contenders = Contenders(snapshot.pods, group.rows[places], None if costs is None else costs[places])
    ranks = ranker_for(rules, scale).ranks(contenders, snapshot.nodes)
    order = order_contenders(contenders, ranks, group.available[places]).order
    return [int(place) for place in places[order]]


def old_first(
    snapshot: Snapshot,
    group: Group,
    rules: tuple[Constraint, ...],
    *,
    scale: Scale = "balanced",
    costs: IntColumn | None = None,
) -> list[int]:
    """All pods that nobody has marked: those of older revisions, then those of the newest, each in their order."""
    old, new = ~group.updated & ~group.marked, group.updated & ~group.marked
    return [
        *in_order(snapshot, group, old, rules, scale=scale, costs=costs),
        *in_order(snapshot, group, new, rules, scale=scale, costs=costs),
    ]


def sparing(group: Group, places: Sequence[int], spare: int, new: int | None = None) -> list[int]:
    """Those of these that may go: any that is not available, and so many of the others as can be spared; of the
    newest revision no more than `new`, where that is given."""
    chosen = []
    for place in places:
        available, updated = bool(group.available[place]), bool(group.updated[place])
        if (available and spare <= 0) or (updated and new is not None and new <= 0):
            continue
        spare -= available
        new = new - updated if new is not None else None
        chosen.append(place)
    return chosen


def as_costs(ranks: Sequence[float]) -> IntColumn:
    """Ranks, of which the higher goes first, as costs, of which the lower does; equal ranks stay equal."""
    steps = np.unique(np.asarray(ranks, dtype=np.float64), return_inverse=True)[1]
    return -steps.reshape(-1).astype(np.int64)
