"""In which order pods must go so that what stays is level at every step.

**The objective.** Pods have a tier (those of a lower tier go before any of a higher one, whatever that does to the
balance), a domain under each of several topology keys, and a place in the order in which they would go anyway. For
a set V of victims, let n(c, d) be the number of pods that stay in domain d of key c, pods of other workloads included,
which count but never go. Of all sets of size k that respect the tiers, the one is wanted that minimises,
lexicographically,

    ( Φ(1), Φ(2), …, Φ(m), Σ place(v) for v in V )      with      Φ(c) = Σ n(c, d)² over the domains d of key c.

Pods that have no domain under a key count as one domain of their own. The sum of squares is smallest where counts are
most equal; because victims can only be taken, never added, the set that minimises it also has the smallest maximum, the
largest minimum and hence the smallest skew of all sets of its size.

**The greedy is optimal.** Take one pod at a time: the one whose domain is the fullest under the first key, among equals
the fullest under the second, and so on, then the one that would go first anyway. If the keys form a hierarchy (hosts
inside racks inside zones, in whatever order they are listed), each domain either contains another or is apart from it;
a sum of convex functions of such nested counts is what discrete convex analysis calls laminar, and for those the greedy
finds an optimum for *every* k. So every prefix of the sequence is as level as a scale-down of that size can be.
If keys cross one another (zones and instance types), the first key is still optimal at every step, for the greedy never
trades it for a later one; the later keys are as good as one look ahead makes them.

**How it is computed.** When a pod goes, its domain still holds some number of pods, itself included: call it the pod's
height under that key. In a hierarchy heights follow from sorting alone: inside a domain only the finer keys matter, so
heights are found from the finest key to the coarsest, and the sequence is a sort by descending heights in the order in
which the keys are listed. Nothing is simulated, and ten thousand pods take milliseconds. Crossing keys are simulated,
one pod at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.snapshot.columns import IntColumn


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """Pods in the order in which they go (as indices into the input), and their heights: a row a key, a column a pod.

    `hierarchical` says whether the keys form a hierarchy, and the sequence is optimal on all of them.
    """

    order: IntColumn
    heights: IntColumn
    hierarchical: bool


def removal(
    tiers: IntColumn,
    domains: Sequence[IntColumn],
    places: IntColumn,
    count: int,
    others: Sequence[IntColumn] | None = None,
) -> Removal:
    """The order in which pods go, of which the first `count` are wanted, and the one to compare them with.

    `domains` has the codes of each key in the order in which the keys are listed; a negative code is no domain.
    `others` has, for each key and code, the pods that count and never go.
    Beyond these the order is still a permutation, but means nothing where keys cross.
    """
    found = [np.unique(column, return_inverse=True) for column in domains]
    codes = [inverse.astype(np.int64) for _, inverse in found]
    fixed = [_fixed(values, None if others is None else others[key]) for key, (values, _) in enumerate(found)]
    chain = _chain(codes)
    if chain is None:
        return _simulated(tiers, codes, places, count, fixed)
    return _sorted(tiers, codes, places, chain, fixed)


def _fixed(values: IntColumn, others: IntColumn | None) -> IntColumn:
    """The pods that never go, for each domain that holds pods of the workload; none where there is no domain."""
    if others is None:
        return np.zeros(len(values), dtype=np.int64)
    return np.where(values < 0, 0, np.append(others, 0)[values])


def _chain(codes: Sequence[IntColumn]) -> list[int] | None:
    """The keys from the finest to the coarsest, if each domain lies inside one domain of every coarser key."""
    if not codes or not len(codes[0]):
        return []
    sizes = [int(column.max()) + 1 for column in codes]
    keys = sorted(range(len(codes)), key=lambda key: (-sizes[key], key))
    for fine, coarse in itertools.pairwise(keys):
        pairs = np.unique(codes[fine] * sizes[coarse] + codes[coarse])
        if len(pairs) != sizes[fine]:
            return None
    return keys


def _sorted(
    tiers: IntColumn,
    codes: Sequence[IntColumn],
    places: IntColumn,
    chain: Sequence[int],
    fixed: Sequence[IntColumn],
) -> Removal:
    heights = np.zeros((len(codes), len(tiers)), dtype=np.int64)
    for position, key in enumerate(chain):
        finer = sorted(chain[:position])
        own = _heights(tiers, codes[key], [heights[other] for other in finer], places)
        heights[key] = own + fixed[key][codes[key]]
    order = _order(tiers, list(heights), places)
    return Removal(order, heights, hierarchical=True)


def _order(tiers: IntColumn, heights: Sequence[IntColumn], places: IntColumn) -> IntColumn:
    keys = [tiers, *(-column for column in heights), places]
    return np.lexsort(keys[::-1]).astype(np.int64)


def _heights(tiers: IntColumn, codes: IntColumn, finer: Sequence[IntColumn], places: IntColumn) -> IntColumn:
    """How many of its domain are left when each pod goes, itself included."""
    order = _order(tiers, finer, places)
    by_domain = order[np.argsort(codes[order], kind="stable")]
    ends = np.cumsum(np.bincount(codes))
    heights = np.empty(len(codes), dtype=np.int64)
    heights[by_domain] = ends[codes[by_domain]] - np.arange(len(codes))
    return heights


def _simulated(
    tiers: IntColumn, codes: Sequence[IntColumn], places: IntColumn, count: int, fixed: Sequence[IntColumn]
) -> Removal:
    """One pod at a time, for keys that cross. Pods that share tier and domains differ in their place alone, so the
    choice is between such cells, and not between pods."""
    matrix = np.stack([tiers, *codes], axis=1)
    cells, inverse = np.unique(matrix, axis=0, return_inverse=True)
    cell_of = inverse.ravel()
    queue = np.lexsort((places, cell_of))
    sizes = np.bincount(cell_of)
    ends = np.cumsum(sizes)
    heads = ends - sizes
    left = [np.bincount(column) + extra for column, extra in zip(codes, fixed, strict=True)]
    heights = np.zeros((len(codes), len(tiers)), dtype=np.int64)
    order = np.empty(len(tiers), dtype=np.int64)
    done = min(count + 1, len(tiers))
    for step in range(done):
        cell = _fullest(cells, heads, ends, left, queue, places)
        chosen = queue[heads[cell]]
        heads[cell] += 1
        order[step] = chosen
        for key, column in enumerate(codes):
            heights[key, chosen] = left[key][column[chosen]]
            left[key][column[chosen]] -= 1
    rest = np.setdiff1d(np.arange(len(tiers)), order[:done])
    order[done:] = rest[np.lexsort((places[rest], tiers[rest]))]
    return Removal(order, heights, hierarchical=False)


def _fullest(
    cells: IntColumn,
    heads: IntColumn,
    ends: IntColumn,
    left: Sequence[IntColumn],
    queue: IntColumn,
    places: IntColumn,
) -> int:
    """The cell to take from: of the lowest tier, then the fullest domains in the order of the keys, then the place."""
    candidates = np.flatnonzero(heads < ends)
    tiers = cells[candidates, 0]
    candidates = candidates[tiers == tiers.min()]
    for key, counts in enumerate(left):
        filled = counts[cells[candidates, key + 1]]
        candidates = candidates[filled == filled.max()]
    return int(candidates[np.argmin(places[queue[heads[candidates]]])])
