"""Node selection: required (`nodeSelector` and required node affinity) and preferred nodes of a pod.

The rules, which tests cite:

1. The `nodeSelector` and the affinity must both match. If the `nodeSelector` does not, nothing else is evaluated.
2. One of the affinity's terms must match. An empty term matches no node, and neither does an empty list of terms.
3. A term matches if all its expressions and all its fields match.
4. An invalid term is an error only if no other term matches: a term that an API server once accepted must not keep a
   pod from the nodes of its other terms.
5. The only field is `metadata.name`, compared with exactly one value by In or NotIn. Any other field counts as empty.
6. `Gt` and `Lt` compare 64-bit integers. A label that is not an integer never matches; such a value is invalid.
7. Preferred terms of weight 0 and empty ones are skipped; any other invalid term is an error.

Compiled requirements are values with equality, so they can be keys of a cache. They read only a node's labels and name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec, PreferredSchedulingTerm
from trimtab.api.selectors import EVERYTHING, LABEL_OPERATORS, FieldTerm, Operator, Requirement, Selector
from trimtab.api.selectors import from_labels as _from_labels
from trimtab.api.selectors import read as _read_label

OPERATORS: Mapping[str, Operator] = {
    **LABEL_OPERATORS,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
"""The operators of a node selector, as they are written there."""

_NAME_FIELD = "metadata.name"
_REQUIRED = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Term:
    """Expressions on a node's labels and name that must all match."""

    labels: Selector
    fields: tuple[FieldTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name matches; fields match any node without a name."""
        if not self.labels.matches(labels):
            return False
        return not name or all(term.matches({_NAME_FIELD: name}) for term in self.fields)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """The required nodes of a pod. `terms` is None if the pod has no required affinity."""

    node_selector: Selector = EVERYTHING
    terms: tuple[Term, ...] | None = None
    problem: tuple[str, str] | None = None
    """Path and reason of the first invalid term."""

    @property
    def unrestricted(self) -> bool:
        """Whether every node matches."""
        return self.terms is None and self.node_selector.empty

    def matches(self, node: Node) -> bool:
        """Whether this node matches. Raises InvalidError if no term matches and one is invalid."""
        return self.matches_labels(node.metadata.labels, node.metadata.name)

    def matches_labels(self, labels: Mapping[str, str], name: str) -> bool:
        """`matches`, given the labels and the name of a node."""
        if not self.node_selector.matches(labels):
            return False
        if self.terms is None or any(term.matches(labels, name) for term in self.terms):
            return True
        if self.problem is not None:
            raise InvalidError(*self.problem)
        return False


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """The preferred terms of a pod, with their weights."""

    terms: tuple[tuple[int, Term], ...] = ()

    def score(self, node: Node) -> int:
        """The sum of the weights of all terms that match this node."""
        return self.score_labels(node.metadata.labels, node.metadata.name)

    def score_labels(self, labels: Mapping[str, str], name: str) -> int:
        """`score`, given the labels and the name of a node."""
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def required(spec: PodSpec) -> RequiredNodeAffinity:
    """The required nodes of a pod; paths of errors start at the pod's spec."""
    affinity = _node_affinity(spec)
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return compile(selector, labels=spec.node_selector, path=_REQUIRED)


def preferred(spec: PodSpec) -> PreferredTerms:
    """The preferred terms of a pod. Raises InvalidError for an invalid term; paths start at the pod's spec."""
    affinity = _node_affinity(spec)
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    try:
        return compile_preferred(terms)
    except InvalidError as error:
        raise error.under(_PREFERRED) from None


def compile(  # noqa: A001 – read as `nodeselectors.compile`, as `re.compile` is
    selector: NodeSelector | None, *, labels: Mapping[str, str] | None = None, path: str = ""
) -> RequiredNodeAffinity:
    """Compile a node selector and a `nodeSelector`. `path` is that of the selector, for errors (see rule 4)."""
    node_selector = _from_labels(labels or {})
    if selector is None:
        return RequiredNodeAffinity(node_selector)
    terms: list[Term] = []
    problem: InvalidError | None = None
    for index, term in enumerate(selector.node_selector_terms):
        try:
            terms += _compile_term(term)
        except InvalidError as error:
            located = error.under(f"nodeSelectorTerms[{index}]")
            problem = problem or (located.under(path) if path else located)
    return RequiredNodeAffinity(node_selector, tuple(terms), (problem.path, problem.reason) if problem else None)


def compile_preferred(terms: Iterable[PreferredSchedulingTerm]) -> PreferredTerms:
    """Compile preferred terms; paths of errors start at the list."""
    compiled: list[tuple[int, Term]] = []
    for index, term in enumerate(terms):
        if term.weight == 0:
            continue
        try:
            compiled += ((term.weight, compiled_term) for compiled_term in _compile_term(term.preference))
        except InvalidError as error:
            raise error.under(f"[{index}].preference") from None
    return PreferredTerms(tuple(compiled))


def _node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity else None


def _compile_term(term: NodeSelectorTerm) -> tuple[Term, ...]:
    """One term, or none if it is empty."""
    if not term.match_expressions and not term.match_fields:
        return ()
    return (Term(Selector(tuple(_label_requirements(term))), tuple(_field_terms(term))),)


def _label_requirements(term: NodeSelectorTerm) -> Iterable[Requirement]:
    for index, expression in enumerate(term.match_expressions):
        try:
            yield _read_label(expression.key, expression.operator, expression.values, OPERATORS)
        except InvalidError as error:
            raise error.under(f"matchExpressions[{index}]") from None


def _field_terms(term: NodeSelectorTerm) -> Iterable[FieldTerm]:
    for index, expression in enumerate(term.match_fields):
        path = f"matchFields[{index}]"
        if expression.operator not in ("In", "NotIn"):
            raise InvalidError(
                f"{path}.operator", f'"{expression.operator}" is not supported for fields; write In or NotIn'
            )
        if len(expression.values) != 1:
            raise InvalidError(f"{path}.values", "must be exactly one value")
        yield FieldTerm(expression.key, expression.values[0], negated=expression.operator == "NotIn")
