"""Bounds on the skew of a topology key when part of the victims is left to chance.

After some pods are certainly gone, domain d holds `left[d]` pods, of which `open[d]` belong to a group from which
exactly `take` more pods go, in any combination. `outside` pods of that group are in no domain: removing them changes no
count.

**Worst.** For the pair of domains (a, b), the largest difference leaves a as full and empties b as far as the
combination allows: a loses only what all others together cannot give, b loses all it can. Both are possible at once
(if a loses pods, all open pods of the others go anyway, those of b among them), so each can be taken by itself, and the
maximum over all pairs is exact. It is among the two domains that can stay the fullest and the two that can get the
emptiest: two, because a domain is no pair with itself.

**Best.** If a given number of pods goes from the domains, the smallest maximum and the largest minimum are found by
bisection. Taking each pod from the fullest domain reaches both at once (the argument is at the head of `levels`), so
their difference is the smallest skew. How many go from the domains depends on how many `outside` pods go instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.snapshot.columns import IntColumn

_MOST_OUTSIDE = 256
"""With more open pods outside all domains than this, the smallest skew is not computed: it counts as 0."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenCounts:
    """Pods per domain, and how many more go by chance."""

    left: IntColumn
    open: IntColumn
    take: int
    outside: int = 0

    @property
    def worst(self) -> int:
        """The largest skew that any combination leaves."""
        if len(self.left) < 2:
            return 0
        high, low = self._worst_pair()
        return int(self._highest()[high] - self._lowest()[low])

    @property
    def best(self) -> int:
        """The smallest skew that any combination leaves."""
        if len(self.left) < 2:
            return 0
        if self.outside > _MOST_OUTSIDE:
            return 0
        least = max(0, self.take - self.outside)
        most = min(self.take, int(self.open.sum()))
        return min(self._smallest_maximum(taken) - self._largest_minimum(taken) for taken in range(least, most + 1))

    @property
    def certain_counts(self) -> tuple[int, ...] | None:
        """The pods that stay in each domain, if every combination leaves the same."""
        if self.take == 0:
            return tuple(self.left.tolist())
        domains = np.flatnonzero(self.open)
        if self.outside or len(domains) != 1:
            return None
        counts = self.left.copy()
        counts[domains[0]] -= self.take
        return tuple(counts.tolist())

    def worst_counts(self) -> IntColumn:
        """The pods that stay in each domain in one of the worst combinations."""
        if len(self.left) < 2:
            return self._lowest()
        high, low = self._worst_pair()
        counts = self.left.copy()
        counts[low] = self._lowest()[low]
        to_take = self.take - int(self.left[low] - counts[low])
        to_take -= min(self.outside, to_take)
        others = [d for d in np.argsort(counts, kind="stable").tolist() if d not in (high, low)]
        for domain in (*others, high):
            taken = min(int(self.open[domain]), to_take)
            counts[domain] -= taken
            to_take -= taken
        return counts

    def _worst_pair(self) -> tuple[int, int]:
        """The domain that stays the fullest and the one that gets the emptiest; of equals, the first ones."""
        highest, lowest = self._highest(), self._lowest()
        highs = np.sort(np.argsort(-highest, kind="stable")[:2])
        lows = np.sort(np.argsort(lowest, kind="stable")[:2])
        pairs = [(high, low) for high in highs.tolist() for low in lows.tolist() if high != low]
        return max(pairs, key=lambda pair: int(highest[pair[0]] - lowest[pair[1]]))

    def _highest(self) -> IntColumn:
        """What each domain keeps at most: it loses only what all others together cannot give."""
        others = int(self.open.sum()) + self.outside - self.open
        highest: IntColumn = self.left - np.maximum(0, self.take - others)
        return highest

    def _lowest(self) -> IntColumn:
        """What each domain keeps at least."""
        lowest: IntColumn = self.left - np.minimum(self.open, self.take)
        return lowest

    def _smallest_maximum(self, taken: int) -> int:
        low, high = int((self.left - self.open).max()), int(self.left.max())
        while low < high:
            middle = (low + high) // 2
            if int(np.maximum(0, self.left - middle).sum()) <= taken:
                high = middle
            else:
                low = middle + 1
        return low

    def _largest_minimum(self, taken: int) -> int:
        low, high = int((self.left - self.open).min()), int(self.left.min())
        while low < high:
            middle = (low + high + 1) // 2
            spare = np.clip(self.left - middle, 0, self.open).sum()
            if int(spare) >= taken:
                low = middle
            else:
                high = middle - 1
        return low
