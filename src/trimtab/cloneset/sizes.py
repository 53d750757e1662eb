"""How many pods to create, to delete, and to replace. Pure.

With R the desired number, S the surge, U how many may be unavailable, and n active pods:

1. **Ceiling.** The target is E = R + s pods, where s ≤ S is what an update or a pod specified for deletion makes use
   of. Pods are created only while n < E, so the controller never creates more than R + S.
2. **Floor.** Of the available pods at most `spare` = U + (n − R) − unavailable may be deleted, so that R − U stay. Pods
   that are not available may always be deleted: that lowers nothing.

The first step that is needed is done, and the rest is decided when its effect has been observed:

| step | when | how many |
|---|---|---|
| create pods | n < E | E − n, but no more than scaleStrategy.maxUnavailable allows to be unavailable |
| delete specified pods | some are specified | all, available ones as far as `spare` goes |
| delete surplus pods | n > E without the specified ones | beyond E, old revisions first, as far as `spare` goes |
| replace old pods | some are old, updates are not paused | as many as the newest revision lacks, see `replaceable` |

Of the newest revision only pods beyond R, or beyond R + S with all others, are surplus. The rest of a surge that is not
available yet would be created again.

For scaleStrategy.maxUnavailable only pods of the newest revision count. If those of an older one did, a revision that
never becomes available would block the one that fixes it.

A terminating pod does not count: its replacement is created while it terminates.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.api import percent
from trimtab.api.cloneset import DEFAULT_MAX_UNAVAILABLE, CloneSetSpec
from trimtab.cloneset.observation import Group


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a spec, as numbers of pods."""

    replicas: int
    surge: int = 0
    unavailable: int = 0
    scale_unavailable: int | None = None
    """How many may be unavailable during a scale-up; None for any number."""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of pods of each sort."""

    total: int = 0
    old: int = 0
    """Pods of older revisions that are not specified."""
    new: int = 0
    """Pods of the newest revision that are not specified."""
    specified: int = 0
    unavailable: int = 0
    new_unavailable: int = 0
    """Pods of the newest revision that are neither available nor specified."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many pods each step concerns."""

    create: int = 0
    specified: int = 0
    shrink: int = 0
    shrink_new: int = 0
    """How many of the surplus may be of the newest revision."""
    replace: int = 0
    spare: int = 0
    """How many available pods may be deleted."""
    delayed: int = 0
    """How many more pods would be created without scaleStrategy.maxUnavailable."""


def bounds(spec: CloneSetSpec) -> Bounds:
    """The bounds of a spec. Percentages are of `replicas`; a surge is rounded up, and without one so is the rest."""
    update, replicas = spec.update_strategy, spec.replicas
    surge = 0 if update.paused or update.max_surge is None else _of(update.max_surge, replicas, round_up=True)
    allowed = DEFAULT_MAX_UNAVAILABLE if update.max_unavailable is None else update.max_unavailable
    scaling = spec.scale_strategy.max_unavailable
    return Bounds(
        replicas=replicas,
        surge=surge,
        unavailable=_of(allowed, replicas, round_up=surge == 0),
        scale_unavailable=None if scaling is None else _of(scaling, replicas, round_up=True),
        paused=update.paused,
    )


def count(group: Group) -> Counts:
    """The number of pods of each sort in a group."""
    return Counts(
        total=len(group),
        old=int((~group.updated & ~group.specified).sum()),
        new=int((group.updated & ~group.specified).sum()),
        specified=int(group.specified.sum()),
        unavailable=int((~group.available).sum()),
        new_unavailable=int((group.updated & ~group.available & ~group.specified).sum()),
    )


def expected(limits: Bounds, counts: Counts) -> int:
    """The target number of pods: `replicas`, and the part of the surge that is useful now."""
    replaced = min(counts.old, max(limits.replicas - counts.new, 0))
    leaving = min(max(counts.unavailable + counts.specified - limits.unavailable, 0), counts.specified)
    return limits.replicas + min(limits.surge, max(replaced, leaving))


def sizes(limits: Bounds, counts: Counts) -> Sizes:
    """How many pods each step concerns."""
    wanted = expected(limits, counts)
    missing = max(wanted - counts.total, 0)
    room = missing if limits.scale_unavailable is None else limits.scale_unavailable - counts.new_unavailable
    create = min(missing, max(room, 0))
    shrink = max(counts.total - counts.specified - wanted, 0)
    return Sizes(
        create=create,
        delayed=missing - create,
        specified=counts.specified,
        shrink=shrink,
        shrink_new=min(shrink, _dispensable(limits, counts)),
        replace=replaceable(limits, counts),
        spare=max(limits.unavailable + counts.total - limits.replicas - counts.unavailable, 0),
    )


def _dispensable(limits: Bounds, counts: Counts) -> int:
    """How many pods of the newest revision are surplus in any case: beyond `replicas`, or beyond the ceiling."""
    return max(counts.new - limits.replicas, counts.total - counts.specified - limits.replicas - limits.surge, 0)


def replaceable(limits: Bounds, counts: Counts) -> int:
    """How many old pods may be deleted for new ones to replace them.

    The newest revision never has more unavailable pods than allowed by this: a revision that does not become available
    must not replace all others, however broken those are.
    """
    if limits.paused:
        return 0
    missing = min(counts.old, max(limits.replicas - counts.new, 0))
    allowed = limits.unavailable + counts.total - limits.replicas
    return max(min(missing, allowed - counts.new_unavailable), 0)


def _of(amount: int | str, replicas: int, *, round_up: bool) -> int:
    return max(percent.scaled(amount, replicas, round_up=round_up), 0)
