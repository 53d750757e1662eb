"""Which changes could help a pod, by who refused it: so that a pod is not tried again for nothing.

`HINTS` is the table: for each plugin, the changes after which its verdict may be another, and what else must be true
of the change. A pod is tried again if that is so for *one* of the plugins that refused it. The answer may be yes
without need, which costs an attempt; it must not be no without reason, which would cost minutes.

A plugin that is not in the table has said nothing about changes, so every change may help.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.api import nodeselectors, tolerations
from trimtab.api.errors import InvalidError
from trimtab.api.meta import Labels
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.placement.framework import Cycle
from trimtab.placement.profiles import Profile
from trimtab.placement.selection import CORDONED
from trimtab.placement.spread import Constraint, PodTopologySpread
from trimtab.scheduler.changes import Action, Change, Subject
from trimtab.snapshot import Snapshot
from trimtab.snapshot.nodes import LabelKey
from trimtab.snapshot.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, amounts
from trimtab.snapshot.shapes import Term

NOBODY = ""
"""Who refused a pod that found no node at all."""
UNSUPPORTED = "Unsupported"
"""Who refused a pod that needs what Trimtab does not judge."""

_ALWAYS_ASKED = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that no configuration can tell the filter to ignore."""


class Hints:
    """Answers for the pods of these profiles, in this cluster."""

    def __init__(self, profiles: Mapping[str, Profile], snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._spreads = {name: _spread_of(profile) for name, profile in profiles.items()}

    def help(self, pod: Pod, refused_by: Collection[str], change: Change) -> bool:
        """Whether the change could let the pod pass one of the plugins that refused it."""
        return any(
            hint.fits(change) and (hint.asks is None or hint.asks(self, pod, change))
            for plugin in refused_by
            for hint in HINTS.get(plugin, _ANYTHING)
        )

    def constraints(self, pod: Pod) -> tuple[Constraint, ...]:
        """The hard constraints that apply to a pod. Raises InvalidError if they cannot be read."""
        spread = self._spreads.get(pod.spec.scheduler_name)
        return spread.constraints(Cycle(pod, self.snapshot)).hard if spread else ()

    def terms(self, pod: Pod, *, anti: bool) -> list[Term]:
        """The required terms of a pod about those near it, or (`anti`) about those that must not be."""
        held = self.snapshot.shape(pod).terms
        return [each.term for each in held if each.required and each.anti == anti]

    def namespace_labels(self, name: str) -> Labels:
        """The labels of a namespace; none, if it is not known."""
        namespace = self.snapshot.namespaces.get(name)
        return namespace.metadata.labels if namespace else {}


Question = Callable[[Hints, Pod, Change], bool]


@dataclass(frozen=True, slots=True)
class Hint:
    """A kind of change that may help, and what is asked about it; without a question, it always may."""

    subject: Subject
    actions: frozenset[Action]
    asks: Question | None = None

    def fits(self, change: Change) -> bool:
        """Whether this is that kind of change."""
        return change.subject is self.subject and change.action in self.actions


def _hint(subject: Subject, *actions: Action, asks: Question | None = None) -> Hint:
    return Hint(subject, frozenset(actions), asks)


def _spread_of(profile: Profile) -> PodTopologySpread | None:
    return next((plugin for plugin in profile.filters if isinstance(plugin, PodTopologySpread)), None)


# --- room ------------------------------------------------------------------------------------------------------------


def _has_room(hints: Hints, pod: Pod, change: Change) -> bool:
    """A node that came or grew could hold the pod, were it empty; and it has more of something the pod asks for."""
    old: Node | None = change.old
    new: Node = change.new
    has = amounts(new.status.allocatable)
    asked = hints.snapshot.requests(pod).stated
    if has.get(PODS, 0) < 1 or any(asked.get(name, 0) > has.get(name, 0) for name in _ALWAYS_ASKED):
        return False
    had = amounts(old.status.allocatable) if old else {}
    return old is None or any(has.get(name, 0) > had.get(name, 0) for name in (PODS, *asked))


def _gave_room(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod that runs asks for less of something that this pod asks for."""
    before, after = hints.snapshot.requests(change.old).amounts, hints.snapshot.requests(change.new).amounts
    asked = hints.snapshot.requests(pod).stated
    return any(asked.get(name, 0) > 0 and amount > after.get(name, 0) for name, amount in before.items())


def _freed_a_port(hints: Hints, pod: Pod, change: Change) -> bool:
    freed = {(port.protocol, port.port) for port in hints.snapshot.shape(change.old).ports}
    return any((port.protocol, port.port) in freed for port in hints.snapshot.shape(pod).ports)


# --- what nodes say --------------------------------------------------------------------------------------------------


def _is_wanted(_: Hints, pod: Pod, change: Change) -> bool:
    try:
        return nodeselectors.required(pod.spec).matches(change.new)
    except InvalidError:
        return True


def _is_open(_: Hints, __: Pod, change: Change) -> bool:
    was_closed = change.old is None or change.old.spec.unschedulable
    return was_closed and not change.new.spec.unschedulable


def _ignores_cordons(_: Hints, pod: Pod, __: Change) -> bool:
    return tolerations.tolerated(pod.spec.tolerations, CORDONED)


def _is_tolerated_now(_: Hints, pod: Pod, change: Change) -> bool:
    repelled = change.old is None or tolerations.untolerated(pod.spec.tolerations, change.old.spec.taints) is not None
    return repelled and tolerations.untolerated(pod.spec.tolerations, change.new.spec.taints) is None


# --- spreading -------------------------------------------------------------------------------------------------------


def _counts(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod that one of the constraints counts came, went or starts to go."""
    other: Pod = change.current
    return other.metadata.namespace == pod.metadata.namespace and any(
        constraint.selector.matches(other.metadata.labels) for constraint in _readable(hints, pod)
    )


def _counts_otherwise(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod's new labels make a constraint count it, or not count it any more."""
    before, after = change.old.metadata.labels, change.new.metadata.labels
    return change.new.metadata.namespace == pod.metadata.namespace and any(
        constraint.selector.matches(before) != constraint.selector.matches(after)
        for constraint in _readable(hints, pod)
    )


def _is_a_domain(hints: Hints, pod: Pod, change: Change) -> bool:
    """A node that has the keys of all constraints came, went or changed: only those count, or can be gone to."""
    keys = [constraint.key for constraint in _readable(hints, pod)]
    return any(node is not None and _has_all(node, keys) for node in (change.old, change.new))


def _has_all(node: Node, keys: Iterable[LabelKey]) -> bool:
    return all(any(name in node.metadata.labels for name in _names(key)) for key in keys)


def _names(key: LabelKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def _is_spread_by_default(_: Hints, pod: Pod, change: Change) -> bool:
    return not pod.spec.topology_spread_constraints and change.current.metadata.namespace == pod.metadata.namespace


def _readable(hints: Hints, pod: Pod) -> tuple[Constraint, ...]:
    """The pod's constraints; none if they cannot be read, for then only a change of the pod itself can help."""
    try:
        return hints.constraints(pod)
    except InvalidError:
        return ()


# --- affinity between pods -------------------------------------------------------------------------------------------


def _is_company(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod that meets all terms of this one came."""
    return _meets_all(hints, hints.terms(pod, anti=False), change.new)


def _was_in_the_way(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod went that this one avoids, or that avoids this one; or the last company of a pod that may go first."""
    other: Pod = change.old
    avoided = any(_meets(hints, term, other) for term in hints.terms(pod, anti=True))
    avoiding = any(_meets(hints, term, pod) for term in hints.terms(other, anti=True))
    return avoided or avoiding or _meets_all(hints, hints.terms(pod, anti=False), other)


def _became_company(hints: Hints, pod: Pod, change: Change) -> bool:
    """A pod's new labels make it company, or none any more, or no longer unwelcome."""
    near, away = hints.terms(pod, anti=False), hints.terms(pod, anti=True)
    if _meets_all(hints, near, change.new) != _meets_all(hints, near, change.old):
        return True
    return any(_meets(hints, term, change.old) and not _meets(hints, term, change.new) for term in away)


def _is_elsewhere(hints: Hints, pod: Pod, change: Change) -> bool:
    """A node came, went, or moved to another domain of a term; those who are there may hold terms of their own."""
    if change.old is None or change.new is None:
        return True
    terms = hints.terms(pod, anti=False) + hints.terms(pod, anti=True)
    before, after = change.old.metadata.labels, change.new.metadata.labels
    return not terms or any(before.get(term.topology_key) != after.get(term.topology_key) for term in terms)


def _meets_all(hints: Hints, terms: list[Term], other: Pod) -> bool:
    return bool(terms) and all(_meets(hints, term, other) for term in terms)


def _meets(hints: Hints, term: Term, other: Pod) -> bool:
    """Whether a term speaks of that pod. A selector that takes a namespace without labels takes all: see `interpod`."""
    namespace = other.metadata.namespace
    wider = term.namespace_selector
    if wider is not None and wider.matches({}):
        return term.selector.matches(other.metadata.labels)
    return term.reaches(namespace, hints.namespace_labels(namespace), other.metadata.labels)


# --- the table -------------------------------------------------------------------------------------------------------

_ANYTHING = tuple(Hint(subject, frozenset(Action)) for subject in Subject)

HINTS: Mapping[str, tuple[Hint, ...]] = {
    NOBODY: (_hint(Subject.NODE, Action.ADD),),
    UNSUPPORTED: (Hint(Subject.WAITING_POD, frozenset(Action)),),
    "NodeName": (_hint(Subject.NODE, Action.ADD),),
    "NodeUnschedulable": (
        _hint(Subject.NODE, Action.ADD, Action.NODE_TAINT, asks=_is_open),
        _hint(Subject.WAITING_POD, Action.POD_TOLERATION, asks=_ignores_cordons),
    ),
    "TaintToleration": (
        _hint(Subject.NODE, Action.ADD, Action.NODE_TAINT, asks=_is_tolerated_now),
        _hint(Subject.WAITING_POD, Action.POD_TOLERATION),
    ),
    "NodeAffinity": (
        _hint(Subject.NODE, Action.ADD, Action.NODE_LABEL, asks=_is_wanted),
        _hint(Subject.WAITING_POD, Action.UPDATE),
    ),
    "NodePorts": (
        _hint(Subject.NODE, Action.ADD),
        _hint(Subject.ASSIGNED_POD, Action.DELETE, asks=_freed_a_port),
    ),
    "NodeResourcesFit": (
        _hint(Subject.NODE, Action.ADD, Action.NODE_ALLOCATABLE, asks=_has_room),
        _hint(Subject.ASSIGNED_POD, Action.DELETE),
        _hint(Subject.ASSIGNED_POD, Action.POD_SCALE_DOWN, asks=_gave_room),
        _hint(Subject.WAITING_POD, Action.POD_SCALE_DOWN),
    ),
    "PodTopologySpread": (
        _hint(Subject.ASSIGNED_POD, Action.ADD, Action.DELETE, Action.POD_TERMINATING, asks=_counts),
        _hint(Subject.ASSIGNED_POD, Action.POD_LABEL, asks=_counts_otherwise),
        _hint(Subject.NODE, Action.ADD, Action.DELETE, Action.NODE_LABEL, Action.NODE_TAINT, asks=_is_a_domain),
        _hint(Subject.WAITING_POD, Action.POD_LABEL, Action.POD_TOLERATION),
        _hint(Subject.GROUP, Action.ADD, Action.UPDATE, Action.DELETE, asks=_is_spread_by_default),
    ),
    "InterPodAffinity": (
        _hint(Subject.ASSIGNED_POD, Action.ADD, asks=_is_company),
        _hint(Subject.ASSIGNED_POD, Action.DELETE, asks=_was_in_the_way),
        _hint(Subject.ASSIGNED_POD, Action.POD_LABEL, asks=_became_company),
        _hint(Subject.NODE, Action.ADD, Action.DELETE, Action.NODE_LABEL, asks=_is_elsewhere),
        _hint(Subject.WAITING_POD, Action.POD_LABEL),
        _hint(Subject.NAMESPACE, Action.ADD, Action.UPDATE, Action.DELETE),
    ),
}
"""The changes that may help a pod, by the plugin that refused it."""


def interested(change: Change) -> Callable[[Iterable[str]], bool]:
    """What tells quickly whether a change is of a kind that concerns any of these plugins."""
    concerned = _CONCERNED.get((change.subject, change.action), frozenset())
    return lambda refused_by: any(plugin in concerned or plugin not in HINTS for plugin in refused_by)


def _concerned() -> dict[tuple[Any, Any], frozenset[str]]:
    pairs = {(hint.subject, action) for hints in HINTS.values() for hint in hints for action in hint.actions}
    return {
        (subject, action): frozenset(
            plugin
            for plugin, hints in HINTS.items()
            if any(hint.subject is subject and action in hint.actions for hint in hints)
        )
        for subject, action in pairs
    }


_CONCERNED = _concerned()
