"""NodeUnschedulable: nodes that an operator has cordoned."""

from __future__ import annotations

from trimtab.api.nodes import Taint
from trimtab.api.pods import Pod
from trimtab.api.tolerations import NO_SCHEDULE, tolerated
from trimtab.placement.changes import Action, Change, Subject
from trimtab.placement.framework import UNRESOLVABLE, Cycle, PluginKind, Refusals
from trimtab.placement.hints import HintContext, Hints, hint

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""A pod that tolerates this taint may go to a cordoned node, whether or not the node has the taint."""


class NodeUnschedulable:
    """Refuses cordoned nodes, except to pods that tolerate them."""

    name = "NodeUnschedulable"

    def filter(self, cycle: Cycle) -> Refusals | None:
        """The cordoned nodes."""
        cordoned = cycle.snapshot.nodes.unschedulable
        if not cordoned.any() or tolerated(cycle.pod.spec.tolerations, CORDONED):
            return None
        return Refusals.of(cordoned.copy(), UNRESOLVABLE, "node(s) were unschedulable")


def _is_uncordoned(_: HintContext, __: Pod, change: Change) -> bool:
    was_cordoned = change.old is None or change.old.spec.unschedulable
    return was_cordoned and not change.new.spec.unschedulable


def _tolerates_cordons(_: HintContext, pod: Pod, __: Change) -> bool:
    return tolerated(pod.spec.tolerations, CORDONED)


HINTS: Hints = (
    hint(Subject.NODE, Action.ADD, Action.NODE_TAINT, condition=_is_uncordoned),
    hint(Subject.WAITING_POD, Action.POD_TOLERATION, condition=_tolerates_cordons),
)

PLUGIN = PluginKind(("filter",), make=lambda _: NodeUnschedulable(), hints=HINTS)
