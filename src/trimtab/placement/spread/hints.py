"""Requeue hints of PodTopologySpread."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api.errors import InvalidError
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import Cycle
from trimtab.placement.hints import HintContext, Hints, hint
from trimtab.placement.spread.constraints import SpreadConstraint
from trimtab.placement.spread.plugin import PodTopologySpread
from trimtab.snapshot.nodes import LabelKey


def _is_counted(context: HintContext, pod: Pod, change: Change) -> bool:
    """One of the constraints counts the pod that was added, was deleted or started to terminate."""
    other: Pod = change.current
    return other.metadata.namespace == pod.metadata.namespace and any(
        constraint.selector.matches(other.metadata.labels) for constraint in _hard_constraints(context, pod)
    )


def _changes_counts(context: HintContext, pod: Pod, change: Change) -> bool:
    """The new labels of a pod start or stop to match a constraint."""
    before, after = change.old.metadata.labels, change.new.metadata.labels
    return change.new.metadata.namespace == pod.metadata.namespace and any(
        constraint.selector.matches(before) != constraint.selector.matches(after)
        for constraint in _hard_constraints(context, pod)
    )


def _changes_domains(context: HintContext, pod: Pod, change: Change) -> bool:
    """The node has, or had, the keys of all constraints: other nodes neither count nor can take the pod."""
    keys = [constraint.key for constraint in _hard_constraints(context, pod)]
    return any(node is not None and _has_all(node, keys) for node in (change.old, change.new))


def _has_all(node: Node, keys: Iterable[LabelKey]) -> bool:
    return all(any(name in node.metadata.labels for name in _names(key)) for key in keys)


def _names(key: LabelKey) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key


def _changes_defaults(_: HintContext, pod: Pod, change: Change) -> bool:
    """Default constraints apply to the pod: their selector follows from services and workloads of its namespace."""
    return not pod.spec.topology_spread_constraints and change.current.metadata.namespace == pod.metadata.namespace


def _hard_constraints(context: HintContext, pod: Pod) -> tuple[SpreadConstraint, ...]:
    """The pod's hard constraints; none if they are invalid, since then only a change of the pod itself can help."""
    plugin = context.plugin(pod, PodTopologySpread)
    if plugin is None:
        return ()
    try:
        return plugin.constraints(Cycle(pod, context.snapshot)).hard
    except InvalidError:
        return ()


HINTS: Hints = (
    hint(Subject.ASSIGNED_POD, Action.ADD, Action.DELETE, Action.POD_TERMINATING, condition=_is_counted),
    hint(Subject.ASSIGNED_POD, Action.POD_LABEL, condition=_changes_counts),
    hint(Subject.NODE, Action.ADD, Action.DELETE, Action.NODE_LABEL, Action.NODE_TAINT, condition=_changes_domains),
    hint(Subject.WAITING_POD, Action.POD_LABEL, Action.POD_TOLERATION),
    hint(Subject.GROUP, Action.ADD, Action.UPDATE, Action.DELETE, condition=_changes_defaults),
)
