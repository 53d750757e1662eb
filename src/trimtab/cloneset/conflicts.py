"""CloneSets whose selectors overlap. Pure.

A pod has one controller, so CloneSets cannot take pods from one another. But two that select the same pods would both
try to adopt an orphan, and each scales without regard to the other's pods. So both report the conflict, and orphans are
left to the oldest of those that adopt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trimtab.api import codec, times
from trimtab.api.cloneset import CloneSet, problems
from trimtab.api.compiled_selectors import compiled_or_nothing
from trimtab.api.errors import InvalidError
from trimtab.api.pods import PodTemplateSpec
from trimtab.api.selectors import Selector


def conflicting(cloneset: CloneSet, others: Iterable[CloneSet]) -> tuple[CloneSet, ...]:
    """The CloneSets of its namespace that select its pods, or whose pods it selects; the oldest first."""
    return tuple(sorted((other for other in others if _conflicts(cloneset, other)), key=_age))


def defers_adoption(cloneset: CloneSet, others: Sequence[CloneSet]) -> bool:
    """Whether it leaves orphans to an older conflicting CloneSet that adopts them."""
    return any(_age(other) < _age(cloneset) and _adopts(other) for other in others)


def _adopts(cloneset: CloneSet) -> bool:
    """Whether it adopts pods: not while it is being deleted or is invalid."""
    return cloneset.metadata.deletion_timestamp is None and not any(problems(cloneset))


def selector_of(cloneset: CloneSet) -> Selector:
    """Its selector; one that is invalid matches nothing."""
    return compiled_or_nothing(cloneset.spec.selector)


def _conflicts(one: CloneSet, other: CloneSet) -> bool:
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
