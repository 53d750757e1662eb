"""From a plan to the fewest costs that make a controller follow it. Pure.

**Which side.** The victims get costs below zero, or the survivors costs above it: whichever are fewer. The other side
stays as it is.

**Which order.** The first victims of a plan are the best plan for a smaller scale-down, and the last survivors the best
for a larger one. So victims are written first one first, and survivors last one first: wherever writing stops,
what was written is as good as so many costs can be.

**Which numbers.** Victims count up from minus the number of all pods. A further plan, made among those who stay, so
begins above the last victim of the one before it: where both are being carried out at once, the earlier victims go
first, and every step on the way is as level as the end.

**Whose costs.** What others have set is never written to, and decides before ours do. A pod of a subset has the cost of
its band; ours moves inside the band, and is no more than a step away from it. What an earlier plan of ours wrote and
nobody has taken back yet may still stand on the other side: the new costs go beyond it.

**Whether it works** is not argued but tried: the controller's own order, with these costs in place, must choose the
victims. If it does so with what stands there already, as after an earlier plan, nothing is written. If neither side can
bring it about, because others' costs stand in the way, there is nothing to deliver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.api.annotations import SUBSET_COST
from trimtab.api.pods import Pod
from trimtab.ranking.costs import LIMIT, Side, level_of, smaller_side
from trimtab.ranking.plan import Plan, Policy, Workload, plan
from trimtab.ranking.rankers import ranker_for
from trimtab.ranking.victims import Contenders, order_contenders, order_replicas
from trimtab.scaledown import cost_writer
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn


@dataclass(frozen=True, slots=True)
class Delivery:
    """Costs to write, the most useful one first, and the side that they are on."""

    side: Side
    costs: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Standing:
    """What a pod's cost is without ours, whether ours may be written, and how far an earlier one of ours moved it."""

    base: int
    writable: bool
    moved: int = 0


def deliver(
    made: Plan, workload: Workload, snapshot: Snapshot, policy: Policy | None = None, *, now: int
) -> Delivery | None:
    """The costs that make the controller choose the plan's victims; None if no costs of ours can."""
    victims = made.keys
    survivors = _survivors(made, workload, snapshot, policy, now)
    smaller = smaller_side(victims, survivors).side
    if _predicted(workload, snapshot, {}, len(victims), now) == set(victims):
        return Delivery(smaller, ())
    standings = {key: _standing(snapshot, key) for key in (*victims, *survivors)}
    sides = (smaller, Side.SURVIVORS if smaller is Side.VICTIMS else Side.VICTIMS)
    for side in sides:
        costs = _costs(side, victims, survivors, standings)
        if _predicted(workload, snapshot, costs, len(victims), now) == set(victims):
            order = costs if side is Side.VICTIMS else dict(reversed(costs.items()))
            return Delivery(side, tuple(order.items()))
    return None


def changes(delivery: Delivery, snapshot: Snapshot) -> tuple[tuple[Pod, int], ...]:
    """The costs that do not stand there yet, each with its pod."""
    pods = ((snapshot.pod(key), cost) for key, cost in delivery.costs)
    return tuple((pod, cost) for pod, cost in pods if pod is not None and cost_writer.own_cost(pod) != cost)


def standing(delivery: Delivery, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The pods whose cost of an earlier plan brings this one about: it must not be taken back with that plan."""
    costs = dict(delivery.costs)
    own = ((pod, cost_writer.own_cost(pod)) for pod in pods if pod.active)
    return tuple(pod for pod, cost in own if cost is not None and (not costs or costs.get(pod.key) == cost))


def _survivors(made: Plan, workload: Workload, snapshot: Snapshot, policy: Policy | None, now: int) -> tuple[str, ...]:
    """Those who stay, in the order in which they would go next.

    Ranks that hold for one step only say nothing of what comes after the victims; levels do.
    """
    if policy is not None and any(strategy.recompute for strategy in policy.combination.strategies):
        policy = None
    gone = set(made.keys)
    return tuple(key for key in plan(workload, snapshot, policy, replicas=0, now=now).keys if key not in gone)


def _standing(snapshot: Snapshot, key: str) -> _Standing:
    pod = snapshot.pod(key)
    if pod is None:
        return _Standing(0, writable=False)
    text = cost_writer.before_us(pod)
    own = cost_writer.own_cost(pod)
    if text is None:
        return _Standing(0, writable=True, moved=own or 0)
    base = _number(text)
    banded = pod.metadata.annotations.get(SUBSET_COST) == text and level_of(base) is not None
    return _Standing(base, banded, 0 if own is None else own - base)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _costs(
    side: Side, victims: Sequence[str], survivors: Sequence[str], standings: Mapping[str, _Standing]
) -> dict[str, int]:
    """The costs of one side, in the order in which its pods go."""
    written = [key for key in (victims if side is Side.VICTIMS else survivors) if standings[key].writable]
    if side is Side.VICTIMS:
        beyond = min((0, *(standings[key].moved for key in survivors)))
        steps = {key: beyond + at - len(standings) for at, key in enumerate(written)}
    else:
        beyond = max((0, *(standings[key].moved for key in victims)))
        steps = {key: beyond + at + 1 for at, key in enumerate(written)}
    return {key: standings[key].base + max(-LIMIT, min(step, LIMIT)) for key, step in steps.items()}


def _predicted(workload: Workload, snapshot: Snapshot, costs: Mapping[str, int], count: int, now: int) -> set[str]:
    """Whom the controller would choose with these costs in place."""
    names = snapshot.pods.rows.names
    present = snapshot.pods.column("cost")[workload.rows].tolist()
    keys = [names[row] or "" for row in workload.rows.tolist()]
    column: IntColumn = np.array(
        [costs.get(key, cost) for key, cost in zip(keys, present, strict=True)], dtype=np.int64
    )
    contenders = Contenders(snapshot.pods, workload.rows, column)
    if workload.kind == "CloneSet":
        ranks = ranker_for(workload.constraints).ranks(contenders, snapshot.nodes)
        order = order_contenders(contenders, ranks, workload.available)
    else:
        order = order_replicas(contenders, workload.related, now, workload.options)
    return {names[row] or "" for row in order.rows[:count].tolist()}
