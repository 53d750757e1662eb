"""What happens in a cluster that may help a pod which waits: a change of one kind, to one object.

Kinds of changes are named as kube-scheduler names them, for these names are on dashboards
(`scheduler_queue_incoming_pods_total{event="NodeUpdateNodeTaint"}`). Some are our own: kube-scheduler does not look at
a pod that starts to terminate, nor at what groups pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trimtab.api.core import Namespace
from trimtab.api.nodes import Node
from trimtab.api.pods import Pod
from trimtab.snapshot.requests import Requests
from trimtab.snapshot.view import Group

RequestsOf = Callable[[Pod], Requests]
"""What a pod asks for: `Snapshot.requests`, which works it out once for all pods of a template."""


class Subject(StrEnum):
    """What has changed."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    WAITING_POD = "UnschedulablePod"
    NAMESPACE = "Namespace"
    GROUP = "Group"
    """What groups pods: services, replica sets and their like."""


class Action(StrEnum):
    """How it has changed."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    """In none of the ways below."""
    NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    NODE_LABEL = "UpdateNodeLabel"
    NODE_TAINT = "UpdateNodeTaint"
    """Taints, or that the node is open again."""
    POD_LABEL = "UpdatePodLabel"
    POD_SCALE_DOWN = "UpdatePodScaleDown"
    POD_TOLERATION = "UpdatePodToleration"
    POD_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"
    POD_TERMINATING = "UpdatePodTerminating"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change: `old` is None for what came, `new` for what went."""

    subject: Subject
    action: Action
    old: Any
    new: Any

    @property
    def label(self) -> str:
        """As metrics name it."""
        return f"{self.subject}{self.action}"

    @property
    def current(self) -> Any:
        """The object as it is now, or as it last was."""
        return self.old if self.new is None else self.new


def of_node(old: Node | None, new: Node | None) -> Iterator[Change]:
    """How a node that came, went or changed may matter to pods."""
    if old is None or new is None:
        yield Change(Subject.NODE, Action.ADD if old is None else Action.DELETE, old, new)
        return
    opened = old.spec.unschedulable and not new.spec.unschedulable
    if opened or old.spec.taints != new.spec.taints:
        yield Change(Subject.NODE, Action.NODE_TAINT, old, new)
    if old.status.allocatable != new.status.allocatable:
        yield Change(Subject.NODE, Action.NODE_ALLOCATABLE, old, new)
    if old.metadata.labels != new.metadata.labels:
        yield Change(Subject.NODE, Action.NODE_LABEL, old, new)


def of_pod(old: Pod, new: Pod, requests: RequestsOf) -> Iterator[Change]:
    """How a pod has changed; nothing, where only its status has."""
    subject = Subject.ASSIGNED_POD if new.spec.node_name else Subject.WAITING_POD
    found = [action for action, changed in _POD_ACTIONS if changed(old, new)]
    if old.spec != new.spec and _shrank(requests(old), requests(new)):
        found.append(Action.POD_SCALE_DOWN)
    if not found and old.spec != new.spec:
        found.append(Action.UPDATE)
    for action in found:
        yield Change(subject, action, old, new)


def of_namespace(old: Namespace | None, new: Namespace | None) -> Iterator[Change]:
    """How a namespace may matter to pods: by its labels."""
    if old is None or new is None:
        yield Change(Subject.NAMESPACE, Action.ADD if old is None else Action.DELETE, old, new)
    elif old.metadata.labels != new.metadata.labels:
        yield Change(Subject.NAMESPACE, Action.UPDATE, old, new)


def of_group(old: Group | None, new: Group | None) -> Iterator[Change]:
    """How a service or a workload may matter to pods: by whom it selects."""
    if old is None or new is None:
        yield Change(Subject.GROUP, Action.ADD if old is None else Action.DELETE, old, new)
    elif old.spec.selector != new.spec.selector:
        yield Change(Subject.GROUP, Action.UPDATE, old, new)


def _shrank(old: Requests, new: Requests) -> bool:
    return any(amount > new.amounts.get(name, 0) for name, amount in old.amounts.items())


_POD_ACTIONS: tuple[tuple[Action, Callable[[Pod, Pod], bool]], ...] = (
    (Action.POD_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (Action.POD_TOLERATION, lambda old, new: old.spec.tolerations != new.spec.tolerations),
    (Action.POD_GATES_ELIMINATED, lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates),
    (Action.POD_TERMINATING, lambda old, new: new.terminating and not old.terminating),
)
