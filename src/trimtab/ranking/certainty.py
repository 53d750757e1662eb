"""Which pods a ReplicaSet's controller may delete: what is certain about its choice, and what is not.

The controller compares ages on a logarithmic scale *when it acts*, by its own clock, and it lists pods in a different
order at every sync. So a prediction for one moment is not certain:

1. At one moment, criteria 1 to 5 and the scale of the ready time order pods reliably (`victims` lists the criteria).
   Pods that are equal in all of these form a *group*. Groups go one after the other, whatever the sort does inside.
2. Only the group in which the last deletion falls can be split. Inside it, two pods with different ready times compare
   by UID, two with the same ready time by restarts, then by the scale of the creation time, then by UID. Where this
   comparison is a strict weak order for the whole group, it decides, and only pods that tie in it are left to chance.
   Where it is not (it need not be transitive), every combination of the group is possible.
3. Scales change only when some age crosses the start of a scale. Between two crossings the groups stay the same, so
   evaluating each interval of the window once covers every moment of it.
4. Restarts of sidecars count since Kubernetes 1.32. Which version the controller has is not known, so where they make a
   difference both outcomes are possible.

A clock that is off by d seconds makes the controller act as if it were d seconds earlier or later: a tolerance for
clocks is added to both ends of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.ranking.contenders import AppliedCriterion, Contenders, Criterion
from trimtab.ranking.keys import SECOND, Packed, packed
from trimtab.ranking.scales import starts
from trimtab.ranking.skews import OpenCounts
from trimtab.ranking.victims import STOCK, Options, Order, order_replicas, replicaset_levels, same_node_counts
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.pods import NEVER

MOST_COMPARED = 256
"""Larger groups are not compared pod by pod: every combination of them counts as possible."""
MOST_MOMENTS = 4096
"""More crossings than this in one window are not evaluated; nothing is then certain."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which a controller may act, in nanoseconds of its own clock, both ends included."""

    start: int
    end: int

    @classmethod
    def after(cls, now: int, *, seconds: float, tolerance: float) -> Window:
        """From now on for some seconds, for a clock that may be off by `tolerance` seconds."""
        margin = round(tolerance * SECOND)
        return cls(now - margin, now + round(seconds * SECOND) + margin)


@dataclass(frozen=True, slots=True, eq=False)
class DeletionOutcome:
    """What happens at one moment, as masks over the contenders: `certain` pods go, and `take` of the `open` ones."""

    certain: Mask
    open: Mask
    take: int

    @property
    def is_unique(self) -> bool:
        """Whether nothing is left to chance."""
        return self.take == 0

    def counts(self, domains: IntColumn, counts: IntColumn) -> OpenCounts:
        """The pods that stay in each domain: `domains` has each contender's, negative for none; `counts` all pods."""
        size = len(counts)
        gone = domains[self.certain]
        chance = domains[self.open]
        left = counts - np.bincount(gone[gone >= 0], minlength=size)
        in_domains = np.bincount(chance[chance >= 0], minlength=size)
        return OpenCounts(left, in_domains, self.take, int((chance < 0).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class PossibleVictims:
    """Everything that a controller may do in a window: one outcome for each set of groups that occurs in it."""

    rows: IntColumn
    outcomes: tuple[DeletionOutcome, ...]

    @property
    def always(self) -> IntColumn:
        """The rows of the pods that go in every case."""
        return self.rows[np.logical_and.reduce([each.certain for each in self.outcomes])]

    @property
    def possible(self) -> IntColumn:
        """The rows of the pods that go in some case, those of `always` included."""
        return self.rows[np.logical_or.reduce([each.certain | each.open for each in self.outcomes])]

    @property
    def is_unique(self) -> bool:
        """Whether the set of victims is the same in every case."""
        return len(self.always) == len(self.possible)

    def skews(self, domains: IntColumn, counts: IntColumn) -> tuple[int, int]:
        """The smallest and the largest skew that any case leaves."""
        found = [each.counts(domains, counts) for each in self.outcomes]
        return min(each.best for each in found), max(each.worst for each in found)


def possible_victims(
    contenders: Contenders,
    related_rows: IntColumn | Sequence[int],
    count: int,
    window: Window,
    options: Options = STOCK,
) -> PossibleVictims:
    """What a ReplicaSet's controller may delete if it deletes `count` pods at some moment of a window.

    `related_rows` are the pods of its group; a ReplicaSet without an owner and a ReplicationController have none.
    """
    return PossibleVictims(contenders.rows, tuple(outcomes(contenders, related_rows, count, window, options)))


def outcomes(
    contenders: Contenders,
    related_rows: IntColumn | Sequence[int],
    count: int,
    window: Window,
    options: Options = STOCK,
) -> Iterator[DeletionOutcome]:
    """The same, one distinct outcome after the other."""
    moments = _moments(contenders, window, options)
    if count >= len(contenders) or len(moments) > MOST_MOMENTS:
        yield from (_everything(contenders) if count >= len(contenders) else _anything(contenders, count)).outcomes
        return
    ranks = same_node_counts(contenders.pods, contenders.column("node"), related_rows)
    unchanging: Packed | None = None
    seen: set[tuple[bytes, bytes]] = set()
    for moment in moments:
        levels = replicaset_levels(contenders, ranks, moment, options)
        upto = next(at for at, level in enumerate(levels) if level.criterion is Criterion.READY_TIME)
        if unchanging is None:
            unchanging = packed([level.keys(slice(None)) for level in levels[:upto]])
        for outcome in _outcomes_at(contenders, unchanging, levels[upto:], count):
            identity = (outcome.certain.tobytes(), outcome.open.tobytes())
            if identity not in seen:
                seen.add(identity)
                yield outcome


def exact_order(contenders: Contenders, related_rows: IntColumn | Sequence[int], options: Options = STOCK) -> Order:
    """The order of a ReplicaSet's controller that compares ages as they are: no moment matters to it."""
    return order_replicas(contenders, related_rows, None, options)


def only(contenders: Contenders, order: Order, count: int) -> PossibleVictims:
    """What a controller deletes whose order does not depend on the time: a CloneSet's. Ties are left to chance."""
    if count >= len(contenders):
        return _everything(contenders)
    keys = packed([level.keys(slice(None)) for level in order.levels]).keys
    return PossibleVictims(contenders.rows, (_cut(keys, count),))


def _everything(contenders: Contenders) -> PossibleVictims:
    size = len(contenders)
    return PossibleVictims(contenders.rows, (DeletionOutcome(np.ones(size, np.bool_), np.zeros(size, np.bool_), 0),))


def _anything(contenders: Contenders, count: int) -> PossibleVictims:
    size = len(contenders)
    return PossibleVictims(
        contenders.rows, (DeletionOutcome(np.zeros(size, np.bool_), np.ones(size, np.bool_), count),)
    )


def _moments(contenders: Contenders, window: Window, options: Options) -> list[int]:
    """The start of the window, and every moment in it at which some age crosses into another scale."""
    if not options.logarithmic:
        return [window.start]
    times = np.concatenate((contenders.column("ready_since"), contenders.column("created")))
    times = np.sort(times[times != NEVER])
    ages = starts(options.base)
    first, last = (np.searchsorted(times, edge - ages, side="right") for edge in (window.start, window.end))
    crossings = {
        int(time) + int(age)
        for age, begin, end in zip(ages.tolist(), first.tolist(), last.tolist(), strict=True)
        for time in np.unique(times[begin:end]).tolist()
    }
    return [window.start, *sorted(crossings)]


def _outcomes_at(
    contenders: Contenders, unchanging: Packed, levels: Sequence[AppliedCriterion], count: int
) -> Iterator[DeletionOutcome]:
    """The outcomes at one moment: `unchanging` are the keys of criteria 1 to 5, `levels` the criteria from 6 on."""
    keys = packed([unchanging.keys, levels[0].keys(slice(None))]).keys
    outcome = _cut(keys, count)
    if outcome.is_unique:
        yield outcome
        return
    yield _refined(contenders, levels, outcome)
    if len(np.unique(contenders.some("sidecar_restarts", np.flatnonzero(outcome.open)))) > 1:
        without = [level for level in levels if level.criterion is not Criterion.SIDECAR_RESTARTS]
        yield _refined(contenders, without, outcome)


def _cut(keys: IntColumn, count: int) -> DeletionOutcome:
    """The first `count` pods by a key; pods with the key at which the count is reached are open."""
    if count == 0:
        return DeletionOutcome(np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_), 0)
    last = np.partition(keys, count - 1)[count - 1]
    certain, chance = keys < last, keys == last
    take = count - int(certain.sum())
    if take == int(chance.sum()):
        return DeletionOutcome(certain | chance, np.zeros(len(keys), np.bool_), 0)
    return DeletionOutcome(certain, chance, take)


def _refined(contenders: Contenders, levels: Sequence[AppliedCriterion], outcome: DeletionOutcome) -> DeletionOutcome:
    """The outcome with the group at the cut compared pod by pod, where that comparison is a strict weak order."""
    group = np.flatnonzero(outcome.open)
    if len(group) > MOST_COMPARED:
        return outcome
    less = _comparison(contenders, levels, group)
    if not _is_strict_weak_order(less):
        return outcome
    inner = _cut(less.sum(axis=0), outcome.take)
    certain, chance = outcome.certain.copy(), np.zeros(len(outcome.open), np.bool_)
    certain[group[inner.certain]] = True
    chance[group[inner.open]] = True
    return DeletionOutcome(certain, chance, inner.take)


def _comparison(contenders: Contenders, levels: Sequence[AppliedCriterion], group: IntColumn) -> Mask:
    """Whether the controller's comparison puts the pod of each row before the pod of each column."""
    less = np.zeros((len(group), len(group)), np.bool_)
    undecided = ~np.eye(len(group), dtype=np.bool_)
    by_uid = _before(contenders.uid_order(group))
    for level in levels:
        keys = level.keys(group)
        less |= undecided & _before(keys)
        undecided &= keys[:, None] == keys[None, :]
        if level.exact is not None:
            exact = level.exact(group)
            differs = exact[:, None] != exact[None, :]
            less |= undecided & differs & by_uid
            undecided &= ~differs
    return less


def _before(keys: IntColumn) -> Mask:
    earlier: Mask = keys[:, None] < keys[None, :]
    return earlier


def _is_strict_weak_order(less: Mask) -> bool:
    """Whether a comparison is transitive, and so is being equal in it."""
    equal = ~(less | less.T)
    return not any((_composed(each) & ~each).any() for each in (less, equal))


def _composed(relation: Mask) -> Mask:
    counts = relation.astype(np.float32)
    found: Mask = (counts @ counts) > 0
    return found
