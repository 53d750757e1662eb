"""What became of a plan, judged from the cluster alone. Pure.

A plan is about a workload that was to have `to` pods. Its costs are right as long as that is what is happening, and
nobody's business afterwards:

| the workload | the plan | its costs |
|---|---|---|
| is gone, or another has its name | came to nothing | are taken back |
| still wants more, and the request was answered just now | is not stored yet | stay |
| still wants more | came to nothing: refused, lost, or taken back by its user | are taken back |
| wants so few, and some controller has more pods than that | is under way | stay, however long it takes |
| wants so few, and no controller has more | is done | are taken back from whoever is left |

Between a Deployment and its pods stands a ReplicaSet, and it shrinks a moment after the Deployment: while it has the
size that it had, that is still to come. One that has not been resized after ten minutes will not be. One that still has
another size than was foreseen when the patience is over was resized for another reason, as in a rollout, and is judged
by what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import Enum

from trimtab.scaledown.metrics import Cause

PATIENCE = 10.0
"""Seconds that an answered request may take to show."""
STUCK = 600.0
"""Seconds that a ReplicaSet may take to be resized after its Deployment."""


class Verdict(Enum):
    """What became of a plan."""

    WAITING = "waiting"
    UNDER_WAY = "under way"
    DONE = "done"
    NOTHING = "nothing"

    @property
    def keeps(self) -> bool:
        """Whether its costs stay."""
        return self in (Verdict.WAITING, Verdict.UNDER_WAY)


@dataclass(frozen=True, slots=True)
class Pods:
    """A controller of pods: the size that it had, the one that was foreseen, the one it has now (None: it is gone), and
    how many active pods it has."""

    was: int
    share: int
    wanted: int | None
    active: int


def judge(
    *, to: int, wanted: int | None, controllers: Iterable[Pods], age: float, patience: float = PATIENCE
) -> Verdict:
    """What became of a plan for `to` pods; `wanted` is the workload's size now, None where it is gone."""
    if wanted is None:
        return Verdict.NOTHING
    if wanted > to:
        return Verdict.WAITING if age < patience else Verdict.NOTHING
    return Verdict.UNDER_WAY if any(_shrinks(each, age) for each in controllers) else Verdict.DONE


def _shrinks(pods: Pods, age: float) -> bool:
    if pods.wanted is None:
        return False
    if pods.wanted > pods.share and age < (STUCK if pods.wanted == pods.was else PATIENCE):
        return True
    return pods.active > pods.wanted


def misses(
    victims: Set[str],
    survivors: Set[str],
    active: Set[str],
    ready: Mapping[str, bool],
    *,
    whole: bool,
    sent_away: Set[str] = frozenset(),
    rolled: bool = False,
) -> Mapping[Cause, int]:
    """Why pods went that were to stay: how many for each cause. All pods are named by their UIDs.

    `ready` says of pods that went whether they were ready when they did; `whole` whether all costs were in place;
    `sent_away` are pods that say themselves that it was not their controller who chose them. For each of these one
    victim fewer was needed. `rolled` says that pods were of several revisions, of which the older go first.
    """
    gone = survivors - active
    elsewhere = len(gone & sent_away)
    spared = max(0, len(victims & active) - elsewhere)
    causes = dict.fromkeys(Cause, 0)
    causes[Cause.DELETED] = elsewhere
    for uid in gone - sent_away:
        if spared == 0:
            causes[Cause.DELETED] += 1
            continue
        spared -= 1
        if rolled or not ready.get(uid, True):
            causes[Cause.STANDING] += 1
        else:
            causes[Cause.LAG if whole else Cause.UNWRITTEN] += 1
    return causes
