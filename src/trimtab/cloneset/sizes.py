"""How many pods to make, to delete, and to replace. Pure.

With R the wanted number, S the surge, U how many may be unavailable, of n active pods:

1. **Ceiling.** There are to be E = R + s pods, where s ≤ S is what an update or a marked pod makes use of. Pods are
   made only while n < E, so there are never more than R + S by our doing.
2. **Floor.** Of the available pods at most `spare` = U + (n − R) − unavailable may be deleted, so that R − U stay. Pods
   that are not available may always go: that lowers nothing.

Of the things that can be done the first one is done, and the rest is looked at when its effect has been seen:

| what | when | how many |
|---|---|---|
| make pods | n < E | E − n, but no more than scaleStrategy.maxUnavailable leaves unavailable |
| delete marked pods | some are marked | all, available ones as far as `spare` goes |
| delete surplus pods | n > E without the marked ones | what is beyond E, old revisions first, as far as `spare` goes |
| replace old pods | some are old, updates are not paused | as many as the newest revision lacks, see `replaceable` |

Of the newest revision only what is beyond R, or beyond R + S with all others, is surplus. The rest of a surge that has
not come up yet would be made again.

For scaleStrategy.maxUnavailable the pods of the newest revision count alone. If those of an older one did, a revision
that never comes up would keep the one that mends it from being made.

A pod that is terminating does not count: what replaces it is made while it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.api import percent
from trimtab.api.cloneset import DEFAULT_MAX_UNAVAILABLE, CloneSetSpec
from trimtab.cloneset.observation import Group


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a spec comes to."""

    replicas: int
    surge: int = 0
    unavailable: int = 0
    scale_unavailable: int | None = None
    """How many may be unavailable while it grows; any number, where None."""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """What there is."""

    total: int = 0
    old: int = 0
    """Those of older revisions that are not marked."""
    new: int = 0
    """Those of the newest revision that are not marked."""
    marked: int = 0
    unavailable: int = 0
    new_unavailable: int = 0
    """Those of the newest revision that are neither available nor marked."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is to be done."""

    create: int = 0
    marked: int = 0
    shrink: int = 0
    shrink_new: int = 0
    """How many of these may be of the newest revision."""
    replace: int = 0
    spare: int = 0
    """How many available pods may be deleted."""
    held_back: int = 0
    """How many more would be made if scaleStrategy.maxUnavailable did not hold them back."""


def bounds(spec: CloneSetSpec) -> Bounds:
    """Percentages are of the wanted number. A surge is rounded up; without one, so is what may be unavailable."""
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
    """How many of each sort."""
    return Counts(
        total=len(group),
        old=int((~group.updated & ~group.marked).sum()),
        new=int((group.updated & ~group.marked).sum()),
        marked=int(group.marked.sum()),
        unavailable=int((~group.available).sum()),
        new_unavailable=int((group.updated & ~group.available & ~group.marked).sum()),
    )


def expected(limits: Bounds, counts: Counts) -> int:
    """How many pods there are to be just now: the wanted number, and what of the surge is of use."""
    replaced = min(counts.old, max(limits.replicas - counts.new, 0))
    leaving = min(max(counts.unavailable + counts.marked - limits.unavailable, 0), counts.marked)
    return limits.replicas + min(limits.surge, max(replaced, leaving))


def sizes(limits: Bounds, counts: Counts) -> Sizes:
    """What is to be done."""
    wanted = expected(limits, counts)
    missing = max(wanted - counts.total, 0)
    room = missing if limits.scale_unavailable is None else limits.scale_unavailable - counts.new_unavailable
    create = min(missing, max(room, 0))
    shrink = max(counts.total - counts.marked - wanted, 0)
    return Sizes(
        create=create,
        held_back=missing - create,
        marked=counts.marked,
        shrink=shrink,
        shrink_new=min(shrink, _dispensable(limits, counts)),
        replace=replaceable(limits, counts),
        spare=max(limits.unavailable + counts.total - limits.replicas - counts.unavailable, 0),
    )


def _dispensable(limits: Bounds, counts: Counts) -> int:
    """How many new pods are too many whatever becomes of the old ones: more than are wanted, or than there may be."""
    return max(counts.new - limits.replicas, counts.total - counts.marked - limits.replicas - limits.surge, 0)


def replaceable(limits: Bounds, counts: Counts) -> int:
    """How many old pods may be deleted for new ones to take their place.

    No more than leaves the newest revision with as many unavailable pods as are allowed: one that does not come up
    must not take the place of all others, however broken those are.
    """
    if limits.paused:
        return 0
    missing = min(counts.old, max(limits.replicas - counts.new, 0))
    allowed = limits.unavailable + counts.total - limits.replicas
    return max(min(missing, allowed - counts.new_unavailable), 0)


def _of(amount: int | str, replicas: int, *, round_up: bool) -> int:
    return max(percent.scaled(amount, replicas, round_up=round_up), 0)
