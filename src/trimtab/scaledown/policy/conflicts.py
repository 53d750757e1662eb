"""Workloads whose selectors match the same pods. Pure.

Two such workloads create and delete each other's pods without end; no policy applies to either of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from trimtab.api.selectors import Operator, Selector
from trimtab.scaledown.policy.workloads import WorkloadRef

MOST = 20
"""How many conflicting workloads of one are found where those of a whole namespace are: one is enough to exempt it."""


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

    Of a workload with more than `MOST`, so many are found: which ones depends on nothing but the workloads.
    """
    search = _Search(sorted(workloads, key=str))
    return {uid: tuple(sorted(others.values(), key=str)) for uid, others in search.found.items() if others}


Pair = tuple[str, str]


class _Search:
    """Finds the conflicts of all workloads of a namespace.

    A workload that selects by labels is compared only with those whose pods have the rarest of these. None is compared
    for a pair of workloads that both have `MOST` conflicts, so that 1,000 workloads with equal labels, each of which
    conflicts with all others, are not compared a million times.
    """

    def __init__(self, refs: Sequence[WorkloadRef]) -> None:
        self.found: dict[str, dict[str, WorkloadRef]] = {ref.uid: {} for ref in refs}
        self._by_pair: dict[Pair | None, list[WorkloadRef]] = {}
        """The workloads that may select pods with a label; under None, those that may select any."""
        frequency = Counter(pair for ref in refs for pair in ref.pod_labels.items())
        for ref in refs:
            pair = min(_pairs(ref.selector), key=frequency.__getitem__, default=None)
            self._by_pair.setdefault(pair, []).append(ref)
        self._open = dict(self._by_pair)
        """The same without workloads that have enough conflicts."""
        for ref in refs:
            for pair in [each for each in (None, *ref.pod_labels.items()) if each in self._by_pair]:
                self._compare(ref, pair)

    def _compare(self, ref: WorkloadRef, pair: Pair | None) -> None:
        """Find the workloads among those of a pair that select the pods of this one."""
        own = self.found[ref.uid]
        if len(own) < MOST:
            others = self._by_pair[pair]
        else:
            others = self._open[pair] = [each for each in self._open[pair] if len(self.found[each.uid]) < MOST]
        for other in others:
            theirs = self.found[other.uid]
            is_known = other.uid in own or ref.uid in theirs or (len(own) >= MOST and len(theirs) >= MOST)
            if not is_known and _selects(other, ref) and not _are_related(ref, other):
                _add(own, other)
                _add(theirs, ref)


def _add(found: dict[str, WorkloadRef], other: WorkloadRef) -> None:
    if len(found) < MOST:
        found[other.uid] = other


def _pairs(selector: Selector) -> Iterator[Pair]:
    """The labels that every object has that the selector matches, as far as its requirements name them."""
    for each in selector.requirements:
        if each.operator is Operator.EQUALS:
            yield each.key, each.values[0]
