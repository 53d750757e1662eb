"""The filter and the score of InterPodAffinity; the rules are those of the package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.api.pods import Pod
from trimtab.api.schedulerconfig import InterPodAffinityArgs
from trimtab.placement.framework import MAX_SCORE, UNRESOLVABLE, UNSCHEDULABLE, Cycle, Refusals, Scores
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.counts import TallyKey
from trimtab.snapshot.nodes import ABSENT, LabelColumn, NodeTable
from trimtab.snapshot.shapes import HeldTerm, Shape, Term

NOT_NEAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
NEAR_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
UNREADABLE = "parsing pod: "

MOST_WEIGHT = 100

PerNode = tuple[str, IntColumn]
"""A topology key, and a number of pods on each node."""


class InterPodAffinity:
    """Refuses nodes by required affinity and anti-affinity between pods, and prefers nodes by the preferred terms."""

    name = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        self._args = args or InterPodAffinityArgs()
        weight = self._args.hard_pod_affinity_weight
        if not 0 <= weight <= MOST_WEIGHT:
            raise InvalidError("hardPodAffinityWeight", f"{weight} is not a weight from 0 to {MOST_WEIGHT}")

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes that required terms exclude, each for the first of the rules that it breaks."""
        nodes, terms, shape = cycle.snapshot.nodes, cycle.snapshot.terms, _shape(cycle)
        if shape.problem:
            return Refusals.of(np.ones(len(nodes), dtype=np.bool_), UNRESOLVABLE, f"{UNREADABLE}{shape.problem}")
        affinity = [held.term for held in shape.terms if held.required and not held.anti]
        anti_affinity = [held.term for held in shape.terms if held.required and held.anti]
        existing = [held for held in _reaching(cycle) if held.required and held.anti]
        refused_by_existing = _near_any(nodes, ((held.term.topology_key, terms.per_node(held)) for held in existing))
        if not affinity and not anti_affinity and refused_by_existing is None:
            return None
        avoided = _near_any(nodes, ((term.topology_key, _counted(cycle.snapshot, [term])) for term in anti_affinity))
        unmet = _without_affinity(cycle, affinity) if affinity else None
        return _first_broken(len(nodes), unmet, avoided, refused_by_existing)

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """The weights of all preferred terms that a node meets. Raises InvalidError if those of the pod are invalid."""
        shape = _shape(cycle)
        if shape.problem:
            raise InvalidError("", shape.problem)
        preferred = [held for held in shape.terms if not held.required]
        if self._args.ignore_preferred_terms_of_existing_pods and not preferred:
            return None
        raw = _weighted_sum(cycle.snapshot.nodes, [*_own_weights(cycle, preferred), *self._weights_of_existing(cycle)])
        return None if raw is None else Scores(raw, _normalized(raw, feasible))

    def _weights_of_existing(self, cycle: Cycle) -> Iterator[tuple[int, PerNode]]:
        """The weights of the terms of existing pods that apply to the pod."""
        for held in _reaching(cycle):
            weight = _signed(held)
            if held.required:
                weight = 0 if held.anti else self._args.hard_pod_affinity_weight
                if not weight:
                    continue
            yield weight, (held.term.topology_key, cycle.snapshot.terms.per_node(held))


def _own_weights(cycle: Cycle, preferred: Iterable[HeldTerm]) -> Iterator[tuple[int, PerNode]]:
    for held in preferred:
        yield _signed(held), (held.term.topology_key, _counted(cycle.snapshot, [held.term]))


def _signed(held: HeldTerm) -> int:
    return -held.weight if held.anti else held.weight


def _shape(cycle: Cycle) -> Shape:
    return cycle.once("shape", lambda: cycle.snapshot.shape(cycle.pod))


def _reaching(cycle: Cycle) -> list[HeldTerm]:
    """The terms of existing pods that apply to the pod."""
    return cycle.once("terms reaching the pod", lambda: _look_up(cycle.snapshot, cycle.pod))


def _look_up(snapshot: Snapshot, pod: Pod) -> list[HeldTerm]:
    namespace = snapshot.namespaces.get(pod.metadata.namespace)
    labels = {} if namespace is None else namespace.metadata.labels
    return snapshot.terms.reaching(pod.metadata.namespace, labels, pod.metadata.labels)


# --- the pods that an incoming pod's terms match ---------------------------------------------------------------------


def _namespaces(snapshot: Snapshot, term: Term) -> frozenset[str] | None:
    """The namespaces that an incoming pod's term applies to; None for all."""
    selector = term.namespace_selector
    if selector is None:
        return term.namespaces
    if selector.matches({}):
        return None
    return term.namespaces.union(
        n for n, namespace in snapshot.namespaces.items() if selector.matches(namespace.metadata.labels)
    )


def _counted(snapshot: Snapshot, terms: Sequence[Term]) -> IntColumn:
    """The number of pods on each node that meet all these terms."""
    reached = [_namespaces(snapshot, term) for term in terms]
    limited = [names for names in reached if names is not None]
    namespaces = frozenset.intersection(*limited) if limited else None
    selector = terms[0].selector.and_(*(term.selector for term in terms[1:]))
    if selector.nothing or namespaces == frozenset():
        return np.zeros(len(snapshot.nodes), dtype=np.int64)
    return snapshot.tallies.per_node(TallyKey(namespaces, selector, terminating=True))


def _meets(snapshot: Snapshot, pod: Pod, terms: Iterable[Term]) -> bool:
    """Whether a pod meets all of its own terms."""
    for term in terms:
        names = _namespaces(snapshot, term)
        if names is not None and pod.metadata.namespace not in names:
            return False
        if not term.selector.matches(pod.metadata.labels):
            return False
    return True


# --- domains ---------------------------------------------------------------------------------------------------------


def _totals(label: LabelColumn, counts: IntColumn) -> IntColumn | None:
    """The sum of each domain, by the code of its label, and 0 in the last slot, which `ABSENT` indexes.

    None if no domain has any. Codes are those of this column: one that is requested again may have been computed anew.
    """
    rows = np.flatnonzero(counts != 0)
    rows = rows[label.codes[rows] != ABSENT]
    if not rows.size:
        return None
    return np.bincount(label.codes[rows], weights=counts[rows], minlength=len(label.values) + 1).astype(np.int64)


def _near_any(nodes: NodeTable, counted: Iterable[PerNode]) -> Mask | None:
    """The nodes near to any of the pods counted; None where none is."""
    near: Mask | None = None
    for key, counts in counted:
        label = nodes.label(key)
        totals = _totals(label, counts)
        if totals is not None:
            here = (totals > 0).take(label.codes[: len(nodes)], mode="wrap")
            near = here if near is None else near | here
    return near


def _without_affinity(cycle: Cycle, terms: Sequence[Term]) -> Mask:
    """The nodes where required affinity does not hold (rule 1)."""
    nodes = cycle.snapshot.nodes
    counted = _counted(cycle.snapshot, terms)
    keyless, alone = np.zeros(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
    is_first = True
    for key in {term.topology_key for term in terms}:
        codes = nodes.codes(key)
        keyless |= codes == ABSENT
        near = _near_any(nodes, [(key, counted)])
        if near is None:
            alone[:] = True
        else:
            is_first = False
            alone |= ~near
    return keyless if is_first and _meets(cycle.snapshot, cycle.pod, terms) else keyless | alone


def _first_broken(length: int, unmet: Mask | None, avoided: Mask | None, refused_by_existing: Mask | None) -> Refusals:
    """Refusals where a node that breaks several rules is refused for the first of them only."""
    codes = np.zeros(length, dtype=np.int8)
    reasons = []
    rules = (
        (unmet, UNRESOLVABLE, NOT_NEAR),
        (avoided, UNSCHEDULABLE, NEAR),
        (refused_by_existing, UNSCHEDULABLE, NEAR_OTHERS),
    )
    for broken, code, reason in rules:
        if broken is not None:
            first = broken & (codes == 0)
            codes[first] = code
            reasons.append((first, reason))
    return Refusals(codes, tuple(reasons))


def _weighted_sum(nodes: NodeTable, weighted: Iterable[tuple[int, PerNode]]) -> IntColumn | None:
    """The sum of all weights in each node's domains; None if no pod was counted in any domain."""
    by_key: dict[str, tuple[LabelColumn, IntColumn]] = {}
    for weight, (key, counts) in weighted:
        known = by_key.get(key)
        label = nodes.label(key) if known is None else known[0]
        totals = _totals(label, counts)
        if totals is not None:
            by_key[key] = (label, totals * weight if known is None else totals * weight + known[1])
    if not by_key:
        return None
    raw = np.zeros(len(nodes), dtype=np.int64)
    for label, totals in by_key.values():
        raw += totals.take(label.codes[: len(nodes)], mode="wrap")
    return raw


def _normalized(raw: IntColumn, feasible: Mask) -> IntColumn:
    """Scores from 0 for the lowest of the feasible nodes to 100 for the highest; all 0 where they are the same."""
    chosen = raw[feasible]
    low, high = (int(chosen.min()), int(chosen.max())) if chosen.size else (0, 0)
    if low == high:
        return np.zeros_like(raw)
    return (MAX_SCORE * ((raw - low) / (high - low))).astype(np.int64)
