"""Why a plan does not leave a workload level: what stands in the way, constraint by constraint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.ranking.contenders import Criterion
from trimtab.ranking.levelings import Leveling
from trimtab.ranking.sequences import Victim

_NAMED = 3
"""How many domains an explanation names before it counts the rest."""
_STANDING: Mapping[Criterion, str] = {
    Criterion.REVISION: "of an older revision",
    Criterion.UNASSIGNED: "without a node",
    Criterion.PHASE: "not running yet",
    Criterion.AVAILABLE: "not available",
    Criterion.READY: "not ready",
    Criterion.COST: "with a lower cost of another writer",
}
"""What pods are that go before all others, by the criterion that decides."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that prevents a level result; as text, a line for people."""

    cause: str
    topology_key: str | None = None
    """The key of the constraint that it prevents from being level; None where it concerns the whole plan."""

    def __str__(self) -> str:
        return self.cause if self.topology_key is None else f"{self.topology_key}: {self.cause}"


def obstacles(
    levelings: Iterable[Leveling], victims: Sequence[Victim], standing: Mapping[Criterion, int]
) -> Iterable[Obstacle]:
    """Why the result is not level, where it is not; `standing` counts the pods that went first, by criterion."""
    for each in levelings:
        if each.skew_after > 1:
            causes = (*_short_domains(each), *_deciding_before(victims, standing))
            yield from (Obstacle(cause, each.topology_key) for cause in causes)


def _deciding_before(victims: Sequence[Victim], standing: Mapping[Criterion, int]) -> Iterable[str]:
    """What decided about victims before the balance did."""
    if standing:
        yield _went_first(standing)
    emptied = sum(victim.by_subset for victim in victims)
    if emptied:
        yield f"{_number(emptied, 'pod')} had to go first, whose subsets are emptied first"
    if any(victim.parts for victim in victims):
        yield "the policy's strategies come before the balance"


def _went_first(standing: Mapping[Criterion, int]) -> str:
    """How many pods went before all others, and what they are."""
    kinds = [f"{count} {_STANDING[criterion]}" for criterion, count in standing.items()]
    words = ", ".join(kinds) if len(kinds) > 1 else _STANDING[next(iter(standing))]
    return f"{_number(sum(standing.values()), 'pod')} had to go first whatever the balance: {words}"


def _short_domains(found: Leveling) -> Iterable[str]:
    """Domains that had too few pods to begin with: a scale-down adds none."""
    level = sum(found.after) // len(found.after)
    pairs = zip(found.domains, found.before, strict=True)
    short = [f"{domain} ({count})" for domain, count in pairs if count < level]
    if short:
        more = f" and {len(short) - _NAMED} more" if len(short) > _NAMED else ""
        yield f"{', '.join(short[:_NAMED])}{more} had fewer than {level} pods before, and a scale-down adds none"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
