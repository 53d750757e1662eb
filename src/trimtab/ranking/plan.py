"""Which pods go, so that what stays is level: the plan for a target size, not for the next pod.

The plan puts a workload's pods in one sequence; the first so many are its victims. Of two pods goes first

1. whom Kubernetes lets go first before it looks at costs: unassigned, then by phase, then not ready; and whom somebody
   else gave the lower deletion cost. No plan can change that, so none pretends to;
2. who ranks higher by the policy's strategies, if it has any and they rank every pod;
3. who goes first to keep the constraints level, in the order in which they are listed (`levels` has the formula, and
   the argument why this is optimal);
4. who would go first anyway.

So for one constraint, or for a hierarchy of them, no other set of victims that honours 1 and 2 leaves the workload more
level; and since that holds for every size, every prefix of the victims is the best plan for its own target. For keys
that cross one another it holds for the first key.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trimtab.api import nodeselectors
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import StrategySpec
from trimtab.ranking.combination import Combination, Combined, Part
from trimtab.ranking.keys import descending, packed
from trimtab.ranking.levels import Removal, removal
from trimtab.ranking.rankers import Constraint, domains_of, ranker_for
from trimtab.ranking.strategies import STRATEGIES, Factory, View
from trimtab.ranking.victims import STOCK, Contenders, Criterion, Options, Order, order_contenders, order_replicas
from trimtab.snapshot import Snapshot
from trimtab.snapshot.columns import IntColumn, Mask
from trimtab.snapshot.nodes import ABSENT

NO_DOMAIN = "(none)"
"""How pods are listed that are in no domain of a key."""

_BEFORE_COST = 4
"""The last criterion that Kubernetes applies before or with the cost."""
_NAMED = 3
"""How many domains an explanation names before it counts the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The pods that shrink together: rows of the snapshot's table of pods.

    `related` are all pods of its group (all ReplicaSets of a Deployment), for the stock order looks at those too.
    `own_costs` names the pods whose deletion cost Trimtab wrote: those costs are nobody's wish, and count as none.
    `available` says, for a CloneSet, which of `rows` are available.
    """

    rows: IntColumn
    related: IntColumn
    constraints: tuple[Constraint, ...] = ()
    kind: Literal["ReplicaSet", "CloneSet"] = "ReplicaSet"
    options: Options = STOCK
    available: Mask | None = None
    own_costs: frozenset[str] = frozenset()

    @classmethod
    def owned_by(
        cls, snapshot: Snapshot, uid: str, *, related: Iterable[str] = (), constraints: Sequence[Constraint] = ()
    ) -> Workload:
        """The active pods that the object with this UID manages; `related` are the UIDs of its siblings."""
        rows = _active(snapshot, snapshot.pods.owned_by(uid))
        others = [_active(snapshot, snapshot.pods.owned_by(sibling)) for sibling in related if sibling != uid]
        return cls(rows, np.concatenate([rows, *others]), tuple(constraints))

    @classmethod
    def of_all(cls, snapshot: Snapshot, *, constraints: Sequence[Constraint] = ()) -> Workload:
        """All active pods there are: for a snapshot of one workload."""
        rows = np.flatnonzero(snapshot.pods.active).astype(np.int64)
        return cls(rows, rows, tuple(constraints))


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Strategies, made and checked, with what they need from elsewhere."""

    combination: Combination
    usage: Mapping[str, float] = field(default_factory=dict)
    stated: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> Policy:
        """A policy of these strategies. Raises InvalidError for what is wrong with them."""
        return cls(Combination.of(specs, registry))

    def rank(self, snapshot: Snapshot, rows: IntColumn, now: int | None) -> Combined:
        """The ranks of these pods. Strategies may ask for the time, so it must be known."""
        if now is None:
            raise InvalidError("now", "is needed to rank pods by strategies; give the time in nanoseconds")
        view = View(snapshot, rows, now, usage=self.usage, stated=self.stated, scores=self.scores)
        return self.combination.rank(view)


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that goes, what decided that, and what each strategy said of it."""

    key: str
    criterion: Criterion | None
    """The criterion of Kubernetes' that decided, if one did."""
    topology_key: str | None
    """The topology key that decided, if one did."""
    because: str
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Leveling:
    """The pods in each domain of a key: before, after the plan, and after what an unmodified controller would do.

    Domains are those that the pods could be in; pods outside all of them are in `outside` (before, after, stock), and
    no part of the skew.
    """

    topology_key: str
    domains: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stock: tuple[int, ...]
    outside: tuple[int, int, int] = (0, 0, 0)

    @property
    def skew_before(self) -> int:
        """The fullest domain's lead over the emptiest, before."""
        return _skew(self.before)

    @property
    def skew_after(self) -> int:
        """The same after the plan."""
        return _skew(self.after)

    @property
    def skew_stock(self) -> int:
        """The same after what an unmodified controller would do."""
        return _skew(self.stock)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The victims, first one first, and what they leave."""

    before: int
    replicas: int
    victims: tuple[Victim, ...]
    stock: tuple[str, ...]
    """Whom an unmodified controller would delete, first one first."""
    levelings: tuple[Leveling, ...]
    obstacles: tuple[str, ...]
    """What stands in the way of a level result, where there is none."""
    guaranteed: int
    """On how many constraints, from the first on, no other choice would be more level."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The victims' names (`namespace/name`), first one first."""
        return tuple(victim.key for victim in self.victims)

    @property
    def as_stock(self) -> bool:
        """Whether an unmodified controller would leave the workload as level on every constraint."""
        return all(sorted(leveling.after) == sorted(leveling.stock) for leveling in self.levelings)

    def sentence(self) -> str:
        """One sentence for people: what stays, and what would have stayed otherwise."""
        if not self.levelings:
            return f"{self.before} → {self.replicas}: no constraints to keep level"
        return "; ".join(_told(leveling) for leveling in self.levelings)


def plan(
    workload: Workload,
    snapshot: Snapshot,
    policy: Policy | None = None,
    *,
    replicas: int,
    now: int | None = None,
) -> Plan:
    """The victims whose going leaves `replicas` pods that are as level as they can be.

    `now` is the time in nanoseconds, for ages; without it they are compared as they are, and no policy can be asked.
    Raises InvalidError for a target that is no scale-down.
    """
    size = len(workload.rows)
    _check_target(replicas, size)
    stock = _stock_order(workload, snapshot, now)
    sequence = _sequence(workload, snapshot, policy, stock, size - replicas, now)
    victims = sequence.victims(snapshot, stock)
    gone = sequence.rows[: size - replicas]
    levelings = tuple(
        _leveling(constraint, workload, snapshot, gone, stock.rows[: size - replicas])
        for constraint in workload.constraints
    )
    return Plan(
        before=size,
        replicas=replicas,
        victims=victims,
        stock=_keys(snapshot, stock.rows[: size - replicas]),
        levelings=levelings,
        obstacles=(*sequence.notes, *_obstacles(levelings, victims)),
        guaranteed=len(workload.constraints) if sequence.hierarchical else 1,
    )


_BY_STANDING = -1
_BY_STRATEGIES = -2
_BY_STOCK_ORDER = -3


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """Pods in the order in which they go: what the plan decided, before it is put into words.

    `reasons` are for the victims: the index of a constraint, or one of the codes above.
    """

    rows: IntColumn
    count: int
    reasons: npt.NDArray[np.int64]
    constraints: tuple[Constraint, ...]
    hierarchical: bool
    parts: Mapping[int, tuple[Part, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def victims(self, snapshot: Snapshot, stock: Order) -> tuple[Victim, ...]:
        """The victims in words."""
        rows = self.rows[: self.count]
        keys = _keys(snapshot, rows)
        if self.count == len(self.rows):
            return tuple(Victim(key, None, None, "all pods go") for key in keys)
        criteria = stock.deciding_all(rows, int(self.rows[self.count]))
        told = zip(keys, rows.tolist(), self.reasons.tolist(), criteria, strict=True)
        return tuple(self._victim(key, row, reason, criterion) for key, row, reason, criterion in told)

    def _victim(self, key: str, row: int, reason: int, criterion: Criterion) -> Victim:
        parts = self.parts.get(row, ())
        if reason >= 0:
            topology_key = self.constraints[reason].topology_key
            return Victim(key, None, topology_key, f"its domain of {topology_key} is the fullest", parts)
        if reason == _BY_STRATEGIES:
            return Victim(key, None, None, "it ranks higher by the policy's strategies", parts)
        return Victim(key, criterion, None, criterion.sentence, parts)


def _sequence(
    workload: Workload, snapshot: Snapshot, policy: Policy | None, stock: Order, count: int, now: int | None
) -> _Sequence:
    if policy is None or not policy.combination.strategies:
        return _ranked_sequence(workload, snapshot, stock, count, None)
    combined = policy.rank(snapshot, workload.rows, now)
    if combined.unranked.any():
        return replace(_ranked_sequence(workload, snapshot, stock, count, None), notes=(_unranked(combined),))
    if combined.recompute and count > 1:
        return _recomputed_sequence(workload, snapshot, policy, stock, count, now)
    return _ranked_sequence(workload, snapshot, stock, count, combined)


def _ranked_sequence(
    workload: Workload, snapshot: Snapshot, stock: Order, count: int, combined: Combined | None
) -> _Sequence:
    """All pods in sequence, by ranks that hold for all victims."""
    rows = workload.rows
    places = np.empty(len(rows), dtype=np.int64)
    places[stock.order] = np.arange(len(rows))
    standing = _standing(stock)
    ranks = np.zeros(len(rows), dtype=np.int64) if combined is None else descending(combined.total)
    tiers = packed((standing, ranks)).keys
    domains = [_domains(constraint, snapshot, rows) for constraint in workload.constraints]
    found = removal(tiers, domains, places, count)
    reasons = _reasons(found, standing, ranks, count)
    parts = {}
    if combined is not None:
        parts = {int(rows[at]): tuple(o.part(at) for o in combined.opinions) for at in found.order[:count].tolist()}
    return _Sequence(rows[found.order], count, reasons, workload.constraints, found.hierarchical, parts)


def _recomputed_sequence(
    workload: Workload, snapshot: Snapshot, policy: Policy, stock: Order, count: int, now: int | None
) -> _Sequence:
    """One pod at a time: each is ranked with the ones before it gone."""
    rows: list[int] = []
    reasons: list[int] = []
    parts: dict[int, tuple[Part, ...]] = {}
    left = workload
    with ExitStack() as assumed:
        for _ in range(count):
            combined = policy.rank(snapshot, left.rows, now)
            order = _stock_order(left, snapshot, now)
            step = _ranked_sequence(left, snapshot, order, 1, combined)
            chosen = int(step.rows[0])
            rows.append(chosen)
            reasons.append(int(step.reasons[0]))
            parts |= step.parts
            left = _without(left, chosen)
            assumed.enter_context(snapshot.with_assumed(gone=_keys(snapshot, np.array([chosen]))))
    rest = stock.rows[~np.isin(stock.rows, rows)]
    sequence = np.concatenate([np.array(rows, dtype=np.int64), rest])
    return _Sequence(sequence, count, np.array(reasons, dtype=np.int64), workload.constraints, False, parts)


def _reasons(found: Removal, standing: IntColumn, ranks: IntColumn, count: int) -> IntColumn:
    """What told each victim apart from the first pod that stays: the first part of the key in which they differ."""
    if count == len(found.order):
        return np.full(count, _BY_STOCK_ORDER, dtype=np.int64)
    victims, next_one = found.order[:count], found.order[count]
    reasons = np.full(count, _BY_STOCK_ORDER, dtype=np.int64)
    for key in reversed(range(len(found.heights))):
        reasons[found.heights[key][victims] != found.heights[key][next_one]] = key
    reasons[ranks[victims] != ranks[next_one]] = _BY_STRATEGIES
    reasons[standing[victims] != standing[next_one]] = _BY_STANDING
    return reasons


def _stock_order(workload: Workload, snapshot: Snapshot, now: int | None) -> Order:
    contenders = Contenders(snapshot.pods, workload.rows, _their_costs(workload, snapshot))
    if workload.kind == "ReplicaSet":
        return order_replicas(contenders, workload.related, now, workload.options)
    ranks = ranker_for(workload.constraints).ranks(contenders, snapshot.nodes)
    return order_contenders(contenders, ranks, workload.available)


def _their_costs(workload: Workload, snapshot: Snapshot) -> IntColumn | None:
    """The costs without those that Trimtab wrote."""
    if not workload.own_costs:
        return None
    costs = snapshot.pods.column("cost")[workload.rows].copy()
    ours = [key in workload.own_costs for key in _keys(snapshot, workload.rows)]
    costs[np.array(ours, dtype=np.bool_)] = 0
    return costs


def _standing(stock: Order) -> IntColumn:
    """What comes before any wish of ours: the criteria up to the cost, as one key."""
    keys = [level.keys(slice(None)) for level in stock.levels if level.criterion.number <= _BEFORE_COST]
    return packed(keys).keys


def _domains(constraint: Constraint, snapshot: Snapshot, rows: IntColumn) -> IntColumn:
    """The domain of each pod; ABSENT for one that is in none."""
    return domains_of(Contenders(snapshot.pods, rows), snapshot.nodes, constraint).astype(np.int64)


def _leveling(
    constraint: Constraint, workload: Workload, snapshot: Snapshot, gone: IntColumn, stock_gone: IntColumn
) -> Leveling:
    column = snapshot.nodes.label(constraint.topology_key)
    kinds = len(column.values)
    before = _domains(constraint, snapshot, workload.rows)
    counts = np.bincount(before + 1, minlength=kinds + 1)
    after = counts - np.bincount(_domains(constraint, snapshot, gone) + 1, minlength=kinds + 1)
    stock = counts - np.bincount(_domains(constraint, snapshot, stock_gone) + 1, minlength=kinds + 1)
    possible = _possible_domains(constraint, workload, snapshot, kinds) | (counts[1:] > 0)
    chosen = sorted(np.flatnonzero(possible).tolist(), key=column.values.__getitem__)
    picked = np.array(chosen, dtype=np.int64) + 1
    return Leveling(
        topology_key=constraint.topology_key,
        domains=tuple(column.values[code] for code in chosen),
        before=tuple(counts[picked].tolist()),
        after=tuple(after[picked].tolist()),
        stock=tuple(stock[picked].tolist()),
        outside=(int(counts[0]), int(after[0]), int(stock[0])),
    )


def _possible_domains(constraint: Constraint, workload: Workload, snapshot: Snapshot, kinds: int) -> Mask:
    """The domains of the nodes that the workload's pods may run on, by their node selector and affinity."""
    possible = np.zeros(kinds, dtype=np.bool_)
    pod = snapshot.pods.objects[int(workload.rows[0])] if len(workload.rows) else None
    eligible = snapshot.nodes.known
    if pod is not None:
        required = nodeselectors.required(pod.spec)
        if not required.unrestricted:
            eligible = snapshot.nodes.evaluate(required, functools.partial(_allows, required))
    codes = snapshot.nodes.codes(constraint.topology_key)[eligible]
    possible[codes[codes != ABSENT]] = True
    if constraint.limited_values:
        index = snapshot.nodes.label(constraint.topology_key).index
        allowed = [index[value] for value in constraint.limited_values if value in index]
        possible &= np.isin(np.arange(kinds), allowed)
    return possible


def _allows(required: nodeselectors.RequiredNodeAffinity, node: Any) -> bool:
    """Whether a pod may run there; a selector that cannot be read keeps no domain out of the picture."""
    try:
        return required.matches(node)
    except InvalidError:
        return True


def _obstacles(levelings: Iterable[Leveling], victims: Sequence[Victim]) -> Iterable[str]:
    """Why the result is not level, where it is not."""
    standing = sum(victim.criterion is not None and victim.criterion.number <= _BEFORE_COST for victim in victims)
    ranked = sum(bool(victim.parts) for victim in victims)
    for leveling in levelings:
        if leveling.skew_after <= 1:
            continue
        yield from _short_domains(leveling)
        if standing:
            yield (
                f"{leveling.topology_key}: {_number(standing, 'pod')} had to go first whatever the balance: "
                "unassigned, pending, not ready, or given a lower cost by somebody else"
            )
        if ranked:
            yield f"{leveling.topology_key}: the policy's strategies come before the balance"


def _short_domains(leveling: Leveling) -> Iterable[str]:
    """Domains that had too few pods to begin with: a scale-down adds none."""
    level = sum(leveling.after) // max(len(leveling.after), 1)
    pairs = zip(leveling.domains, leveling.before, strict=True)
    short = [f"{domain} ({count})" for domain, count in pairs if count < level]
    if short:
        more = f" and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
        yield (
            f"{leveling.topology_key}: {', '.join(short[:_NAMED])}{more} had fewer than {level} pods before, and "
            "a scale-down adds none"
        )


def _unranked(combined: Combined) -> str:
    missing = combined.unranked_by()
    names = [f"{key} (by {', '.join(strategies)})" for key, strategies in list(missing.items())[:_NAMED]]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"ranks are ignored: {', '.join(names)}{more} had none"


def _check_target(replicas: int, size: int) -> None:
    if replicas < 0:
        raise InvalidError("replicas", f"{replicas} is negative; write 0 or more")
    if replicas > size:
        raise InvalidError("replicas", f"{replicas} is more than the {size} pods there are: this is no scale-down")


def _active(snapshot: Snapshot, rows: IntColumn) -> IntColumn:
    return rows[snapshot.pods.active[rows]]


def _without(workload: Workload, row: int) -> Workload:
    keep = workload.rows != row
    return replace(
        workload,
        rows=workload.rows[keep],
        related=workload.related[workload.related != row],
        available=None if workload.available is None else workload.available[keep],
    )


def _keys(snapshot: Snapshot, rows: IntColumn) -> tuple[str, ...]:
    names = snapshot.pods.rows.names
    return tuple(names[row] or "" for row in rows.tolist())


def _skew(counts: Sequence[int]) -> int:
    return max(counts) - min(counts) if counts else 0


def _told(leveling: Leveling) -> str:
    if len(leveling.domains) > 2 * _NAMED:
        return (
            f"keeps a skew of {leveling.skew_after} over {len(leveling.domains)} domains of {leveling.topology_key}; "
            f"stock would leave {leveling.skew_stock}"
        )
    kept, stock = ("/".join(map(str, counts)) for counts in (leveling.after, leveling.stock))
    return f"keeps {kept}; stock would leave {stock}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
