"""What a scale-down leaves in each domain: after the plan, and after what an unmodified controller may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.ranking.certainty import PossibleVictims
from trimtab.ranking.spreads import Spread
from trimtab.snapshot.columns import IntColumn, Mask

_NAMED = 6
"""How many domains a sentence counts one by one."""


@dataclass(frozen=True, slots=True)
class Leveling:
    """The pods that one constraint counts in each of its domains.

    `stock` is one of the least level distributions that an unmodified controller may leave; `stock_skews` are the
    smallest and the largest skew that it may leave, and `stock_is_certain` says whether there is only one distribution.
    `outside` are the workload's pods that are in no domain, before and after: they are not part of the skew.
    """

    topology_key: str
    domains: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    stock: tuple[int, ...]
    stock_skews: tuple[int, int]
    stock_is_certain: bool
    outside: tuple[int, int] = (0, 0)
    max_skew: int = 1
    hard: bool = False
    has_too_few_domains: bool = False

    @property
    def skew_before(self) -> int:
        """The lead of the fullest domain over the emptiest, before."""
        return self._skew(self.before)

    @property
    def skew_after(self) -> int:
        """The same after the plan."""
        return self._skew(self.after)

    @property
    def skew_stock(self) -> int:
        """The largest that an unmodified controller may leave."""
        return self.stock_skews[1]

    @property
    def is_satisfied(self) -> bool:
        """Whether the plan leaves a skew within the constraint's `maxSkew`."""
        return self.skew_after <= self.max_skew

    @property
    def is_matched_by_stock(self) -> bool:
        """Whether everything that an unmodified controller may do leaves the workload as level."""
        return self.skew_stock <= self.skew_after

    def sentence(self, verb: str) -> str:
        """What stays, and what would or may have stayed otherwise."""
        auxiliary = "would" if self.stock_is_certain else "may"
        if len(self.domains) > _NAMED:
            kept = f"a skew of {self.skew_after} over {len(self.domains)} domains of {self.topology_key}"
            return f"{verb} {kept}; stock {auxiliary} leave {self.skew_stock}"
        after, stock = ("/".join(map(str, counts)) for counts in (self.after, self.stock))
        return f"{verb} {after}; stock {auxiliary} leave {stock}"

    def _skew(self, counts: Sequence[int]) -> int:
        if not counts:
            return 0
        return max(counts) - (0 if self.has_too_few_domains else min(counts))


def leveling(spread: Spread, gone: Mask, stock: PossibleVictims) -> Leveling:
    """What a constraint counts: before, without the pods that are gone, and after what the controller may do."""
    before = spread.counts
    after = before - spread.count(gone)
    outcomes = StockCounts(spread, stock)
    in_none = spread.domains < 0
    return Leveling(
        topology_key=spread.constraint.topology_key,
        domains=spread.names,
        before=tuple(before.tolist()),
        after=tuple(after.tolist()),
        stock=tuple(outcomes.worst_counts.tolist()),
        stock_skews=outcomes.skews,
        stock_is_certain=outcomes.is_certain,
        outside=(int(in_none.sum()), int((in_none & ~gone).sum())),
        max_skew=spread.constraint.max_skew,
        hard=spread.constraint.hard,
        has_too_few_domains=spread.has_too_few_domains,
    )


class StockCounts:
    """The distributions that a controller may leave over the domains of one constraint."""

    def __init__(self, spread: Spread, stock: PossibleVictims) -> None:
        self._size = len(spread.names)
        counts = spread.counts
        if spread.has_too_few_domains:
            counts = np.append(counts, 0)  # a domain that cannot fill makes the minimum 0
        self._found = [each.counts(spread.domains, counts) for each in stock.outcomes]

    @property
    def skews(self) -> tuple[int, int]:
        """The smallest and the largest skew."""
        return min(each.best for each in self._found), self.worst

    @property
    def worst(self) -> int:
        """The largest skew."""
        return max(each.worst for each in self._found)

    @property
    def worst_counts(self) -> IntColumn:
        """One of the least level distributions."""
        return max(self._found, key=lambda each: each.worst).worst_counts()[: self._size]

    @property
    def is_certain(self) -> bool:
        """Whether every outcome leaves the same distribution."""
        distributions = {each.certain_counts for each in self._found}
        return len(distributions) == 1 and None not in distributions
