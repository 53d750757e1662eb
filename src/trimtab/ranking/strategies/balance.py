"""Balance: keep the domains of a topology key level.

In each domain the pod that was created first has rank 1, the second 2, and so on. The fullest domain holds the highest
ranks, so it is the one that shrinks first, and within a domain the youngest goes first.

**Why ranks stay right without being recomputed.** The pod that goes has the highest rank of its domain, and a new
pod is the youngest of its domain: neither changes the rank of another pod. Only a pod that goes out of turn (evicted,
its node lost) changes others: those of the same domain that were created after it move down by one. Their order
does not change; until they are ranked anew, that domain counts as one fuller than it is.

Pods of the same second are ordered by UID, which like the creation time never changes. Pods that are in no domain (not
assigned yet, or on a node without the label) are ranked among themselves, as if they were one more domain: a
scale-down need not wait for them, and they are not all kept either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from trimtab.api.model import Model
from trimtab.api.nodes import ZONE
from trimtab.ranking.strategies.settings import check_key, read_settings
from trimtab.ranking.strategies.view import UNRANKED, FloatColumn, Ranks, View
from trimtab.snapshot.columns import IntColumn


class BalanceSettings(Model):
    """Which domains."""

    topology_key: Annotated[str, Meta(description="the node label whose values are the domains")] = ZONE


@dataclass(frozen=True, slots=True)
class Balance:
    """Ranks pods by how many older ones share their domain."""

    name: ClassVar[str] = "Balance"
    recompute: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False

    settings: BalanceSettings = field(default_factory=BalanceSettings)

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> Balance:
        """As a policy wants it."""
        settings = read_settings(BalanceSettings, args, cls.name)
        check_key("topologyKey", settings.topology_key, ZONE)
        return cls(settings)

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """The place of each pod among those of its domain, in the order of creation, from 1."""
        domains = view.domains(view.rows, self.settings.topology_key)
        ranks: FloatColumn = np.full(len(view.snapshot.pods), UNRANKED)
        ranks[view.rows] = places(view, domains.astype(np.int64))
        return ranks[rows]


def places(view: View, domains: IntColumn) -> IntColumn:
    """The place of each pod of the group in its domain, in the order of creation, from 1."""
    order = by_creation(view, domains)
    sorted_domains = domains[order]
    firsts = np.flatnonzero(np.append(True, sorted_domains[1:] != sorted_domains[:-1]))[: len(order)]
    sizes = np.diff(np.append(firsts, len(order)))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(firsts, sizes) + 1
    return ranks


def by_creation(view: View, domains: IntColumn) -> IntColumn:
    """Positions in the group, a domain after the other, in each the oldest first."""
    pods, rows = view.snapshot.pods, view.rows
    tail, head = pods.column("uid_tail")[rows], pods.column("uid_head")[rows]
    return np.lexsort((tail, head, view.created(rows), domains))
