"""NodeAffinity: which nodes a pod requires, and which it prefers, by their labels and names.

A profile may add an affinity to that of the pod: a node must match both, and the preferences of both count. The rules
for terms are in `trimtab.api.nodeselectors`; an invalid requirement matches no node.
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
from trimtab.api.pods import NodeAffinity as NodeAffinitySpec
from trimtab.api.schedulerconfig import AddedAffinity, NodeAffinityArgs
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import UNRESOLVABLE, Cycle, PluginKind, Refusals, Scores
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.placement.normalization import in_proportion, largest
from trimtab.snapshot.columns import Mask
from trimtab.snapshot.nodes import NodeTable

NOT_CHOSEN = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
CONFLICT = "pod affinity terms conflict"

_ADDED_REQUIRED = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_ADDED_PREFERRED = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity:
    """Refuses nodes that do not match required affinities, and prefers those that match more preferred terms."""

    name = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        """Raises InvalidError, with the path in the arguments, if the added affinity is invalid."""
        added = (args and args.added_affinity) or AddedAffinity()
        self._required = _added_required(added)
        self._preferred = _added_preferred(added)

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The nodes that the profile's affinity or the pod's own excludes."""
        if self._required is None and not _has_requirements(cycle.pod):
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
        """The weights of the preferred terms that match. Raises InvalidError if those of the pod are invalid."""
        if self._preferred is None and not _spec(cycle.pod).preferred_during_scheduling_ignored_during_execution:
            return None
        nodes = cycle.snapshot.nodes
        added = () if self._preferred is None else self._preferred.terms
        raw = np.zeros(len(nodes), dtype=np.int64)
        for weight, term in (*added, *nodeselectors.preferred(cycle.pod.spec).terms):
            raw += weight * nodes.evaluate(("holds", term), partial(_holds, term))
        return Scores(raw, in_proportion(raw, largest(raw, feasible)))


def named_nodes(terms: Iterable[NodeSelectorTerm]) -> set[str] | None:
    """The only nodes that these terms can match, if every term names nodes; None if one names none."""
    names: set[str] = set()
    for term in terms:
        fields = [set(f.values) for f in term.match_fields if f.key == "metadata.name" and f.operator == "In"]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return names


def suited_nodes(cycle: Cycle) -> Mask | None:
    """The nodes that match the pod's node selector and affinity; None if it has neither."""
    if not _has_requirements(cycle.pod):
        return None
    unsuited = _unsuited(cycle)
    return np.zeros(len(cycle.snapshot.nodes), dtype=np.bool_) if unsuited is None else ~unsuited


def _unsuited(cycle: Cycle) -> Mask | None:
    """The nodes that do not match the pod's own rules, computed once; None if these contradict each other."""
    return cycle.once("affinity.unsuited", lambda: _excluded(cycle))


def _excluded(cycle: Cycle) -> Mask | None:
    nodes = cycle.snapshot.nodes
    required = nodeselectors.required(cycle.pod.spec)
    selector = _spec(cycle.pod).required_during_scheduling_ignored_during_execution
    terms = selector.node_selector_terms if selector else ()
    names = named_nodes(terms) if terms else None
    if names is None:
        return ~_suited(nodes, required)
    return ~_suited_among(nodes, required, names) if names else None


def _suited(nodes: NodeTable, required: RequiredNodeAffinity) -> Mask:
    return nodes.evaluate(("suits", required), partial(_suits, required))


def _suited_among(nodes: NodeTable, required: RequiredNodeAffinity, names: Iterable[str]) -> Mask:
    """As `_suited`, where only nodes of these names can match: a DaemonSet pod must not evaluate all nodes."""
    suited = np.zeros(len(nodes), dtype=np.bool_)
    for name in names:
        row = nodes.rows.index.get(name)
        node = None if row is None else nodes.objects[row]
        if row is not None and node is not None:
            suited[row] = _suits(required, node)
    return suited


def _suits(required: RequiredNodeAffinity, node: Node) -> bool:
    try:
        return required.matches(node)
    except InvalidError:
        return False


def _holds(term: Term, node: Node) -> bool:
    return term.matches(node.metadata.labels, node.metadata.name)


def _spec(pod: Pod) -> NodeAffinitySpec:
    return (pod.spec.affinity or Affinity()).node_affinity or NodeAffinitySpec()


def _has_requirements(pod: Pod) -> bool:
    required = _spec(pod).required_during_scheduling_ignored_during_execution
    return bool(pod.spec.node_selector) or required is not None


def _added_required(added: AddedAffinity) -> RequiredNodeAffinity | None:
    spec = added.required_during_scheduling_ignored_during_execution
    if spec is None:
        return None
    required = nodeselectors.compile(spec, path=_ADDED_REQUIRED)
    if required.problem is not None:
        raise InvalidError(*required.problem)
    return required


def _added_preferred(added: AddedAffinity) -> PreferredTerms | None:
    spec = added.preferred_during_scheduling_ignored_during_execution
    if not spec:
        return None
    try:
        return nodeselectors.compile_preferred(spec)
    except InvalidError as error:
        raise error.under(_ADDED_PREFERRED) from None


def _matches_node(_: HintContext, pod: Pod, change: Change) -> bool:
    try:
        return nodeselectors.required(pod.spec).matches(change.new)
    except InvalidError:
        return True


HINTS: Hints = (
    hint(Subject.NODE, Action.ADD, Action.NODE_LABEL, condition=_matches_node),
    hint(Subject.WAITING_POD, Action.UPDATE),
)

PLUGIN = PluginKind(("preFilter", "filter", "preScore", "score"), args=NodeAffinityArgs, make=NodeAffinity, hints=HINTS)
