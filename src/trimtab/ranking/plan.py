"""Which pods go, so that what stays is level: the plan for a target size, not for the next pod.

The plan puts a workload's pods in one sequence; the first so many are its victims. Of two pods goes first

1. the one that Kubernetes deletes first before it compares costs: unassigned, then by phase, then not ready; and the
   one with the lower deletion cost of another writer, where such costs are obeyed. No plan can change that;
2. the one of the lower tier, where the workload has subsets (see `costs`): a later subset before an earlier one;
3. the one that ranks higher by the policy's strategies, if it has any and they rank every pod;
4. the one whose removal keeps the constraints level, in the order in which they are listed (`levels` has the formula,
   and the argument why this is optimal);
5. the one that the controller deletes anyway: pods that certainly go before pods that may, and those before others.

So for one constraint, or for a hierarchy of them, no other set of victims that honours 1 to 3 leaves the workload more
level; and since that holds for every size, every prefix of the victims is the best plan for its own target. For keys
that cross one another it holds for the first key. Where hard constraints compete, satisfying all of them comes before
being level on the first (`satisfaction`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from trimtab.api.errors import InvalidError
from trimtab.ranking import certainty
from trimtab.ranking.certainty import DeletionOutcome, PossibleVictims, Window
from trimtab.ranking.contenders import Contenders, Criterion
from trimtab.ranking.levelings import Leveling, leveling
from trimtab.ranking.obstacles import Obstacle, obstacles
from trimtab.ranking.sequences import (
    LAST_BEFORE_PLAN,
    RemovalSequence,
    Victim,
    places_in,
    removal_sequence,
    stock_order,
)
from trimtab.ranking.victims import Order
from trimtab.ranking.workloads import Policy, Workload, pod_keys
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn

__all__ = ["Leveling", "Obstacle", "Plan", "Policy", "StockChoice", "Victim", "Workload", "plan", "possible_victims"]


@dataclass(frozen=True, slots=True)
class StockChoice:
    """What an unmodified controller may delete, as far as that is certain."""

    always: tuple[str, ...]
    """The pods that it deletes in every case."""
    possible: tuple[str, ...]
    """The pods that it deletes in some case, those of `always` included."""

    @property
    def is_unique(self) -> bool:
        """Whether it deletes the same pods in every case."""
        return len(self.always) == len(self.possible)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The victims, first one first, and what they leave."""

    before: int
    replicas: int
    victims: tuple[Victim, ...]
    stock: StockChoice
    levelings: tuple[Leveling, ...]
    obstacles: tuple[Obstacle, ...]
    """What prevents a level result, where there is none."""
    guaranteed: int
    """On how many constraints, from the first on, no other choice would be more level."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The victims' names (`namespace/name`), first one first."""
        return tuple(victim.key for victim in self.victims)

    @property
    def is_matched_by_stock(self) -> bool:
        """Whether everything that an unmodified controller may do leaves every constraint as level."""
        return all(each.is_matched_by_stock for each in self.levelings)

    @property
    def is_chosen_by_stock(self) -> bool:
        """Whether an unmodified controller certainly deletes the very same pods."""
        return self.stock.is_unique and set(self.keys) == set(self.stock.always)

    def sentence(self) -> str:
        """One sentence for people: what stays, and what would have stayed otherwise."""
        if not self.levelings:
            return f"{self.before} → {self.replicas}: no constraints to keep level"
        return "; ".join(each.sentence("keeps") for each in self.levelings)


def plan(
    workload: Workload,
    snapshot: Snapshot,
    policy: Policy | None = None,
    *,
    replicas: int,
    now: int | None = None,
    window: Window | None = None,
) -> Plan:
    """The victims whose removal leaves `replicas` pods that are as level as possible.

    `now` is the time in nanoseconds, for ages; without it they are compared as they are, and no policy can be used.
    `window` is when the controller may act; without one it acts now. Raises InvalidError for a target that is no
    scale-down.
    """
    size = len(workload.rows)
    _check_target(replicas, size)
    stock = stock_order(workload, snapshot, now)
    window = window or (None if now is None else Window(now, now))
    possible = possible_victims(workload, snapshot, size - replicas, window)
    preference = _preference(places_in(stock), possible)
    sequence = removal_sequence(workload, snapshot, policy, stock, preference, size - replicas, now)
    victims = sequence.victims(snapshot, stock)
    gone = np.isin(workload.rows, sequence.rows[: size - replicas])
    levelings = tuple(leveling(spread, gone, possible) for spread in sequence.spreads)
    return Plan(
        before=size,
        replicas=replicas,
        victims=victims,
        stock=StockChoice(pod_keys(snapshot, possible.always), pod_keys(snapshot, possible.possible)),
        levelings=levelings,
        obstacles=(
            *map(Obstacle, sequence.notes),
            *obstacles(levelings, victims, _standing(sequence, stock, workload)),
        ),
        guaranteed=_guaranteed(sequence, workload),
    )


def possible_victims(
    workload: Workload,
    snapshot: Snapshot,
    count: int,
    window: Window | None,
    costs: Mapping[str, int] | None = None,
) -> PossibleVictims:
    """What the controller may delete in a window, with these costs in place of the ones that pods have.

    Without a window, ages are compared as they are.
    """
    return PossibleVictims(workload.rows, tuple(outcomes(workload, snapshot, count, window, costs)))


def outcomes(
    workload: Workload,
    snapshot: Snapshot,
    count: int,
    window: Window | None,
    costs: Mapping[str, int] | None = None,
) -> Iterator[DeletionOutcome]:
    """The same, one distinct outcome after the other."""
    contenders = workload.contenders(snapshot, costs)
    if workload.kind == "CloneSet":
        for moment in _cloneset_moments(workload, contenders, window):
            order = workload.cloneset_order(contenders, snapshot, moment)
            yield from certainty.only(contenders, order, count).outcomes
    elif window is None:
        order = certainty.exact_order(contenders, workload.related, workload.options)
        yield from certainty.only(contenders, order, count).outcomes
    else:
        yield from certainty.outcomes(contenders, workload.related, count, window, workload.options)


def _cloneset_moments(workload: Workload, contenders: Contenders, window: Window | None) -> list[int | None]:
    """The moments of a window after which a CloneSet's controller may choose otherwise, and its start."""
    if window is None:
        return [None]
    return [window.start, *workload.availability_changes(contenders, window.start, window.end)]


def _preference(places: IntColumn, possible: PossibleVictims) -> IntColumn:
    """Between equals, pods that certainly go come first, then pods that may, each in the order of the controller."""
    spared = np.isin(possible.rows, possible.always, invert=True).astype(np.int64)
    spared += np.isin(possible.rows, possible.possible, invert=True)
    return spared * len(places) + places


def _guaranteed(sequence: RemovalSequence, workload: Workload) -> int:
    return len(workload.constraints) if sequence.hierarchical else 1


def _standing(sequence: RemovalSequence, stock: Order, workload: Workload) -> Mapping[Criterion, int]:
    """How many victims go before the pod that stays longest by a criterion that comes before the plan."""
    criteria = stock.deciding_all(sequence.rows[: sequence.count], int(sequence.rows[-1])) if sequence.count else ()
    last = LAST_BEFORE_PLAN[workload.foreign_costs]
    return Counter(criterion for criterion in criteria if criterion.number <= last)


def _check_target(replicas: int, size: int) -> None:
    if replicas < 0:
        raise InvalidError("replicas", f"{replicas} is negative; write 0 or more")
    if replicas > size:
        raise InvalidError("replicas", f"{replicas} is more than the {size} pods there are: this is no scale-down")
