"""Conditions: the shortest expression of flags that is true in some cases and false in the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

Flags = frozenset[str]
"""The flags that are true in one case."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Go templates write it, and its value for a case."""

    text: str
    holds: Callable[[Flags], bool]


def separating(cases: Sequence[Flags], wanted: Sequence[Flags]) -> Condition:
    """The shortest condition that holds in the wanted cases, and in no other of these. Raises LookupError."""
    chosen = set(wanted)
    for condition in _candidates(cases):
        if all(condition.holds(case) == (case in chosen) for case in cases):
            return condition
    raise LookupError(f"no condition of up to three flags tells {sorted(map(sorted, chosen))} from the other cases")


def _candidates(cases: Sequence[Flags]) -> Iterator[Condition]:
    literals = list(_literals(cases))
    yield from literals
    for size in (2, 3):
        for some in combinations(literals, size):
            yield _joined("and", some)
            yield _joined("or", some)
    for one, two, three in combinations(literals, 3):
        for first, rest in ((one, (two, three)), (two, (one, three)), (three, (one, two))):
            yield _joined("and", (first, _joined("or", rest)))
            yield _joined("or", (first, _joined("and", rest)))


def _literals(cases: Sequence[Flags]) -> Iterator[Condition]:
    """Each flag that is true in some cases and false in others, and its negation."""
    varying = sorted(frozenset.union(*cases) - frozenset.intersection(*cases))
    for name in varying:
        yield _literal(name)
    for name in varying:
        yield _negated(_literal(name))


def _literal(name: str) -> Condition:
    return Condition(f"$is.{name}", lambda case: name in case)


def _negated(condition: Condition) -> Condition:
    return Condition(f"not {condition.text}", lambda case: not condition.holds(case))


def _joined(word: str, parts: Sequence[Condition]) -> Condition:
    combine = all if word == "and" else any
    text = " ".join([word, *(f"({each.text})" if " " in each.text else each.text for each in parts)])
    return Condition(text, lambda case: combine(each.holds(case) for each in parts))
