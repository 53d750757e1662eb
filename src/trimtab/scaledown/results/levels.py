"""Whether a scale-down ended as level as it could: what is left against what the plan found possible. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from trimtab.ranking.levelings import Leveling
from trimtab.ranking.rankers import Constraint
from trimtab.ranking.spreads import resolve
from trimtab.ranking.workloads import active_rows
from trimtab.snapshot import Snapshot

_NAMED = 6
"""How many domains a sentence counts one by one."""


class LevelResult(StrEnum):
    """How a scale-down ended."""

    LEVEL = "level"
    """Every constraint is satisfied, with a skew of at most 1 or its maxSkew."""
    BEST = "best"
    """As level as was possible."""
    MISSED = "missed"
    """Less level than was possible."""


@dataclass(frozen=True, slots=True)
class ExpectedLevel:
    """What a plan leaves of one controller's pods, for each of its constraints in their order."""

    uid: str
    constraints: tuple[Constraint, ...]
    levelings: tuple[Leveling, ...]


@dataclass(frozen=True, slots=True)
class LevelCheck:
    """One constraint after a scale-down: the skew that was possible, and what is left."""

    topology_key: str
    max_skew: int
    possible: int
    skew: int
    counts: tuple[int, ...]
    before: int = 0
    """The skew before the scale-down."""
    stock: int = 0
    """The largest skew that an unmodified controller may leave."""

    @property
    def is_missed(self) -> bool:
        """Whether less skew was possible."""
        return self.skew > self.possible

    def sentence(self) -> str:
        """What is left, and what was possible."""
        left = f"left {counted(self.counts)}, a skew of {self.skew} where {self.possible} was possible"
        return f"{left} ({self.topology_key})"


def counted(counts: Sequence[int]) -> str:
    """The pods of each domain; of very many domains the fewest and the most."""
    if len(counts) > _NAMED:
        return f"{min(counts)} to {max(counts)} in each of {len(counts)} domains"
    return "/".join(map(str, counts))


def check_levels(expected: Iterable[ExpectedLevel], snapshot: Snapshot) -> tuple[LevelCheck, ...]:
    """What is left of each constraint now."""
    checks = []
    for each in expected:
        rows = active_rows(snapshot, each.uid)
        for spread, leveling in zip(resolve(each.constraints, snapshot, rows), each.levelings, strict=True):
            counts = spread.counts
            left = tuple(np.asarray(counts).tolist())
            key, most = spread.constraint.topology_key, spread.constraint.max_skew
            skews = (leveling.skew_before, leveling.skew_stock)
            checks.append(LevelCheck(key, most, leveling.skew_after, spread.skew(counts), left, *skews))
    return tuple(checks)


def level_result(checks: Sequence[LevelCheck]) -> LevelResult:
    """How a scale-down ended, by all its constraints."""
    if any(each.is_missed for each in checks):
        return LevelResult.MISSED
    return LevelResult.LEVEL if all(each.skew <= max(1, each.max_skew) for each in checks) else LevelResult.BEST
