"""Workloads whose selectors match the same pods. Pure.

Two such workloads create and delete each other's pods without end; no policy applies to either of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.api.selectors import Operator, Selector
from trimtab.scaledown.policy.workloads import WorkloadRef


def conflicting_workloads(workload: WorkloadRef, others: Iterable[WorkloadRef]) -> tuple[WorkloadRef, ...]:
    """The workloads whose selectors match the pods of this one, or whose pods its selector matches.

    A Deployment and its ReplicaSets, and the ReplicaSets of one Deployment, do not conflict.
    """
    return tuple(sorted((other for other in others if _conflicts(workload, other)), key=str))


def _conflicts(workload: WorkloadRef, other: WorkloadRef) -> bool:
    if other.namespace != workload.namespace or other.uid == workload.uid:
        return False
    family = {workload.uid, workload.owner_uid} - {""}
    if family & {other.uid, other.owner_uid}:
        return False
    return _selects(other, workload) or _selects(workload, other)


def _selects(selecting: WorkloadRef, workload: WorkloadRef) -> bool:
    return bool(workload.pod_labels) and selecting.selector.matches(workload.pod_labels)


def conflicts_by_uid(workloads: Iterable[WorkloadRef]) -> dict[str, tuple[WorkloadRef, ...]]:
    """The conflicting workloads of each workload of a namespace that has some, by UID: for all of them at once.

    A workload that selects by a label is compared only with those whose pods have that label.
    """
    refs = list(workloads)
    by_pair: dict[tuple[str, str] | None, list[WorkloadRef]] = {}
    for ref in refs:
        by_pair.setdefault(_pair(ref.selector), []).append(ref)
    found: dict[str, dict[str, WorkloadRef]] = {}
    for ref in refs:
        for pair in (None, *ref.pod_labels.items()):
            for other in by_pair.get(pair, ()):
                if _conflicts(ref, other):
                    found.setdefault(ref.uid, {})[other.uid] = other
                    found.setdefault(other.uid, {})[ref.uid] = ref
    return {uid: tuple(sorted(others.values(), key=str)) for uid, others in found.items()}


def _pair(selector: Selector) -> tuple[str, str] | None:
    """A label that every object has that the selector matches, if its requirements name one."""
    for each in selector.requirements:
        if each.operator is Operator.EQUALS:
            return each.key, each.values[0]
    return None
