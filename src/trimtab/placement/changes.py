"""Changes of a cluster that may help a waiting pod: each of one kind, to one object.

Kinds of changes have kube-scheduler's names, since these are on dashboards
(`scheduler_queue_incoming_pods_total{event="NodeUpdateNodeTaint"}`). Two are our own: kube-scheduler has no event for a
pod that starts to terminate, nor for services and workloads.
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
"""The requests of a pod: `Snapshot.requests`, which computes them once for all pods of a template."""


class Subject(StrEnum):
    """The kind of object that changed."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    WAITING_POD = "UnschedulablePod"
    NAMESPACE = "Namespace"
    GROUP = "Group"
    """Services, replication controllers, replica sets and stateful sets: default constraints follow from them."""


class Action(StrEnum):
    """The way in which the object changed."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    """In none of the specific ways below."""
    NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    NODE_LABEL = "UpdateNodeLabel"
    NODE_TAINT = "UpdateNodeTaint"
    """Taints, or the node was uncordoned."""
    POD_LABEL = "UpdatePodLabel"
    POD_SCALE_DOWN = "UpdatePodScaleDown"
    POD_TOLERATION = "UpdatePodToleration"
    POD_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"
    POD_TERMINATING = "UpdatePodTerminating"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change: `old` is None if the object was added, `new` if it was deleted."""

    subject: Subject
    action: Action
    old: Any
    new: Any

    @property
    def label(self) -> str:
        """The name of the change in metrics."""
        return f"{self.subject}{self.action}"

    @property
    def current(self) -> Any:
        """The object after the change; a deleted object as it last was."""
        return self.old if self.new is None else self.new


def of_node(old: Node | None, new: Node | None) -> Iterator[Change]:
    """The changes of a node that was added, deleted or updated which may matter to pods."""
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
    """The changes of a pod that was updated; none if only its status changed."""
    subject = Subject.ASSIGNED_POD if new.spec.node_name else Subject.WAITING_POD
    actions = [action for action, changed in _POD_ACTIONS if changed(old, new)]
    if old.spec != new.spec and _is_smaller(requests(old), requests(new)):
        actions.append(Action.POD_SCALE_DOWN)
    if not actions and old.spec != new.spec:
        actions.append(Action.UPDATE)
    for action in actions:
        yield Change(subject, action, old, new)


def of_namespace(old: Namespace | None, new: Namespace | None) -> Iterator[Change]:
    """The changes of a namespace that may matter to pods: those of its labels."""
    if old is None or new is None:
        yield Change(Subject.NAMESPACE, Action.ADD if old is None else Action.DELETE, old, new)
    elif old.metadata.labels != new.metadata.labels:
        yield Change(Subject.NAMESPACE, Action.UPDATE, old, new)


def of_group(old: Group | None, new: Group | None) -> Iterator[Change]:
    """The changes of a service or workload that may matter to pods: those of its selector."""
    if old is None or new is None:
        yield Change(Subject.GROUP, Action.ADD if old is None else Action.DELETE, old, new)
    elif old.spec.selector != new.spec.selector:
        yield Change(Subject.GROUP, Action.UPDATE, old, new)


def _is_smaller(old: Requests, new: Requests) -> bool:
    return any(amount > new.amounts.get(name, 0) for name, amount in old.amounts.items())


_POD_ACTIONS: tuple[tuple[Action, Callable[[Pod, Pod], bool]], ...] = (
    (Action.POD_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (Action.POD_TOLERATION, lambda old, new: old.spec.tolerations != new.spec.tolerations),
    (Action.POD_GATES_ELIMINATED, lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates),
    (Action.POD_TERMINATING, lambda old, new: new.terminating and not old.terminating),
)
