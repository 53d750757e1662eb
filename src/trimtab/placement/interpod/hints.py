"""Requeue hints of InterPodAffinity."""

from __future__ import annotations

from trimtab.api.meta import Labels
from trimtab.api.pods import Pod
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.snapshot.shapes import Term


def _meets_affinity(context: HintContext, pod: Pod, change: Change) -> bool:
    """The added pod meets all required affinity terms of the waiting one."""
    return _meets_all(context, _required_terms(context, pod, anti=False), change.new)


def _was_relevant(context: HintContext, pod: Pod, change: Change) -> bool:
    """The deleted pod broke an anti-affinity term, of either pod, or met all affinity terms of the waiting one.

    The latter helps where it was the last such pod: a pod that meets its own terms may then be the first.
    """
    other: Pod = change.old
    if any(_meets(context, term, other) for term in _required_terms(context, pod, anti=True)):
        return True
    if any(_meets(context, term, pod) for term in _required_terms(context, other, anti=True)):
        return True
    return _meets_all(context, _required_terms(context, pod, anti=False), other)


def _changes_relevance(context: HintContext, pod: Pod, change: Change) -> bool:
    """The new labels of a pod start or stop to meet the affinity terms, or stop to break an anti-affinity term."""
    affinity = _required_terms(context, pod, anti=False)
    if _meets_all(context, affinity, change.new) != _meets_all(context, affinity, change.old):
        return True
    return any(
        _meets(context, term, change.old) and not _meets(context, term, change.new)
        for term in _required_terms(context, pod, anti=True)
    )


def _changes_domains(context: HintContext, pod: Pod, change: Change) -> bool:
    """A node was added, deleted, or moved to another domain of a term.

    A pod without terms is refused for the terms of pods on the nodes, so that every label may matter to it.
    """
    if change.old is None or change.new is None:
        return True
    terms = _required_terms(context, pod, anti=False) + _required_terms(context, pod, anti=True)
    before, after = change.old.metadata.labels, change.new.metadata.labels
    return not terms or any(before.get(term.topology_key) != after.get(term.topology_key) for term in terms)


def _required_terms(context: HintContext, pod: Pod, *, anti: bool) -> list[Term]:
    """The required affinity or (`anti`) anti-affinity terms of a pod."""
    return [held.term for held in context.snapshot.shape(pod).terms if held.required and held.anti == anti]


def _meets_all(context: HintContext, terms: list[Term], other: Pod) -> bool:
    return bool(terms) and all(_meets(context, term, other) for term in terms)


def _meets(context: HintContext, term: Term, other: Pod) -> bool:
    """Whether a pod meets a term. A selector that matches a namespace without labels matches all: see `interpod`."""
    namespace = other.metadata.namespace
    selector = term.namespace_selector
    if selector is not None and selector.matches({}):
        return term.selector.matches(other.metadata.labels)
    return term.reaches(namespace, _namespace_labels(context, namespace), other.metadata.labels)


def _namespace_labels(context: HintContext, name: str) -> Labels:
    """The labels of a namespace; none if the namespace is not known."""
    namespace = context.snapshot.namespaces.get(name)
    return namespace.metadata.labels if namespace else {}


HINTS: Hints = (
    hint(Subject.ASSIGNED_POD, Action.ADD, condition=_meets_affinity),
    hint(Subject.ASSIGNED_POD, Action.DELETE, condition=_was_relevant),
    hint(Subject.ASSIGNED_POD, Action.POD_LABEL, condition=_changes_relevance),
    hint(Subject.NODE, Action.ADD, Action.DELETE, Action.NODE_LABEL, condition=_changes_domains),
    hint(Subject.WAITING_POD, Action.POD_LABEL),
    hint(Subject.NAMESPACE, Action.ADD, Action.UPDATE, Action.DELETE),
)
