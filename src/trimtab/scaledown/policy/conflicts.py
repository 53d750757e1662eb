"""Workloads whose selectors match the same pods. Pure.

Two such workloads create and delete each other's pods without end; no policy applies to either of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

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
    groups = _equal_workloads(sorted((each for each in workloads if not is_large(each)), key=str))
    _Search(groups)
    return {uid: others for group in groups for uid, others in group.conflicts()}


def is_large(ref: WorkloadRef) -> bool:
    """Whether a workload has more labels than are compared."""
    values = sum(len(each.values) for each in ref.selector.requirements)
    return max(len(ref.pod_labels), len(ref.selector.requirements), values) > MAX_LABELS


_MOST_KEYS = 8
"""How many combinations of labels are looked up for a mark: where selectors have more, they are compared at once."""

Mark = tuple[str, str | None] | None
"""Something that pods have: a label with a value; a label with any (None for the value); or nothing in particular."""


@dataclass(slots=True, eq=False)
class _EqualWorkloads:
    """Workloads with the same selector, labels of pods and owner, none of which owns another workload.

    A workload that owns others is alone in its group. So what holds for one workload of each of two groups holds for
    all: they conflict, or they do not. The same is true of any two workloads within one.
    """

    members: list[WorkloadRef] = field(default_factory=list)
    conflicting: dict[_EqualWorkloads, None] = field(default_factory=dict)
    """Groups whose workloads conflict with these; no more than are needed for `MOST` conflicts of each."""
    found: int = 0
    """How many conflicts each of the workloads has with those."""

    @property
    def first(self) -> WorkloadRef:
        """The workload that is compared for all of them."""
        return self.members[0]

    @property
    def is_full(self) -> bool:
        """Whether enough conflicts have been found."""
        return self.found >= MOST

    def compare(self, other: _EqualWorkloads) -> None:
        """Add the conflicts of both, if the other group selects the pods of this one."""
        if other in self.conflicting or self in other.conflicting or (self.is_full and other.is_full):
            return
        last = other.members[-1]  # not the first: a group is compared with itself, too
        if _selects(last, self.first) and not _are_related(self.first, last):
            self.add(other)
            if other is not self:
                other.add(self)

    def add(self, other: _EqualWorkloads) -> None:
        """Add a group that conflicts with this one, unless enough have been found."""
        if not self.is_full:
            self.conflicting[other] = None
            self.found += len(other.members) - (other is self)

    def conflicts(self) -> Iterator[tuple[str, tuple[WorkloadRef, ...]]]:
        """The UID of each workload that has conflicts, and at most `MOST` of these."""
        if not self.conflicting:
            return
        others = chain.from_iterable(each.members for each in self.conflicting)
        chosen = sorted(islice(others, MOST + 1), key=str)  # one more: it may be the workload itself
        for ref in self.members:
            yield ref.uid, tuple(each for each in chosen if each is not ref)[:MOST]


def _equal_workloads(refs: Sequence[WorkloadRef]) -> list[_EqualWorkloads]:
    owners = {ref.owner_uid for ref in refs}
    found: defaultdict[Hashable, _EqualWorkloads] = defaultdict(_EqualWorkloads)
    for ref in refs:
        alone = ref.uid if ref.uid in owners else ""
        labels = frozenset(ref.pod_labels.items())
        found[ref.namespace, ref.selector, labels, ref.owner_uid, alone].members.append(ref)
    return list(found.values())


class _Selecting:
    """Groups that may select the same pods, by the owner of their workloads."""

    def __init__(self) -> None:
        self._by_owner: dict[str, list[_EqualWorkloads]] = {}
        self._open: dict[str, list[_EqualWorkloads]] | None = None
        """The same without groups that have enough conflicts; None until a group that has enough is compared."""

    def add(self, group: _EqualWorkloads) -> None:
        """Add a group, before any is compared."""
        self._by_owner.setdefault(group.first.owner_uid, []).append(group)

    def compared_with(self, group: _EqualWorkloads) -> Iterator[_EqualWorkloads]:
        """The groups that may conflict with this one: those of its own owner do not."""
        own = group.first.owner_uid
        if group.is_full:
            yield from self._open_besides(own)
            return
        for owner, others in self._by_owner.items():
            if not owner or owner != own:
                yield from others

    def _open_besides(self, own: str) -> Iterator[_EqualWorkloads]:
        if self._open is None:
            self._open = dict(self._by_owner)
        for owner in [each for each in self._open if not each or each != own]:
            others = self._open[owner] = [each for each in self._open[owner] if not each.is_full]
            if not others:
                del self._open[owner]
            yield from others


class _Search:
    """Finds the conflicts of all workloads of a namespace.

    Groups are compared, not workloads: 1,000 ReplicaSets of one owner with equal labels are one group. A group that
    selects by labels is compared only with those whose pods have the rarest of these, and, where most selectors name
    the same labels, all that must have one value. None is compared for a pair of groups that both have `MOST`
    conflicts, so that 1,000 workloads, each of which conflicts with all others, are not compared a million times.
    """

    def __init__(self, groups: Sequence[_EqualWorkloads]) -> None:
        self._keys: dict[Mark, dict[tuple[str, ...], None]] = {}
        """The labels that must have one value in the selectors that need a mark; those of one selector together."""
        self._selecting: dict[Hashable, _Selecting] = {}
        """The groups that may select pods, by a mark and by these labels and values."""
        frequency = Counter(mark for group in groups for mark in _marks(group.first))
        needing: defaultdict[Mark, list[_EqualWorkloads]] = defaultdict(list)
        for group in groups:
            selector = group.first.selector
            for mark in min(_needed(selector), key=lambda marks: sum(map(frequency.__getitem__, marks))):
                if not selector.nothing:
                    needing[mark].append(group)
        for mark, found in needing.items():
            self._add(mark, found)
        for group in groups:
            self._compare(group)

    def _add(self, mark: Mark, groups: Sequence[_EqualWorkloads]) -> None:
        labels = [_one_valued(group.first.selector) for group in groups]
        if len({keys for keys, _ in labels}) > _MOST_KEYS:
            labels = [((), ())] * len(groups)
        for group, (keys, values) in zip(groups, labels, strict=True):
            self._keys.setdefault(mark, {})[keys] = None
            self._selecting.setdefault((mark, keys, values), _Selecting()).add(group)

    def _compare(self, group: _EqualWorkloads) -> None:
        """Find the groups that select the pods of this one."""
        get = group.first.pod_labels.get
        for mark in _marks(group.first):
            for keys in self._keys.get(mark, ()):
                found = self._selecting.get((mark, keys, tuple(map(get, keys))))
                for other in () if found is None else found.compared_with(group):
                    group.compare(other)


def _one_valued(selector: Selector) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels that must have one value, and these values."""
    labels = [labels[0] for labels in needed_labels(selector) if len(labels) == 1]
    return tuple(key for key, _ in labels), tuple(value for _, value in labels)


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
