"""Affinity between pods: whom a pod must or would like to be near to, or away from; and who is there and says the same
of it.

Near means: on nodes with the same value of a topology key. Pods on their way out count, for they are still there.

1. **Required affinity** holds where the node has the key of every term, and each of these domains has a pod that meets
   *all* terms. If no such pod is in any domain at all and the pod meets its own terms, it is the first of its kind, and
   any node that has the keys will do.
2. **Required anti-affinity** refuses the domains with a pod that meets a term; a node without the key is never refused.
3. The required anti-affinity of pods that are there refuses their domains to the pod, if it meets their terms.
4. **The score** adds the weights of preferred terms that are met, both the pod's own and those of pods that are there;
   anti-affinity subtracts. Required affinity of pods that are there counts with a weight from the arguments.

A term speaks of the namespaces that it lists, and of those that its namespace selector matches. Of an incoming pod's
term, kube-scheduler 1.36 also tries the selector on a namespace without labels, for any pod: `{}`, `NotIn` and
`DoesNotExist` thus reach every namespace. That looks like an oversight, but it is how pods are placed; so it is here.
"""

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
from trimtab.snapshot.nodes import ABSENT, NodeTable
from trimtab.snapshot.shapes import HeldTerm, Shape, Term

NOT_NEAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
NEAR_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
UNREADABLE = "parsing pod: "

MOST_WEIGHT = 100

PerNode = tuple[str, IntColumn]
"""Pods counted on each node, and the topology key by which nodes are near to each other."""


class InterPodAffinity:
    """A pod may go where neither it nor those that are there object, and prefers the company that it likes."""

    name = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        """Raises InvalidError with the path of an argument that is wrong."""
        self._args = args or InterPodAffinityArgs()
        weight = self._args.hard_pod_affinity_weight
        if not 0 <= weight <= MOST_WEIGHT:
            raise InvalidError("hardPodAffinityWeight", f"{weight} is not a weight from 0 to {MOST_WEIGHT}")

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes that required terms rule out, each for the first of the rules that it breaks."""
        nodes, terms, shape = cycle.snapshot.nodes, cycle.snapshot.terms, _shape(cycle)
        if shape.problem:
            return Refusals.of(np.ones(len(nodes), dtype=np.bool_), UNRESOLVABLE, f"{UNREADABLE}{shape.problem}")
        near = [held.term for held in shape.terms if held.required and not held.anti]
        away = [held.term for held in shape.terms if held.required and held.anti]
        against = [held for held in _reaching(cycle) if held.required and held.anti]
        unwanted = _near_any(nodes, ((held.term.topology_key, terms.per_node(held)) for held in against))
        if not near and not away and unwanted is None:
            return None
        disliked = _near_any(nodes, ((term.topology_key, _counted(cycle.snapshot, [term])) for term in away))
        return _first_broken(len(nodes), _lonely(cycle, near) if near else None, disliked, unwanted)

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """The weights of all preferences that a node meets. Raises InvalidError if the pod's cannot be read."""
        shape = _shape(cycle)
        if shape.problem:
            raise InvalidError("", shape.problem)
        wishes = [held for held in shape.terms if not held.required]
        if self._args.ignore_preferred_terms_of_existing_pods and not wishes:
            return None
        raw = _worth(cycle.snapshot.nodes, [*_of_the_pod(cycle, wishes), *self._of_the_others(cycle)])
        return None if raw is None else Scores(raw, _stretched(raw, feasible))

    def _of_the_others(self, cycle: Cycle) -> Iterator[tuple[int, PerNode]]:
        """What the pods that are there think of the pod."""
        for held in _reaching(cycle):
            weight = _signed(held)
            if held.required:
                weight = 0 if held.anti else self._args.hard_pod_affinity_weight
                if not weight:
                    continue
            yield weight, (held.term.topology_key, cycle.snapshot.terms.per_node(held))


def _of_the_pod(cycle: Cycle, wishes: Iterable[HeldTerm]) -> Iterator[tuple[int, PerNode]]:
    for held in wishes:
        yield _signed(held), (held.term.topology_key, _counted(cycle.snapshot, [held.term]))


def _signed(held: HeldTerm) -> int:
    return -held.weight if held.anti else held.weight


def _shape(cycle: Cycle) -> Shape:
    return cycle.once("shape", lambda: cycle.snapshot.shape(cycle.pod))


def _reaching(cycle: Cycle) -> list[HeldTerm]:
    """The terms of the pods that are there which speak of the pod."""
    return cycle.once("terms reaching the pod", lambda: _look_up(cycle.snapshot, cycle.pod))


def _look_up(snapshot: Snapshot, pod: Pod) -> list[HeldTerm]:
    namespace = snapshot.namespaces.get(pod.metadata.namespace)
    labels = {} if namespace is None else namespace.metadata.labels
    return snapshot.terms.reaching(pod.metadata.namespace, labels, pod.metadata.labels)


# --- whom an incoming pod's terms speak of ---------------------------------------------------------------------------


def _namespaces(snapshot: Snapshot, term: Term) -> frozenset[str] | None:
    """The namespaces that an incoming pod's term reaches; None for all."""
    wider = term.namespace_selector
    if wider is None:
        return term.namespaces
    if wider.matches({}):
        return None
    return term.namespaces.union(n for n, found in snapshot.namespaces.items() if wider.matches(found.metadata.labels))


def _counted(snapshot: Snapshot, terms: Sequence[Term]) -> IntColumn:
    """How many pods meet all these terms, on each node."""
    reaches = [_namespaces(snapshot, term) for term in terms]
    limited = [names for names in reaches if names is not None]
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


def _totals(nodes: NodeTable, per_node: PerNode) -> IntColumn | None:
    """The sum of each domain, by the code of its label, and 0 in the last place, which `ABSENT` stands for.

    None where no domain has any.
    """
    key, counts = per_node
    label = nodes.label(key)
    rows = np.flatnonzero(counts != 0)
    rows = rows[label.codes[rows] != ABSENT]
    if not rows.size:
        return None
    return np.bincount(label.codes[rows], weights=counts[rows], minlength=len(label.values) + 1).astype(np.int64)


def _near_any(nodes: NodeTable, counted: Iterable[PerNode]) -> Mask | None:
    """The nodes near to any of the pods counted; None where none is."""
    near: Mask | None = None
    for per_node in counted:
        totals = _totals(nodes, per_node)
        if totals is not None:
            here = (totals > 0).take(nodes.codes(per_node[0]), mode="wrap")
            near = here if near is None else near | here
    return near


def _lonely(cycle: Cycle, terms: Sequence[Term]) -> Mask:
    """The nodes where required affinity does not hold (rule 1)."""
    nodes = cycle.snapshot.nodes
    counted = _counted(cycle.snapshot, terms)
    keyless, alone = np.zeros(len(nodes), dtype=np.bool_), np.zeros(len(nodes), dtype=np.bool_)
    nobody = True
    for key in {term.topology_key for term in terms}:
        codes = nodes.codes(key)
        keyless |= codes == ABSENT
        near = _near_any(nodes, [(key, counted)])
        if near is None:
            alone[:] = True
        else:
            nobody = False
            alone |= ~near
    return keyless if nobody and _meets(cycle.snapshot, cycle.pod, terms) else keyless | alone


def _first_broken(length: int, lonely: Mask | None, disliked: Mask | None, unwanted: Mask | None) -> Refusals:
    """Refusals where a node that breaks several rules is refused for the first of them only."""
    codes = np.zeros(length, dtype=np.int8)
    reasons = []
    rules = ((lonely, UNRESOLVABLE, NOT_NEAR), (disliked, UNSCHEDULABLE, NEAR), (unwanted, UNSCHEDULABLE, NEAR_OTHERS))
    for broken, code, reason in rules:
        if broken is not None:
            first = broken & (codes == 0)
            codes[first] = code
            reasons.append((first, reason))
    return Refusals(codes, tuple(reasons))


def _worth(nodes: NodeTable, weighted: Iterable[tuple[int, PerNode]]) -> IntColumn | None:
    """The sum of all weights in each node's domains; None where not one pod was counted in any domain."""
    by_key: dict[str, IntColumn] = {}
    for weight, per_node in weighted:
        totals = _totals(nodes, per_node)
        if totals is not None:
            key = per_node[0]
            by_key[key] = totals * weight + by_key.get(key, 0)
    if not by_key:
        return None
    raw = np.zeros(len(nodes), dtype=np.int64)
    for key, totals in by_key.items():
        raw += totals.take(nodes.codes(key), mode="wrap")
    return raw


def _stretched(raw: IntColumn, feasible: Mask) -> IntColumn:
    """From the least of the feasible nodes, 0, to the most, 100; all 0 where they are the same."""
    chosen = raw[feasible]
    low, high = (int(chosen.min()), int(chosen.max())) if chosen.size else (0, 0)
    if low == high:
        return np.zeros_like(raw)
    return (MAX_SCORE * ((raw - low) / (high - low))).astype(np.int64)
