"""The level of a pod: which pods of a subset are deleted first when the workload shrinks.

| level      | pods                                              | deletion cost |
|------------|---------------------------------------------------|---------------|
| Guaranteed | within the maximum of their subset                | above 0       |
| BestEffort | in a subset without a maximum                     | none          |
| Redundant  | above the maximum of their subset                 | below 0       |

Inside a level, pods of later subsets are deleted before those of earlier ones. Each revision is evaluated by itself,
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
from trimtab.subsets.apportionment import limits
from trimtab.subsets.members import Member

_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PodLevel:
    """A pod's level, and the index of its subset in the spec."""

    level: Level
    subset: int


def pod_levels(subsets: Sequence[Subset], members: Iterable[Member], replicas: int) -> dict[str, PodLevel]:
    """The level of each pod by name; pods that have ended or are in no subset have none."""
    indexes = {subset.name: index for index, subset in enumerate(subsets)}
    groups: defaultdict[tuple[str, int], list[Member]] = defaultdict(list)
    for member in members:
        if member.active and member.subset in indexes:
            groups[member.revision, indexes[member.subset]].append(member)
    allowed = limits(subsets, replicas)
    return {
        name: PodLevel(level, index)
        for (_, index), group in groups.items()
        for name, level in _levels(group, allowed[index])
    }


def _levels(group: list[Member], limit: int | None) -> Iterable[tuple[str, Level]]:
    if limit is None:
        return [(member.name, Level.BEST_EFFORT) for member in group]
    kept = sorted(group, key=lambda member: (not member.ready, member.created or _LAST, member.name))
    return [(member.name, Level.GUARANTEED if index < limit else Level.REDUNDANT) for index, member in enumerate(kept)]
