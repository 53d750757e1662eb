"""Spread constraints as the scheduler reads them, resolved to columns.

1. A constraint counts the pods of the workload's namespace that its selector matches: those of the workload, and those
   of others, which count but are never victims. Without a selector it counts the workload's own pods.
2. Nodes count that any of the workload's pods may run on, by its node selector and affinity (`nodeAffinityPolicy`,
   Honor unless stated otherwise) and, where `nodeTaintsPolicy` is Honor, by its tolerations; a node must have the
   topology keys of all hard constraints to count for a hard one. Pods on other nodes are in no domain. (The pods of a
   workload can differ: those of a subset have the node affinity of that subset.)
3. Domains are those of these nodes, empty ones included. With fewer of them than `minDomains`, the minimum counts as 0.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trimtab.api import nodeselectors, tolerations
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.ranking.rankers import Constraint
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import ABSENT
from trimtab.snapshot.pods import NOWHERE

_RESTRICTIONS = [operator.attrgetter(f"spec.{part}") for part in ("node_selector", "affinity", "tolerations")]
"""The parts of a pod that restrict its nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A constraint and the pods that it counts. Domains are numbered in the order of their names."""

    constraint: Constraint
    names: tuple[str, ...]
    domains: IntColumn
    """The domain of each pod of the workload; ABSENT for one that the constraint does not count."""
    others: IntColumn
    """The pods of other workloads in each domain."""

    @property
    def counts(self) -> IntColumn:
        """All pods in each domain."""
        return self.others + self.count(np.ones(len(self.domains), dtype=np.bool_))

    def count(self, chosen: Mask) -> IntColumn:
        """How many of some pods of the workload are in each domain."""
        found = self.domains[chosen]
        counts: IntColumn = np.bincount(found[found != ABSENT], minlength=len(self.names))
        return counts

    def without(self, gone: Mask) -> Spread:
        """The same constraint without some pods of the workload; its domains stay."""
        return replace(self, domains=self.domains[~gone])

    @property
    def has_too_few_domains(self) -> bool:
        """Whether `minDomains` makes the minimum count as 0."""
        return len(self.names) < self.constraint.min_domains

    def skew(self, counts: IntColumn) -> int:
        """The lead of the fullest domain over the emptiest."""
        if not len(counts):
            return 0
        return int(counts.max()) - (0 if self.has_too_few_domains else int(counts.min()))


def resolve(constraints: Sequence[Constraint], snapshot: Snapshot, rows: IntColumn) -> tuple[Spread, ...]:
    """The constraints of a workload with these pods."""
    pods = _distinct(snapshot, rows)
    hard = tuple(each.topology_key for each in constraints if each.hard)
    return tuple(_resolve(each, hard if each.hard else (), snapshot, rows, pods) for each in constraints)


def _distinct(snapshot: Snapshot, rows: IntColumn) -> list[Pod]:
    """One pod for each way in which the workload's pods restrict their nodes; equal parts of pods are shared."""
    pods = [pod for pod in map(snapshot.pods.objects.__getitem__, rows.tolist()) if pod is not None]
    parts = (map(id, map(part, pods)) for part in _RESTRICTIONS)
    return list(dict(zip(zip(*parts, strict=True), pods, strict=True)).values())


def _resolve(
    constraint: Constraint, required: Sequence[str], snapshot: Snapshot, rows: IntColumn, pods: Sequence[Pod]
) -> Spread:
    label = snapshot.nodes.label(constraint.topology_key)
    codes = label.codes[: len(snapshot.nodes)].astype(np.int64)
    codes[~_eligible(constraint, required, snapshot, pods)] = ABSENT
    if constraint.limited_values:
        allowed = [label.index[value] for value in constraint.limited_values if value in label.index]
        codes[~np.isin(codes, allowed)] = ABSENT
    known = np.unique(codes[snapshot.nodes.known & (codes != ABSENT)])
    order = sorted(known.tolist(), key=label.values.__getitem__)
    number = np.full(len(label.values) + 1, ABSENT, dtype=np.int64)  # the last, -1, is that of ABSENT
    number[order] = np.arange(len(order))
    by_node = np.append(number[codes], ABSENT)  # the last, -1, is that of NOWHERE
    own = by_node[snapshot.pods.node[rows]]
    others = np.zeros(len(order), dtype=np.int64)
    if constraint.selector is not None and pods:
        matching = _matching(constraint, snapshot, pods[0])
        own[~np.isin(rows, matching)] = ABSENT
        foreign = by_node[snapshot.pods.node[np.setdiff1d(matching, rows)]]
        others = np.bincount(foreign[foreign != ABSENT], minlength=len(order)).astype(np.int64)
    return Spread(constraint, tuple(label.values[code] for code in order), own, others)


def _matching(constraint: Constraint, snapshot: Snapshot, pod: Pod) -> IntColumn:
    """The active pods on nodes that the constraint's selector matches."""
    assert constraint.selector is not None  # noqa: S101 - the caller looked
    rows = snapshot.pods.matching(pod.metadata.namespace, constraint.selector)
    counted: IntColumn = rows[snapshot.pods.active[rows] & (snapshot.pods.node[rows] != NOWHERE)]
    return counted


def _eligible(constraint: Constraint, required: Sequence[str], snapshot: Snapshot, pods: Sequence[Pod]) -> Mask:
    """The nodes that any of these pods may run on."""
    nodes = snapshot.nodes
    eligible: Mask = nodes.known.copy()
    for key in required:
        eligible &= nodes.codes(key) != ABSENT
    if pods:
        eligible &= np.logical_or.reduce([_usable(constraint, snapshot, pod) for pod in pods])
    return eligible


def _usable(constraint: Constraint, snapshot: Snapshot, pod: Pod) -> Mask:
    """The nodes that a pod may run on, as far as the constraint's policies ask."""
    usable: Mask = np.ones(len(snapshot.nodes), dtype=np.bool_)
    affinity = nodeselectors.required(pod.spec)
    if constraint.honor_affinity and not affinity.unrestricted:
        usable &= snapshot.nodes.evaluate(affinity, functools.partial(_allows, affinity))
    if constraint.honor_taints:
        usable &= snapshot.nodes.evaluate(("taints", pod.spec.tolerations), _tolerated_by(pod))
    return usable


def _allows(required: nodeselectors.RequiredNodeAffinity, node: Any) -> bool:
    """Whether a pod may run there; a selector that cannot be read excludes no node."""
    try:
        return required.matches(node)
    except InvalidError:
        return True


def _tolerated_by(pod: Pod) -> Callable[[Node], bool]:
    def tolerated(node: Node) -> bool:
        return tolerations.untolerated(pod.spec.tolerations, node.spec.taints) is None

    return tolerated
