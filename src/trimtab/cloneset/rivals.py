"""CloneSets whose selectors overlap. Pure.

A pod has one controller, so CloneSets cannot take pods from one another. But two that select the same pods would both
reach for one that belongs to nobody, and each shrinks and grows without knowing what the other has. So both say so, and
pods of nobody are left to the oldest of those that take any in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimtab.api import codec, selectors, times
from trimtab.api.cloneset import CloneSet, problems
from trimtab.api.errors import InvalidError
from trimtab.api.pods import PodTemplateSpec
from trimtab.api.selectors import NOTHING, Selector


def rivals(cloneset: CloneSet, others: Iterable[CloneSet]) -> tuple[CloneSet, ...]:
    """Those of the same namespace that select its pods, or whose pods it selects; the oldest first."""
    found = [other for other in others if _contend(cloneset, other)]
    return tuple(sorted(found, key=_age))


def yields(cloneset: CloneSet, found: Sequence[CloneSet]) -> bool:
    """Whether it leaves pods of nobody to somebody else: to one who takes them in."""
    return any(_age(rival) < _age(cloneset) and _adopts(rival) for rival in found)


def _adopts(cloneset: CloneSet) -> bool:
    """One that is going, or cannot be kept, touches nothing."""
    return cloneset.metadata.deletion_timestamp is None and not any(problems(cloneset))


def selector_of(cloneset: CloneSet) -> Selector:
    """Which pods it selects: none, where that makes no sense."""
    try:
        return selectors.compile(cloneset.spec.selector)
    except InvalidError:
        return NOTHING


def _contend(one: CloneSet, other: CloneSet) -> bool:
    if one.metadata.uid == other.metadata.uid or one.metadata.namespace != other.metadata.namespace:
        return False
    return _selects(one, other) or _selects(other, one)


def _selects(one: CloneSet, other: CloneSet) -> bool:
    selector = selector_of(one)
    try:
        labels = codec.view(other.spec.template, PodTemplateSpec).metadata.labels
    except InvalidError:
        return False
    return not selector.empty and selector.matches(labels)


def _age(cloneset: CloneSet) -> tuple[int, str]:
    created = cloneset.metadata.creation_timestamp
    return (0 if created is None else times.to_ns(created), cloneset.metadata.uid)
