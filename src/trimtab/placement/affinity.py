"""Node affinity: which nodes a pod must run on, and which it would like, by their labels and names.

To what the pod says, a profile may add an affinity of its own: a node must suit both, and the wishes of both count.
The rules for reading terms stand in `trimtab.api.nodeselectors`; a requirement that cannot be read suits no node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from trimtab.api import nodeselectors
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.nodeselectors import PreferredTerms, RequiredNodeAffinity, Term
from trimtab.api.pods import Affinity, NodeSelectorTerm, Pod
from trimtab.api.pods import NodeAffinity as Written
from trimtab.api.schedulerconfig import AddedAffinity, NodeAffinityArgs
from trimtab.placement.framework import UNRESOLVABLE, Cycle, Refusals, Scores
from trimtab.placement.normalization import in_proportion, largest
from trimtab.snapshot.columns import Mask
from trimtab.snapshot.nodes import NodeTable

NOT_CHOSEN = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

_ADDED_REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_ADDED_PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity:
    """A pod may go where its node selector and affinities hold, and prefers where more of its wishes do."""

    name = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        """Raises InvalidError, with the path in the arguments, if the added affinity cannot be read."""
        added = (args and args.added_affinity) or AddedAffinity()
        self._required = _added_required(added)
        self._preferred = _added_preferred(added)

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes that the profile's affinity or the pod's own rules out."""
        if self._required is None and not _restricted(cycle.pod):
            return None
        unsuited = _unsuited(cycle)
        if unsuited is None:
            return Refusals.of(np.ones(len(cycle.snapshot.nodes), dtype=np.bool_), UNRESOLVABLE, CONFLICT)
        if self._required is None:
            return Refusals.of(unsuited, UNRESOLVABLE, NOT_CHOSEN)
        unenforced = ~_suited(cycle.snapshot.nodes, self._required)
        codes = (unsuited | unenforced).astype(np.int8) * np.int8(UNRESOLVABLE)
        return Refusals(codes, ((unenforced, NOT_ENFORCED), (unsuited & ~unenforced, NOT_CHOSEN)))

    def score(self, cycle: Cycle, feasible: Mask) -> Scores | None:
        """The weights of the wishes that hold. Raises InvalidError if the pod's cannot be read."""
        if self._preferred is None and not _written(cycle.pod).preferred_during_scheduling_ignored_during_execution:
            return None
        nodes = cycle.snapshot.nodes
        added = () if self._preferred is None else self._preferred.terms
        raw = np.zeros(len(nodes), dtype=np.int64)
        for weight, wish in (*added, *nodeselectors.preferred(cycle.pod.spec).terms):
            raw += weight * nodes.verdicts(("holds", wish), partial(_holds, wish))
        return Scores(raw, in_proportion(raw, largest(raw, feasible)))


def named_nodes(terms: Iterable[NodeSelectorTerm]) -> set[str] | None:
    """The only nodes that these terms can hold on, where every one of them names some; None where one names none."""
    names: set[str] = set()
    for term in terms:
        fields = [set(f.values) for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return names


def suited_nodes(cycle: Cycle) -> Mask | None:
    """The nodes that the pod's own rules allow; None where it has no such rules."""
    if not _restricted(cycle.pod):
        return None
    unsuited = _unsuited(cycle)
    return np.zeros(len(cycle.snapshot.nodes), dtype=np.bool_) if unsuited is None else ~unsuited


def _unsuited(cycle: Cycle) -> Mask | None:
    """The nodes that the pod's own rules exclude, worked out once; None where these rules contradict each other."""
    return cycle.once("affinity.unsuited", lambda: _excluded(cycle))


def _excluded(cycle: Cycle) -> Mask | None:
    nodes = cycle.snapshot.nodes
    chosen = nodeselectors.required(cycle.pod.spec)
    written = _written(cycle.pod).required_during_scheduling_ignored_during_execution
    terms = written.node_selector_terms if written else ()
    names = named_nodes(terms) if terms else None
    if names is None:
        return ~_suited(nodes, chosen)
    return ~_suited_among(nodes, chosen, names) if names else None


def _suited(nodes: NodeTable, chosen: RequiredNodeAffinity) -> Mask:
    return nodes.verdicts(("suits", chosen), partial(_suits, chosen))


def _suited_among(nodes: NodeTable, chosen: RequiredNodeAffinity, names: Iterable[str]) -> Mask:
    """As `_suited`, where only nodes of these names can suit: a pod for each node must not ask about all nodes."""
    suited = np.zeros(len(nodes), dtype=np.bool_)
    for name in names:
        row = nodes.rows.index.get(name)
        node = None if row is None else nodes.objects[row]
        if row is not None and node is not None:
            suited[row] = _suits(chosen, node)
    return suited


def _suits(chosen: RequiredNodeAffinity, node: Node) -> bool:
    try:
        return chosen.matches(node)
    except InvalidError:
        return False


def _holds(wish: Term, node: Node) -> bool:
    return wish.matches(node.metadata.labels, node.metadata.name)


def _written(pod: Pod) -> Written:
    return (pod.spec.affinity or Affinity()).node_affinity or Written()


def _restricted(pod: Pod) -> bool:
    required = _written(pod).required_during_scheduling_ignored_during_execution
    return bool(pod.spec.node_selector) or required is not None


def _added_required(added: AddedAffinity) -> RequiredNodeAffinity | None:
    written = added.required_during_scheduling_ignored_during_execution
    if written is None:
        return None
    chosen = nodeselectors.compile(written, path=_ADDED_REQUIRED)
    if chosen.problem is not None:
        raise InvalidError(*chosen.problem)
    return chosen


def _added_preferred(added: AddedAffinity) -> PreferredTerms | None:
    written = added.preferred_during_scheduling_ignored_during_execution
    if not written:
        return None
    try:
        return nodeselectors.compile_preferred(written)
    except InvalidError as error:
        raise error.under(_ADDED_PREFERRED) from None
