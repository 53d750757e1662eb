"""Workloads whose selectors match the same pods. Pure.

Two such workloads create and delete each other's pods without end; no policy applies to either of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trimtab.api.selectors import Operator, Selector, needed_labels
from trimtab.scaledown.policy.workloads import WorkloadRef

MOST = 20
"""How many conflicting workloads of one are found where those of a whole namespace are: one is enough to exempt it."""

MAX_LABELS = 100
"""The most labels of a workload's pods, and requirements and values of its selector, that are compared."""


def conflicting_workloads(workload: WorkloadRef, others: Iterable[WorkloadRef]) -> tuple[WorkloadRef, ...]:
    """The workloads whose selectors match the pods of this one, or whose pods its selector matches.

    A Deployment and its ReplicaSets, and the ReplicaSets of one Deployment, do not conflict.
    """
    return tuple(sorted((other for other in others if _conflicts(workload, other)), key=str))


def _conflicts(workload: WorkloadRef, other: WorkloadRef) -> bool:
    return (_selects(other, workload) or _selects(workload, other)) and not _are_related(workload, other)


def _are_related(workload: WorkloadRef, other: WorkloadRef) -> bool:
    """Whether they are one family, or of different namespaces."""
    if other.namespace != workload.namespace or other.uid == workload.uid:
        return True
    family = {workload.uid, workload.owner_uid} - {""}
    return not family.isdisjoint((other.uid, other.owner_uid))


def _selects(selecting: WorkloadRef, workload: WorkloadRef) -> bool:
    return bool(workload.pod_labels) and selecting.selector.matches(workload.pod_labels)


def conflicts_by_uid(workloads: Iterable[WorkloadRef]) -> dict[str, tuple[WorkloadRef, ...]]:
    """The conflicting workloads of each workload of a namespace that has some, by UID: for all of them at once.

    Of a workload with more than `MOST`, so many are found: which ones depends on nothing but the workloads. One with
    more than `MAX_LABELS` is left out: hundreds of these would be compared for long.
    """
    search = _Search(sorted((each for each in workloads if not is_large(each)), key=str))
    return {uid: tuple(sorted(others.values(), key=str)) for uid, others in search.found.items() if others}


def is_large(ref: WorkloadRef) -> bool:
    """Whether a workload has more labels than are compared."""
    values = sum(len(each.values) for each in ref.selector.requirements)
    return max(len(ref.pod_labels), len(ref.selector.requirements), values) > MAX_LABELS


Mark = tuple[str, str | None] | None
"""Something that pods have: a label with a value; a label with any (None for the value); or nothing in particular."""


class _Search:
    """Finds the conflicts of all workloads of a namespace.

    A workload that selects by labels is compared only with those whose pods have the rarest of these. None is compared
    for a pair of workloads that both have `MOST` conflicts, so that 1,000 workloads with equal labels, each of which
    conflicts with all others, are not compared a million times.
    """

    def __init__(self, refs: Sequence[WorkloadRef]) -> None:
        self.found: dict[str, dict[str, WorkloadRef]] = {ref.uid: {} for ref in refs}
        self._by_mark: dict[Mark, list[WorkloadRef]] = {}
        """The workloads that may select pods with a mark."""
        frequency = Counter(mark for ref in refs for mark in _marks(ref))
        for ref in refs:
            for mark in min(_needed(ref.selector), key=lambda marks: sum(map(frequency.__getitem__, marks))):
                self._by_mark.setdefault(mark, []).append(ref)
        self._open = dict(self._by_mark)
        """The same without workloads that have enough conflicts."""
        for ref in refs:
            for mark in _marks(ref):
                if mark in self._by_mark:
                    self._compare(ref, mark)

    def _compare(self, ref: WorkloadRef, mark: Mark) -> None:
        """Find the workloads among those of a mark that select the pods of this one."""
        own = self.found[ref.uid]
        if len(own) < MOST:
            others = self._by_mark[mark]
        else:
            others = self._open[mark] = [each for each in self._open[mark] if len(self.found[each.uid]) < MOST]
        for other in others:
            theirs = self.found[other.uid]
            is_known = other.uid in own or ref.uid in theirs or (len(own) >= MOST and len(theirs) >= MOST)
            if not is_known and _selects(other, ref) and not _are_related(ref, other):
                _add(own, other)
                _add(theirs, ref)


def _add(found: dict[str, WorkloadRef], other: WorkloadRef) -> None:
    if len(found) < MOST:
        found[other.uid] = other


def _marks(ref: WorkloadRef) -> Iterator[Mark]:
    """The marks of a workload's pods."""
    yield None
    for name, value in ref.pod_labels.items():
        yield name, value
        yield name, None


def _needed(selector: Selector) -> Iterator[Sequence[Mark]]:
    """For each requirement: marks of which everything that the selector matches has exactly one."""
    yield (None,)
    yield from needed_labels(selector)
    for each in selector.requirements:
        if each.operator is Operator.EXISTS:
            yield ((each.key, None),)
