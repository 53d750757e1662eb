"""The ranks of several strategies combined into one: each is capped, weighted, and added up.

    capped   = raw, but at most `threshold` (and at least −`threshold`, for strategies that rank below zero)
    weighted = weight · capped
    total    = Σ weighted over the policy's strategies; the higher, the sooner the pod goes

The usual way to make ranks comparable, dividing by the highest, would change all ranks whenever the pod with the
highest is created or deleted. A threshold is fixed: the capped rank of a pod depends on its own raw rank alone, so no
other pod changes it. (Whether other pods change *raw* ranks depends on the strategy: see `Strategy.recompute`.)

One strategy needs no threshold: there is no other that it could outweigh. Several need one each, or are refused.
Without any strategy all totals are 0, and other criteria decide the order.

A pod that one strategy leaves unranked has no total: a sum with a part missing is not comparable with the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.api import codec
from trimtab.api.errors import InvalidError
from trimtab.api.scaledown import StrategySpec, strategy_problems
from trimtab.ranking.strategies import STRATEGIES, Factory, Strategy, StrategyError, View
from trimtab.ranking.strategies.view import FloatColumn
from trimtab.snapshot.columns import IntColumn, Mask

_DECIMALS = 6
"""Totals are rounded to so many, so that the noise of adding fractions does not break a tie."""
_MOST = 1e15
"""Where a strategy without a threshold is cut off: more than a rank ever needs, and arithmetic is still good."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one strategy says of one pod; None where it says nothing."""

    strategy: str
    raw: float | None
    capped: float | None
    weight: int
    weighted: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Opinion:
    """What one strategy says of a group: a value for each of its pods, NaN where it is unranked."""

    strategy: str
    weight: int
    raw: FloatColumn
    capped: FloatColumn
    weighted: FloatColumn

    def part(self, at: int) -> Part:
        """What it says of the pod at this position."""
        raw, capped, weighted = (float(column[at]) for column in (self.raw, self.capped, self.weighted))
        if np.isnan(raw):
            return Part(self.strategy, None, None, self.weight, None)
        return Part(self.strategy, raw, capped, self.weight, weighted)


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The ranks of a group, and how they came about. `total` is aligned with `rows`; NaN means unranked."""

    rows: IntColumn
    opinions: tuple[Opinion, ...]
    total: FloatColumn
    recompute: bool
    one_at_a_time: bool
    members: Mapping[str, int]
    """The pods that were ranked (`namespace/name`), and the position of each."""

    @property
    def unranked(self) -> Mask:
        """Which pods at least one strategy says nothing of."""
        mask: Mask = np.isnan(self.total)
        return mask

    def unranked_by(self) -> Mapping[str, tuple[str, ...]]:
        """The pods without a rank, each with the strategies that say nothing of it."""
        keys = list(self.members)
        missing = np.flatnonzero(self.unranked).tolist()
        return {keys[at]: tuple(o.strategy for o in self.opinions if np.isnan(o.raw[at])) for at in missing}

    def explain(self, row: int) -> tuple[Part, ...]:
        """What each strategy says of the pod in a row of the snapshot, in the order of the policy."""
        found = np.flatnonzero(self.rows == row)
        if not len(found):
            raise LookupError(f"the pod in row {row} is not one of those that were ranked")
        return tuple(opinion.part(int(found[0])) for opinion in self.opinions)

    def allowance(self, wanted: int) -> int:
        """How many of `wanted` pods may go on these ranks: one, where the next choice depends on the first."""
        return min(wanted, 1) if self.one_at_a_time else wanted

    def holds_for(self, view: View) -> bool:
        """Whether these ranks may still be used: always, or, where they need recomputing, for the same pods only."""
        return not self.recompute or set(_keys(view)) == set(self.members)


@dataclass(frozen=True, slots=True)
class Combination:
    """The strategies of a policy, made and checked; they rank any group."""

    specs: tuple[StrategySpec, ...]
    strategies: tuple[Strategy, ...]

    @classmethod
    def of(cls, specs: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> Combination:
        """The strategies that a policy names. Raises InvalidError for the first thing that is wrong."""
        for error in problems(specs, registry):
            raise error
        return cls(tuple(specs), tuple(_made(spec, registry) for spec in specs))

    @property
    def recompute(self) -> bool:
        """Whether ranks must be worked out anew after each removal."""
        return any(strategy.recompute for strategy in self.strategies)

    @property
    def one_at_a_time(self) -> bool:
        """Whether only one pod may go on a set of ranks."""
        return any(strategy.one_at_a_time for strategy in self.strategies)

    def rank(self, view: View) -> Combined:
        """The ranks of the view's group."""
        opinions = tuple(_opinion(spec, s, view) for spec, s in zip(self.specs, self.strategies, strict=True))
        total = np.zeros(len(view.rows))
        for opinion in opinions:
            total += opinion.weighted
        members = {key: at for at, key in enumerate(_keys(view))}
        return Combined(view.rows, opinions, np.round(total, _DECIMALS), self.recompute, self.one_at_a_time, members)


def combine(specs: Sequence[StrategySpec], view: View, registry: Mapping[str, Factory] = STRATEGIES) -> Combined:
    """The ranks of the view's group by the strategies of a policy. Raises InvalidError as `Combination.of` does."""
    return Combination.of(specs, registry).rank(view)


def problems(specs: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> Iterator[InvalidError]:
    """Everything that is wrong with the strategies of a policy, each with its path."""
    for at, spec in enumerate(specs):
        try:
            _check(spec, registry)
        except InvalidError as error:
            yield error.under(f"spec.strategies[{at}]")
    yield from strategy_problems(tuple(specs))


def recomputed(specs: Sequence[StrategySpec], registry: Mapping[str, Factory] = STRATEGIES) -> tuple[str, ...]:
    """The strategies among these, as far as they can be made, whose ranks do not outlast a removal."""
    names: list[str] = []
    for spec in specs:
        with contextlib.suppress(InvalidError, StrategyError, KeyError):
            made = _made(spec, registry)
            names += [spec.name] if made.recompute or made.one_at_a_time else []
    return tuple(dict.fromkeys(names))


def _check(spec: StrategySpec, registry: Mapping[str, Factory]) -> None:
    """Raise InvalidError for what is wrong. A spec made in Python has not been through the codec yet."""
    if spec.weight is None:  # which the codec would read as "not written"
        raise InvalidError("weight", "must be a number from 1 to 1000")
    codec.convert({"name": spec.name, "weight": spec.weight, "threshold": spec.threshold}, StrategySpec)
    if not isinstance(spec.args, Mapping):
        raise InvalidError("args", "must be settings by name")
    if spec.name not in registry:
        raise InvalidError("name", f'"{spec.name}" is not a strategy; known are {", ".join(sorted(registry))}')
    _made(spec, registry)


def _made(spec: StrategySpec, registry: Mapping[str, Factory]) -> Strategy:
    try:
        return registry[spec.name](spec.args)
    except InvalidError:
        raise
    except Exception as error:
        raise StrategyError(spec.name, f"cannot be made: {error!r}") from error


def _opinion(spec: StrategySpec, strategy: Strategy, view: View) -> Opinion:
    raw = _raw(spec.name, strategy, view)
    limit = _MOST if spec.threshold is None else float(spec.threshold)
    capped = np.clip(raw, -limit, limit)
    return Opinion(spec.name, spec.weight, raw, capped, spec.weight * capped)


def _raw(name: str, strategy: Strategy, view: View) -> FloatColumn:
    """The ranks of a strategy, which may be a user's own."""
    try:
        ranks = np.array(strategy.rank(view.rows, view), dtype=np.float64)
    except Exception as error:
        raise StrategyError(name, f"failed: {error!r}") from error
    if ranks.shape != view.rows.shape:
        raise StrategyError(name, f"gave ranks of shape {ranks.shape} for {len(view.rows)} pods")
    return ranks


def _keys(view: View) -> list[str]:
    names = view.snapshot.pods.rows.names
    return [names[row] or "" for row in view.rows.tolist()]
