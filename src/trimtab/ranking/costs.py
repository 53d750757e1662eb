"""From an order to the costs that carry it.

**Sign.** A rank says: the higher, the sooner it goes. `pod-deletion-cost` says the contrary, the proposal's annotation
and PodGroupCost say the same. The carrier sets the sign, here and nowhere else.

**Size.** A cost is an int32. `project` numbers the distinct ranks 0, 1, 2, …, so that any ranks of any size fit and
ties stay ties; the pod that goes last has 0, like a pod without a cost. Its numbers depend on the whole group. `steady`
writes the rank itself, so that a pod that is created or deleted changes no other's cost; it is for ranks that are small
and whole, and cuts off what does not fit.

**Bands.** Where a UnitedTopology allocates the pods to subsets, the subset's level comes first and the policy second.
The int32 range is cut into bands around the multiples of 2,000,000:

    …  Redundant, subset 1   Redundant, subset 0     BestEffort     Guaranteed, last subset   Guaranteed, the one before
           −4,000,000            −2,000,000               0                2,000,000                 4,000,000   …

A pod without a policy stands in the middle of its band: below zero if Redundant, 0 (nothing written) if BestEffort,
above zero if Guaranteed; later subsets go before earlier ones. A policy moves it by up to 999,999 from the middle, so
never into another band; one value between two bands belongs to neither. 1,073 subsets fit, or fewer with minima: pods
within the minimum of their subset have bands of their own, above all others.

Pods of BestEffort subsets share a band, and have no cost while nothing shrinks. Which of them go first is said by the
tier: a plan (`sequences`) and a policy's standing costs follow it inside the band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from trimtab.api.unitedtopology import Level as Level
from trimtab.snapshot.columns import IntColumn

INT32_MAX = 2**31 - 1
"""The largest cost. The lowest that is written is its negative, so that every cost can change its sign."""

SPACING = 2_000_000
"""How far the middles of neighbouring bands are apart."""
LIMIT = SPACING // 2 - 1
"""How far a policy can move a cost from the middle of its band."""
MOST_SUBSETS = (INT32_MAX - LIMIT) // SPACING
"""How many subsets have bands of their own in each level."""


class Carrier(StrEnum):
    """Where costs are written, named as policies name it."""

    ANNOTATION = "Annotation"
    ALPHA_ANNOTATION = "AlphaAnnotation"
    POD_GROUP_COST = "PodGroupCost"

    @property
    def sign(self) -> int:
        """What a rank is multiplied with: −1 where the lower cost goes first, 1 where the higher does."""
        return _SIGNS[self]


_SIGNS: Mapping[Carrier, int] = {Carrier.ANNOTATION: -1, Carrier.ALPHA_ANNOTATION: 1, Carrier.POD_GROUP_COST: 1}


@dataclass(frozen=True, slots=True)
class Band:
    """The costs that a pod of this level, in this one of so many subsets, can have: as `pod-deletion-cost` counts,
    where the lower goes first."""

    level: Level = Level.BEST_EFFORT
    subset: int = 0
    subsets: int = 1
    floor: int = 0
    """For pods within the minimum of their subset, which go last: its place among the minima, the last one's 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.subset < self.subsets <= MOST_SUBSETS - self.floor:
            raise ValueError(f"subset {self.subset} of {self.subsets} has no band; there are at most {MOST_SUBSETS}")

    @property
    def centre(self) -> int:
        """The cost of a pod that no policy ranks."""
        match self.level:
            case Level.REDUNDANT:
                return -SPACING * (1 + self.subset)
            case Level.BEST_EFFORT:
                return 0
            case Level.GUARANTEED:
                return SPACING * (self.subsets + self.floor if self.floor else self.subsets - self.subset)

    @property
    def tier(self) -> int:
        """The place of the band among all: the lower is emptied first. BestEffort subsets have tiers of their own."""
        return self.subsets - 1 - self.subset if self.level is Level.BEST_EFFORT else self.centre

    def __contains__(self, cost: int) -> bool:
        return abs(cost - self.centre) <= LIMIT

    def place(self, offset: int) -> int:
        """The cost that is so far from the middle, or at the band's edge if that is nearer."""
        return self.centre + max(-LIMIT, min(offset, LIMIT))


def level_of(cost: int) -> Level | None:
    """The level that a deletion cost belongs to; None outside all bands: another writer set it."""
    band, offset = divmod(cost + SPACING // 2, SPACING)
    if offset == 0 or abs(band) > MOST_SUBSETS:
        return None
    return Level.BEST_EFFORT if band == 0 else Level.GUARANTEED if band > 0 else Level.REDUNDANT


def project(ranks: npt.ArrayLike, carrier: Carrier, bands: Sequence[Band] | None = None) -> IntColumn:
    """A cost for each rank such that who ranks higher goes sooner, and equals stay equal.

    With `bands`, one for each rank, that holds inside each band, and bands come first. A band has room for a million
    different ranks; those beyond share its edge. Raises ValueError for a rank that is NaN: no rank, no cost.
    """
    values = _ranked(ranks)
    steps = np.unique(values, return_inverse=True)[1].reshape(values.shape).astype(np.int64)
    if bands is None:
        return carrier.sign * steps
    if len(bands) != len(steps):
        raise ValueError(f"{len(bands)} bands for {len(steps)} ranks")
    # A band is written as pod-deletion-cost counts; other carriers mirror it as a whole.
    deletion_costs = _centres(bands) - np.minimum(steps, LIMIT)
    return -carrier.sign * deletion_costs


def steady(ranks: npt.ArrayLike, carrier: Carrier, *, resolution: int = 1) -> IntColumn:
    """The rank itself as a cost, in units of 1/resolution, cut off at the ends of int32.

    No cost depends on another pod's rank. Ranks that differ by less than a unit may tie.
    """
    bounded = np.clip(_ranked(ranks), -INT32_MAX, INT32_MAX)
    scaled = np.clip(np.round(bounded * resolution), -INT32_MAX, INT32_MAX)
    return carrier.sign * scaled.astype(np.int64)


class Side(StrEnum):
    """Whose costs are written."""

    VICTIMS = "victims"
    SURVIVORS = "survivors"


def _centres(bands: Sequence[Band]) -> IntColumn:
    known: dict[Band, int] = {}
    return np.array([known.setdefault(band, band.centre) for band in bands], dtype=np.int64)


def _ranked(ranks: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(ranks, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("a pod without a rank has no cost; leave it out, or wait for its rank")
    return values
