"""AntiAffinity: the pod whose removal does most for anti-affinity goes first.

Pods can come to share a domain although one of them would rather not, or must not: a preferred term gives way when a
pod is placed, and labels of pods and nodes change later. What is wrong is counted in pairs:

    wrong = Σ weight  over all (holder, term, other) where the holder's anti-affinity term matches the other pod
                      and both are in one domain of the term's topology key

A required term weighs 1, a preferred one its weight in percent (1 to 100). The holder and the other may belong to
different workloads. **The rank of a pod is by how much `wrong` falls when it goes**: the pairs in which it is the
holder, and those in which it is the other. Two pods that both refuse each other are two pairs.

Ranks must be recomputed after each removal, and only one pod may go at a time: of two pods that are in each other's
way both rank high, and once one of them has gone the other is in no pod's way.

Pods that are on their way out no longer count, on either side: what is wrong with them is being put right already. A
pod without a node, or whose node lacks the topology key, is near no pod. Counting uses the tallies that the snapshot
keeps for terms and selectors: a few scans over nodes for each term, and no walk over all pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.api.meta import Labels
from trimtab.ranking.strategies.settings import NoSettings, read_settings
from trimtab.ranking.strategies.view import Ranks, View
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask, SmallColumn
from trimtab.snapshot.counts import TallyKey
from trimtab.snapshot.pods import NOWHERE
from trimtab.snapshot.shapes import HeldTerm, Shape, Term

REQUIRED = 100
"""What a pair weighs by a required term, in hundredths: as much as by the strongest preferred one."""


@dataclass(frozen=True, slots=True)
class AntiAffinity:
    """Ranks pods by how many pairs that should not be together are so because of them."""

    name: ClassVar[str] = "AntiAffinity"
    recompute: ClassVar[bool] = True
    one_at_a_time: ClassVar[bool] = True

    @classmethod
    def configured(cls, args: Mapping[str, Any]) -> AntiAffinity:
        """As a policy wants it."""
        read_settings(NoSettings, args, cls.name)
        return cls()

    def rank(self, rows: IntColumn, view: View) -> Ranks:
        """By how much the weight of wrong pairs falls when each pod goes."""
        census = _TermCounts(view.snapshot)
        hundredths = np.zeros(len(rows), dtype=np.int64)
        for family in _families(rows, view):
            nodes = view.snapshot.pods.node[rows[family.positions]]
            hundredths[family.positions] = census.pairs(family, nodes)
        return hundredths / 100


@dataclass(frozen=True, slots=True, eq=False)
class _Family:
    """Pods that differ in their node only: their positions among those asked for, and what they share."""

    positions: IntColumn
    namespace: str
    labels: Labels
    shape: Shape


class _TermCounts:
    """Which pods hold anti-affinity terms against which others, and where, at one moment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._leaving = _terms_leaving(snapshot)

    def pairs(self, family: _Family, nodes: SmallColumn) -> IntColumn:
        """The weight of the wrong pairs that each pod of a family, on these nodes, is part of: in hundredths."""
        own = Counter(held for held in family.shape.terms if held.anti)
        against = self._against(family)
        total = np.zeros(len(nodes), dtype=np.int64)
        for held, times in own.items():
            others = self._snapshot.tallies.per_node(_matched_pods(held.term, self._snapshot))
            near = self._near(held, others, nodes, itself=int(held in against))
            total += _weight(held) * times * near
        for held in against:
            total += _weight(held) * self._near(held, self._holders(held), nodes, itself=own[held])
        return total

    def _against(self, family: _Family) -> set[HeldTerm]:
        """The anti-affinity terms of any pod that match pods of a family."""
        known = self._snapshot.namespaces.get(family.namespace)
        of_namespace = {} if known is None else known.metadata.labels
        reaching = self._snapshot.terms.reaching(family.namespace, of_namespace, family.labels)
        return {held for held in reaching if held.anti}

    def _holders(self, held: HeldTerm) -> IntColumn:
        """How many pods that stay hold a term, on each node."""
        per_node = self._snapshot.terms.per_node(held).copy()
        np.subtract.at(per_node, self._leaving.get(held, []), 1)
        return per_node

    def _near(self, held: HeldTerm, per_node: IntColumn, nodes: SmallColumn, *, itself: int) -> IntColumn:
        """How many of those counted per node share a domain with a pod on each of these nodes, itself left out."""
        codes = self._snapshot.nodes.codes(held.term.topology_key)
        labelled = codes >= 0
        totals = np.bincount(codes[labelled], weights=per_node[labelled], minlength=1).astype(np.int64)
        here = codes[nodes]
        return np.where(here >= 0, totals[here] - itself, 0)


def _weight(held: HeldTerm) -> int:
    return REQUIRED if held.required else held.weight


def _matched_pods(term: Term, snapshot: Snapshot) -> TallyKey:
    """The pods that a term matches."""
    among = term.namespace_selector
    if among is None:
        return TallyKey(term.namespaces, term.selector, terminating=False)
    if among.empty:
        return TallyKey(None, term.selector, terminating=False)
    unseen: dict[str, Labels] = {row[0]: {} for row in snapshot.pods.labels.rows if row is not None}
    labels = unseen | {name: found.metadata.labels for name, found in snapshot.namespaces.items()}
    wider = {name for name, of_namespace in labels.items() if among.matches(of_namespace)}
    return TallyKey(term.namespaces | wider, term.selector, terminating=False)


def _counted(snapshot: Snapshot) -> Mask:
    """Which pods are somewhere, and have not finished."""
    pods = snapshot.pods
    counted: Mask = (pods.node != NOWHERE) & (pods.column("phase") <= 2)
    return counted


def _families(rows: IntColumn, view: View) -> Iterator[_Family]:
    """The pods that stay, those that have labels and terms in common together."""
    table = view.snapshot.pods
    staying = np.flatnonzero((_counted(view.snapshot) & ~table.terminating)[rows])
    pods = view.pods(rows[staying])
    found: dict[tuple[int, int], list[int]] = {}
    for at, (pod, labels) in enumerate(zip(pods, table.label_set[rows[staying]].tolist(), strict=True)):
        # Pods of a template share one affinity, so its identity tells templates apart.
        found.setdefault((labels, id(pod.spec.affinity)), []).append(at)
    for members in found.values():
        pod = pods[members[0]]
        yield _Family(staying[members], pod.metadata.namespace, pod.metadata.labels, view.snapshot.shape(pod))


def _terms_leaving(snapshot: Snapshot) -> dict[HeldTerm, list[int]]:
    """The nodes where a pod on its way out still holds a term: the snapshot counts those among the holders."""
    leaving: dict[HeldTerm, list[int]] = {}
    for row in np.flatnonzero(snapshot.pods.terminating & _counted(snapshot)).tolist():
        pod = snapshot.pods.objects[row]
        if pod is not None and pod.spec.affinity is not None:
            for held in snapshot.shape(pod).terms:
                leaving.setdefault(held, []).append(int(snapshot.pods.node[row]))
    return leaving
