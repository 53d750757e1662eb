"""The subset whose rules a pod without a reservation meets.

Such pods are older than the UnitedTopology, or were created while the webhook was unavailable or too slow. What counts
is where they are:

1. A subset with a node selector term takes pods on nodes that the term matches; a pod without a node, if each of its
   own required terms contains the expressions of the subset's.
2. A subset without a term takes any pod.
3. Of several, one whose tolerations and patch the pod has too comes first; then one with a term; then the earlier one.

The patch is applied to the typed pod: if no field of that changes, the pod has it.

A UnitedTopology may have a thousand subsets, and each pod without a reservation is compared with all of them. So terms
are compiled once, and what depends on the pod alone is computed once for each pod. Patches are compared in the order of
precedence up to the first that the pod has, and a patch is merged only if the fields that it names do not already show
that the pod lacks it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.api import codec, nodeselectors
from trimtab.api.bounded_caches import BoundedCache
from trimtab.api.documents import JSON
from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Container, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration
from trimtab.api.unitedtopology import Subset, privileges
from trimtab.subsets.shaping import patched, restricts

_Expressions = frozenset[NodeSelectorRequirement]

MAX_MERGED = 50
"""How many patches are merged with a pod at most; the others count as patches that it does not have. Few patches need
it: those with directives, and those that change lists other than containers and tolerations."""
_SCALARS = (str, int, float, bool)


@dataclass(frozen=True, slots=True)
class Match:
    """The index of the subset that a pod was matched with."""

    index: int | None = None
    ignores_patches: bool = False
    """Whether there were patches to merge beyond `MAX_MERGED`, so that the pod may have one of those."""


def match(pod: Pod, node: Node | None, subsets: Sequence[Subset]) -> Match:
    """Match a pod with a subset. `node` is the pod's, where it has one and it is known."""
    matcher = _Matcher(pod, node)
    fitting = [index for index, subset in enumerate(subsets) if matcher.allows(subset.node_selector_term)]
    fitting.sort(key=lambda index: not restricts(subsets[index].node_selector_term))
    found = next((index for index in fitting if matcher.has_changes(subsets[index])), fitting[0] if fitting else None)
    return Match(found, matcher.ignores_patches)


def prepare(subsets: Sequence[Subset]) -> None:
    """Compile the terms of these subsets, for all pods that are matched later."""
    for subset in subsets:
        if subset.node_selector_term is not None:
            _compiled(subset.node_selector_term)


class _Matcher:
    """A pod that is compared with subsets, and what depends on it alone, computed once."""

    def __init__(self, pod: Pod, node: Node | None) -> None:
        self._pod = pod
        self._node = node
        self._merged = 0

    @property
    def ignores_patches(self) -> bool:
        """Whether there were more patches to merge than are merged."""
        return self._merged > MAX_MERGED

    def allows(self, term: NodeSelectorTerm | None) -> bool:
        """Whether the pod may be where a subset's term says."""
        if term is None or not restricts(term):
            return True
        if self._pod.spec.node_name:
            return self._node is not None and _matches(term, self._node)
        return self._requires(term)

    def has_changes(self, subset: Subset) -> bool:
        """Whether the pod has the tolerations and the patch of a subset."""
        return self._tolerations.issuperset(subset.tolerations) and self._has_patch(subset)

    def _requires(self, term: NodeSelectorTerm) -> bool:
        """Whether each of the pod's required terms has all the expressions of this one."""
        return self._required is not None and all(
            expressions.issuperset(term.match_expressions) and fields.issuperset(term.match_fields)
            for expressions, fields in self._required
        )

    def _has_patch(self, subset: Subset) -> bool:
        if subset.patch is None:
            return True
        if _certainly_changes(self._pod, subset.patch.tree()):
            return False
        self._merged += 1
        if self.ignores_patches:
            return False
        try:
            return codec.convert(patched(self._tree, subset, allowed_fields=privileges.FIELDS), Pod) == self._pod
        except InvalidError:
            return False

    @functools.cached_property
    def _tree(self) -> JSON:
        tree: JSON = codec.to_tree(self._pod)
        return tree

    @functools.cached_property
    def _tolerations(self) -> frozenset[Toleration]:
        return frozenset(self._pod.spec.tolerations)

    @functools.cached_property
    def _required(self) -> list[tuple[_Expressions, _Expressions]] | None:
        """The expressions and fields of each of the pod's required terms; None if it has no required affinity."""
        affinity = self._pod.spec.affinity.node_affinity if self._pod.spec.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if required is None:
            return None
        terms = required.node_selector_terms
        return [(frozenset(each.match_expressions), frozenset(each.match_fields)) for each in terms]


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    try:
        return _compiled(term).matches(node)
    except InvalidError:
        return False


_VALUE_WEIGHT = 110
"""Bytes that an expression or a value takes in memory, as written and compiled; names are short."""
_terms: BoundedCache[NodeSelectorTerm, nodeselectors.RequiredNodeAffinity] = BoundedCache(weight=64 << 20)
"""The terms of five UnitedTopologies of the largest size, or of many usual ones."""


def _compiled(term: NodeSelectorTerm) -> nodeselectors.RequiredNodeAffinity:
    """A term compiled, cached: each is compared with many nodes, and compiling takes far longer than that."""
    known = _terms.get(term)
    if known is None:
        expressions = (*term.match_expressions, *term.match_fields)
        weight = _VALUE_WEIGHT * sum(1 + len(each.values) for each in expressions)
        known = _terms.put(term, nodeselectors.compile(NodeSelector(node_selector_terms=(term,))), weight)
    return known


# Patches. What follows is exact in one direction only: if it returns False, the patch must be merged to know.


def _certainly_changes(value: Any, patch: Any) -> bool:
    """Whether a typed value differs from, or cannot be, what a strategic merge patch makes of it.

    Wherever a patch has no directive, each scalar in its objects is in the result. Only fields of the type count.
    """
    if isinstance(patch, dict):
        return not _has_directive(patch) and _changes_object(value, patch)
    if isinstance(patch, list):
        return isinstance(value, tuple) and _changes_list(value, patch)
    return patch is not None and (value is None or type(value) in _SCALARS) and bool(value != patch)


def _changes_object(value: Any, patch: JSON) -> bool:
    if isinstance(value, msgspec.Struct):
        names = _attributes(type(value))
        return any(_certainly_changes(getattr(value, names[key]), part) for key, part in patch.items() if key in names)
    if isinstance(value, Mapping):
        return any(value.get(key) != part for key, part in patch.items() if not isinstance(part, (dict, list)))
    return value is None


def _changes_list(value: tuple[Any, ...], patch: list[Any]) -> bool:
    """Of lists with elements, containers are merged by name, and tolerations are replaced."""
    if any(not isinstance(each, dict) or _has_directive(each) for each in patch):
        return False
    if not value:
        return bool(patch)
    if isinstance(value[0], Container):
        named = {each.get("name"): each for each in patch if isinstance(each.get("name"), str)}
        known = {each.name: each for each in reversed(value)}
        return any(name not in known or _certainly_changes(known[name], part) for name, part in named.items())
    if isinstance(value[0], Toleration):
        return len(value) != len(patch) or any(map(_certainly_changes, value, patch))
    return False


def _has_directive(patch: JSON) -> bool:
    return any(key.startswith("$") for key in patch)


@functools.cache
def _attributes(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """The attributes of a type by their names in JSON."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
