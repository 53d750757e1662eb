"""From a plan to the fewest deletion costs that make its result certain.

**When nothing is written.** Only if the worst that the controller may do, at every moment of the window, is as level as
the plan; where strategies rank the pods, only if it certainly deletes the planned pods, and where they are in subsets,
only if it certainly deletes as many of each tier. What the controller may do is computed (`certainty`), never assumed.

**Which pods.** A cost is needed only where the controller's choice has to change. So four ways are tried, and the one
with the fewest writes is taken of those that make the result certain:

1. the victims that the controller might spare get costs below all survivors,
2. the survivors that it might delete get costs above all victims,
3. all victims, or
4. all survivors.

Where the controller's other criteria cannot be relied on (pods that are not ready yet, a rollout, more deletions than
it does in one sync), only 3 and 4 are tried: then costs alone decide. Where pods are not ready yet, other pods than the
victims may get costs too, for the case that they become ready (`hedges`). Victims are preferred where that takes few
more writes, because costs on survivors leave the victims tied: a survivor that goes for another reason then spares one
of them by chance.

**Which order.** The first victims of a plan are the best plan for a smaller scale-down, and the last survivors the best
for a larger one. So victims are written first one first, and survivors last one first: wherever writing stops, what was
written is as good as so many costs can be.

**Which numbers.** Victims count up from minus the number of all pods, so that a further plan, made among the pods that
stay, begins above the last victim of this one, and earlier victims go first. A pod of a subset has the cost of its
band; ours moves it inside the band. Costs of other writers are left alone where they are obeyed, and replaced where
they are a tie-break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trimtab.ranking.certainty import DeletionOutcome, PossibleVictims, Window
from trimtab.ranking.costs import INT32_MAX, LIMIT, Side
from trimtab.ranking.hedges import Hedge, Unhedged
from trimtab.ranking.levelings import StockCounts
from trimtab.ranking.plan import Plan, outcomes, possible_victims
from trimtab.ranking.sequences import places_in, removal_sequence, stock_order
from trimtab.ranking.spreads import Spread, resolve
from trimtab.ranking.workloads import Policy, Workload, pod_keys
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask

BURST = 500
"""How many pods a ReplicaSet's controller deletes in one sync; for more it sorts again."""
_ROUNDS = 6
"""How often a partial set of costs is extended before all pods of that side are written."""
_WORTHWHILE = 0.8
"""A partial set of costs that is larger than this share of its side is not tried: writing all is as good."""
_PREFERENCE = 1.25
"""Victims are written if that takes no more than so many times the writes on survivors."""
_HEDGES = 50
"""So many costs are written for the case that starting pods become ready, even if fewer would do without it."""


@dataclass(frozen=True, slots=True)
class PodCost:
    """The cost of a pod: without ours, whether ours may be written, and ours if there is one.

    `banded` says that the cost without ours is the centre of a subset's band, which ours must not leave.
    """

    base: int = 0
    is_writable: bool = True
    own: int | None = None
    banded: bool = False

    @property
    def current(self) -> int:
        """The cost that the controller sees."""
        return self.base if self.own is None else self.own


@dataclass(frozen=True, slots=True)
class Delivery:
    """Costs to write, the most useful one first, and the side that they are on; none where none are needed."""

    side: Side
    costs: tuple[tuple[str, int], ...]
    is_exact: bool = False
    """Whether costs alone put every victim before every survivor, whenever the controller acts."""
    hedges: frozenset[str] = frozenset()
    """Those of the pods that go only if starting pods become ready, or only if they do not."""
    unhedged: Unhedged | None = None
    """Why there are no costs for the case that starting pods become ready, where there are starting pods."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of one constraint with the costs that were really written."""

    topology_key: str
    domains: tuple[str, ...]
    worst: tuple[int, ...]
    skew: int


@dataclass(frozen=True, slots=True, eq=False)
class _Tiers:
    """The tier of each pod, numbered from 0, and how many pods of each are to go."""

    codes: IntColumn
    planned: IntColumn

    @classmethod
    def of(cls, made: Plan, workload: Workload, snapshot: Snapshot) -> _Tiers:
        distinct, inverse = np.unique(workload.tier_column(snapshot), return_inverse=True)
        codes = inverse.astype(np.int64)
        gone = set(made.keys)
        chosen = np.array([key in gone for key in pod_keys(snapshot, workload.rows)], dtype=np.bool_)
        return cls(codes, np.bincount(codes[chosen], minlength=len(distinct)))

    def count(self, chosen: Mask) -> IntColumn:
        """How many of some pods each tier has."""
        counts: IntColumn = np.bincount(self.codes[chosen], minlength=len(self.planned))
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A plan to be made certain."""

    plan: Plan
    workload: Workload
    snapshot: Snapshot
    costs: Mapping[str, PodCost]
    window: Window | None
    survivors: tuple[str, ...]
    exact: bool
    spreads: tuple[Spread, ...]
    tiers: _Tiers | None

    @property
    def victims(self) -> tuple[str, ...]:
        return self.plan.keys

    def size(self, side: Side) -> int:
        """How many pods a side has."""
        return len(self.victims if side is Side.VICTIMS else self.survivors)

    def counterexample(self, costs: Mapping[str, int]) -> DeletionOutcome | None:
        """Something worse than the plan that the controller may do with these costs in place of the current ones."""
        everyone = {key: each.current for key, each in self.costs.items()} | dict(costs)
        found = outcomes(self.workload, self.snapshot, len(self.victims), self.window, everyone)
        return next((outcome for outcome in found if not self._is_as_good(outcome)), None)

    def _is_as_good(self, outcome: DeletionOutcome) -> bool:
        if self.exact or not self.plan.levelings:
            return outcome.is_unique and set(self.keys(outcome.certain)) == set(self.victims)
        if not self._keeps_tiers(outcome):
            return False
        found = PossibleVictims(self.workload.rows, (outcome,))
        pairs = zip(self.spreads, self.plan.levelings, strict=True)
        return all(StockCounts(spread, found).worst <= each.skew_after for spread, each in pairs)

    def _keeps_tiers(self, outcome: DeletionOutcome) -> bool:
        """Whether as many pods of each tier go as planned, which takes that what is left to chance is inside one tier:
        otherwise more are counted than go."""
        if self.tiers is None:
            return True
        counts = self.tiers.count(outcome.certain)
        counts[np.unique(self.tiers.codes[outcome.open])] += outcome.take
        return bool((counts == self.tiers.planned).all())

    def keys(self, chosen: Mask) -> tuple[str, ...]:
        """The names of some of the workload's pods."""
        return pod_keys(self.snapshot, self.workload.rows[chosen])

    def separates(self, costs: Mapping[str, int]) -> bool:
        """Whether costs alone put every victim before every survivor."""
        victims, survivors = (
            [costs.get(key, self.costs[key].current) for key in keys] for keys in (self.victims, self.survivors)
        )
        return not victims or not survivors or max(victims) < min(survivors)


def deliver(
    made: Plan,
    workload: Workload,
    snapshot: Snapshot,
    policy: Policy | None = None,
    *,
    costs: Mapping[str, PodCost],
    window: Window | None = None,
    rely: bool = True,
    now: int | None = None,
) -> Delivery | None:
    """The costs that make a plan's result certain; None if no costs of ours can.

    `rely` says whether the controller's other criteria can be relied on until it has acted.
    """
    survivors = _survivors(made, workload, snapshot, policy, now)
    exact = policy is not None and bool(policy.combination.strategies)
    spreads = resolve(workload.constraints, snapshot, workload.rows)
    tiers = _Tiers.of(made, workload, snapshot) if workload.tiers else None
    task = _Task(made, workload, snapshot, costs, window, survivors, exact, spreads, tiers)
    if task.separates({}):
        return Delivery(Side.VICTIMS, (), is_exact=True)
    found = task.counterexample({}) if rely else None
    if rely and found is None:
        return Delivery(Side.VICTIMS, ())
    candidates = [*(_partial(task, found) if found is not None else ()), *_whole(task)]
    best = min(candidates, key=_effort(task), default=None)
    return best if rely or best is None else _hedged(task, policy, best, now)


def expectations(
    workload: Workload, snapshot: Snapshot, count: int, costs: Mapping[str, int], window: Window | None
) -> tuple[Expectation, ...]:
    """The least level result of each constraint that is possible with these costs."""
    found = possible_victims(workload, snapshot, count, window, costs)
    result = []
    for spread in resolve(workload.constraints, snapshot, workload.rows):
        counts = StockCounts(spread, found)
        worst = tuple(counts.worst_counts.tolist())
        result.append(Expectation(spread.constraint.topology_key, spread.names, worst, counts.worst))
    return tuple(result)


def is_settled(workload: Workload, snapshot: Snapshot, count: int) -> bool:
    """Whether nothing about these pods is about to change the controller's choice: all ready, and one sync."""
    return count <= BURST and bool(snapshot.pods.ready[workload.rows].all())


def _survivors(
    made: Plan, workload: Workload, snapshot: Snapshot, policy: Policy | None, now: int | None
) -> tuple[str, ...]:
    """The pods that stay, in the order in which they would go next.

    Ranks that hold for one step only say nothing of what comes after the victims; levels do.
    """
    if _is_for_one_step(policy):
        policy = None
    gone = set(made.keys)
    stock = stock_order(workload, snapshot, now)
    sequence = removal_sequence(workload, snapshot, policy, stock, places_in(stock), len(workload.rows), now)
    return tuple(key for key in pod_keys(snapshot, sequence.rows) if key not in gone)


def _is_for_one_step(policy: Policy | None) -> bool:
    """Whether a policy has ranks that hold for the next deletion only."""
    return policy is not None and any(strategy.recompute for strategy in policy.combination.strategies)


def _partial(task: _Task, found: DeletionOutcome) -> Iterator[Delivery]:
    """Costs for the pods alone about which the controller has to change its mind.

    Each counterexample shows more such pods, until there is none.
    """
    for side in Side:
        chosen: set[str] = set()
        outcome: DeletionOutcome | None = found
        for _ in range(_ROUNDS):
            if outcome is None:
                break
            more = _doubtful(task, side, outcome) - chosen
            if not more or len(chosen | more) > _WORTHWHILE * task.size(side):
                break
            chosen |= more
            costs = _numbered(task, side, chosen)
            if costs is None:
                break
            outcome = task.counterexample(costs)
            if outcome is None:
                yield _ordered(task, side, costs)


def _doubtful(task: _Task, side: Side, outcome: DeletionOutcome) -> set[str]:
    """Victims that may stay, or survivors that may go."""
    if side is Side.VICTIMS:
        return set(task.victims) - set(task.keys(outcome.certain))
    return set(task.keys(outcome.certain | outcome.open)) - set(task.victims)


def _whole(task: _Task) -> Iterator[Delivery]:
    """Costs for all pods of one side, or, between costs of other writers, for the pods on the wrong side of zero."""
    for side in Side:
        costs = _numbered(task, side, set(task.victims if side is Side.VICTIMS else task.survivors))
        if costs is not None and _is_enough(task, costs):
            yield _ordered(task, side, costs)
    if task.workload.foreign_costs == "TieBreak":
        costs = _around_zero(task)
        if _is_enough(task, costs):
            yield Delivery(Side.VICTIMS, tuple(costs.items()), task.separates(costs))


def _hedged(task: _Task, policy: Policy | None, best: Delivery, now: int | None) -> Delivery:
    """Costs that are right as well if starting pods become ready (`hedges`); the best others, and why, if not."""
    hedge = Hedge(task.workload, task.snapshot, policy, len(task.victims), now)
    if not hedge.has_starting_pods:
        return best
    if _is_for_one_step(policy):
        return replace(best, unhedged=Unhedged.RANKS_FOR_ONE_STEP)
    most = max(_HEDGES, _PREFERENCE * len(best.costs))
    if len(task.victims) > most:  # it takes at least as many costs
        return replace(best, unhedged=Unhedged.TOO_MANY_COSTS)
    order = hedge.order(task.victims)
    if set(order) == set(task.victims):
        return best
    if len(order) > most:
        return replace(best, unhedged=Unhedged.TOO_MANY_COSTS)
    return _in_order(task, order) or replace(best, unhedged=Unhedged.NOT_CERTAIN)


def _in_order(task: _Task, order: Sequence[str]) -> Delivery | None:
    """Costs for pods in the order of a hedge; None where the plan's result would not be certain with them."""
    written = [key for key in order if task.costs[key].is_writable]
    others = [key for key in task.costs if key not in set(order)]
    costs = _counted_up(task, written, others)
    if costs is None or task.counterexample(costs) is not None:
        return None
    certain = set(task.victims) & set(order[: len(task.victims)])
    return Delivery(Side.VICTIMS, tuple(costs.items()), hedges=frozenset(costs.keys() - certain))


def _is_enough(task: _Task, costs: Mapping[str, int]) -> bool:
    """Costs of other writers that are obeyed can make it impossible; then a certain result is enough."""
    return task.separates(costs) or task.counterexample(costs) is None


def _numbered(task: _Task, side: Side, chosen: set[str]) -> dict[str, int] | None:
    """Costs for the chosen pods of one side, in the order in which they go; None where int32 has no room."""
    order = [key for key in (task.victims if side is Side.VICTIMS else task.survivors) if key in chosen]
    written = [key for key in order if task.costs[key].is_writable]
    if side is Side.VICTIMS:
        return _counted_up(task, written, task.survivors)
    first = max((0, *_steps_of(task, task.victims))) + 1
    return _within_int32(task, {key: first + at for at, key in enumerate(written)})


def _counted_up(task: _Task, written: Sequence[str], others: Iterable[str]) -> dict[str, int] | None:
    """Costs for pods that go, from minus the number of all pods on, below zero and below those of others."""
    first = min((0, *_steps_of(task, others))) - len(task.costs)
    return _within_int32(task, {key: first + at for at, key in enumerate(written)})


def _within_int32(task: _Task, steps: Mapping[str, int]) -> dict[str, int] | None:
    if any(abs(step) > INT32_MAX for step in steps.values()):
        return None
    return {key: _moved(task.costs[key], step) for key, step in steps.items()}


def _moved(cost: PodCost, step: int) -> int:
    """A cost that is so many steps from the centre of the pod's band, or that replaces a cost without a band."""
    return cost.base + max(-LIMIT, min(step, LIMIT)) if cost.banded else step


def _steps_of(task: _Task, others: Iterable[str]) -> list[int]:
    """The costs on the other side that ours have to go beyond, as steps."""
    found = (task.costs[key] for key in others)
    return [each.current - (each.base if each.banded else 0) for each in found if _counts_as_step(each, task)]


def _counts_as_step(cost: PodCost, task: _Task) -> bool:
    """Whether a cost on the other side is one that ours has to go beyond: ours, or one that is a tie-break only."""
    return cost.own is not None or task.workload.foreign_costs == "TieBreak"


def _around_zero(task: _Task) -> dict[str, int]:
    """Costs below zero for victims that have none, and at or above zero for survivors that are below it."""
    size = len(task.costs)
    victims = [key for key in task.victims if task.costs[key].current >= 0]
    survivors = [key for key in task.survivors if task.costs[key].current < 0]
    below = {key: at - size for at, key in enumerate(victims)}
    return below | {key: at + 1 for at, key in enumerate(survivors)}


def _ordered(task: _Task, side: Side, costs: Mapping[str, int]) -> Delivery:
    order: Sequence[tuple[str, int]] = list(costs.items())
    return Delivery(side, tuple(order if side is Side.VICTIMS else reversed(order)), task.separates(costs))


def _effort(task: _Task) -> Callable[[Delivery], float]:
    """Sorts deliveries by how many costs have to be written, with a preference for victims."""

    def effort(delivery: Delivery) -> float:
        writes = sum(task.costs[key].own != cost for key, cost in delivery.costs)
        return writes if delivery.side is Side.VICTIMS else writes * _PREFERENCE + 1

    return effort
