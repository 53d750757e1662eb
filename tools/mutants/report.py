"""What became of mutants: scores, and the list of equivalent ones."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tools.mutants.operators import Identity, Mutant

EQUIVALENT = Path(__file__).parent / "equivalent.toml"
TARGET = 95.0
"""Percent of the mutants that are not equivalent: what tests detect at least."""


class Result(Enum):
    """What became of a mutant."""

    DETECTED = "detected"
    LATE = "late"
    """A test did not end, or used all memory: detected too."""
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    NOT_APPLIED = "not applied"
    """It cannot be put in the place of the function: it is not counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A mutant of a group of modules, and what became of it."""

    group: str
    mutant: Mutant
    result: Result
    tests: int = 0
    """How many tests execute what it changes."""


def equivalent(path: Path = EQUIVALENT) -> dict[Identity, str]:
    """The mutants that are listed as equivalent, and the reason of each."""
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    return {Identity(each["path"], each["function"], each["before"], each["after"]): each["reason"] for each in listed}


def score(counts: Counter[Result]) -> float:
    """The percentage of detected mutants, without the equivalent ones."""
    detected = counts[Result.DETECTED] + counts[Result.LATE]
    return 100.0 * detected / max(1, detected + counts[Result.SURVIVED])


def lines(outcomes: Iterable[Outcome], groups: Iterable[str]) -> Iterator[str]:
    """The report: a row for each group, and one for all."""
    yield f"{'module':<28}{'mutants':>9}{'detected':>10}{'survived':>10}{'equivalent':>12}{'score':>9}"
    by_group: dict[str, Counter[Result]] = {group: Counter() for group in groups}
    for each in outcomes:
        by_group[each.group][each.result] += 1
    for group, counts in by_group.items():
        if counts:
            yield _row(group, counts)
    yield _row("all", total(outcomes))


def total(outcomes: Iterable[Outcome]) -> Counter[Result]:
    """How many mutants had each result."""
    return Counter(each.result for each in outcomes)


def _row(name: str, counts: Counter[Result]) -> str:
    detected = counts[Result.DETECTED] + counts[Result.LATE]
    survived, same = counts[Result.SURVIVED], counts[Result.EQUIVALENT]
    return f"{name:<28}{detected + survived + same:>9}{detected:>10}{survived:>10}{same:>12}{score(counts):>8.1f}%"
