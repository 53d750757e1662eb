"""Bounds on the skew of a topology key when part of the victims is left to chance.

After some pods are certainly gone, domain d holds `left[d]` pods, of which `open[d]` belong to a group from which
exactly `take` more pods go, in any combination. `outside` pods of that group are in no domain: removing them changes no
count.

**Worst.** For the pair of domains (a, b), the largest difference leaves a as full and empties b as far as the
combination allows: a loses only what all others together cannot give, b loses all it can. Both are possible at once,
so the maximum over all pairs is exact.

**Best.** If a given number of pods goes from the domains, the smallest maximum and the largest minimum are found by
bisection. Taking each pod from the fullest domain reaches both at once (the argument is at the head of `levels`), so
their difference is the smallest skew. How many go from the domains depends on how many `outside` pods go instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimtab.snapshot.columns import IntColumn

_PAIRS = 64
"""Above this number of domains, only the candidates for the fullest and the emptiest domain are compared."""

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
        """The largest skew that any combination leaves; for very many domains, an upper bound of it."""
        if len(self.left) < 2:
            return 0
        if len(self.left) > _PAIRS:
            return self._bound()
        high, low = self._worst_pair()
        kept, lost = self._extremes(np.array([high]), np.array([low]))
        return max(0, int(kept[0, 0] - lost[0, 0]))

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
        counts = self.left.copy()
        if self.take == 0:
            return counts
        if len(counts) < 2:
            return counts - np.minimum(self.open, self.take)
        high, low = self._worst_pair()
        to_take = self.take - min(int(self.open[low]), self.take - self._unavoidable(high))
        counts[low] -= self.take - to_take
        to_take -= min(self.outside, to_take)
        others = [d for d in np.argsort(counts, kind="stable").tolist() if d not in (high, low)]
        for domain in (*others, high):
            taken = min(int(self.open[domain]), to_take)
            counts[domain] -= taken
            to_take -= taken
        return counts

    def _unavoidable(self, domain: int) -> int:
        """How many of the open pods of a domain go in every combination."""
        others = int(self.open.sum()) + self.outside - int(self.open[domain])
        return max(0, self.take - others)

    def _worst_pair(self) -> tuple[int, int]:
        size = len(self.left)
        highs = lows = np.arange(size)
        if size > _PAIRS:
            highs, lows = self._candidates()
        kept, lost = self._extremes(highs, lows)
        difference = np.where(highs[:, None] == lows[None, :], -1, kept - lost)
        high, low = np.unravel_index(int(difference.argmax()), difference.shape)
        return int(highs[high]), int(lows[low])

    def _extremes(self, highs: IntColumn, lows: IntColumn) -> tuple[IntColumn, IntColumn]:
        """For each pair, what the first domain keeps at most, and the second at least in the same combination."""
        total = int(self.open.sum()) + self.outside
        taken_high = np.maximum(0, self.take - (total - self.open[highs]))
        kept: IntColumn = np.broadcast_to((self.left[highs] - taken_high)[:, None], (len(highs), len(lows)))
        taken_low = np.minimum(self.open[lows][None, :], (self.take - taken_high)[:, None])
        return kept, self.left[lows][None, :] - taken_low

    def _candidates(self) -> tuple[IntColumn, IntColumn]:
        """The fullest and the emptiest domains that any combination can leave, two of each."""
        fullest = np.argsort(self._highest(), kind="stable")[-2:]
        emptiest = np.argsort(self._lowest(), kind="stable")[:2]
        return fullest.astype(np.int64), emptiest.astype(np.int64)

    def _bound(self) -> int:
        """The fullest that a domain can stay over the emptiest that another can get, each taken by itself."""
        highs, lows = self._candidates()
        difference = self._highest()[highs][:, None] - self._lowest()[lows][None, :]
        return int(np.where(highs[:, None] == lows[None, :], 0, difference).max())

    def _highest(self) -> IntColumn:
        others = int(self.open.sum()) + self.outside - self.open
        highest: IntColumn = self.left - np.maximum(0, self.take - others)
        return highest

    def _lowest(self) -> IntColumn:
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
