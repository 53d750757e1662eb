"""The level of a pod: which pods of a subset are deleted first when the workload shrinks.

| level      | pods                                              | deletion cost |
|------------|---------------------------------------------------|---------------|
| Guaranteed | within the minimum or maximum of their subset     | above 0       |
| BestEffort | in a subset without a maximum                     | none          |
| Redundant  | above the maximum of their subset                 | below 0       |

Inside a level, pods of later subsets are deleted before those of earlier ones; Guaranteed pods within the minimum of
their subset (the floor) after all others. Each revision is evaluated by itself,
because each has its own limits. That the old revision of a rollout makes room where the new one begins, in the first
subset, is a matter of costs (see `trimtab.unitedtopology.levels`).

Of a subset's pods, ready ones are kept before others, then older ones. To plan a scale-down, pass the target size: of 9
pods at 30 %, scaled to 3, 1 is Guaranteed and not 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from trimtab.api.unitedtopology import Level, Subset
from trimtab.subsets.apportionment import floors, limits
from trimtab.subsets.members import Member

_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PodLevel:
    """A pod's level, and the index of its subset in the spec."""

    level: Level
    subset: int
    in_floor: bool = False
    """Whether it is within the minimum of its subset."""


def pod_levels(subsets: Sequence[Subset], members: Iterable[Member], replicas: int) -> dict[str, PodLevel]:
    """The level of each pod by name; pods that have ended or are in no subset have none."""
    indexes = {subset.name: index for index, subset in enumerate(subsets)}
    groups: defaultdict[tuple[str, int], list[Member]] = defaultdict(list)
    for member in members:
        if member.active and member.subset in indexes:
            groups[member.revision, indexes[member.subset]].append(member)
    allowed, least = limits(subsets, replicas), floors(subsets, replicas)
    return {
        name: level
        for (_, index), group in groups.items()
        for name, level in _levels(group, index, allowed[index], least[index])
    }


def _levels(group: list[Member], subset: int, limit: int | None, floor: int) -> Iterable[tuple[str, PodLevel]]:
    kept = sorted(group, key=lambda member: (not member.ready, member.created or _LAST, member.name))
    in_floor = PodLevel(Level.GUARANTEED, subset, in_floor=True)
    within = PodLevel(Level.BEST_EFFORT if limit is None else Level.GUARANTEED, subset)
    above = PodLevel(Level.REDUNDANT, subset)
    for index, member in enumerate(kept):
        if index < floor:
            yield member.name, in_floor
        else:
            yield member.name, within if limit is None or index < limit else above
