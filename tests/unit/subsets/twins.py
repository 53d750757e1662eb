"""Slow twins of `trimtab.subsets`: one obvious implementation each, which the fast ones are compared with."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.api import codec, nodeselectors
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import NodeSelector, NodeSelectorTerm, Pod
from trimtab.api.unitedtopology import Subset, privileges
from trimtab.subsets.shaping import patched, restricts


def match(pod: Pod, node: Node | None, subsets: Sequence[Subset]) -> int | None:
    """Compare the pod with every subset, and merge every patch."""
    fitting = [index for index, subset in enumerate(subsets) if _allows(subset.node_selector_term, pod, node)]
    return max(fitting, key=lambda index: (*_precedence(pod, subsets[index]), -index), default=None)


def _allows(term: NodeSelectorTerm | None, pod: Pod, node: Node | None) -> bool:
    if term is None or not restricts(term):
        return True
    if pod.spec.node_name:
        return node is not None and _matches(term, node)
    return _requires(term, pod)


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    try:
        return nodeselectors.compile(NodeSelector(node_selector_terms=(term,))).matches(node)
    except InvalidError:
        return False


def _requires(term: NodeSelectorTerm, pod: Pod) -> bool:
    """Whether each of the pod's required terms has all the expressions of this one."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is not None and all(
        set(term.match_expressions) <= set(each.match_expressions) and set(term.match_fields) <= set(each.match_fields)
        for each in required.node_selector_terms
    )


def _precedence(pod: Pod, subset: Subset) -> tuple[bool, bool]:
    has_changes = set(subset.tolerations) <= set(pod.spec.tolerations) and _has_patch(pod, subset)
    return has_changes, restricts(subset.node_selector_term)


def _has_patch(pod: Pod, subset: Subset) -> bool:
    if subset.patch is None:
        return True
    try:
        return codec.convert(patched(codec.to_tree(pod), subset, allowed_fields=privileges.FIELDS), Pod) == pod
    except InvalidError:
        return False
