"""What a pod is to its subset when the workload shrinks.

| level      | which pods                                        | deletion cost |
|------------|---------------------------------------------------|---------------|
| Guaranteed | within the maximum of their subset                | above 0       |
| BestEffort | in a subset without a maximum                     | none          |
| Redundant  | beyond the maximum of their subset                | below 0       |

Inside a level, pods of later subsets go before those of earlier ones. Each revision is measured by itself, for each has
its own places. That the old one of a rollout gives way where the new one comes, from the first subset on, is a matter
of costs (see `controllers.unitedtopology.levels`).

Of a subset's pods, those that are ready are kept before those that are not, then the older ones. Whoever plans a
scale-down measures with the size that is aimed at: 9 pods at 30 %, bound for 3, keep 1 and not 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from trimtab.api.unitedtopology import Subset
from trimtab.subsets.apportionment import limits
from trimtab.subsets.members import Member

_LAST = datetime.max.replace(tzinfo=UTC)


class Level(StrEnum):
    """What a pod is to its subset."""

    GUARANTEED = "Guaranteed"
    BEST_EFFORT = "BestEffort"
    REDUNDANT = "Redundant"


@dataclass(frozen=True, slots=True)
class Standing:
    """A pod's level, and the place of its subset in the list."""

    level: Level
    subset: int


def standings(subsets: Sequence[Subset], members: Iterable[Member], replicas: int) -> dict[str, Standing]:
    """By pod name; pods that are going, or belong to no subset, have none."""
    places = {subset.name: index for index, subset in enumerate(subsets)}
    groups: defaultdict[tuple[str, int], list[Member]] = defaultdict(list)
    for member in members:
        if member.active and member.subset in places:
            groups[member.revision, places[member.subset]].append(member)
    allowed = limits(subsets, replicas)
    return {
        name: Standing(level, index)
        for (_, index), group in groups.items()
        for name, level in _levels(group, allowed[index])
    }


def _levels(group: list[Member], limit: int | None) -> Iterable[tuple[str, Level]]:
    if limit is None:
        return [(member.name, Level.BEST_EFFORT) for member in group]
    kept = sorted(group, key=lambda member: (not member.ready, member.created or _LAST, member.name))
    return [(member.name, Level.GUARANTEED if place < limit else Level.REDUNDANT) for place, member in enumerate(kept)]
