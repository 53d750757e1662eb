"""Compiled label selectors: values that match labels and can be used as dictionary keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trimtab.api.errors import InvalidError
from trimtab.api.meta import LabelSelector
from trimtab.api.selectors.requirements import TESTS, Operator, Requirement, Test, read, requirement


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold, in canonical order; or, if `nothing`, one that never matches."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    # Computed once: `matches` and `__hash__` run for each pod of a cluster.
    _pairs: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _tests: tuple[tuple[str, Test, Any], ...] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = () if self.nothing else tuple(sorted(set(self.requirements)))
        pairs = tuple((r.key, r.values[0]) for r in ordered if r.operator is Operator.EQUALS)
        tests = tuple((r.key, TESTS[r.operator], r.tested) for r in ordered if r.operator is not Operator.EQUALS)
        object.__setattr__(self, "requirements", ordered)
        object.__setattr__(self, "_pairs", pairs)
        object.__setattr__(self, "_tests", tests)
        object.__setattr__(self, "_hash", hash((ordered, self.nothing)))

    @property
    def empty(self) -> bool:
        """Whether it has no restriction. `NOTHING` is not empty."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy every requirement."""
        get = labels.get
        for key, wanted in self._pairs:
            if get(key) != wanted:
                return False
        for key, test, values in self._tests:
            if not test(get(key), values):
                return False
        return not self.nothing

    def with_requirements(self, *requirements: Requirement) -> Selector:
        """This selector with more requirements. `NOTHING` stays `NOTHING`."""
        return Selector((*self.requirements, *requirements), self.nothing)

    def and_(self, *others: Selector) -> Selector:
        """The selector that matches where this and all the others match."""
        selectors = (self, *others)
        return Selector(tuple(r for s in selectors for r in s.requirements), any(s.nothing for s in selectors))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Recompute the hash when unpickled: Python salts the hashes of strings in each process."""
        return Selector, (self.requirements, self.nothing)


MAX_ENTRIES = 2000
"""The most labels, expressions and values of a selector, whatever object it is in."""

EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def compile(selector: LabelSelector | None) -> Selector:  # noqa: A001 – read as `selectors.compile`, as `re.compile` is
    """The compiled form of a `LabelSelector`; an absent one is `NOTHING`.

    Raises InvalidError with a path such as `matchExpressions[1].operator`; also for a selector of too many entries,
    which would take long wherever it is used.
    """
    if selector is None:
        return NOTHING
    if (size := entries(selector)) > MAX_ENTRIES:
        raise InvalidError("", f"has {size:,} labels, expressions and values; write at most {MAX_ENTRIES:,}")
    requirements = [_pair(key, value) for key, value in selector.match_labels.items()]
    for index, expression in enumerate(selector.match_expressions):
        try:
            requirements.append(read(expression.key, expression.operator, expression.values))
        except InvalidError as error:
            raise error.under(f"matchExpressions[{index}]") from None
    return Selector(tuple(requirements))


def entries(selector: LabelSelector | None) -> int:
    """How many labels, expressions and values a selector has."""
    if selector is None:
        return 0
    values = sum(len(each.values) for each in selector.match_expressions)
    return len(selector.match_labels) + len(selector.match_expressions) + values


def needed_labels(selector: Selector) -> Iterator[tuple[tuple[str, str], ...]]:
    """For each requirement that names values: labels of which everything that the selector matches has exactly one."""
    for each in selector.requirements:
        if each.operator in (Operator.EQUALS, Operator.IN):
            yield tuple((each.key, value) for value in each.values)


def from_labels(labels: Mapping[str, str]) -> Selector:
    """The selector of a plain map (Service, ReplicationController): all these labels, not validated.

    An empty map gives `EVERYTHING`; callers must know that a Service without a selector selects nothing.
    """
    return Selector(tuple(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()))


def _pair(key: str, value: str) -> Requirement:
    try:
        return requirement(key, Operator.EQUALS, (value,))
    except InvalidError as error:
        raise InvalidError(f"matchLabels[{key}]", error.reason) from None
